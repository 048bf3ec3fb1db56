"""Weights of whole files: smoothed for estimates, drawn for variances, both on public totals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.mechanisms.whole_file.weights import (
    calibrated,
    drawn_column,
    public_sums,
    smoothed,
)
from understudy.survey.cells import cells_of
from understudy.survey.codebook import Codebook, Column

COLUMNS = {
    "a": Column("a", "sensitive", "categorical", levels=("x", "y", "z"), blanks=False),
    "b": Column("b", "sensitive", "categorical", levels=("u", "v"), blanks=False),
    "w": Column("w", "weight", "continuous", bounds=(1, 100), rounding=0.1),
}
TOTALS = {"x": 20_000.0, "y": 12_000.0, "z": 9_000.0}


def confidential(n: int = 1500) -> us.Survey:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 3, n), rng.integers(0, 2, n)
    w = np.round(np.exp(rng.normal(3 + 0.3 * a, 0.4)).clip(1, 100), 1)
    frame = pl.DataFrame({"a": np.array(["x", "y", "z"])[a], "b": np.array(["u", "v"])[b], "w": w})
    codebook = Codebook(COLUMNS, population_by={"a": TOTALS}, population_size=41_000.0)
    return us.Survey(frame, us.Design(weight="w", strata="a"), codebook)


def test_weights_are_raked_to_public_totals():
    frame = pl.DataFrame({"a": ["x", "x", "y", "y"], "b": [1, 2, 1, 2]})
    codebook = Codebook({}, population_by={"a": {"x": 30.0, "y": 70.0}, "b": {1: 40.0, 2: 60.0}})
    drawn = np.array([1.0, 2.0, 3.0, 4.0])
    weights = calibrated(drawn, public_sums(frame, codebook))
    assert weights[:2].sum() == pytest.approx(30)
    assert weights[[0, 2]].sum() == pytest.approx(40)
    odds = weights[0] * weights[3] / (weights[1] * weights[2])  # raking keeps odds ratios
    assert odds == pytest.approx(4 / 6)
    assert calibrated(drawn, public_sums(frame, Codebook({}))).tolist() == [1, 2, 3, 4]
    of_x = public_sums(frame, Codebook({}, population_by={"a": {"x": 30.0}}))
    assert calibrated(drawn, of_x) == pytest.approx([10, 20, 3, 4])  # others stay as they are


def test_raked_weights_stay_between_the_declared_bounds():
    """Where such weights meet the totals; else totals come first."""
    groups = np.repeat([0, 1], 50)
    weights = np.r_[np.linspace(1, 10, 50), np.linspace(2, 9, 50)]
    totals = [(groups, np.array([400.0, 250.0])), (np.zeros(100, np.int32), np.array([650.0]))]
    free = calibrated(weights, totals)
    assert free.max() > 12
    held = calibrated(weights, totals, (1.0, 12.0))
    assert held.min() >= 1
    assert held.max() == 12
    assert np.bincount(groups, held) == pytest.approx([400, 250], rel=1e-6)
    alike = held < 12  # the others keep their ratios within a group
    assert np.ptp((held / weights)[alike & (groups == 0)]) < 1e-6
    narrow = calibrated(weights, totals, (1.0, 7.0))  # 50 of at most 7 are not 400
    assert narrow.tolist() == free.tolist()
    assert calibrated(weights, [], (3.0, 5.0)).tolist() == weights.tolist()


@pytest.mark.parametrize("rounding", [None, 5.0])
def test_raked_weights_are_not_called_whole_numbers_and_have_their_cells(rounding):
    column = Column("w", "weight", "integer", bounds=(1, 3000), rounding=rounding)
    drawn = drawn_column(column)
    assert drawn.type == "continuous"
    before, after = cells_of(column), cells_of(drawn)
    assert (before.starts, before.multiples) == (after.starts, after.multiples)
    assert drawn_column(drawn) == drawn


def test_smoothed_weights_are_the_means_of_their_cells():
    """One table: the mean of each cell. Two: the sums of both, and no more spread than cells."""
    rng = np.random.default_rng(1)
    drawn, a, b = rng.uniform(1, 9, 300), rng.integers(0, 3, 300), rng.integers(0, 4, 300)
    sums = [(cell, np.bincount(cell, drawn)) for cell in (a, b)]
    once = np.ones(300)
    single = smoothed(drawn, once, [a])
    means = np.bincount(a, drawn) / np.bincount(a)
    assert single == pytest.approx(means[a])
    both = smoothed(drawn, once, [a, b])
    for cell, total in sums:
        assert np.bincount(cell, both) == pytest.approx(total, rel=1e-3)
    assert len(np.unique(both.round(9))) <= 12


@pytest.mark.usefixtures("stand_in_noise")
def test_estimates_use_smoothed_weights_and_variances_the_drawn_ones(monkeypatch):
    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.POOL", 10_000)
    monkeypatch.setattr("understudy.mechanisms.whole_file.measure.SMALL_POOL", 5_000)
    data = confidential()
    result = us.synthesize(data, us.WholeFile(), us.Marginals(5.0, 1e-6), datasets=2, seed=1)
    made = result.datasets[0]
    design = us.Design("w_smoothed", "a", lonely_psu="adjust", variance_weight="w")
    assert made.design == design
    frame = made.frame()
    for name in ("w", "w_smoothed"):
        sums = dict(frame.group_by("a").agg(pl.col(name).sum()).iter_rows())
        assert sums == pytest.approx(TOTALS, rel=1e-6)
    assert frame["w_smoothed"].n_unique() <= 6
    assert frame["w"].is_between(1, 100).all()
    plain = replace(made.codebook, misfit=None)
    tables = {
        name: us.tabulate(
            us.Survey(made.raw, design, book), ["count", 'proportion(b == "u")'], "a"
        ).filter(pl.col("statistic") != "count")
        for name, design, book in (
            ("both", made.design, made.codebook),
            ("smoothed", us.Design(weight="w_smoothed", strata="a"), made.codebook),
            # the misfit is asked for the drawn weight in one and for the smoothed one in the other
            ("both, plain", made.design, plain),
            ("drawn, plain", us.Design(weight="w", strata="a"), plain),
        )
    }
    estimates = {name: table["estimate"].to_list() for name, table in tables.items()}
    assert estimates["both"] == estimates["smoothed"] != estimates["drawn, plain"]
    se = {name: table["se"].to_list() for name, table in tables.items()}
    assert se["both, plain"] == pytest.approx(se["drawn, plain"])
    # with the misfit, too, the variance is not that of the smoothed weights
    assert np.abs(np.log(se["both"]) - np.log(se["smoothed"])).max() > 1e-3
