"""pMSE against closed forms of saturated regressions, SciPy, and its null distribution."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

from understudy import Refused, Survey
from understudy.utility import propensity
from understudy.utility.propensity import fitted_probabilities, propensity_score


def cells_by_hand(ours, theirs):
    """A saturated regression fits each cell's share: sum_cell n_cell (share - c)^2 / N."""
    pooled = np.concatenate([ours, theirs])
    is_synthetic = np.repeat([0, 1], [len(ours), len(theirs)])
    c = is_synthetic.mean()
    return sum(
        (pooled == level).sum() * (is_synthetic[pooled == level].mean() - c) ** 2
        for level in np.unique(pooled)
    ) / len(pooled)


def test_levels_of_one_column_give_the_closed_form():
    rng = np.random.default_rng(1)
    ours = rng.choice(["a", "b", "c", "d"], 300, p=[0.4, 0.3, 0.2, 0.1])
    theirs = rng.choice(["a", "b", "c", "d"], 500)
    score = propensity_score(pl.DataFrame({"x": ours}), pl.DataFrame({"x": theirs}), ["x"])
    by_hand = cells_by_hand(ours, theirs)
    assert score.pmse == pytest.approx(by_hand, rel=1e-9)
    assert score.terms == 3
    c = 500 / 800
    assert score.synthetic_share == c
    # Snoke et al. 2018: (k - 1)(1 - c)^2 c / N, sd sqrt(2(k - 1))(1 - c)^2 c / N
    unit = (1 - c) ** 2 * c / 800
    assert score.ratio == pytest.approx(by_hand / (3 * unit), rel=1e-9)
    assert score.standardised == pytest.approx((by_hand - 3 * unit) / (np.sqrt(6) * unit), rel=1e-9)


def test_two_columns_with_interactions_are_saturated_too():
    rng = np.random.default_rng(2)
    ours = pl.DataFrame({"s": rng.choice(["f", "m"], 200), "r": rng.choice(["n", "s"], 200)})
    theirs = pl.DataFrame({"s": rng.choice(["f", "m"], 200), "r": ["n", "s"] * 100})
    score = propensity_score(ours, theirs, ["s", "r"], interactions=True)
    joined = [(f["s"] + f["r"]).to_numpy() for f in (ours, theirs)]
    assert score.pmse == pytest.approx(cells_by_hand(*joined), rel=1e-9)
    assert len(score.predictors) == 3


def test_classes_of_a_number_are_saturated_and_see_its_shape():
    """Same mean, other spread: a linear term sees nothing, quarters see all of it."""
    rng = np.random.default_rng(9)
    x, z = rng.normal(0, 1, 400), rng.normal(0, 3, 400)
    ours = pl.DataFrame({"x": x - x.mean()})
    theirs = pl.DataFrame({"x": z - z.mean()})
    linear = propensity_score(ours, theirs, ["x"])
    quarters = propensity_score(ours, theirs, ["x"], classes=4)
    ordered = np.sort(np.concatenate([ours["x"], theirs["x"]]))
    codes = [np.searchsorted(ordered, frame["x"]) * 4 // 800 for frame in (ours, theirs)]
    assert linear.ratio < 1
    assert quarters.pmse == pytest.approx(cells_by_hand(*codes), rel=1e-9)
    assert quarters.ratio > 10
    assert quarters.terms == 3


def test_newton_reaches_scipy_s_minimum():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 3))
    outcome = (rng.random(400) < 1 / (1 + np.exp(0.5 - x @ [1.0, -2.0, 0.3]))).astype(float)

    def loss(beta):
        eta = beta[0] + x @ beta[1:]
        return np.sum(np.logaddexp(0, eta) - outcome * eta)

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
    theirs = 1 / (1 + np.exp(-(best[0] + x @ best[1:])))
    np.testing.assert_allclose(fitted_probabilities(x, outcome), theirs, atol=1e-6)


