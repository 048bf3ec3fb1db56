"""The analyst's side: a release opened from its folder, ready for tables and regressions.

`tabulate(release, ...)` and `regress(release, ...)` find the combining rule by themselves.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args, overload

from understudy.chance import chance_of
from understudy.claim import Claim
from understudy.envelope import DRAWS
from understudy.errors import Refused
from understudy.release.release_facts import FACTS, SCHEMA, CombiningRule, checksum
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.design_values import design_from
from understudy.survey.drawn_file import DrawnFile
from understudy.survey.engine import new_scratch_file
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey

__public__ = ("open_release",)


@dataclass(frozen=True, eq=False)
class Release(Sequence[Survey]):
    """m synthetic data sets with their claim, design and combining rule."""

    title: str
    datasets: list[Survey] = field(repr=False)
    claim: Claim
    kind: CombiningRule  # "partial": how estimates of the data sets are combined
    design: Design
    statistics: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    folder: Path | None = field(default=None, repr=False)

    def draw(self, size: int, where: str | None = None) -> Release:
        """Further files of a release of whole files: `size` records from each of the m sets of
        noisy tables that it published, all of which meet `where`; at no cost to privacy.

        Tables and regressions of what this returns, or of these files beside the released ones,
        have the right errors: files of one set are averaged before sets are combined.
        """
        # not above: the outside of a release reads this module and has no mechanism
        from understudy.mechanisms.whole_file.files import further_file
        from understudy.mechanisms.whole_file.noisy_file import from_draws

        path = None if self.folder is None else self.folder / DRAWS
        if path is None or not path.is_file():
            raise Refused("The release has no tables to draw from; it is not one of whole files.")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise Refused("`size` must be a whole number of records, at least 1.")
        noisy = from_draws(json.loads(path.read_text(encoding="utf-8"))["draws"])
        files = [
            further_file(noisy, self.datasets[0], chance_of(None), number, size, where)
            for number in range(len(noisy.sets))
        ]
        return replace(self, datasets=[*files])

    @property
    def codebook(self) -> Codebook:
        return self.datasets[0].codebook

    def __len__(self) -> int:
        return len(self.datasets)

    @overload
    def __getitem__(self, index: int) -> Survey: ...

    @overload
    def __getitem__(self, index: slice) -> list[Survey]: ...

    def __getitem__(self, index: int | slice) -> Survey | list[Survey]:
        return self.datasets[index]

    def __str__(self) -> str:
        n, m = self.datasets[0].n, len(self)
        return f"{self.title}: {m} synthetic data sets of {n:,} records. {self.claim}"


def open_release(folder: str | Path) -> Release:
    """Open a release that `understudy release` wrote, its public part alone, or `public.zip`.

    Checksums show that a copy is damaged; they lie beside the files and cannot prove who
    wrote them.
    """
    folder = Path(folder).expanduser()
    if folder.is_file():
        folder = _unpacked(folder)
    facts = public_facts_of(folder)
    for name, digest in facts["checksums"].items():
        _check_file(folder, name, digest)
    claim = Claim.from_json((folder / "claim.json").read_text(encoding="utf-8"))
    try:
        design = design_from(dict(facts["design"]))
    except (TypeError, ValueError):
        raise _damaged(folder) from None
    return Release(
        facts["title"],
        [_file(folder, facts, number, design) for number in range(len(facts["files"]))],
        claim,
        facts["kind"],
        design,
        tuple(facts["statistics"]),
        tuple(facts["by"]),
        folder,
    )


def _unpacked(archive: Path) -> Path:
    """The files of public.zip in a folder that goes with the process."""
    folder = new_scratch_file(".release")
    try:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
    except (zipfile.BadZipFile, OSError):
        raise Refused(
            f"`{archive}` is not a whole zip file; name a folder of a release or its public.zip."
        ) from None
    return folder


def _file(folder: Path, facts: dict[str, Any], number: int, design: Design) -> DrawnFile:
    """A file of the release, or of further records that were drawn from it."""
    survey = read_survey(folder / facts["files"][number], design)
    share = float(facts.get("stands_for", [1.0] * len(facts["files"]))[number])
    return DrawnFile.of(survey, number + 1, share, facts.get("where"))


def public_facts_of(folder: Path) -> dict[str, Any]:
    """release.json of a folder, or refused in one sentence."""
    path = folder / FACTS
    if not folder.is_dir():
        raise Refused(f"There is no folder `{folder}`; name the folder of a release.")
    if not path.is_file():
        raise Refused(f"`{folder}` has no {FACTS}; it is not a release, or was not copied whole.")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        raise _damaged(folder) from None
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
        raise Refused(f"{FACTS} is not of schema `{SCHEMA}`; use the version that wrote it.")
    lists = all(_texts(facts.get(name)) for name in ("files", "statistics", "by"))
    tables = all(isinstance(facts.get(name), dict) for name in ("design", "checksums"))
    plain = isinstance(facts.get("title"), str) and facts.get("kind") in get_args(CombiningRule)
    if not (lists and tables and plain and facts["files"]):
        raise _damaged(folder)
    if not set(facts["files"]) | {"claim.json"} <= set(facts["checksums"]):
        raise _damaged(folder)
    return facts


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _damaged(folder: Path) -> Refused:
    return Refused(f"{FACTS} in `{folder}` is damaged; copy the release again.")


def _check_file(folder: Path, name: str, digest: str) -> None:
    path = folder / name
    if ".." in Path(name).parts or Path(name).is_absolute():
        raise Refused(f"{FACTS} names a file outside of the release; it is damaged.")
    if not path.is_file():
        raise Refused(f"The release lacks `{name}`; copy it again, whole.")
    if checksum(path) != digest:
        raise Refused(f"`{name}` is not the file that was released; copy the release again.")
