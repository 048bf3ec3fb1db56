"""Synthetic files of a release of whole files: records with their weight, design and codebook.

Everything is made from the noisy tables and the codebook's declarations, so a reader of the release
can make further files, or larger ones, with the same functions (`understudy draw`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from understudy.chance import Chance
from understudy.errors import Refused
from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.mechanisms.whole_file.records import Synthesizer, synthesizer
from understudy.mechanisms.whole_file.weights import (
    published_design,
    smoothed_column,
    with_weights,
)
from understudy.survey.cells import ColumnCells, cells_of
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.tables.domain import as_condition, named_columns

ATTEMPTS = 100  # files that are drawn for a condition


def synthetic_files(
    noisy: NoisyFile,
    codebook: Codebook,
    design: Design,
    chance: Chance,
    kept_values: pl.DataFrame | None = None,
) -> list[Survey]:
    """A file from each set of noisy tables, as a survey with its weight and strata."""
    maker = file_maker(noisy, codebook, design, chance, kept_values)
    published = published_codebook(codebook, noisy, design)
    files = []
    for number in range(len(noisy.sets)):
        frame, _ = maker.file(number, chance.generator(f"file {number}"))
        frame = with_weights(frame, noisy, maker.cells, published, design)
        files.append(Survey(frame, published_design(design), published))
    return files


def further_file(
    noisy: NoisyFile,
    codebook: Codebook,
    design: Design,
    chance: Chance,
    number: int,
    size: int,
    where: str | None = None,
) -> Survey:
    """A file of `size` further records of one set of noisy tables, all of which meet `where`; at no
    cost to privacy. Records are drawn until enough of them do."""
    maker = file_maker(noisy, codebook, design, chance)
    published = published_codebook(codebook, noisy, design)
    parts: list[pl.DataFrame] = []
    for attempt in range(ATTEMPTS):
        frame, _ = maker.file(number, chance.generator(f"further {attempt}"), size)
        frame = with_weights(frame, noisy, maker.cells, published, design)
        if where is not None:
            table = Survey(frame, codebook=published).table
            meets = table.select(meets=as_condition(where, table)).to_polars()["meets"]
            frame = frame.filter(meets)
        parts.append(frame)
        if sum(part.height for part in parts) >= size:
            return Survey(pl.concat(parts).head(size), published_design(design), published)
    raise Refused(f"Too few records meet `{where}`; ask for fewer, or for a wider condition.")


def file_maker(
    noisy: NoisyFile,
    codebook: Codebook,
    design: Design,
    chance: Chance,
    kept_values: pl.DataFrame | None = None,
) -> Synthesizer:
    """What draws the files; cells come from the codebook alone."""
    cells = tuple(cells_in(codebook, name, design) for name in noisy.columns)
    return synthesizer(noisy, cells, codebook, chance.generator("file pool"), kept_values)


def cells_in(codebook: Codebook, name: str, design: Design) -> ColumnCells:
    """The cells of a column; the design's weight has those of a weight."""
    column = codebook[name]
    drawn = design.variance_weight or design.weight
    return cells_of(replace(column, role="weight") if name == drawn else column)


def published_codebook(codebook: Codebook, noisy: NoisyFile, design: Design) -> Codebook:
    """The codebook of the synthetic files: nothing that was only drafted from the records, and how
    far their tables are from the confidential ones."""
    columns = noisy.columns
    derived = [c.name for c in codebook if c.derived and named_columns(c.derived) <= {*columns}]
    columns = (*columns, *(name for name in derived if name not in columns))
    kept = codebook.only(list(columns))
    for column in list(kept):
        facts: dict[str, Any] = {f: _empty(f) for f in column.drafted_cells if f != "type"}
        kept = kept.with_column(replace(column, **facts))
    by = {name: totals for name, totals in kept.population_by.items() if name in columns}
    ordered = {name: kept[name] for name in columns}
    smoothed = smoothed_column(published_design(design))
    if smoothed is not None:
        ordered[smoothed.name] = smoothed
    return replace(kept.without_unit(), columns=ordered, population_by=by, misfit=noisy.misfit)


def _empty(fact: str) -> Any:
    return () if fact in ("missing", "special") else None
