"""Synthetic files of a release of whole files: records with their weight, design and codebook.

Everything is made from the noisy tables and the codebook's declarations, so a reader of the release
can make further files, or larger ones, with the same functions (`understudy draw`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.chance import Chance
from understudy.errors import Refused
from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.mechanisms.whole_file.records import Synthesizer, synthesizer
from understudy.survey.cells import ColumnCells, cells_of
from understudy.survey.codebook import Codebook, Value
from understudy.survey.design import Design
from understudy.survey.drawn_file import DrawnFile
from understudy.survey.survey import Survey
from understudy.tables.domain import as_condition, named_columns

Vector = NDArray[np.float64]

CALIBRATIONS = 50  # sweeps over the public totals
FEWEST, MOST = 20_000, 500_000  # records of a batch that is drawn for a further file
GIVEN_UP = 500_000  # records, and 100 times those that are wanted: hardly any meets the condition
CLOSE = 1e-9  # relative, of a sum of weights to its public total


def synthetic_files(
    noisy: NoisyFile,
    codebook: Codebook,
    design: Design,
    chance: Chance,
    kept_values: pl.DataFrame | None = None,
) -> list[Survey]:
    """A file from each set of noisy tables, as a survey with its weight and strata."""
    maker = file_maker(noisy, codebook, design, chance, kept_values)
    published = published_codebook(codebook, noisy.columns)
    files = []
    for number in range(len(noisy.sets)):
        frame, _ = maker.file(number, chance.generator(f"file {number}"))
        files.append(Survey(finished(frame, published, design), design, published))
    return files


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
    taken at random. Weights are those of a sample of the release's own size.
    """
    codebook, design = released.codebook, released.design
    kept = [name for name, public in zip(noisy.columns, noisy.kept, strict=True) if public]
    rows = released.raw.select(kept).to_polars() if kept else None
    maker = file_maker(noisy, codebook, design, chance, rows)
    batch = noisy.records if kept else int(np.clip(size, FEWEST, MOST))
    parts: list[pl.DataFrame] = []
    met, drawn = 0, 0
    while met < size:
        if drawn >= max(GIVEN_UP, 100 * size):
            raise Refused(f"Too few records meet `{where}`; ask for fewer, or a wider condition.")
        frame, _ = maker.file(number, chance.generator(f"further {len(parts)}"), batch)
        frame = finished(frame, codebook, design, noisy.records)
        if where is not None:
            table = Survey(frame, codebook=codebook).table
            meets = table.select(meets=as_condition(where, table)).to_polars()["meets"]
            frame = frame.filter(meets)
        parts.append(frame)
        met, drawn = met + frame.height, drawn + batch
    taken = chance.generator("further taken").choice(met, size, replace=False)
    frame = pl.concat(parts)[np.sort(taken)]
    if design.weight is not None:  # every batch stands for the population by itself
        share = met / size / len(parts)
        frame = frame.with_columns(pl.col(design.weight) * share)
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
    return cells_of(replace(column, role="weight") if name == design.weight else column)


def finished(
    frame: pl.DataFrame, codebook: Codebook, design: Design, records: int | None = None
) -> pl.DataFrame:
    """The drawn records with their weight calibrated to the public totals; of a file that is larger
    than the release's `records`, it is first brought down to a file of that size."""
    if design.weight is None:
        return frame
    if records is not None:
        frame = frame.with_columns(pl.col(design.weight) * (records / frame.height))
    weights = calibrated(frame, design.weight, codebook)
    return frame.with_columns(pl.Series(design.weight, weights))


def calibrated(frame: pl.DataFrame, weight: str, codebook: Codebook) -> Vector:
    """The drawn weights raked to the public totals: of levels where the codebook has them, and of
    all records. Without totals they stay as they are drawn."""
    weights = frame[weight].cast(pl.Float64).to_numpy().copy()
    steps = [
        _places(frame[name], totals)
        for name, totals in codebook.population_by.items()
        if name in frame.columns
    ]
    if codebook.population_size is not None:
        whole = np.array([codebook.population_size])
        steps.append((np.zeros(frame.height, dtype=np.int64), whole))
    for _ in range(CALIBRATIONS):
        worst = 0.0
        for position, totals in steps:
            inside = position >= 0
            sums = np.bincount(position[inside], weights[inside], minlength=totals.size)
            factor = np.divide(totals, sums, out=np.ones_like(totals), where=sums > 0)
            weights[inside] *= factor[position[inside]]
            worst = max(worst, float(np.abs(factor - 1).max()))
        if worst < CLOSE:
            break
    return weights


def _places(values: pl.Series, totals: Mapping[Value, float]) -> tuple[NDArray[np.int64], Vector]:
    """Each record's position among the levels that have a total; -1 where it has none."""
    texts = [str(level) for level in totals]
    places = values.cast(pl.String).replace_strict(
        texts, range(len(texts)), default=-1, return_dtype=pl.Int64
    )
    return places.to_numpy(), np.array([*totals.values()], dtype=np.float64)


def published_codebook(codebook: Codebook, columns: tuple[str, ...]) -> Codebook:
    """The codebook of the synthetic files: nothing that was only drafted from the records."""
    derived = [c.name for c in codebook if c.derived and named_columns(c.derived) <= {*columns}]
    columns = (*columns, *(name for name in derived if name not in columns))
    kept = codebook.only(list(columns))
    for column in list(kept):
        facts: dict[str, Any] = {f: _empty(f) for f in column.drafted_cells if f != "type"}
        kept = kept.with_column(replace(column, **facts))
    by = {name: totals for name, totals in kept.population_by.items() if name in columns}
    ordered = {name: kept[name] for name in columns}
    return replace(kept.without_unit(), columns=ordered, population_by=by)


def _empty(fact: str) -> Any:
    return () if fact in ("missing", "special") else None
