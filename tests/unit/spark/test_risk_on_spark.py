"""Risk by pattern on the workers of Spark: the same bits as in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ibis.expr.types as ir
import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.risk import pieces

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def test_risks_and_weights_are_those_of_the_file_in_memory(
    on_spark: Callable[[str, pl.DataFrame], ir.Table],
) -> None:
    rng, n = np.random.default_rng(3), 800
    frame = pl.DataFrame(
        {
            "id": np.arange(n),
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(20, 40, n),
            "income": np.round(np.exp(rng.normal(10, 0.7, n))),
        }
    )
    noisy = frame.with_columns(income=frame["income"] * np.exp(rng.normal(0, 0.2, n)))
    survey, synthetic = (
        us.Survey(on_spark(name, each)) for name, each in (("real", frame), ("made", noisy))
    )
    asked: dict[str, Any] = {"known": ["sex", "age"], "target": "income"}

    def by_id(table: ir.Table, column: str) -> Any:
        assert table.get_backend().name == "pyspark"
        return table.to_polars().sort("id")[column].to_numpy()

    before = by_id(us.risk_table(survey, **asked, keep=["id"]), "risk")
    np.testing.assert_array_equal(before, us.identification_risk(frame, **asked))
    after = by_id(us.risk_table(survey, [synthetic], **asked, by_id="id"), "risk")
    np.testing.assert_array_equal(after, us.identification_risk(frame, noisy, **asked))
    weights = by_id(us.risk_weight_table(survey, **asked, keep=["id"]), "weight")
    np.testing.assert_array_equal(weights, us.pairwise_weights(frame, **asked))


def test_a_pattern_too_large_for_a_worker_is_cut_into_pieces(
    on_spark: Callable[[str, pl.DataFrame], ir.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One large pattern and small ones, before and after; the same bits."""
    monkeypatch.setattr(pieces, "LARGEST", 250)
    rng, n = np.random.default_rng(4), 800
    frame = pl.DataFrame(
        {
            "id": np.arange(n),
            "sex": rng.choice(["f", "m", None], n, p=[0.8, 0.1, 0.1]),
            "income": np.round(np.exp(rng.normal(10, 0.7, n)), -2),
        }
    )
    noisy = frame.with_columns(income=frame["income"] * np.exp(rng.normal(0, 0.2, n)))
    real, made = (on_spark(name, each) for name, each in (("large", frame), ("large_made", noisy)))
    asked: dict[str, Any] = {"known": ["sex"], "target": "income", "by_id": "id"}
    after = us.risk_table(us.Survey(real), [us.Survey(made)], **asked)
    assert after.get_backend().name == "pyspark"
    ours = after.to_polars().sort("id")["risk"].to_numpy()
    np.testing.assert_array_equal(ours, us.identification_risk(frame, noisy, **asked))
