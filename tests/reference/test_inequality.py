"""Poverty and inequality: laeken's values (inequality.R), and derivatives taken numerically."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.stats

import understudy as us
from understudy.errors import Refused
from understudy.tables.expression import Expression
from understudy.tables.record_statistic import density
from understudy.tables.statistics.gini import Gini
from understudy.tables.statistics.poverty_rate import PovertyRate
from understudy.tables.statistics.quintile_share_ratio import QuintileShareRatio

HERE = Path(__file__).parent
NUMBERS = pl.read_csv(HERE / "inequality_r.csv").with_columns(pl.col(pl.String).fill_null(""))
DESIGNS = {
    "stratified": us.Design("w", "h", fpc="N_h"),
    "clustered": us.Design("w", "h", "cluster"),
}
QUANTILES = (
    pl.read_csv(HERE / "survey_r.csv", infer_schema_length=None)
    .with_columns(pl.col(pl.String).fill_null(""))
    .filter(pl.col("interval") == "quantile", pl.col("where") == "", pl.col("note") == "")
)


@pytest.mark.parametrize("data", DESIGNS)
@pytest.mark.parametrize("statistic", ["gini", "quintile_share_ratio", "poverty_rate"])
def test_values_are_those_of_laeken(data: str, statistic: str) -> None:
    survey = us.Survey(pl.read_csv(HERE / "data" / f"{data}.csv"), DESIGNS[data])
    expected = NUMBERS.filter(pl.col("data") == data, pl.col("statistic") == statistic)
    table = us.tabulate(survey, f"{statistic}(x)", by="a", margins=True)
    ours = dict(zip(table["a"], table["estimate"], strict=True))
    for level, value in zip(expected["level"], expected["value"], strict=True):
        assert ours[level or "All"] == pytest.approx(value, rel=1e-10)
    assert (table["se"] > 0).all()


def sample(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    return rng.lognormal(3, 0.6, n), rng.uniform(0.5, 3, n)


def test_the_derivative_of_gini_is_exact() -> None:
    x, w = sample()
    x[:40] = x[40:80]  # ties
    cell = np.arange(len(x)) % 3 > 0
    statistic = Gini("gini(x)", Expression("x"))
    ours = statistic.derivative(x, w, cell)
    for k in range(0, len(x), 17):
        up, down = w.copy(), w.copy()
        up[k], down[k] = w[k] + 1e-3, w[k] - 1e-3
        slope = (statistic.value(x, up, cell) - statistic.value(x, down, cell)) / 2e-3
        assert ours[k] == pytest.approx(slope, abs=1e-6 * np.abs(ours).max())
    # scaling all weights changes nothing
    assert w @ ours == pytest.approx(0, abs=1e-12)


def test_the_derivatives_of_the_shares_are_exact() -> None:
    """Of the two sums that take the unit on the edge by the part of it that is inside, which are
    continuous in the weights."""
    x, w = sample()
    statistic, everyone = QuintileShareRatio("q", Expression("x")), np.ones(len(x), dtype=bool)
    order = np.argsort(x)

    def fifths(w: np.ndarray) -> np.ndarray:
        xs, ws, upto = x[order], w[order], np.cumsum(w[order])
        poor = np.clip(0.2 * upto[-1] - (upto - ws), 0, ws) @ xs
        rich = np.clip(upto - 0.8 * upto[-1], 0, ws) @ xs
        return np.array([poor, rich])

    moved = np.array([fifths(w + 1e-6 * e) - fifths(w - 1e-6 * e) for e in np.eye(len(x))]) / 2e-6
    below = w @ (x * (x <= us.tabulate(us.Survey(pl.DataFrame({"x": x, "w": w}), us.Design("w")),
                                       "quantile(x, 0.2)")["estimate"][0]))  # fmt: skip
    ratio = statistic.value(x, w, everyone)
    expected = (moved[:, 1] - ratio * moved[:, 0]) / below
    ours = statistic.derivative(x, w, everyone)
    np.testing.assert_allclose(ours, expected, atol=1e-6 * np.abs(ours).max())


def kernel_density(x: np.ndarray, w: np.ndarray, at: float) -> float:
    """SciPy's, which counts its width in standard deviations; quantiles are NumPy's."""
    low, high = np.quantile(x, (0.25, 0.75), weights=w, method="inverted_cdf")
    width = 0.79 * (high - low) * len(x) ** -0.2
    deviation = np.sqrt(np.cov(x, aweights=w))
    return float(scipy.stats.gaussian_kde(x, width / deviation, weights=w)(at)[0])


def test_the_derivative_of_a_poverty_rate_is_devilles() -> None:
    """In a cell whose weights and densities are not those of the whole table. Weights are equal
    where their common scale is changed: half of them are then below the median."""
    x, w = sample()
    cell = (np.arange(len(x)) % 3 > 0) & (x < 40)
    statistic = PovertyRate("poverty_rate(x)", Expression("x"))
    median = np.quantile(x, 0.5, weights=w, method="inverted_cdf")
    line = 0.6 * median
    assert density(x, w, median) == pytest.approx(kernel_density(x, w, median), rel=1e-9)
    slope = 0.6 * kernel_density(x[cell], w[cell], line) / kernel_density(x, w, median)
    rate = np.average(x[cell] < line, weights=w[cell])
    expected = np.where(cell, (x < line) - rate, 0.0) / w[cell].sum()
    expected -= slope * ((x <= median) - 0.5) / w.sum()
    np.testing.assert_allclose(statistic.derivative(x, w, cell), expected, rtol=1e-9)
    assert statistic.derivative(x, np.ones(len(x)), cell).sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", [PovertyRate, QuintileShareRatio, Gini])
def test_the_linearised_error_is_that_of_the_bootstrap(kind: type) -> None:
    """300 resamples know an error to 4 %; the kernel's bias and the edges take the rest."""
    x, _ = sample(1500)
    w, everyone = np.ones(1500), np.ones(1500, dtype=bool)
    statistic = kind("s", Expression("x"))
    linear = statistic.derivative(x, w, everyone)
    se = np.sqrt(1500 * np.var(linear, ddof=1))
    rng = np.random.default_rng(2)
    redrawn = [
        statistic.value(x, rng.multinomial(1500, w / 1500).astype(float), everyone)
        for _ in range(300)
    ]
    assert se == pytest.approx(np.std(redrawn, ddof=1), rel=0.2)


