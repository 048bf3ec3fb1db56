"""Replicate weights: against Taylor in closed form, R survey, and the textbook variance."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.linalg import hadamard as sylvester

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design, Replicates
from understudy.survey.hadamard import hadamard, hadamard_of_order
from understudy.survey.replicate_weights import (
    MOST_JACKKNIFE,
    add_replicates,
    balanced_factors,
    bootstrap_factors,
    first_stage,
    half_sample_factors,
    jackknife_factors,
)
from understudy.survey.selection import stratified
from understudy.survey.survey import Survey

REFERENCE = Path(__file__).resolve().parents[2] / "reference"
Floats = NDArray[np.float64]

# PSU totals in strata of 3, 4 and 5 (and 2 for the balanced kinds), with and without fpc
STRATUM = np.repeat([0, 1, 2], [3, 4, 5])
PAIRS = np.repeat(np.arange(5), 2)
FRACTION = np.array([0.3, 0.0, 0.75])
PAIR_FRACTION = np.array([0.3, 0.0, 0.75, 0.5, 1.0])


def totals(count: int) -> Floats:
    return np.random.default_rng(count).gamma(2, 50, count)


def taylor(z: Floats, stratum: NDArray[np.int64], fraction: Floats) -> float:
    """sum_h (1 - f_h) n_h/(n_h - 1) sum_c (z_hc - zbar_h)^2, by numpy's own variance."""
    groups = [z[stratum == h] for h in range(len(fraction))]
    return sum((1 - f) * len(g) * g.var(ddof=1) for g, f in zip(groups, fraction, strict=True))


@pytest.mark.parametrize("fraction", [np.zeros(3), FRACTION, np.array([1.0, 0.2, 0.0])])
def test_the_jackknife_of_a_total_is_taylor(fraction: Floats) -> None:
    z = totals(12)
    factors, coefficients = jackknife_factors(STRATUM, fraction)
    variance = (coefficients * (z @ factors - z.sum()) ** 2).sum()
    assert variance == pytest.approx(taylor(z, STRATUM, fraction), rel=1e-12)


