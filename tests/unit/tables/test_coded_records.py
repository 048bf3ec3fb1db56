"""Counting: tables over the codebook's cells against polars, in blocks and beyond memory."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.survey.cells import cells_of
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.tables import coded_records as module
from understudy.tables.coded_records import CodedRecords, coded_records
from understudy.tables.units import Unit

COLUMNS = {
    "sex": Column("sex", levels=("f", "m"), type="categorical", blanks=False),
    "age": Column("age", type="integer", bounds=(0, 99), blanks=True),
    "pay": Column("pay", type="continuous", bounds=(0, 1000), special=(0.0,), missing=(-9.0,)),
}


def survey(n: int = 500) -> Survey:
    rng = np.random.default_rng(3)
    pay = np.where(rng.random(n) < 0.3, 0.0, rng.uniform(0, 1200, n))
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": [None if k % 9 == 0 else int(k) for k in rng.integers(0, 100, n)],
            "pay": np.where(rng.random(n) < 0.1, -9.0, pay),
            "home": np.arange(n) // 5,
        }
    )
    return Survey(frame, codebook=Codebook(COLUMNS))


@pytest.mark.parametrize("block", [64, 1 << 16])
@pytest.mark.parametrize("in_memory", [0, 10**9])
def test_tables_are_those_of_a_group_by(monkeypatch, block, in_memory):
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(module, "IN_MEMORY", in_memory)
    data = survey()
    cells = [cells_of(column) for column in COLUMNS.values()]
    records = coded_records(data, cells)
    assert records.n == 500
    frame = data.raw.to_polars()
    codes = pl.DataFrame({c.name: c.codes(frame[c.name]) for c in cells})
    for size in (1, 2, 3):
        for names in combinations(range(3), size):
            (table,) = records.count([names])
            assert table.shape == tuple(cells[j].size for j in names)
            assert table.sum() == 500
            by = [cells[j].name for j in names]
            for *cell, count in codes.group_by(by).len().iter_rows():
                assert table[tuple(cell)] == count


def test_coarse_cells_add_up_the_fine_ones_and_weights_count():
    cells = [cells_of(column) for column in COLUMNS.values()]
    records = coded_records(survey(), cells)
    maps = [np.arange(c.size, dtype=np.int32) * 3 // c.size for c in cells]
    fine, coarse = records.count([(1, 2)])[0], records.coarse(maps).count([(1, 2)])[0]
    expected = np.zeros((3, 3))
    np.add.at(expected, (maps[1][:, None], maps[2][None, :]), fine)
    assert np.array_equal(coarse, expected)
    weights = np.linspace(0, 1, 500)
    weighted = CodedRecords(records.codes, records.sizes, weights).count([(0,)])[0]
    assert weighted.sum() == pytest.approx(weights.sum())
    assert weighted[1] == pytest.approx(weights[records.codes[0] == 1].sum())


def test_no_more_records_of_a_unit_than_declared():
    unit = Codebook({**COLUMNS, "home": Column("home", role="unit", type="integer")}, unit="home")
    frame = survey().raw.to_polars()
    cells = [cells_of(column) for column in COLUMNS.values()]
    data = Survey(frame, codebook=unit)
    for limit in (2, 5):
        assert coded_records(data, cells, Unit("home", limit)).n == 100 * limit
    with pytest.raises(Refused, match="records_per_unit"):
        coded_records(data, cells, Unit("home", None))
