"""Cells: every value has one, and what is drawn in a cell counts there again."""

from __future__ import annotations

import datetime
import math
from typing import Any

import ibis
import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.survey.cells import ColumnCells, cells_of
from understudy.survey.codebook import Column

NUMBERS = {
    "ages": Column("x", type="integer", bounds=(0, 99), special=(0, 99)),
    "few": Column("x", type="integer", bounds=(0, 1), special=(0, 1), missing=(-9,)),
    "salaries": Column(
        "x", type="integer", bounds=(0, 150_000), special=(0, 150_000), rounding=100
    ),
    "incomes": Column(
        "x", bounds=(-20_000, 1_500_000), special=(0,), grid="log", rounding=10, missing=(9999998,)
    ),
    "shares": Column("x", bounds=(0, 1), blanks=False),
    "tenths": Column("x", bounds=(0, 100), rounding=0.1, special=(37.5,)),
    "expenses": Column("x", bounds=(0, 5e6), grid="log", special=(0,)),
    "losses": Column("x", bounds=(-5e6, -10), grid="log"),
    "edges": Column("x", bounds=(0, 10), grid=(1.0, 2.5, 7.0), special=(2.0,)),
    "only edges": Column("x", type="integer", grid=(0.0, 3.0, 10.0), special=(4,)),
    "weights": Column("x", role="weight", bounds=(1.5, 5000)),
    "births": Column("x", type="date", bounds=(-7000, 20000), special=(0,)),
    "years": Column("x", type="integer", bounds=(1900, 2020), missing=(0, 9999)),
    "billions": Column("x", type="integer", bounds=(-(10**12), 10**12), grid="log"),
}
LEVELS = {
    "texts": Column("x", type="categorical", levels=("b", "a", "é", "zz"), missing=("?",)),
    "many": Column("x", type="categorical", levels=tuple(f"{k:03}" for k in range(0, 900, 7))),
    "numbers": Column("x", type="categorical", levels=(3, 1, 2, 40, 50, 60, 70, 80), missing=(-1,)),
    "halves": Column("x", type="categorical", levels=(0.5, 1, 1.5)),
    "booleans": Column("x", type="categorical", levels=(False, True), blanks=False),
    "skipped": Column(
        "x", type="categorical", levels=(1, 2), blanks=False, applies_when="y > 1", skip=-7
    ),
}
ALL = NUMBERS | LEVELS


def by_expression(cells: ColumnCells, values: pl.Series) -> Any:
    table = ibis.memtable(pl.DataFrame({"x": values}))
    return table.select(code=cells.codes(table["x"])).to_polars()["code"].to_numpy()


@pytest.mark.parametrize("column", ALL.values(), ids=ALL)
def test_what_is_drawn_in_a_cell_counts_there(column: Column) -> None:
    cells = cells_of(column)
    codes = np.repeat(np.arange(cells.size), 30)
    values = cells.values(codes, np.random.default_rng(1))
    assert values.name == "x"
    assert (cells.codes(values) == codes).all()
    assert (by_expression(cells, values) == codes).all()
    assert len(cells.labels) == len(set(cells.labels)) == cells.size


@pytest.mark.parametrize("column", NUMBERS.values(), ids=NUMBERS)
def test_values_keep_to_bounds_and_rounding_and_leave_special_values_to_their_cells(
    column: Column,
) -> None:
    cells = cells_of(column)
    codes = np.repeat(np.arange(cells.grid_size), 200)
    values = cells.values(codes, np.random.default_rng(2))
    if column.type == "date":
        values = values.cast(pl.Int32)
    numbers = values.cast(pl.Float64).to_numpy()
    low, high = column.bounds or (0.0, 10.0)
    assert ((low <= numbers) & (numbers <= high)).all()
    assert not np.isin(numbers, column.special).any()
    if column.rounding:
        assert (numbers == np.round(np.round(numbers / column.rounding) * column.rounding, 6)).all()
    assert (cells.lower[codes] <= numbers).all()
    assert (numbers <= cells.upper[codes]).all()


@pytest.mark.parametrize("name", ["ages", "salaries", "tenths", "only edges", "births"])
def test_each_value_of_a_cell_is_equally_likely(name: str) -> None:
    """Against a list of all multiples of the rounding: even steps of the uniform number give each
    value the same number of times, and the mean is the list's."""
    cells = cells_of(NUMBERS[name])
    step = NUMBERS[name].rounding or 1.0
    special = {round(value / step) for value in NUMBERS[name].special}
    for cell in range(cells.grid_size):
        first, last = round(cells.lower[cell] / step), round(cells.upper[cell] / step)
        listed = [k for k in range(first, last + 1) if k not in special]
        uniform = (np.arange(3 * len(listed)) + 0.5) / (3 * len(listed))
        drawn = cells._drawn(np.full(uniform.size, cell), uniform)
        multiples, times = np.unique(np.rint(drawn / step), return_counts=True)
        assert list(multiples) == listed
        assert set(times) == {3}
        assert cells.expected[cell] == pytest.approx(np.mean(listed) * step)


