"""The pass: whole numbers, exact in any order, and one unit within the clip whatever it holds."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import duckdb
import ibis
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from influence_samples import people, survey
from scipy import stats

from understudy.survey.survey import as_ibis
from understudy.tables.families.gaussian import Gaussian
from understudy.tables.influence.array_file import array_sums
from understudy.tables.influence.clip import LONGER, TOP, Norm, choose_clip, clipped, norms
from understudy.tables.influence.equations.gini import GiniEquation
from understudy.tables.influence.equations.regression import RegressionEquation
from understudy.tables.influence.question import InfluenceQuestion, SyntheticFile, released_at
from understudy.tables.influence.unit_sums import (
    GRID,
    sensitivity,
    steps_of,
    unit_sums,
)

ODD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -0.0]
anything = st.one_of(st.sampled_from(ODD), st.floats(allow_nan=True, allow_infinity=True))


DUCKDB = duckdb.connect()


def row_of(query: str, frame: pl.DataFrame) -> dict[str, Any]:
    """The query is written once for many frames: NaN is left as it is, as in no Survey."""
    DUCKDB.register("records", frame.to_arrow())
    return DUCKDB.execute(query).to_arrow_table().to_pylist()[0]


@cache
def query(schema: ibis.Schema, count: int, norm: Norm, unit: str | None, step: float) -> str:
    table = ibis.table(schema, name="records")
    values = [table[f"d{j}"] for j in range(count)]
    sums = unit_sums(table, values, np.full(count, step), norm, unit)
    return str(ibis.to_sql(sums, dialect="duckdb"))


def summed(
    frame: pl.DataFrame, count: int, norm: Norm, unit: str | None = None, step: float = GRID / 3.0
) -> np.ndarray:
    asked = query(as_ibis(frame).schema(), count, norm, unit, step)
    return steps_of(row_of(asked, frame), count)


def influences(count: int, n: int = 60, seed: int = 2) -> pl.DataFrame:
    draw = np.random.default_rng(seed).standard_t(2, (n, count))
    columns = {f"d{j}": draw[:, j] for j in range(count)}
    return pl.DataFrame({**columns, "u": np.arange(n) // 3})


@pytest.mark.parametrize(("count", "norm"), [(1, 1), (3, 1), (3, 2)])
def test_the_engine_and_the_array_agree_to_the_last_step(count: int, norm: Norm) -> None:
    frame = influences(count)
    array = frame.select([f"d{j}" for j in range(count)]).to_numpy()
    steps = np.full(count, GRID / 3.0)
    np.testing.assert_array_equal(summed(frame, count, norm), array_sums(array, steps, norm))
    np.testing.assert_array_equal(
        summed(frame, count, norm),
        summed(frame.sample(fraction=1, shuffle=True, seed=1), count, norm),
    )
    held = clipped(array, 3.0, norm).sum(axis=0)
    np.testing.assert_allclose(summed(frame, count, norm) / steps, held, atol=1e-6)


@pytest.mark.parametrize("norm", [1, 2])
def test_a_units_records_are_added_before_they_are_clipped(norm: Norm) -> None:
    frame = influences(2)
    totals = frame.group_by("u").agg(pl.col("d0", "d1").sum()).sort("u").select("d0", "d1")
    expected = clipped(totals.to_numpy(), 3.0, norm).sum(axis=0)
    np.testing.assert_allclose(summed(frame, 2, norm, "u") / (GRID / 3.0), expected, atol=1e-6)
    by_record = summed(frame, 2, norm)
    assert np.abs(by_record - summed(frame, 2, norm, "u")).max() > GRID / 100


@given(
    values=st.lists(st.tuples(anything, anything), min_size=1, max_size=3),
    norm=st.sampled_from([1, 2]),
    count=st.sampled_from([1, 2]),
)
def test_one_unit_changed_arbitrarily_moves_the_sums_by_the_sensitivity(
    values: list[tuple[float, float]], norm: Norm, count: int
) -> None:
    """Added: within the sensitivity. So a replacement, which removes and adds, is within twice."""
    frame = influences(2, 12)
    unit = pl.DataFrame(
        {"d0": [v[0] for v in values], "d1": [v[1] for v in values], "u": [77] * len(values)},
        schema=frame.schema,
    )
    before = summed(frame, count, norm, "u")
    after = summed(pl.concat([frame, unit]), count, norm, "u")
    moved = [abs(int(a) - int(b)) for a, b in zip(after, before, strict=True)]
    if norm == 1:
        assert sum(moved) <= sensitivity(count)
    else:
        assert sum(m * m for m in moved) <= sensitivity(count) ** 2


@cache
def equations(norm: Norm) -> str:
    """Of a regression's and of Gini's influences."""
    records = ibis.table(as_ibis(CONFIDENTIAL).schema(), name="records")
    parts = [
        part
        for question, released in zip(QUESTIONS, RELEASED, strict=True)
        for part in question.expressions(released, records, records["w"])
    ]
    sums = unit_sums(records, parts, np.full(3, GRID / 0.1), norm)
    return str(ibis.to_sql(sums, dialect="duckdb"))


def sums_of(frame: pl.DataFrame, norm: Norm) -> list[int]:
    return [int(step) for step in steps_of(row_of(equations(norm), frame), 3)]


@cache
def sums_without(norm: Norm) -> list[int]:
    return sums_of(CONFIDENTIAL, norm)


@given(value=anything, other=anything, weight=st.floats(0, 1e300), norm=st.sampled_from([1, 2]))
def test_a_record_of_any_content_passes_through_the_equation(
    value: float, other: float, weight: float, norm: Norm
) -> None:
    """The expressions of a regression, and of Gini's coefficient, on a record that holds anything:
    no error, no leap."""
    row = CONFIDENTIAL[:1].with_columns(y=pl.lit(value), x=pl.lit(other), w=pl.lit(weight))
    before, after = sums_without(norm), sums_of(pl.concat([CONFIDENTIAL, row]), norm)
    moved = [abs(int(a) - int(b)) for a, b in zip(after, before, strict=True)]
    size = sum(moved) if norm == 1 else math.sqrt(sum(m * m for m in moved))
    assert size <= sensitivity(3)


SYNTHETIC = people(300, 1)
CONFIDENTIAL = people(20, 2).select("x", "y", "w")
QUESTIONS = (
    InfluenceQuestion(
        RegressionEquation(Gaussian(), 1, (0, 1)), lambda t: {"y": t["y"], "x0": t["x"]}
    ),
    InfluenceQuestion(GiniEquation(), lambda t: {"y": t["x"]}),
)
RELEASED = [released_at(question, [SyntheticFile(survey(SYNTHETIC))])[0] for question in QUESTIONS]


# -- the clip ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "norm"), [(1, 1), (3, 1), (3, 2)])
def test_the_clip_has_the_least_error_of_all(count: int, norm: Norm) -> None:
    """Against the definition, computed plainly for many clips."""
    made = np.random.default_rng(4).standard_t(3, (2000, count)) / 30
    files, units, noise = 2, 1000.0, 100.0
    chosen = choose_clip(made, units, files, noise, norm)
    lengths = norms(made, norm)
    assert np.sum(lengths > chosen.size) > TOP * files  # where nothing is continued

    def sides(influences: np.ndarray, size: float) -> np.ndarray:
        cut = influences - clipped(influences, size, norm)
        return units / len(made) * np.array([np.maximum(s * cut, 0).sum(axis=0) for s in (1, -1)])

    def parts(size: float) -> tuple[np.ndarray, np.ndarray]:
        cut = made - clipped(made, size, norm)
        more = sides(LONGER * made, size) - sides(made, size)
        return (1 + 1 / files) * units * cut.var(axis=0), (more**2).sum(axis=0)

    def error(size: float) -> float:
        return count * noise * size**2 + float(np.sum(parts(size)))

    assert chosen.touched == np.mean(lengths > chosen.size)
    assert chosen.noise_variance == pytest.approx(noise * chosen.size**2)
    assert chosen.spread**2 == pytest.approx(parts(chosen.size)[0])
    assert chosen.tail**2 == pytest.approx(parts(chosen.size)[1])
    assert chosen.cut_se**2 == pytest.approx(sum(parts(chosen.size)))
    others = [error(size) for size in np.quantile(lengths, np.linspace(0.5, 0.98, 300))]
    assert error(chosen.size) <= 1.002 * min(others)


def test_beyond_the_largest_units_the_tail_goes_on() -> None:
    """Quantiles of an exponential: what is cut off of a new file of this law, at large clips."""
    made = stats.expon.isf((np.arange(40_000) + 0.5) / 40_000)[:, None]
    chosen = choose_clip(made, 10_000.0, 4, 1e-3)
    assert chosen.size > np.sort(made[:, 0])[-TOP * 4]
    expected = 10_000 * np.exp(-chosen.size / LONGER) * LONGER - 10_000 * np.exp(-chosen.size)
    assert chosen.tail[0] == pytest.approx(expected, rel=0.05)
    even = choose_clip(np.full((5000, 1), 0.01), 5000.0, 1, 8.0)
    assert even.size < LONGER * 0.01 * 1.05  # influences of one size have no tail
    for few in (1, 3):  # nor have fewer units than a tail is continued over
        assert choose_clip(np.full((few, 1), 0.01), few, 1, 8.0).size < LONGER * 0.01 * 1.05
    assert even.touched == 0


def test_heavier_tails_and_more_epsilon_clip_further_out() -> None:
    draw = np.random.default_rng(4)
    light, heavy = draw.normal(size=(4000, 1)) / 60, draw.standard_t(2, (4000, 1)) / 60
    small = [choose_clip(made, 4000, 1, 8.0).size for made in (light, heavy)]
    assert small[0] < small[1]
    assert choose_clip(heavy, 4000, 1, 8.0 / 100).size > small[1]
    assert choose_clip(heavy, 4000, 1, 1e-9).touched == 0


def test_influences_that_are_all_zero_have_a_clip() -> None:
    assert choose_clip(np.zeros((5, 1)), 5, 1, 8.0).touched == 0
