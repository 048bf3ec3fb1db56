"""What is public about a release before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.file_format import Format, released_formats
from understudy.tables.corrected import resting_on_drawn
from understudy.tables.statistic import Statistic, parse_statistic

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """Declarations, and the columns that were public before. The public files are made from this
    and the envelope alone: neither has a way to reach a record."""

    title: str
    columns: tuple[str, ...]  # of the published files, in their order
    synthesized: tuple[str, ...]
    design: Design
    asked_statistics: tuple[str, ...]
    by: tuple[str, ...]
    margins: bool
    asked_formats: tuple[str, ...]
    folder: str  # of the recipe, for the steward's own models, statistics and formats
    codebook: Codebook = field(repr=False)
    # without columns where every one is drawn; a table where rows are read in blocks
    public: pl.DataFrame | ir.Table = field(repr=False)
    # what records are made of beside these columns (mechanisms/outputs): the models by name and
    # settings, the public number of records, types, and what is public of the columns that are made
    models: tuple[Mapping[str, Any], ...] = ()
    records: int = 0
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    known: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)
    # what was spent on correcting the table, and for whom; empty where it is not corrected
    corrections: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        folder = Path(self.folder)
        return tuple(parse_statistic(text, self.columns, folder) for text in self.asked_statistics)

    @property
    def corrected_statistics(self) -> tuple[Statistic, ...]:
        """What the table is corrected in, where it is."""
        if not self.corrections:
            return ()
        public = list(self.public.columns)
        return resting_on_drawn(self.statistics, self.by, self.design.weight, public)

    @property
    def corrected(self) -> dict[str, Any]:
        """What was corrected, at what price and for whom, for programs and manifests."""
        texts = [statistic.text for statistic in self.corrected_statistics]
        return {**self.corrections, "statistics": texts} if self.corrections else {}

    @cached_property
    def formats(self) -> tuple[Format, ...]:
        """Of the files; Parquet first."""
        return released_formats(self.asked_formats, Path(self.folder))

    @cached_property
    def as_collected(self) -> frozenset[str]:
        """The columns that nobody drew or computed: smoothed weights and formulas were."""
        made = {*self.synthesized, *(c.name for c in self.codebook if c.derived)}
        if self.design.variance_weight is not None:
            made |= {self.design.weight or ""}
        return frozenset(self.columns) - made

    @property
    def all_drawn(self) -> bool:
        return not self.as_collected

    def label(self, name: str) -> str:
        """The codebook's label of a column, or its name."""
        return self.codebook.label(name)