@pytest.mark.parametrize("column", NUMBERS.values(), ids=NUMBERS)
def test_every_number_has_a_cell_the_nearest_one(column: Column) -> None:
    cells = cells_of(column)
    low, high = column.bounds or (0.0, 10.0)
    numbers = [*np.geomspace(1e-7, 1e13, 61), *-np.geomspace(1e-7, 1e13, 61), 0.0, low, high]
    values, clamped = pl.Series("x", numbers), pl.Series("x", np.clip(numbers, low, high))
    codes = cells.codes(values)
    free = ~np.isin(numbers, column.missing)
    assert (codes == cells.codes(clamped))[free].all()
    assert (codes == by_expression(cells, values)).all()
    first = np.array([float(start) for start in cells.starts])
    inside = free & (codes < cells.grid_size)
    drawn = clamped.to_numpy()[inside]
    # the last lower edge at or below the number, or the first cell
    assert codes[inside].tolist() == [max(int((first <= v).sum()) - 1, 0) for v in drawn]


def test_a_value_without_a_cell_has_a_rule() -> None:
    texts = cells_of(LEVELS["texts"])
    assert texts.labels == ("b", "a", "é", "zz", "?", "(empty)")
    assert texts.codes(pl.Series("x", ["new", None, "a"])).tolist() == [5, 5, 1]
    coded = cells_of(Column("x", levels=("a",), type="categorical", missing=("?",), blanks=False))
    assert coded.codes(pl.Series("x", ["new", None])).tolist() == [1, 1]
    plain = cells_of(LEVELS["booleans"])
    assert plain.codes(pl.Series("x", [None, False, True])).tolist() == [1, 0, 1]
    number = cells_of(NUMBERS["shares"])
    assert number.codes(pl.Series("x", [None, math.nan, math.inf, -math.inf])).tolist() == [
        0,
        0,
        199,
        0,
    ]
    topcoded = cells_of(NUMBERS["salaries"])
    assert topcoded.labels[topcoded.codes(pl.Series("x", [10**9]))[0]] == "150,000"
    day = pl.Series("x", [datetime.datetime(1970, 1, 1, 23), datetime.datetime(1900, 1, 1)])
    born = cells_of(NUMBERS["births"])
    assert born.labels[born.codes(day)[0]] == "1970-01-01"
    assert by_expression(born, day).tolist() == born.codes(day).tolist()


@pytest.mark.parametrize("column", NUMBERS.values(), ids=NUMBERS)
def test_a_grid_that_nobody_gave_is_fine_and_not_too_fine(column: Column) -> None:
    cells = cells_of(column)
    low, high = column.bounds or (0.0, 10.0)
    steps = (high - low) / (column.rounding or 1)
    if not isinstance(column.grid, tuple) and (column.type == "continuous" or steps > 250):
        assert 50 <= cells.grid_size <= 250


def test_types_are_the_declared_ones() -> None:
    types = {
        name: cells_of(column).values(np.array([0]), np.random.default_rng(0)).dtype
        for name, column in ALL.items()
    }
    assert types["ages"] == types["few"] == types["salaries"] == types["numbers"] == pl.Int64
    assert types["incomes"] == types["halves"] == pl.Float64
    assert types["births"] == pl.Date
    assert types["booleans"] == pl.Boolean
    assert types["texts"] == pl.String


def test_coarse_cells_are_runs_of_the_grid() -> None:
    cells = cells_of(NUMBERS["only edges"])
    assert cells.labels == ("0 to 2", "3 to 10", "4", "(empty)")
    assert cells.ordered
    assert cells.coarsened([0]).tolist() == [0, 0, 1, 2]
    assert cells.coarsened([0, 1]).tolist() == [0, 1, 2, 3]
    assert cells_of(LEVELS["halves"]).coarsened([]).tolist() == [0, 1, 2, 3]
    assert not cells_of(LEVELS["halves"]).ordered


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (Column("x"), "no bounds"),
        (Column("x", type="text"), "no levels"),
        (Column("x", type="categorical"), "no levels"),
        (Column("x", bounds=(0, 1), special=(2,)), "outside its bounds"),
        (Column("x", bounds=(0, 1), grid=(0.0, 2.0)), "beyond its bounds"),
        (Column("x", bounds=(0.5, 0.7), rounding=1), "on its declared rounding"),
        (Column("x", type="integer", bounds=(0, 9), rounding=0.5), "whole numbers"),
    ],
)
def test_columns_without_cells_are_refused(column: Column, says: str) -> None:
    with pytest.raises(Refused, match=says):
        cells_of(column)
