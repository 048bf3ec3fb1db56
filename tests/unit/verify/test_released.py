"""The synthetic estimate and its standard error against linearisation written out in NumPy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from verification_samples import BOOK, make_frame, make_query, make_survey

from understudy.errors import Refused
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.verify.answer import answer_query
from understudy.verify.confidential import ConfidentialData
from understudy.verify.mistakes import InvalidQuery
from understudy.verify.partition_fit import linear_coefficients, logistic_coefficients
from understudy.verify.released import ReleasedFiles

FRAME = make_frame(400, seed=21)
Y, H, W, SEX = (FRAME[name].to_numpy() for name in ("income", "hours", "w", "sex"))
REGION = FRAME["region"].to_numpy()


def synthetic(book: Any = BOOK, **changes: Any) -> tuple[float, float]:
    files = ReleasedFiles([make_survey(FRAME.drop("person"), book)], book, "partial")
    result = files(make_query(estimate=None, se=None, **changes))
    assert result.se is not None
    return result.estimate, result.se


def se_of(z: np.ndarray) -> float:
    """One stratum, records as PSUs, no fpc (methods §2)."""
    return float(np.sqrt(len(z) / (len(z) - 1) * np.sum((z - z.mean()) ** 2)))


def ratio(x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    value = float(np.sum(W * x) / np.sum(W * y))
    return value, W * (x - value * y) / np.sum(W * y)


def test_mean_proportion_and_ratio() -> None:
    d = (REGION == "North").astype(float)
    value, z = ratio(d * Y, d)
    assert synthetic(domain={"region": ["North"]}) == pytest.approx((value, se_of(z)), rel=1e-9)
    value, z = ratio(d, np.ones(400))
    estimate = synthetic(estimator="proportion", variable="region", level="North")
    assert estimate == pytest.approx((value, se_of(z)), rel=1e-9)
    value, z = ratio(Y, H)
    estimate = synthetic(estimator="ratio", denominator="hours")
    assert estimate == pytest.approx((value, se_of(z)), rel=1e-9)


def test_totals_follow_the_definition_of_the_partitions() -> None:
    d = (SEX == 1).astype(float)
    estimate = synthetic(estimator="total", domain={"sex": [1]})
    assert estimate == pytest.approx((np.sum(W * d * Y), se_of(W * d * Y)), rel=1e-9)
    value, z = ratio(d * Y, np.ones(400))
    known = replace(BOOK, population_size=1e6)
    estimate = synthetic(known, estimator="total", domain={"sex": [1]})
    assert estimate == pytest.approx((1e6 * value, 1e6 * se_of(z)), rel=1e-9)


def test_the_difference_of_two_domains() -> None:
    a, b = (SEX == 2).astype(float), (SEX == 1).astype(float)
    (first, z1), (two, z2) = ratio(a * Y, a), ratio(b * Y, b)
    estimate = synthetic(estimator="difference", domain={"sex": [2]}, versus={"sex": [1]})
    assert estimate == pytest.approx((first - two, se_of(z1 - z2)), rel=1e-6)
    with pytest.raises(InvalidQuery, match="overlap"):
        synthetic(estimator="difference", domain={"sex": [2]}, versus={"region": ["North"]})
    with pytest.raises(InvalidQuery, match="overlap"):
        synthetic(estimator="difference", domain={"sex": [1, 2]}, versus={"sex": [1]})
    c = a * (REGION == "North")
    (first, z1), (two, z2) = ratio(c * Y, c), ratio(b * Y, b)
    domain = {"sex": [2], "region": ["North"]}  # one column apart is enough
    estimate = synthetic(estimator="difference", domain=domain, versus={"sex": [1]})
    assert estimate == pytest.approx((first - two, se_of(z1 - z2)), rel=1e-6)


def test_coefficients_are_those_of_the_partition_fits() -> None:
    X = np.column_stack([np.ones(400), H, REGION == "South", REGION == "East"]).astype(float)
    changes = {"predictors": ["hours", "region"], "coefficient": "region"}
    direct = linear_coefficients(Y, X, W)
    assert direct is not None
    value, se = synthetic(estimator="linear", coefficient_level="East", **changes)
    assert value == pytest.approx(direct[3], rel=1e-8)
    assert se > 0
    direct = logistic_coefficients((SEX == 2).astype(float), X, W)
    assert direct is not None
    value, se = synthetic(
        estimator="logistic", variable="sex", level=2, coefficient_level="South", **changes
    )
    assert value == pytest.approx(direct[2], rel=1e-6)


def test_quantile() -> None:
    value, se = synthetic(estimator="quantile", probability=0.5)
    order = np.argsort(Y)
    reached = np.cumsum(W[order])
    assert value == pytest.approx(Y[order][np.searchsorted(reached, 0.5 * reached[-1])])
    assert se > 0


@pytest.mark.parametrize("rule", ["partial", "full"])
def test_several_files_are_combined(rule: Any) -> None:
    frames = [make_frame(300, seed=s).drop("person") for s in (1, 2, 3)]
    query = make_query(estimate=None, se=None)
    single = [ReleasedFiles([make_survey(f)], BOOK, rule)(query) for f in frames]
    combined = ReleasedFiles([make_survey(f) for f in frames], BOOK, rule)(query)
    q, u = np.array([s.estimate for s in single]), np.array([s.se or 0 for s in single]) ** 2
    between = q.var(ddof=1)
    variance = between / 3 + u.mean() if rule == "partial" else (1 + 1 / 3) * between - u.mean()
    assert combined.estimate == pytest.approx(q.mean())
    if variance > 0:
        assert combined.se == pytest.approx(np.sqrt(variance))


@pytest.mark.any_noise
def test_what_the_files_cannot_give_is_refused_before_anything_is_spent(
    tmp_path: Path, data: ConfidentialData
) -> None:
    files = ReleasedFiles([make_survey(FRAME.drop("person", "hours"))], BOOK, "partial")
    constant = FRAME.drop("person").with_columns(income=pl.lit(5.0))
    flat = ReleasedFiles([make_survey(constant)], BOOK, "partial")
    with Ledger(tmp_path / "l.db") as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "3")
        ledger.add_dataset(data.fingerprint, "survey", "3")
        query = make_query(estimate=None, se=None, estimator="ratio", denominator="hours")
        with pytest.raises(InvalidQuery, match="no column `hours`"):
            answer_query(query, data, ledger, "ann", released=files)
        mean = make_query(estimate=None, se=None)
        with pytest.raises(InvalidQuery, match="no sampling error in the synthetic files"):
            answer_query(mean, data, ledger, "ann", released=flat)
        wide = make_query(
            estimate=None, se=None, measure="discrepancy",
            tolerance={"kind": "percent", "value": 90.0},
        )  # fmt: skip
        with pytest.raises(InvalidQuery, match="wider than the range"):
            answer_query(wide, data, ledger, "ann", released=files)
        assert ledger.budget("user", "ann").spent == 0
        receipt = answer_query(mean, data, ledger, "ann", released=files)
        assert receipt.synthetic.se is not None
        again = answer_query(mean, data, ledger, "ann", released=files)
        assert again.synthetic == receipt.synthetic
        assert again.replayed
    with pytest.raises(Refused, match="at least one file"):
        ReleasedFiles([], BOOK, "partial")
