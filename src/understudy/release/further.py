"""Further files of a release, written as a folder that `open_release` opens."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from understudy.envelope import CLAIM, DRAWS
from understudy.errors import Refused
from understudy.release.open import Release
from understudy.release.outside import files_in, write_json
from understudy.release.release_facts import FACTS, SCHEMA, checksum
from understudy.survey.codebook_text import write_codebook
from understudy.survey.design_values import design_to
from understudy.survey.file_format import always_released
from understudy.survey.write import write_survey
from understudy.tables.noise_sets import stands_for
from understudy.version import __version__


def write_further(release: Release, further: Release, out: Path, where: str) -> list[str]:
    """The drawn files with claim, codebook and tables of the release; the names of the files."""
    out = out.expanduser()
    if out.exists():
        raise Refused(f"`{out}` exists already; name a new folder.")
    if not out.parent.is_dir():
        raise Refused(f"There is no folder `{out.parent}` to write into; create it first.")
    names = always_released().released_files(len(further))
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        _write(release, further, part, names, where)
        part.chmod(0o755)
        part.rename(out)
    except OSError as error:
        reason = error.strerror or "the disk refused it"
        raise Refused(f"`{out}` cannot be written: {reason}.") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return names


def _write(release: Release, further: Release, folder: Path, names: list[str], where: str) -> None:
    assert release.folder is not None
    (folder / "synthetic").mkdir()
    for name, survey in zip(names, further, strict=True):
        write_survey(survey, folder / name)
    write_codebook(release.codebook, folder / "codebook.toml")
    for name in (CLAIM, DRAWS):
        shutil.copyfile(release.folder / name, folder / name)
    facts = {
        "schema": SCHEMA,
        "title": f"{release.title}, further records",
        "version": __version__,
        "kind": release.kind,
        "files": names,
        "formats": [always_released().written_name],
        "design": design_to(release.design),
        "statistics": list(release.statistics),
        "by": list(release.by),
        "margins": False,
        "stands_for": [stands_for(survey) for survey in further],
        **({"where": where} if where else {}),
        "checksums": {name: checksum(folder / name) for name in files_in(folder)},
    }
    write_json(folder / FACTS, facts)
