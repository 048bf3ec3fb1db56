"""Partition estimates against direct sums in NumPy, and against SciPy for the fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from verification_samples import BOOK, make_frame, make_query, make_survey

from understudy.verify import partition_pass
from understudy.verify.confidential import ConfidentialData
from understudy.verify.partitions import PARTITION, new_key, with_partition

pytestmark = pytest.mark.usefixtures("stand_in_keys")

Parts = list[dict[str, np.ndarray]]


def both(data: ConfidentialData, frame: pl.DataFrame, **changes: Any) -> tuple[np.ndarray, Parts]:
    """Our estimates, and the same partitions as plain arrays."""
    query = make_query(**changes)
    table, factor = partition_pass.assign_partitions(data, query)
    with patch.object(data.pool, "run", wraps=data.pool.run) as workers:
        ours = partition_pass.partition_estimates(data, query, table, factor, 120.0)
    assert (
        workers.called == query.estimand.fitted
    )  # only then has the slot time for them (threat 7)
    keyed = table.select("__unit_number", PARTITION).to_polars().unique()
    numbered = frame.with_columns(row=pl.lit(1)).select(frame.columns)
    order = data.records.select("__unit_number", "income", "w").to_polars()
    joined = order.join(numbered, on=["income", "w"]).join(keyed, on="__unit_number")
    assert len(joined) == len(frame)
    parts = [
        {c: group[c].to_numpy() for c in frame.columns}
        for k in range(query.count)
        for group in [joined.filter(pl.col(PARTITION) == k)]
    ]
    return ours, parts


def mean(part: dict[str, np.ndarray], keep: np.ndarray) -> float:
    return float(np.sum((part["w"] * part["income"])[keep]) / np.sum(part["w"][keep]))


def test_mean_in_a_domain(data: ConfidentialData, frame: pl.DataFrame) -> None:
    domain = {"region": ["North", "East"], "sex": [2]}
    ours, parts = both(data, frame, domain=domain)
    direct = [mean(p, np.isin(p["region"], ["North", "East"]) & (p["sex"] == 2)) for p in parts]
    np.testing.assert_allclose(ours, direct, rtol=1e-10)


@pytest.mark.parametrize("partitioning", ["hash", "equal-size"])
def test_total_without_a_public_population(
    data: ConfidentialData, frame: pl.DataFrame, partitioning: str
) -> None:
    ours, parts = both(
        data, frame, estimator="total", domain={"sex": [1]}, partitioning=partitioning
    )
    sums = np.array([np.sum((p["w"] * p["income"])[p["sex"] == 1]) for p in parts])
    sizes = np.array([len(p["w"]) for p in parts])
    factor = 10.0 if partitioning == "hash" else len(frame) / sizes
    np.testing.assert_allclose(ours, factor * sums, rtol=1e-10)
    if partitioning == "hash":
        whole = np.sum((frame["w"] * frame["income"]).to_numpy()[frame["sex"].to_numpy() == 1])
        np.testing.assert_allclose(ours.mean(), whole, rtol=1e-10)  # exactly the estimator
    else:
        assert sizes.max() - sizes.min() <= 1


def test_total_with_a_public_population(frame: pl.DataFrame) -> None:
    survey = make_survey(frame, replace(BOOK, population_size=1e6))
    with ConfidentialData("survey", survey) as data:
        ours, parts = both(data, frame, estimator="total", domain={"sex": [1]})
    direct = [1e6 * np.sum((p["w"] * p["income"])[p["sex"] == 1]) / np.sum(p["w"]) for p in parts]
    np.testing.assert_allclose(ours, direct, rtol=1e-10)


def test_proportion_ratio_and_difference(data: ConfidentialData, frame: pl.DataFrame) -> None:
    ours, parts = both(data, frame, estimator="proportion", variable="region", level="South")
    direct = [np.sum(p["w"][p["region"] == "South"]) / np.sum(p["w"]) for p in parts]
    np.testing.assert_allclose(ours, direct, rtol=1e-10)

    ours, parts = both(data, frame, estimator="ratio", denominator="hours")
    direct = [np.sum(p["w"] * p["income"]) / np.sum(p["w"] * p["hours"]) for p in parts]
    np.testing.assert_allclose(ours, direct, rtol=1e-10)

    ours, parts = both(
        data, frame, estimator="difference", domain={"sex": [2]}, versus={"sex": [1]}
    )
    direct = [mean(p, p["sex"] == 2) - mean(p, p["sex"] == 1) for p in parts]
    np.testing.assert_allclose(ours, direct, rtol=1e-9)

    changes = {
        "variable": "region",
        "level": "East",
        "domain": {"sex": [2]},
        "versus": {"sex": [1]},
    }
    ours, parts = both(data, frame, estimator="difference", **changes)
    share = [
        [
            np.sum((p["w"] * (p["region"] == "East"))[p["sex"] == s])
            / np.sum(p["w"][p["sex"] == s])
            for s in (2, 1)
        ]
        for p in parts
    ]
    np.testing.assert_allclose(ours, [a - b for a, b in share], rtol=1e-9)


def test_quantile_is_the_inverse_of_the_weighted_distribution(
    data: ConfidentialData, frame: pl.DataFrame
) -> None:
    ours, parts = both(data, frame, estimator="quantile", probability=0.3)
    for value, part in zip(ours, parts, strict=True):
        share = np.sum(part["w"]) * 0.3
        assert np.sum(part["w"][part["income"] < value]) < share
        assert np.sum(part["w"][part["income"] <= value]) >= share


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e9])
def test_correlation_is_that_of_numpy_whatever_the_unit(frame: pl.DataFrame, unit: float) -> None:
    rescaled = frame.with_columns(income=unit * pl.col("income"))
    with ConfidentialData("survey", make_survey(rescaled)) as data:
        ours, parts = both(data, rescaled, estimator="correlation", other="hours")
    for value, part in zip(ours, parts, strict=True):
        moments = np.cov(part["income"], part["hours"], aweights=part["w"])
        expected = moments[0, 1] / np.sqrt(moments[0, 0] * moments[1, 1])
        assert value == pytest.approx(expected, rel=1e-10)


def test_gini_is_the_mean_distance_of_all_pairs(
    data: ConfidentialData, frame: pl.DataFrame
) -> None:
    ours, parts = both(data, frame, estimator="gini", variable="hours", domain={"sex": [2]})
    for value, part in zip(ours, parts, strict=True):
        w, x = (part[name][part["sex"] == 2].astype(float) for name in ("w", "hours"))
        apart = np.outer(w, w) * np.abs(x[:, None] - x[None, :])
        assert value == pytest.approx(apart.sum() / (2 * w.sum() * (w @ x)), rel=1e-10)


def regression_arrays(part: dict[str, np.ndarray]) -> np.ndarray:
    columns = [np.ones(len(part["w"])), part["hours"]]
    columns += [part["region"] == level for level in ("South", "East")]
    return np.column_stack(columns).astype(float)


def test_linear_coefficient_is_least_squares(data: ConfidentialData, frame: pl.DataFrame) -> None:
    changes = {"predictors": ["hours", "region"], "coefficient": "region"}
    ours, parts = both(data, frame, estimator="linear", coefficient_level="East", **changes)
    for value, part in zip(ours, parts, strict=True):
        root = np.sqrt(part["w"])
        X = regression_arrays(part) * root[:, None]
        direct = np.linalg.lstsq(X, root * part["income"], rcond=None)[0]
        assert value == pytest.approx(direct[3], rel=1e-8)


def test_logistic_coefficient_is_maximum_likelihood(
    data: ConfidentialData, frame: pl.DataFrame
) -> None:
    changes = {"variable": "sex", "level": 2, "predictors": ["region", "hours"]}
    ours, parts = both(data, frame, estimator="logistic", coefficient="hours", **changes)
    part = parts[0]
    X = regression_arrays(part)
    X[:, 1] = (X[:, 1] - 35) / 10

    def loss(b: np.ndarray) -> float:
        z = X @ b
        return float(np.sum(part["w"] * (np.logaddexp(0, z) - (part["sex"] == 2) * z)))

    direct = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-6}).x
    assert ours[0] == pytest.approx(direct[1] / 10, abs=1e-6)


def test_partitions_without_an_estimate_are_nan(frame: pl.DataFrame) -> None:
    few = frame.filter(pl.col("region") == "East").head(4)
    rest = frame.filter(pl.col("region") != "East").head(200)
    with ConfidentialData("survey", make_survey(pl.concat([few, rest]))) as data:
        for changes in (
            {"domain": {"region": ["East"]}},
            {"estimator": "quantile", "probability": 0.5, "domain": {"region": ["East"]}},
            {
                "estimator": "linear",
                "predictors": ["region"],
                "coefficient": "region",
                "coefficient_level": "East",
            },
        ):
            query = make_query(**changes)
            table, factor = partition_pass.assign_partitions(data, query)
            estimates = partition_pass.partition_estimates(data, query, table, factor, 120.0)
            assert np.isnan(estimates).sum() >= 6
            assert estimates.shape == (10,)


def test_missing_values_leave_their_record_out_and_nothing_else(frame: pl.DataFrame) -> None:
    holed = frame.with_columns(
        income=pl.when(pl.col("person") % 3 == 0)
        .then(None)
        .when(pl.col("person") % 3 == 1)
        .then(float("nan"))
        .otherwise(pl.col("income")),
        region=pl.when(pl.col("person") % 5 == 0).then(None).otherwise(pl.col("region")),
    )
    query = make_query(domain={"region": ["North"]}, partitions=2)
    with ConfidentialData("survey", make_survey(holed)) as data:
        table, factor = partition_pass.assign_partitions(data, query)
        estimates = partition_pass.partition_estimates(data, query, table, factor, 120.0)
        keyed = table.select("income", "w", "region", PARTITION).to_polars()
    for k in range(2):
        part = keyed.filter(
            pl.col("income").is_not_null()
            & (pl.col("region") == "North")
            & (pl.col(PARTITION) == k)
        )
        w = part["w"].to_numpy()
        assert estimates[k] == pytest.approx(
            np.sum(w * part["income"].to_numpy()) / w.sum(), rel=1e-10
        )


def test_a_ratio_leaves_out_records_without_either_value(frame: pl.DataFrame) -> None:
    holed = frame.with_columns(
        income=pl.when(pl.col("person") % 3 == 0).then(None).otherwise(pl.col("income")),
        hours=pl.when(pl.col("person") % 4 == 0).then(None).otherwise(pl.col("hours")),
    )
    query = make_query(estimator="ratio", denominator="hours", partitions=2)
    with ConfidentialData("survey", make_survey(holed)) as data:
        table, factor = partition_pass.assign_partitions(data, query)
        estimates = partition_pass.partition_estimates(data, query, table, factor, 3.0)
        keyed = table.select("income", "hours", "w", PARTITION).to_polars().drop_nulls()
    for k in range(2):
        part = keyed.filter(pl.col(PARTITION) == k)
        direct = (part["w"] * part["income"]).sum() / (part["w"] * part["hours"]).sum()
        assert estimates[k] == pytest.approx(direct, rel=1e-10)


def test_sums_do_not_depend_on_the_order_of_rows_to_the_last_bit() -> None:
    frame = make_frame(300_000, seed=3).with_columns(pl.col("income") * 1e7 + 0.1)
    key = new_key()
    estimates = []
    for seed in (1, 2):
        shuffled = frame.sample(fraction=1.0, shuffle=True, seed=seed)
        with ConfidentialData("survey", make_survey(shuffled)) as data:
            query = make_query(estimate=1.2e9, se=1e6)
            table = with_partition(data.records, key, 10)
            estimates.append(
                partition_pass.partition_estimates(data, query, table, np.ones(10), 1.2e9)
            )
    assert np.array_equal(estimates[0], estimates[1])


def test_households_stay_together() -> None:
    frame = make_frame(600).with_columns(person=pl.col("person") // 4)
    with ConfidentialData("survey", make_survey(frame)) as data:
        for partitioning in ("hash", "equal-size"):
            query = make_query(partitioning=partitioning)
            table, _ = partition_pass.assign_partitions(data, query)
            pairs = table.select("__unit_number", PARTITION).to_polars().unique()
            assert len(pairs) == data.units == 150


def test_one_code_for_data_left_in_place(frame: pl.DataFrame, data: ConfidentialData) -> None:
    key = new_key()
    query = make_query()
    with ConfidentialData("survey", make_survey(frame), kept="source") as other:
        estimates = [
            partition_pass.partition_estimates(
                d, query, with_partition(d.records, key, 10), np.ones(10), 120.0
            )
            for d in (data, other)
        ]
    assert np.array_equal(estimates[0], estimates[1])
