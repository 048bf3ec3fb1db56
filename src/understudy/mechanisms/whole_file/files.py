"""Synthetic files of a release of whole files: records with their weight, design and codebook.

Everything is made from the noisy tables and the codebook's declarations, so a reader of the release
can make further files, or larger ones, with the same functions (`understudy draw`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.chance import Chance
from understudy.errors import Refused
from understudy.mechanisms.outputs.output import Made, nobody
from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.mechanisms.whole_file.records import Block, Synthesizer, synthesizer
from understudy.mechanisms.whole_file.weights import (
    FileWeights,
    drawn_column,
    published_design,
    smoothed_column,
)
from understudy.one_blas_thread import one_blas_thread
from understudy.survey.cells import ColumnCells, cells_of
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.drawn_file import DrawnFile
from understudy.survey.stored import survey_of
from understudy.survey.survey import Survey
from understudy.survey.waiting_frames import WaitingFrames
from understudy.tables.derived import computed_columns
from understudy.tables.domain import as_condition
from understudy.tables.ruled_file import RuledFile, RuleEffects
from understudy.tables.rules import rules_within

Vector = NDArray[np.float64]

FEWEST, MOST = 20_000, 500_000  # records of a batch that is drawn for a further file
SPARE = 1.1  # times the records that are missing by what met the condition so far
GIVEN_UP = 500_000  # records, and 100 times those that are wanted: hardly any meets the condition


@one_blas_thread()
def synthetic_files(
    noisy: NoisyFile,
    codebook: Codebook,
    design: Design,
    chance: Chance,
    kept_values: pl.DataFrame | None = None,
    made: Made = nobody,
) -> list[RuledFile]:
    """A file from each set of noisy tables, as a survey with its weight and strata; large ones lie
    on disk, in the scratch folder. `made` is told how many records there are now, of how many."""
    maker = file_maker(noisy, codebook, design, chance, kept_values)
    published = published_codebook(codebook, noisy, design)
    files, count, size = [], len(noisy.sets), noisy.records
    for number in range(count):
        blocks = maker.blocks(number, chance.generator(f"file {number}"))
        drawn = _drawn(maker, _told(blocks, made, number * size, count * size), published, design)
        survey = survey_of(
            drawn.frames(), len(drawn.waiting) > 1, published_design(design), published
        )
        files.append(RuledFile.of(survey, drawn.effects))
    return files


def _told(blocks: Iterable[Block], made: Made, before: int, records: int) -> Iterator[Block]:
    for block in blocks:
        before += block.frame.height
        yield block
        made(before, records)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The records of a file, their weights by column, and what rules changed in them."""

    waiting: WaitingFrames
    weights: Mapping[str, Vector]
    effects: RuleEffects

    def frames(self) -> Iterator[pl.DataFrame]:
        """Block by block, once."""
        start = 0
        for frame in self.waiting.taken():
            rows = slice(start, start + frame.height)
            start += frame.height
            yield frame.with_columns(pl.Series(n, w[rows]) for n, w in self.weights.items())


def _drawn(
    maker: Synthesizer, blocks: Iterable[Block], codebook: Codebook, design: Design
) -> _Drawn:
    """Weights depend on all records, so that the first blocks wait for the last."""
    weights = FileWeights(maker.noisy, maker.cells, maker.fit.pool.codes, codebook, design)
    waiting, effects = WaitingFrames(), []
    for block in blocks:
        weights.add(block)
        waiting.put(block.frame)
        effects.append(block.effects)
    both = dict(zip(weights.names, weights.both(), strict=True))
    return _Drawn(waiting, both, RuleEffects.together(effects))


