"""Limits of proportions and counts: R survey's svyciprop, closed forms, scipy's exact test.

The numbers of R are confint(svyciprop(~I(sch.wide == "Yes"), design, method)), survey 4.1.1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import understudy as us
from understudy.errors import Refused
from understudy.tables.intervals import beta_limits, limits_of, log_limits, logit_limits
from understudy.tables.precision import PrecisionRule, precision_rule

STRATIFIED = us.Design(weight="pw", strata="stype", fpc="fpc")
CLUSTERED = us.Design(weight="pw", psu="dnum", fpc="fpc")


@pytest.mark.parametrize(
    ("file", "design", "kind", "lower", "upper"),
    [
        ("apistrat.csv", STRATIFIED, "logit", 0.774539654352, 0.870814854545),
        ("apistrat.csv", STRATIFIED, "beta", 0.774171328597, 0.873431592621),
        ("apistrat.csv", STRATIFIED, "t", 0.779938180973, 0.875957841859),
        ("apiclus1.csv", CLUSTERED, "logit", 0.823798892379, 0.911900077021),
        ("apiclus1.csv", CLUSTERED, "beta", 0.823702210848, 0.914704492127),
        ("apiclus1.csv", CLUSTERED, "t", 0.830650204123, 0.917983675658),
    ],
)
def test_proportions_have_the_limits_of_svyciprop(
    shared_data: Path, file: str, design: us.Design, kind: str, lower: float, upper: float
) -> None:
    survey = us.Survey(pl.read_csv(shared_data / file, null_values=["NA"]), design)
    table = us.tabulate(
        survey, 'proportion(`sch.wide` == "Yes")', intervals={"proportion": kind}, n=True
    )
    # the logit is fitted by iterations in R, which end at 1e-8
    assert table["lower"][0] == pytest.approx(lower, abs=1e-8)
    assert table["upper"][0] == pytest.approx(upper, abs=1e-8)
    assert table["n"][0] == survey.n


def single_cell(*numbers: float) -> list[np.ndarray]:
    return [np.array([float(number)]) for number in numbers]


def test_beta_limits_of_a_simple_sample_are_clopper_and_pearsons() -> None:
    hits, n = 7, 60
    p = hits / n
    exact = stats.binomtest(hits, n).proportion_ci(0.9, "exact")
    lower, upper = beta_limits(*single_cell(p, np.sqrt(p * (1 - p) / n), n - 1, n), 0.9)
    assert (lower[0], upper[0]) == pytest.approx((exact.low, exact.high), rel=1e-12)


@pytest.mark.parametrize("hits", [0, 60])
def test_a_share_of_nothing_or_all_has_the_exact_limits(hits: int) -> None:
    exact = stats.binomtest(hits, 60).proportion_ci(0.95, "exact")
    lower, upper = beta_limits(*single_cell(hits / 60, 0.0, 59, 60), 0.95)
    assert (lower[0], upper[0]) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_a_share_that_the_design_fixes_has_no_width() -> None:
    lower, upper = beta_limits(*single_cell(0.3, 0.0, 59, 60), 0.95)
    assert lower[0] == upper[0] == 0.3


def test_logit_and_log_limits_are_t_limits_on_their_scale() -> None:
    value, se, df = 0.2, 0.05, 17
    t = stats.t.ppf(0.975, df)
    lower, upper = logit_limits(*single_cell(value, se, df, 50), 0.95)
    scale = np.log(np.array([lower[0], upper[0]]) / (1 - np.array([lower[0], upper[0]])))
    assert scale.mean() == pytest.approx(np.log(value / (1 - value)), rel=1e-12)
    assert np.diff(scale)[0] == pytest.approx(2 * t * se / (value * (1 - value)), rel=1e-12)
    lower, upper = log_limits(*single_cell(40.0, 15.0, df, 50), 0.95)
    assert lower[0] * upper[0] == pytest.approx(1600, rel=1e-12)
    assert np.log(upper[0] / lower[0]) == pytest.approx(2 * t * 15 / 40, rel=1e-12)


def test_the_log_limit_of_a_count_near_nothing_stays_a_number() -> None:
    """Continuous where t se is the estimate, and a straight line from there on."""
    t = stats.t.ppf(0.975, 17)
    at, beyond = (
        log_limits(*single_cell(2.0, part * 2.0 / t, 17, 50), 0.95) for part in (1.0, 1 + 1e-9)
    )
    assert at[1][0] == pytest.approx(2 * np.e, rel=1e-12)
    assert beyond[1][0] == pytest.approx(at[1][0], rel=1e-8)
    lower, upper = log_limits(*single_cell(2.0, 30.0, 17, 50), 0.95)
    assert upper[0] == pytest.approx(2 + (np.e - 1) * t * 30, rel=1e-12)
    assert 0 <= lower[0] < 1e-9


def test_where_a_kind_has_no_limits_those_of_t_stand_within_its_range() -> None:
    reach = stats.t.ppf(0.975, 9) * 0.1
    for kind, value, limits in [
        ("logit", 0.0, (0, reach)),
        ("logit", 1.0, (1 - reach, 1)),
        ("log", 0.0, (0, reach)),
        ("log", -2.0, (-2 - reach, -2 + reach)),  # a total below 0 has no range to stay in
    ]:
        lower, upper = limits_of(kind, *single_cell(value, 0.1, 9, 10), 0.95)
        assert (lower[0], upper[0]) == pytest.approx(limits, rel=1e-12)


def test_no_interval_leaves_its_range_unless_t_is_asked_for() -> None:
    """Two records of twelve in a cell and three in all: t limits are below 0, or above 1."""
    frame = pl.DataFrame(
        {
            "w": [1.0, 9.0] * 6,
            "a": ["x", "x", *["y"] * 10],
            "yes": [True, False, *[True] * 9, False],
            "y": [0.0, 0.0, 0.0, *range(9)],
        }
    )
    survey = us.Survey(frame, us.Design(weight="w"))
    asked = ["count", "proportion(yes)", "poverty_rate(y)", "gini(y)", "quintile_share_ratio(y)"]
    t = us.tabulate(survey, asked, by="a", intervals="t")
    assert (t["lower"] < 0).any()
    assert (t.filter(pl.col("statistic").str.starts_with("prop"))["upper"] > 1).any()
    others = frame.with_columns(yes=~pl.col("yes"), a=pl.col("a").reverse())
    several = [survey, us.Survey(others, survey.design)]
    for table in (
        us.tabulate(survey, asked, by="a", margins=True),
        us.tabulate(several, asked, by="a", combine="partial"),
        us.tabulate(several, asked, by="a", combine="imputed"),
    ):
        known = table.drop_nulls("lower")
        assert (known["lower"] >= 0).all()
        assert (known["lower"] <= known["estimate"]).all()
        assert (known["estimate"] <= known["upper"]).all()
        shares = known.filter(pl.col("statistic").str.contains("proportion|poverty|gini"))
        assert (shares["upper"] <= 1).all()


SMALL = us.Survey(
    pl.DataFrame(
        {
            "w": [1.0, 2.0, 1.0, 3.0, 2.0, 1.0],
            "sex": [1, 2, 1, 2, 1, None],
            "y": [5.0, 4.0, None, 2.0, 7.0, 1.0],
        }
    ),
    us.Design(weight="w"),
    us.Codebook(
        {
            "sex": us.Column(
                "sex", type="categorical", levels=(2, 1), value_labels={1: "Men", 2: "Women"}
            )
        }
    ),
)


def test_n_counts_the_records_behind_an_estimate() -> None:
    table = us.tabulate(SMALL, ["count", "mean(y)", "total(y)", "median(y)"], by="sex", n=True)
    counts = {(row["sex"], row["statistic"]): row["n"] for row in table.iter_rows(named=True)}
    assert [counts[1, s] for s in ("count", "mean(y)", "total(y)", "median(y)")] == [3, 2, 2, 2]
    assert [counts[2, s] for s in ("count", "mean(y)")] == [2, 2]


def test_labels_stand_in_the_order_of_the_levels() -> None:
    table = us.tabulate(SMALL, "count", by="sex", labels=True, margins=True)
    assert table["sex"].to_list() == ["Women", "Men", "Missing", "All"]
    assert table["estimate"].to_list() == [5.0, 4.0, 1.0, 10.0]


def test_all_levels_of_a_proportion_at_once_and_a_median_in_a_word() -> None:
    table = us.tabulate(SMALL, ["proportion(sex)", "median(y)"])
    spelled = us.tabulate(
        SMALL, ["proportion(sex == 2)", "proportion(sex == 1)", "quantile(y, 0.5)"]
    )
    assert table["statistic"].to_list() == [
        "proportion(sex == 2)", "proportion(sex == 1)", "median(y)",
    ]  # fmt: skip
    assert table.drop("statistic").equals(spelled.drop("statistic"))


def test_levels_that_are_not_declared_are_those_that_occur() -> None:
    survey = us.Survey(pl.DataFrame({"colour": ['b"l', "r", None, "r"]}))
    table = us.tabulate(survey, "proportion(colour)")
    assert table["statistic"].to_list() == [
        'proportion(colour == "b\\"l")', 'proportion(colour == "r")',
    ]  # fmt: skip
    again = us.tabulate(survey, table["statistic"].to_list())
    assert again["estimate"].to_list() == pytest.approx([1 / 3, 2 / 3])


def test_rules_of_precision() -> None:
    rule = precision_rule({"records": 30, "cv": 0.25})
    assert isinstance(rule, PrecisionRule)
    value, se = np.array([10.0, 10.0, 10.0]), np.array([1.0, 3.0, 1.0])
    flags = rule.flags(np.zeros(3, bool), value, se, np.full(3, 40.0), np.array([99.0, 99.0, 12]))
    assert flags[0] == ""
    assert flags[1] == "low precision: cv 0.30, above 0.25"
    assert flags[2] == "low precision: 12 records, fewer than 30"
    at_one = np.ones(3) * [1.0, 1.0, 0.0], np.array([0.2, 0.3, 0.1])
    flags = rule.flags(np.zeros(3, bool), *at_one, np.full(3, 40.0), np.full(3, 99.0))
    assert flags == ["", *(f"low precision: cv {cv}, above 0.25" for cv in ("0.30", "inf"))]


@pytest.mark.parametrize(
    ("p", "n", "df", "flag"),
    [
        (0.5, 29, 28, "NCHS: not reliable"),  # too few records
        (0.5, 30, 29, "NCHS: not reliable"),  # an interval of more than .30
        (0.5, 60, 59, ""),
        (0.9, 30, 29, ""),  # thirty are enough, also when they come out as 29.999999999999996
        (0.5, 200, 7, "NCHS: for statistical review"),
        (0.02, 100, 99, "NCHS: not reliable"),  # wider than .05 and than 1.3 times the estimate
        (0.02, 1000, 999, ""),
        (0.0, 1000, 999, "NCHS: for statistical review"),
    ],
)
def test_the_standard_of_nchs(p: float, n: int, df: int, flag: str) -> None:
    rule = precision_rule("nchs")
    assert rule is not None
    arrays = single_cell(p, np.sqrt(p * (1 - p) / n), df, n)
    assert rule.flags(np.array([True]), *arrays) == [flag]
    assert rule.flags(np.array([False]), *arrays) == [""]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"intervals": {"mean": "logit"}}, "A mean has no logit interval; it has t."),
        ({"intervals": {"mean": "wald"}}, "wald"),
        ({"intervals": {"count": "log"}}, "count"),
        ({"precision": "cdc"}, "cdc"),
        ({"precision": {"cv": 0}}, "`cv` of `precision` must be a number above 0."),
        ({"precision": {"df": 8}}, "df"),
    ],
)
def test_what_does_not_fit_is_refused(asked: dict, sentence: str) -> None:
    with pytest.raises(Refused) as refusal:
        us.tabulate(SMALL, "mean(y)", **asked)
    assert sentence in str(refusal.value)