def test_gini_of_a_closed_form() -> None:
    """Half the mean difference of all pairs over the mean."""
    frame = pl.DataFrame({"x": np.arange(1, 101)})
    gini = us.tabulate(us.Survey(frame), "gini(x)")["estimate"][0]
    pairs = np.abs(np.subtract.outer(np.arange(1, 101), np.arange(1, 101))).mean()
    assert gini == pytest.approx(pairs / (2 * 50.5))
    with pytest.raises(Refused, match="not negative"):
        us.tabulate(us.Survey(frame.with_columns(x=-pl.col("x"))), "gini(x)")
    equal = us.tabulate(us.Survey(frame.with_columns(x=5.0)), "gini(x)")
    assert equal["estimate"][0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("design", "kind", "prefix", "fay"),
    [("brr_estimate", "brr", "brr", None), ("fay_mean", "fay", "fay", 0.3),
     ("sdr_estimate", "sdr", "sdr", None), ("bootstrap_mean", "bootstrap", "boot", None)],
)  # fmt: skip
def test_replicated_quantiles_are_those_of_r(
    design: str, kind: str, prefix: str, fay: float | None
) -> None:
    rows = QUANTILES.filter(pl.col("design") == design)
    centre = design.partition("_")[2]
    replicates = us.Replicates(prefix=prefix, kind=kind, fay=fay, centre=centre)  # type: ignore[arg-type]
    frame = pl.read_csv(HERE / "data" / f"{rows['data'][0]}.csv", infer_schema_length=None)
    survey = us.Survey(frame, us.Design("w", replicates=replicates))
    for by in (None, "a"):
        expected = rows.filter(pl.col("by") == (by or ""))
        texts = [f"replicated_{text}" for text in expected["statistic"].unique(maintain_order=True)]
        table = us.tabulate(survey, texts, by=by or (), intervals="t")
        key = "" if by is None else pl.col("a")
        table = table.with_columns(levels=pl.lit("") if by is None else key)
        for row in expected.rows(named=True):
            (ours,) = table.filter(
                pl.col("statistic") == f"replicated_{row['statistic']}",
                pl.col("levels") == (row["levels"] or ""),
            ).rows(named=True)
            for number in ("estimate", "se", "lower", "upper"):
                assert ours[number] == pytest.approx(row[number], rel=1e-6, nan_ok=True)


def test_replicated_quantiles_need_replicates() -> None:
    survey = us.Survey(pl.read_csv(HERE / "data/stratified.csv"), us.Design("w", "h"))
    with pytest.raises(Refused, match="needs replicate weights"):
        us.tabulate(survey, "replicated_quantile(x, 0.5)")


def test_ginis_are_compared() -> None:
    survey = us.Survey(pl.read_csv(HERE / "data/clustered.csv"), us.Design("w", "h", "cluster"))
    table = us.tabulate(survey, "gini(x)", by="a")
    contrast = us.contrast(survey, "gini(x)", "a", {level: {level: 1} for level in table["a"]})
    assert contrast["se"].to_list() == pytest.approx(table["se"].to_list(), rel=1e-9)
    assert us.contrast(survey, "gini(x)", "a").height == 3
