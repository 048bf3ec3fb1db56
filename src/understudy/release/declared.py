"""What the outside gets beside the envelope: declarations, and the columns that were public before.

    facts.json      title, columns and their order, design, statistics, groups, formats
    codebook.toml   what is declared about the published columns
    public.parquet  the columns that are published as collected, sorted by their values

Nothing here is computed from a confidential value.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from understudy.survey.codebook import Codebook, read_codebook
from understudy.survey.codebook_text import write_codebook
from understudy.survey.design import Design, Replicates

FACTS, CODEBOOK, PUBLIC = "facts.json", "codebook.toml", "public.parquet"


@dataclass(frozen=True, eq=False)
class Declarations:
    """The public declarations of a release."""

    title: str
    columns: tuple[str, ...]  # of the published files, in their order
    synthesized: tuple[str, ...]
    design: Design
    statistics: tuple[str, ...]
    by: tuple[str, ...]
    margins: bool
    formats: tuple[str, ...]
    folder: str  # of the recipe, for the steward's own statistics and formats
    codebook: Codebook = field(repr=False)
    public: pl.DataFrame = field(repr=False)  # without columns where every one is drawn

    def write(self, folder: Path) -> None:
        """Into a new folder."""
        folder.mkdir()
        names = (
            "title",
            "columns",
            "synthesized",
            "statistics",
            "by",
            "margins",
            "formats",
            "folder",
        )
        facts: dict[str, Any] = {name: getattr(self, name) for name in names}
        facts["design"] = design_to(self.design)
        (folder / FACTS).write_text(json.dumps(facts, sort_keys=True) + "\n", encoding="utf-8")
        write_codebook(self.codebook, folder / CODEBOOK)
        self.public.write_parquet(folder / PUBLIC, statistics=False)


def open_declared(folder: Path) -> Declarations:
    """The declarations that `write` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    listed = {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
    design = design_from(facts.pop("design"))
    codebook = read_codebook(folder / CODEBOOK)
    return Declarations(
        **{**facts, **listed},
        design=design,
        codebook=codebook,
        public=pl.read_parquet(folder / PUBLIC),
    )


def design_to(design: Design) -> dict[str, Any]:
    """A design as JSON values."""
    return {name: value for name, value in asdict(design).items() if value is not None}


def design_from(values: dict[str, Any]) -> Design:
    """The design that `design_to` wrote."""
    values = dict(values)
    replicates = values.pop("replicates", None)
    return Design(**values, replicates=None if replicates is None else Replicates(**replicates))