@pytest.mark.parametrize(
    ("rest", "cell"), [((1, 990), (9, 10)), ((1, 90), (9, 10)), ((3, 5000), (19, 20))]
)
def test_a_small_cell_that_is_nearly_all_synthetic_keeps_its_share(rest, cell):
    """Newton's first step overshoots here by far; the saturated fit is each cell's share."""
    x = np.repeat([0.0, 1.0], [rest[1], cell[1]])
    outcome = np.concatenate([np.arange(n) < ones for ones, n in (rest, cell)]).astype(float)
    fitted = fitted_probabilities(x[:, None], outcome)
    expected = np.where(x == 1, cell[0] / cell[1], rest[0] / rest[1])
    np.testing.assert_allclose(fitted, expected, rtol=1e-6)


def test_files_that_separate_reach_the_maximum():
    ours = pl.DataFrame({"x": np.arange(50.0)})
    theirs = pl.DataFrame({"x": np.arange(100.0, 150.0)})
    assert propensity_score(ours, theirs, ["x"]).pmse == pytest.approx(0.25, abs=1e-6)


def test_separated_probabilities_stay_within_the_documented_bounds():
    x = np.concatenate([np.linspace(-9.0, -0.001, 40), np.linspace(0.001, 9.0, 40)])
    fitted = fitted_probabilities(x[:, None], (x > 0).astype(float))
    smallest = 1 / (1 + np.exp(30))
    np.testing.assert_allclose(fitted.min(), smallest, rtol=1e-9)
    np.testing.assert_allclose(1 - fitted.max(), smallest, rtol=1e-2)  # 1 - p in doubles


def test_columns_that_sum_to_the_intercept_count_once():
    """The indicators of `g` and of its opposite sum to 1: one term, not two."""
    rng = np.random.default_rng(11)
    ours, theirs = (
        pl.DataFrame({"g": rng.choice(["a", "b"], 200, p=[share, 1 - share])}).with_columns(
            opposite=pl.when(pl.col("g") == "a").then(pl.lit("z")).otherwise(pl.lit("y"))
        )
        for share in (0.5, 0.7)
    )
    alone = propensity_score(ours, theirs, ["g"])
    both = propensity_score(ours, theirs, ["g", "opposite"])
    assert both.terms == alone.terms == len(both.predictors) == 1
    assert both.pmse == pytest.approx(alone.pmse, rel=1e-9)


def test_the_ratio_is_about_one_when_the_synthesis_is_right():
    """Resampling the confidential file is a correct synthesis; mean of 100 ratios, 4 terms.

    The null says chi-squared(4)/4: the mean of 100 has standard error 0.07.
    """
    rng = np.random.default_rng(4)
    ours = pl.DataFrame(
        {
            "x": rng.normal(size=500),
            "y": rng.lognormal(0, 0.5, 500),
            "g": rng.choice(list("abc"), 500),
        }
    )
    ratios = [
        propensity_score(ours, ours[rng.integers(0, 500, 500)], ["x", "y", "g"]).ratio
        for _ in range(100)
    ]
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.28)


def test_columns_that_were_not_synthesized_do_not_flatter_the_ratio():
    """y* is drawn given x; x stays. Only y's term counts, and the mean ratio stays near 1.

    Both x and y counted, it would be near one half.
    """
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(100):
        x = rng.normal(size=300)
        y = x + rng.normal(size=300)
        ours = pl.DataFrame({"x": x, "y": y})
        slope, level = np.polyfit(x, y, 1)
        drawn = level + slope * x + np.std(y - slope * x) * rng.normal(size=300)
        score = propensity_score(ours, ours.with_columns(y=drawn), ["x", "y"])
        assert score.terms == 1
        ratios.append(score.ratio)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.45)


def test_collinear_constant_and_missing_columns():
    rng = np.random.default_rng(6)
    x = rng.normal(size=100)
    gaps = [None if i % 7 == 0 else float(v) for i, v in enumerate(x)]
    ours = pl.DataFrame({"x": x, "twice": 2 * x, "one": np.ones(100), "gaps": gaps})
    theirs = ours.with_columns(x=rng.normal(size=100)).with_columns(twice=2 * pl.col("x"))
    alone = propensity_score(ours, theirs, ["x"])
    assert propensity_score(ours, theirs, ["x", "twice", "one"]).pmse == pytest.approx(alone.pmse)
    with_gaps = propensity_score(ours, theirs, ["x", "gaps"])
    assert "gaps missing" in with_gaps.predictors
    assert with_gaps.terms == 1