@pytest.mark.parametrize("fay", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("replicates", [None, 8, 12, 40])
@pytest.mark.parametrize("fraction", [np.zeros(5), PAIR_FRACTION])
def test_brr_and_fay_of_a_total_are_taylor(
    fay: float, replicates: int | None, fraction: Floats
) -> None:
    z = totals(10)
    factors = balanced_factors(PAIRS, fraction, fay, replicates)
    replicated = z @ factors
    assert factors.shape[1] == (replicates or 8)
    variance = ((replicated - z.sum()) ** 2).mean() / (1 - fay) ** 2
    assert variance == pytest.approx(taylor(z, PAIRS, fraction), rel=1e-12)
    # full balance: the mean of the replicates is the estimate, so either centre will do
    assert replicated.mean() == pytest.approx(z.sum(), rel=1e-12)


def test_brr_weights_are_doubled_or_zero() -> None:
    assert set(np.unique(balanced_factors(PAIRS, np.zeros(5)))) == {0.0, 2.0}


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("f", [0.0, 0.4])
def test_half_samples_over_all_choices_are_taylor(n: int, f: float) -> None:
    z = totals(n)
    rng = np.random.default_rng(1)
    factors = half_sample_factors(np.zeros(n, dtype=np.int64), np.array([f]), 4000, rng)
    choices = np.unique(factors.round(12), axis=1)
    assert choices.shape[1] == factorial(n) // (factorial(n // 2) * factorial(n - n // 2))
    variance = ((z @ choices - z.sum()) ** 2).mean()
    assert variance == pytest.approx((1 - f) * n * z.var(ddof=1), rel=1e-9)


def test_even_half_samples_double_or_drop() -> None:
    # T §2.4: half of the clusters of a stratum, weights doubled, the others 0
    rng = np.random.default_rng(2)
    factors = half_sample_factors(np.repeat([0, 1], [4, 6]), np.zeros(2), 50, rng)
    assert set(np.unique(factors)) == {0.0, 2.0}
    assert ((factors[:4] == 2).sum(axis=0) == 2).all()
    assert ((factors[4:] == 2).sum(axis=0) == 3).all()


@pytest.mark.parametrize("f", [0.0, 0.4])
def test_rao_wu_over_all_draws_is_taylor(f: float) -> None:
    n = 4
    z = totals(n)
    rng = np.random.default_rng(3)
    factors = bootstrap_factors(np.zeros(n, dtype=np.int64), np.array([f]), 5000, rng)
    shrink = np.sqrt(1 - f)
    times = np.unique(((factors - 1 + shrink) / shrink * (n - 1) / n).round(9), axis=1)
    # multinomial probabilities of the numbers of times, from their definition
    chance = np.array(
        [factorial(n - 1) / np.prod([factorial(int(t)) for t in c]) for c in times.T]
    ) / n ** (n - 1)
    assert chance.sum() == pytest.approx(1, rel=1e-9)
    each = z @ (1 - shrink + shrink * n / (n - 1) * times)
    assert (chance * (each - z.sum()) ** 2).sum() == pytest.approx(
        (1 - f) * n * z.var(ddof=1), rel=1e-9
    )


@pytest.mark.parametrize("draw", [bootstrap_factors, half_sample_factors])
def test_bootstraps_choose_evenly_and_independently(draw: Callable[..., Floats]) -> None:
    z = totals(12)
    rng = np.random.default_rng(4)
    factors = draw(STRATUM, FRACTION, 40_000, rng)
    np.testing.assert_allclose(factors.mean(axis=1), 1, atol=0.03)
    # across strata too: relative error of a variance from R draws is about sqrt(2/R) = 0.7 %
    assert np.var(z @ factors, ddof=1) == pytest.approx(taylor(z, STRATUM, FRACTION), rel=0.04)


@pytest.mark.parametrize("draw", [bootstrap_factors, half_sample_factors])
def test_unbiased_for_the_variance_of_a_total(draw: Callable[..., Floats]) -> None:
    """Samples from a finite population: the average estimate is the textbook variance."""
    rng = np.random.default_rng(5)
    strata = np.repeat([0, 1, 2], [12, 9, 20])
    y = rng.gamma(2, 10, 41) + 10 * strata
    sizes = {0: 5, 1: 3, 2: 8}
    big = np.bincount(strata)
    small = np.array(list(sizes.values()))
    truth = sum(
        big[h] ** 2 * (1 - small[h] / big[h]) * y[strata == h].var(ddof=1) / small[h]
        for h in range(3)
    )
    estimates = []
    for _ in range(3000):
        sample = stratified(strata, sizes, rng)
        factors = draw(strata[sample.index], small / big, 10, rng)
        replicated = (sample.weight * y[sample.index]) @ factors
        estimates.append(np.var(replicated, ddof=1))  # kind="bootstrap", centre="mean"
    error = np.mean(estimates) - truth
    assert abs(error) < 4 * np.std(estimates) / np.sqrt(3000)
    assert np.std(estimates) / np.sqrt(3000) < 0.02 * truth


@pytest.mark.parametrize("kind", ["brr", "jkn", "bootstrap", "preston"])
def test_factors_add_up_to_the_number_of_psus(kind: str) -> None:
    rng = np.random.default_rng(6)
    fraction = PAIR_FRACTION if kind == "brr" else FRACTION
    stratum = PAIRS if kind == "brr" else STRATUM
    factors = {
        "brr": lambda: balanced_factors(stratum, fraction, 0.2),
        "jkn": lambda: jackknife_factors(stratum, fraction)[0],
        "bootstrap": lambda: bootstrap_factors(stratum, fraction, 20, rng),
        "preston": lambda: half_sample_factors(stratum, fraction, 20, rng),
    }[kind]()
    assert factors.min() >= 0
    for h in range(len(fraction)):
        inside = factors[stratum == h]
        np.testing.assert_allclose(inside.sum(axis=0), len(inside), rtol=1e-12)


# ---- surveys ------------------------------------------------------------------------------


def read(name: str) -> pl.DataFrame:
    return pl.read_csv(REFERENCE / "data" / f"{name}.csv")


def standard_error(survey: Survey, y: Floats | None, kind: str) -> float:
    """SE of a count (y None), total or mean by the written-out replicate formula."""
    spec = survey.design.replicates
    assert spec is not None
    names = spec.matching(survey.columns, "w")
    frame = survey.frame()
    weights = frame.select(["w", *names]).to_numpy()
    values = np.ones(frame.height) if y is None else y
    known = ~np.isnan(values)
    theta = values[known] @ weights[known]
    if kind == "mean":
        theta = theta / weights[known].sum(axis=0)
    c = {"brr": 1 / len(names), "jk1": 1 - 1 / len(names)}.get(spec.kind, spec.coefficients)
    return float(np.sqrt((np.asarray(c) * (theta[1:] - theta[0]) ** 2).sum()))


MADE = pl.read_csv(REFERENCE / "designs.csv").filter(pl.col("make").is_not_null())


@pytest.mark.parametrize("row", MADE.to_dicts(), ids=MADE["design"].to_list())
def test_made_weights_give_the_standard_errors_of_r(row: dict[str, str]) -> None:
    data = read(row["data"])
    design = Design(
        weight=row["weight"],
        strata=row["strata"],
        psu=row["psu"],
        fpc=row["fpc"],
        nest=row["nest"] == "yes",
    )
    made = add_replicates(Survey(data, design), row["make"])  # type: ignore[arg-type]
    numbers = pl.read_csv(REFERENCE / "survey_r.csv", infer_schema_length=None).filter(
        pl.col("design") == row["design"],
        pl.col("where").fill_null("") == "",
        pl.col("by").fill_null("") == "",
    )
    y = data["y"].to_numpy()
    kinds = {"count": (None, "total"), "total(y)": (y, "total"), "mean(y)": (y, "mean")}
    seen = 0
    for statistic, (values, kind) in kinds.items():
        for se in numbers.filter(pl.col("statistic") == statistic)["se"]:
            assert standard_error(made, values, kind) == pytest.approx(se, rel=1e-9)
            seen += 1
    assert seen == (2 if row["make"] == "brr" else 3)


def test_the_survey_keeps_its_records_and_says_how_to_use_the_weights() -> None:
    data = read("jackknife").select("w", "h", "psu", "y")
    codebook = Codebook({"y": Column("y", missing=(-9,))})
    survey = Survey(data, Design(weight="w", strata="h", psu="psu"), codebook)
    made = add_replicates(survey, "preston", replicates=10, seed=1)
    assert made.design.replicates == Replicates(prefix="rep_", kind="bootstrap", centre="mean")
    assert made.design.strata == "h"
    assert made.columns == (*data.columns, *(f"rep_{r}" for r in range(1, 11)))
    assert made.frame(data.columns).equals(data)
    assert made.codebook["rep_7"].role == "replicate"
    assert made.codebook["y"].missing == (-9,)
    again = add_replicates(survey, "preston", replicates=10, seed=1)
    other = add_replicates(survey, "preston", replicates=10, seed=2)
    assert made.frame().equals(again.frame())
    assert not made.frame().equals(other.frame())


def test_records_of_a_psu_share_their_factor() -> None:
    data = read("pairs").select("w", "h", "psu", "y")
    survey = Survey(data, Design(weight="w", strata="h", psu="psu", nest=True))
    made = add_replicates(survey, "fay", fay=0.3)
    assert made.design.replicates == Replicates(prefix="rep_", kind="fay", fay=0.3)
    frame = made.frame()
    assert len(made.columns) == 4 + 12
    ratio = frame.select("h", "psu", (pl.col("rep_5") / pl.col("w")).round(9).alias("factor"))
    assert set(ratio["factor"]) == {0.3, 1.7}
    assert ratio.unique().height == 22


def test_weight_totals_of_strata_stay_where_psus_weigh_the_same() -> None:
    strata = np.repeat([1, 2], [8, 6])
    data = pl.DataFrame({"h": strata, "w": np.where(strata == 1, 3.0, 5.0)})
    survey = Survey(data, Design(weight="w", strata="h"))
    for kind in ("preston", "bootstrap", "jkn"):
        seed = None if kind == "jkn" else 3
        frame = add_replicates(survey, kind, seed=seed).frame()  # type: ignore[arg-type]
        sums = frame.group_by("h").sum().sort("h").select(pl.col("^rep_.*$")).to_numpy()
        np.testing.assert_allclose(sums, np.array([[24.0], [30.0]]) * np.ones_like(sums))


def test_jk1_with_fpc_carries_it_in_the_coefficients() -> None:
    data = read("jackknife")
    plain = add_replicates(Survey(data, Design(weight="w", psu="psu")), "jk1")
    corrected = add_replicates(Survey(data, Design(weight="w", psu="psu", fpc="N_all")), "jk1")
    assert plain.design.replicates == Replicates(prefix="rep_", kind="jk1")
    spec = corrected.design.replicates
    assert spec is not None
    assert spec.coefficients == pytest.approx([(1 - 16 / 62) * 15 / 16] * 16)


def test_a_certain_psu_does_not_vary() -> None:
    data = read("lonely")
    design = Design(weight="w", strata="h", psu="psu", lonely_psu="certainty")
    frame = add_replicates(Survey(data, design), "bootstrap", 5, seed=1).frame()
    alone = frame.filter(pl.col("h").is_in([2, 5, 7]))
    assert (alone["rep_1"] == alone["w"]).all()
    others = frame.filter(pl.col("h") == 1)
    assert not (others["rep_1"] == others["w"]).all()
    assert len(add_replicates(Survey(data, design), "jkn").columns) == len(data.columns) + 12


def test_psus_are_numbered_inside_strata_and_fractions_read() -> None:
    data = read("clustered")
    nested = first_stage(data, Design(weight="w", strata="h", psu="psu", fpc="f_psu", nest=True))
    unique = first_stage(data, Design(weight="w", strata="h", psu="cluster", fpc="N_psu"))
    np.testing.assert_array_equal(nested.psu, unique.psu)
    np.testing.assert_array_equal(nested.counts, [3, 4, 5, 4, 3, 5])
    np.testing.assert_allclose(nested.fraction, unique.fraction, rtol=1e-12)
    assert nested.fraction[0] == pytest.approx(3 / 20)


# ---- Hadamard matrices ----------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 4, 8, 12, 16, 20, 24, 28, 36, 40, 60, 64, 76, 80, 96])
def test_rows_are_orthogonal(order: int) -> None:
    matrix = hadamard_of_order(order)
    assert matrix is not None
    assert set(np.unique(matrix)) <= {-1, 1}
    np.testing.assert_array_equal(matrix @ matrix.T, order * np.eye(order))
    assert (matrix[0] == 1).all()
    assert np.abs(np.linalg.slogdet(matrix)[1]) == pytest.approx(order * np.log(order) / 2)


def test_the_smallest_order_is_taken() -> None:
    assert [len(hadamard(k)) for k in (1, 3, 5, 9, 13, 33, 41)] == [1, 4, 8, 12, 16, 36, 44]
    assert hadamard_of_order(0) is hadamard_of_order(6) is None
    assert np.abs(np.linalg.det(sylvester(8))) == pytest.approx(np.abs(np.linalg.det(hadamard(8))))


# ---- refusals ---------------------------------------------------------------------------------


def survey_of(data: str, **design: object) -> Survey:
    return Survey(read(data), Design(**{"weight": "w", **design}))  # type: ignore[arg-type]


STRATIFIED = {"strata": "h", "psu": "psu"}
REFUSALS = {
    "BRR without pairs": (
        lambda: add_replicates(survey_of("jackknife", **STRATIFIED), "brr"),
        "two",
    ),
    "BRR without strata": (
        lambda: add_replicates(survey_of("jackknife", psu="psu"), "brr"),
        "strata",
    ),
    "JK1 with strata": (
        lambda: add_replicates(survey_of("jackknife", **STRATIFIED), "jk1"),
        "'jkn'",
    ),
    "no seed": (lambda: add_replicates(survey_of("jackknife", **STRATIFIED), "preston"), "seed"),
    "one replicate": (
        lambda: add_replicates(survey_of("jackknife", **STRATIFIED), "bootstrap", 1, seed=1),
        "two replicates",
    ),
    "number of a jackknife": (
        lambda: add_replicates(survey_of("jackknife", **STRATIFIED), "jkn", 9),
        "one replicate per PSU",
    ),
    "Fay without factor": (
        lambda: add_replicates(survey_of("pairs", **STRATIFIED, nest=True), "fay"),
        "Fay's factor",
    ),
    "unbalanced number": (
        lambda: add_replicates(survey_of("pairs", **STRATIFIED, nest=True), "brr", 8),
        "ask for 12",
    ),
    "lonely PSU": (
        lambda: add_replicates(survey_of("lonely", **STRATIFIED), "jkn"),
        "one sampled PSU",
    ),
    "PSU not nested": (
        lambda: add_replicates(survey_of("pairs", **STRATIFIED), "jkn"),
        "nest=True",
    ),
    "prefix in use": (
        lambda: add_replicates(survey_of("jackknife", **STRATIFIED), "jkn", prefix="boot"),
        "already has a column `boot1`",
    ),
    "replicates already": (
        lambda: add_replicates(
            survey_of("pairs", replicates=Replicates(prefix="brr", kind="brr")), "jk1"
        ),
        "already",
    ),
    "no weight": (
        lambda: add_replicates(Survey(read("jackknife"), Design(psu="psu")), "jk1"),
        "made from a weight",
    ),
    "fpc varies": (
        lambda: add_replicates(survey_of("jackknife", **STRATIFIED, fpc="x"), "jkn"),
        "varies inside a stratum",
    ),
    "fpc below the sample": (
        lambda: add_replicates(survey_of("jackknife", **STRATIFIED, fpc="h"), "jkn"),
        "more PSUs were sampled",
    ),
    "a census": (
        lambda: jackknife_factors(np.zeros(3, dtype=np.int64), np.ones(1)),
        "not a census",
    ),
    "a jackknife of records": (
        lambda: jackknife_factors(np.zeros(MOST_JACKKNIFE + 1, dtype=np.int64), np.zeros(1)),
        "use kind='bootstrap'",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str) -> None:
    call, words = REFUSALS[case]
    with pytest.raises(Refused, match=words):
        call()


def test_missing_psu_is_refused() -> None:
    data = read("jackknife").with_columns(
        pl.when(pl.col("x") > 60).then(None).otherwise(pl.col("psu")).alias("psu")
    )
    with pytest.raises(Refused, match="`psu` is missing"):
        add_replicates(Survey(data, Design(weight="w", strata="h", psu="psu")), "jkn")


def test_an_unknown_kind_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean `preston`"):
        add_replicates(survey_of("jackknife"), "prestn", seed=1)  # type: ignore[arg-type]
