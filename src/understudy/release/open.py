"""The analyst's side: a release opened from its folder, ready for tables and regressions.

`tabulate(release, ...)` and `regress(release, ...)` find the combining rule by themselves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, overload

from understudy.chance import chance_of
from understudy.claim import Claim
from understudy.errors import Refused
from understudy.release.declared import design_from
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey

__public__ = ("open_release",)

SCHEMA = "understudy-release-1"
FACTS = "release.json"
CombiningRule = Literal["partial", "full"]  # the combining rule that the synthetic files need


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

    def draw(self, size: int, where: str | None = None, dataset: int = 1) -> Survey:
        """`size` further records of a release of whole files, all of which meet `where`, from the
        noisy tables that it published: at no cost to privacy.

        They belong to the set of noisy tables of `dataset`, from 1 on: average over files of one
        set before you combine over sets.
        """
        # not above: the outside of a release reads this module and has no mechanism
        from understudy.mechanisms.whole_file.files import further_file
        from understudy.mechanisms.whole_file.noisy_file import from_draws

        path = None if self.folder is None else self.folder / "draws.json"
        if path is None or not path.is_file():
            raise Refused("The release has no tables to draw from; it is not one of whole files.")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise Refused("`size` must be a whole number of records, at least 1.")
        if dataset not in range(1, len(self) + 1):
            raise Refused(f"`dataset` must be a whole number from 1 to {len(self)}.")
        noisy = from_draws(json.loads(path.read_text(encoding="utf-8"))["draws"])
        return further_file(
            noisy, self.codebook, self.design, chance_of(None), dataset - 1, size, where
        )

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
    """Open a release that `understudy release` wrote, or its public part alone.

    Checksums show that a copy is damaged; they lie beside the files and cannot prove who
    wrote them.
    """
    folder = Path(folder).expanduser()
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
        [read_survey(folder / name, design) for name in facts["files"]],
        claim,
        facts["kind"],
        design,
        tuple(facts["statistics"]),
        tuple(facts["by"]),
        folder,
    )


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


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_file(folder: Path, name: str, digest: str) -> None:
    path = folder / name
    if ".." in Path(name).parts or Path(name).is_absolute():
        raise Refused(f"{FACTS} names a file outside of the release; it is damaged.")
    if not path.is_file():
        raise Refused(f"The release lacks `{name}`; copy it again, whole.")
    if checksum(path) != digest:
        raise Refused(f"`{name}` is not the file that was released; copy the release again.")
