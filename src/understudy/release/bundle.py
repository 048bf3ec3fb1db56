"""The bundle: every file of a release in one folder, with checksums.

    synthetic/1.parquet ...  codebook.toml  tables.csv  claim.json  draws.json    public
    public.html  release.json  public.zip (all of these in one file)              public
    report.html  evidence.json  manifest.json (recipe, versions, seed, checksums) internal

The same identity gives the same bytes: no time, no machine and no path is written anywhere.
"""

from __future__ import annotations

import json
import platform
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from understudy.errors import Refused
from understudy.release.opened import FACTS, SCHEMA, checksum
from understudy.release.prepare import Prepared
from understudy.release.recipe import Recipe
from understudy.release.synthesize import UNSEEDED, design_to, stored
from understudy.report.material import PublicFacts
from understudy.survey.codebook_text import write_codebook
from understudy.survey.write import write_survey
from understudy.version import __version__

INTERNAL = ("report.html", "evidence.json", "manifest.json")
MANIFEST = "manifest.json"
LIBRARIES = (
    "jax",
    "numpyro",
    "blackjax",
    "opendp",
    "numpy",
    "scipy",
    "polars",
    "duckdb",
    "pyarrow",
)
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a zip file must tell some time


def write_public(folder: Path, synthesis: Path, facts: PublicFacts, page: str) -> None:
    """The public files, except release.json and public.zip, which list the others."""
    made = stored(synthesis)
    (folder / "synthetic").mkdir()
    for number, dataset in enumerate(made.datasets, start=1):
        shutil.copyfile(synthesis / f"{number}.parquet", folder / f"synthetic/{number}.parquet")
        for format in facts.formats[1:]:
            name = f"synthetic/{number}{format.written[0]}"
            write_survey(dataset, folder / name, format)
    write_codebook(facts.codebook, folder / "codebook.toml")
    write_table(facts.table, folder / "tables.csv")
    shutil.copyfile(synthesis / "claim.json", folder / "claim.json")
    if facts.draws:
        shutil.copyfile(synthesis / "draws.json", folder / "draws.json")
    (folder / "public.html").write_text(page, encoding="utf-8")


def write_facts(folder: Path, facts: PublicFacts) -> list[str]:
    """release.json, which `open_release` reads, and public.zip; the names of all public files."""
    public = [name for name in _files(folder) if name not in INTERNAL]
    told = {
        "schema": SCHEMA,
        "title": facts.title,
        "version": facts.version,
        "kind": facts.kind,
        "files": list(facts.files),
        "formats": [one.written[0].removeprefix(".") for one in facts.formats],
        "design": design_to(facts.design),
        "statistics": [one.text for one in facts.statistics],
        "by": list(facts.by),
        "margins": facts.margins,
        "checksums": {name: checksum(folder / name) for name in public},
    }
    _write_json(folder / FACTS, told)
    public = sorted([*public, FACTS])
    with zipfile.ZipFile(folder / "public.zip", "w") as archive:
        for name in public:
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, (folder / name).read_bytes())
    return [*public, "public.zip"]


def write_manifest(
    folder: Path, prepared: Prepared, seed: int, diagnostics: Mapping[str, Any], public: list[str]
) -> None:
    """manifest.json: everything that somebody needs to make or check the release again."""
    recipe = {part: keys for part, keys in prepared.recipe.written.items() if part != "ledger"}
    told = {
        "schema": "understudy-manifest-1",
        "warning": "internal: holds the seed, which must stay secret",
        "identity": prepared.identity,
        "data": prepared.fingerprint,
        "version": __version__,
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "recipe": recipe,  # without the ledger's address, which may hold a password
        "seed": seed,
        "unseeded": [f"noise of {name} (OpenDP)" for name in unseeded(prepared.recipe)],
        "diagnostics": diagnostics,
        "public": sorted(public),
        "checksums": {name: checksum(folder / name) for name in _files(folder)},
    }
    _write_json(folder / MANIFEST, told)
    for name in INTERNAL:
        (folder / name).chmod(0o600)


def unseeded(recipe: Recipe) -> list[str]:
    """The mechanisms of a recipe whose noise has no seed."""
    parts = [recipe.mechanism, *(one.mechanism for one in recipe.given)]
    noisy = [part.name for part in parts if part.name in UNSEEDED]
    stages = [part.name for part in parts if part.options.get("reference") == "two-stage"]
    return [*noisy, *(f"{name} (two-stage)" for name in stages)]


def finished(out: Path, identity: str) -> bool:
    """Whether `out` holds exactly this release, whole; refused if it holds anything else."""
    if not out.exists():
        return False
    place = out / MANIFEST
    if not out.is_dir() or not place.is_file():
        if out.is_dir() and not out.is_symlink() and not any(out.iterdir()):
            try:
                out.rmdir()
            except OSError:
                raise Refused(
                    f"`{out}` cannot be used; name a new folder for the release."
                ) from None
            return False
        raise Refused(f"`{out}` exists and is no release; name another folder or move it away.")
    try:
        told = json.loads(place.read_text(encoding="utf-8"))
        same, sums = told["identity"] == identity, dict(told["checksums"])
    except (ValueError, KeyError, TypeError):
        raise Refused(f"The manifest in `{out}` is damaged; move the folder away.") from None
    if not same:
        raise Refused(
            f"`{out}` holds a release of another recipe, file or version; name another folder or "
            "move it away."
        )
    for name, digest in sums.items():
        if not (out / name).is_file() or checksum(out / name) != digest:
            raise Refused(
                f"`{name}` in `{out}` was changed after its release; move the folder away and "
                "run again."
            )
    return True


def write_table(table: pl.DataFrame, path: Path) -> None:
    table.write_csv(path, line_terminator="\n")


def dataset_names(number: int) -> tuple[str, ...]:
    return tuple(f"synthetic/{one}.parquet" for one in range(1, number + 1))


def _files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def _write_json(path: Path, told: Mapping[str, Any]) -> None:
    text = json.dumps(told, indent=2, sort_keys=True, allow_nan=False, default=_json)
    path.write_text(text + "\n", encoding="utf-8")


def _json(value: Any) -> Any:
    """Dates of a recipe, as texts."""
    if isinstance(value, Sequence):
        return list(value)
    return str(value)