@one_blas_thread()
def further_file(
    noisy: NoisyFile,
    released: Survey,
    chance: Chance,
    number: int,
    size: int,
    where: str | None = None,
) -> DrawnFile:
    """A file of `size` further records of one set of noisy tables, all of which meet `where`; at no
    cost to privacy. `released` is a file of the release: its codebook and design hold, and the
    columns that were kept as they are come from its rows.

    Records are drawn in batches until enough of them meet the condition, and `size` of these are
    taken at random; a batch is as large as those before let expect, as its cost is mostly that of
    rounding records together. Weights are those of a sample of the release's own size.
    """
    codebook, design = released.codebook, released.design
    kept = [name for name, public in zip(noisy.columns, noisy.kept, strict=True) if public]
    rows = released.raw.select(kept).to_polars() if kept else None
    maker = file_maker(noisy, codebook, design, chance, rows)
    weights = [name for name in (design.weight, design.variance_weight) if name is not None]
    batch = noisy.records if kept else int(np.clip(size, FEWEST, MOST))
    parts: list[pl.DataFrame] = []
    met, drawn = 0, 0
    while met < size:
        if drawn >= max(GIVEN_UP, 100 * size):
            raise Refused(f"Too few records meet `{where}`; ask for fewer, or a wider condition.")
        blocks = maker.blocks(number, chance.generator(f"further {len(parts)}"), batch)
        frame = pl.concat(_drawn(maker, blocks, codebook, design).frames())
        if where is not None:
            table = Survey(frame, codebook=codebook).table
            meets = table.select(meets=as_condition(where, table)).to_polars()["meets"]
            frame = frame.filter(meets)
        parts.append(frame.with_columns(pl.col(weights) * batch))
        met, drawn = met + frame.height, drawn + batch
        if not kept:
            batch = int(np.clip(SPARE * (size - met) * drawn / max(met, 1), FEWEST, MOST))
    taken = chance.generator("further taken").choice(met, size, replace=False)
    frame = pl.concat(parts)[np.sort(taken)]
    # every batch stands for the population by itself, and counts by its size
    frame = frame.with_columns(pl.col(weights) * (met / size / drawn))
    # as many records would have been drawn for these alone
    stands_for = noisy.records / (drawn * size / met)
    return DrawnFile.of(Survey(frame, design, codebook), number + 1, stands_for, where)


def file_maker(
    noisy: NoisyFile,
    codebook: Codebook,
    design: Design,
    chance: Chance,
    kept_values: pl.DataFrame | None = None,
) -> Synthesizer:
    """What draws the files; cells come from the codebook alone."""
    cells = tuple(cells_in(codebook, name, design) for name in noisy.columns)
    for column, mapped in zip(cells, noisy.coarse, strict=True):
        if column.size != mapped.size:
            raise Refused(
                f"The codebook of the release does not declare the cells of `{column.name}`, which "
                "its tables were counted in; only files with a formal claim can be drawn from."
            )
    return synthesizer(noisy, cells, codebook, chance.generator("file pool"), kept_values)


def cells_in(codebook: Codebook, name: str, design: Design) -> ColumnCells:
    """The cells of a column; the design's weight has those of a weight."""
    column = codebook[name]
    drawn = design.variance_weight or design.weight
    return cells_of(replace(column, role="weight") if name == drawn else column)


def published_codebook(codebook: Codebook, noisy: NoisyFile, design: Design) -> Codebook:
    """The codebook of the synthetic files: nothing that was only drafted from the records, and how
    far their tables are from the confidential ones."""
    derived = computed_columns(codebook, noisy.columns)
    columns = (*noisy.columns, *(name for name in derived if name not in noisy.columns))
    kept = rules_within(codebook, columns).only(list(columns))
    for column in list(kept):
        facts: dict[str, Any] = {f: _empty(f) for f in column.drafted_cells if f != "type"}
        kept = kept.with_column(replace(column, **facts))
    by = {name: totals for name, totals in kept.population_by.items() if name in columns}
    ordered = {name: kept[name] for name in columns}
    weight = published_design(design).variance_weight
    if weight in ordered:
        ordered[weight] = drawn_column(ordered[weight])
    smoothed = smoothed_column(published_design(design))
    if smoothed is not None:
        ordered[smoothed.name] = smoothed
    if noisy.clusters is not None:
        measured = noisy.clusters
        kept = replace(kept, design_effect=measured.design_effect, psu_records=measured.psu_records)
        kept = replace(kept, design_effects=measured.columns)
    return replace(kept.without_unit(), columns=ordered, population_by=by, misfit=noisy.misfit)


def _empty(fact: str) -> Any:
    return () if fact in ("missing", "special") else None
