"""Which design and replicate weights a survey may have."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.survey.design import Design, Replicates
from understudy.survey.survey import Survey
from understudy.tables.regress import regress
from understudy.tables.tabulate import tabulate

FRAME = pl.DataFrame({"y": np.arange(12.0), "w": [2.0] * 12})
REPLICATED = FRAME.with_columns(
    **{f"r{k}": pl.Series(2.0 + 2.0 * (-1.0) ** (np.arange(12) >> k)) for k in range(3)}
)
BRR = Design(weight="w", replicates=Replicates(prefix="r", kind="brr"))


def with_first(frame: pl.DataFrame, column: str, value: float | None) -> pl.DataFrame:
    first = pl.int_range(pl.len()) == 0
    return frame.with_columns(
        pl.when(first).then(pl.lit(value, pl.Float64)).otherwise(column).alias(column)
    )


def test_a_record_without_weight_has_no_part_in_estimates_and_stays_in_the_design() -> None:
    survey = Survey(with_first(FRAME, "w", 0.0), Design(weight="w"))
    table = tabulate(survey, ["count", "mean(y)"])
    assert table["estimate"].to_list() == [22.0, 6.0]
    assert table["df"].to_list() == [10.0, 10.0]
    assert survey.n == 12


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.DataFrame.to_arrow])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (-1.0, "negative.*calibrate with limits"),
        (None, "missing"),
        (float("nan"), "missing or not finite"),
        (float("inf"), "missing or not finite"),
    ],
)
def test_weights_that_are_refused(value: float | None, sentence: str, kind: Any) -> None:
    with pytest.raises(Refused, match=sentence):
        Survey(kind(with_first(FRAME, "w", value)), Design(weight="w"))


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.DataFrame.to_arrow])
def test_weights_that_are_all_zero_are_refused(kind: Any) -> None:
    with pytest.raises(Refused, match="0 for every record"):
        Survey(kind(FRAME.with_columns(w=0.0)), Design(weight="w"))
    whole = FRAME.with_columns(w=pl.lit(2**60 + 1))  # a whole number that no decimal is equal to
    assert Survey(kind(whole), Design(weight="w")).n == 12


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
@pytest.mark.parametrize("ask", [lambda s: tabulate(s, "mean(y)"), lambda s: regress(s, "y ~ 1")])
def test_blank_and_infinite_replicate_weights_are_refused(value: float | None, ask: Any) -> None:
    survey = Survey(with_first(REPLICATED, "r1", value), BRR)
    with pytest.raises(Refused, match="replicate weight `r1` is missing or not finite"):
        ask(survey)


def test_degrees_of_freedom_of_replicates_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    survey, passes = Survey(REPLICATED, BRR), []
    products = "understudy.tables.replicates._products"
    monkeypatch.setattr(products, lambda *_: passes.append(1) or iter([np.eye(3)]))
    for _ in range(3):
        assert tabulate(survey, "mean(y)")["df"].to_list() == [2.0]
    assert len(passes) == 1
