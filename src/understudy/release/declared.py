"""What the outside gets beside the envelope: declarations, and the columns that were public before.

    facts.json      title, models, columns, number of records, design, statistics, groups, formats
    codebook.toml   what is declared about the published columns, and drafts about public ones
    types.parquet   the columns that are made, in the types in which they are published: no rows
    public.parquet  the columns that are published as collected, sorted by their values
    known.parquet   what is public of the columns that are made, row by row: mostly nothing

Nothing here is computed from a confidential value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from understudy.mechanisms.outputs.output import Ground
from understudy.survey.codebook import Codebook, read_codebook
from understudy.survey.codebook_text import write_codebook
from understudy.survey.design import Design, Replicates

if TYPE_CHECKING:
    from understudy.models.contract import Model

FACTS, CODEBOOK, PUBLIC = "facts.json", "codebook.toml", "public.parquet"
TYPES, KNOWN = "types.parquet", "known.parquet"
PLAIN = (
    "title", "models", "columns", "synthesized", "records", "statistics", "by", "margins",
    "formats", "folder",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Declarations:
    """The public declarations of a release."""

    title: str
    models: tuple[dict[str, Any], ...]  # by name and settings (release/model_part.py)
    columns: tuple[str, ...]  # of the published files, in their order
    synthesized: tuple[str, ...]
    records: int
    design: Design
    statistics: tuple[str, ...]
    by: tuple[str, ...]
    margins: bool
    formats: tuple[str, ...]
    folder: str  # of the recipe, for the steward's own models, statistics and formats
    codebook: Codebook = field(repr=False)
    types: Mapping[str, pl.DataType]
    public: pl.DataFrame = field(repr=False)  # without columns where every one is drawn
    known: pl.DataFrame = field(repr=False)  # the same for what is public of the others

    def write(self, folder: Path) -> None:
        """Into a new folder."""
        folder.mkdir()
        facts: dict[str, Any] = {name: getattr(self, name) for name in PLAIN}
        facts["design"] = design_to(self.design)
        (folder / FACTS).write_text(json.dumps(facts, sort_keys=True) + "\n", encoding="utf-8")
        write_codebook(self.codebook, folder / CODEBOOK)
        pl.DataFrame(schema=dict(self.types)).write_parquet(folder / TYPES, statistics=False)
        self.public.write_parquet(folder / PUBLIC, statistics=False)
        self.known.write_parquet(folder / KNOWN, statistics=False)

    def ground(self, models: tuple[Model, ...]) -> Ground:
        """What records are made of beside the mechanism's output."""
        return Ground(
            models,
            self.columns,
            self.codebook,
            self.design,
            self.records,
            self.public,
            self.known,
            self.types,
        )


def open_declared(folder: Path) -> Declarations:
    """The declarations that `write` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    listed = {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
    design = design_from(facts.pop("design"))
    return Declarations(
        **{**facts, **listed},
        design=design,
        codebook=read_codebook(folder / CODEBOOK),
        types=dict(pl.read_parquet(folder / TYPES).schema),
        public=pl.read_parquet(folder / PUBLIC),
        known=pl.read_parquet(folder / KNOWN),
    )


def design_to(design: Design) -> dict[str, Any]:
    """A design as JSON values."""
    return {name: value for name, value in asdict(design).items() if value is not None}


def design_from(values: dict[str, Any]) -> Design:
    """The design that `design_to` wrote."""
    values = dict(values)
    replicates = values.pop("replicates", None)
    return Design(**values, replicates=None if replicates is None else Replicates(**replicates))