def test_a_column_that_is_wholly_missing_adds_nothing():
    rng = np.random.default_rng(12)
    ours = pl.DataFrame({"x": rng.normal(size=50), "empty": [None] * 50})
    theirs = pl.DataFrame({"x": rng.normal(size=50), "empty": [None] * 50})
    files = [f.with_columns(pl.col("empty").cast(pl.Float64)) for f in (ours, theirs)]
    assert propensity_score(*files, ["x", "empty"]) == propensity_score(*files, ["x"])


def test_surveys_and_pandas_are_taken():
    rng = np.random.default_rng(7)
    ours = pl.DataFrame({"x": rng.normal(size=50), "g": rng.choice(list("ab"), 50)})
    theirs = pl.DataFrame({"x": rng.normal(size=60), "g": rng.choice(list("ab"), 60)})
    plain = propensity_score(ours, theirs, ["x", "g"])
    assert propensity_score(Survey(ours), Survey(theirs), ["x", "g"]) == plain
    assert propensity_score(ours.to_pandas(), theirs.to_pandas(), ["x", "g"]) == plain
    categorical = [f.with_columns(pl.col("g").cast(pl.Categorical)) for f in (ours, theirs)]
    assert propensity_score(*categorical, ["x", "g"]) == plain


def test_bad_columns_are_refused():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "g": ["a", "b", "c"], "one": [1, 1, 1]})
    with pytest.raises(Refused, match="2 or more classes"):
        propensity_score(frame, frame, ["x"], classes=1)
    with pytest.raises(Refused, match="at least one column"):
        propensity_score(frame, frame, [])
    with pytest.raises(Refused, match="Unknown column"):
        propensity_score(frame, frame, ["xx"])
    with pytest.raises(Refused, match="constant"):
        propensity_score(frame, frame, ["one"])
    with pytest.raises(Refused, match="numeric in one file and text in the other"):
        propensity_score(frame, frame.with_columns(x=pl.lit("a")), ["x"])
    dated = frame.with_columns(d=pl.date(2020, 1, 1))
    with pytest.raises(Refused, match="neither numeric nor text"):
        propensity_score(dated, dated, ["d"])
    with pytest.raises(Refused, match="infinite"):
        propensity_score(frame.with_columns(x=pl.lit(np.inf)), frame, ["x"])
    many = pl.DataFrame({"g": [str(i) for i in range(3000)]})
    with pytest.raises(Refused, match="3000 levels"):
        propensity_score(many, many, ["g"])
    same = propensity_score(frame, frame, ["x"])
    assert (same.terms, same.expected) == (0, 0.0)
    assert np.isnan([same.ratio, same.standardised]).all()


def test_each_file_needs_two_records():
    ours, theirs = pl.DataFrame({"x": [1.0, 2.0, 3.0]}), pl.DataFrame({"x": [2.0, 4.0]})
    assert propensity_score(ours, theirs, ["x"]).synthetic_share == 0.4
    assert propensity_score(theirs, ours, ["x"]).synthetic_share == 0.6
    for files in ((ours, theirs[:1]), (theirs[:1], ours)):
        with pytest.raises(Refused, match="at least 2 records"):
            propensity_score(*files, ["x"])


def test_a_regression_with_too_many_terms_is_refused(monkeypatch):
    """Levels 4 and 3: 3 + 2 terms alone, 3 * 2 more with interactions."""
    rng = np.random.default_rng(10)
    ours, theirs = (
        pl.DataFrame({"a": rng.choice(list("pqrs"), 300), "b": rng.choice(list("xyz"), 300)})
        for _ in range(2)
    )
    monkeypatch.setattr(propensity, "MOST_TERMS", 11)
    assert len(propensity_score(ours, theirs, ["a", "b"], interactions=True).predictors) == 11
    monkeypatch.setattr(propensity, "MOST_TERMS", 10)
    assert len(propensity_score(ours, theirs, ["a", "b"]).predictors) == 5
    with pytest.raises(Refused, match="11 terms, more than 10"):
        propensity_score(ours, theirs, ["a", "b"], interactions=True)
