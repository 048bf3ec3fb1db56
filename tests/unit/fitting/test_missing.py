"""Records without a sensitive value: which they are, and what each choice does with them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from understudy.errors import Refused
from understudy.fitting.missing import missing_values, settle_missing, without_missing
from understudy.models.from_numpyro import from_numpyro
from understudy.survey.survey import Survey


def both(n: int, pay: Any = None, kind: Any = None) -> None: ...


MODEL = from_numpyro(both, ["pay", "kind"])
FILE = Survey(
    pl.DataFrame(
        {
            "pay": [None, 2.0, float("nan"), 4.0, 5.0],
            "kind": ["a", None, "b", "c", "d"],
            "age": [None, 2, 3, None, 5],
        }
    )
)
COMPLETE = Survey(FILE.frame()[3:])


def test_a_record_lacks_a_value_when_any_sensitive_column_does() -> None:
    assert missing_values(FILE, ("pay", "kind")).tolist() == [True, True, True, False, False]
    assert missing_values(FILE, ("pay",)).tolist() == [True, False, True, False, False]
    assert not missing_values(COMPLETE, ("pay", "kind")).any()


def test_dropped_records_are_counted() -> None:
    kept, dropped = without_missing(FILE, ("pay", "kind"))
    assert kept.frame()["pay"].to_list() == [4.0, 5.0]
    assert dropped == 3
    assert without_missing(COMPLETE, ("pay", "kind")) == (COMPLETE, 0)


def test_each_choice() -> None:
    with pytest.raises(Refused, match="`pay`, `kind` has missing values"):
        settle_missing(FILE, MODEL, "refuse")
    published, fitted, lacking, dropped = settle_missing(FILE, MODEL, "drop")
    assert published is fitted
    assert (fitted.n, lacking.tolist(), dropped) == (2, [False, False], 3)
    published, fitted, lacking, dropped = settle_missing(FILE, MODEL, "model")
    assert published is FILE
    assert (lacking.tolist(), dropped) == ([True, True, True, False, False], 0)
    assert fitted.frame()["pay"].to_list() == [4.0, 4.0, 4.0, 4.0, 5.0]
    assert fitted.frame()["kind"].to_list() == ["c", "c", "c", "c", "d"]
    assert fitted.frame()["age"].to_list() == [None, 2, 3, None, 5]
    for choice in ("refuse", "drop", "model"):
        published, fitted, lacking, dropped = settle_missing(COMPLETE, MODEL, choice)
        assert published is fitted is COMPLETE
        assert (lacking.tolist(), dropped) == ([False, False], 0)


def test_a_file_without_any_value_is_refused() -> None:
    with pytest.raises(Refused, match="No record has all its sensitive values"):
        settle_missing(Survey(FILE.frame()[:3]), MODEL, "model")
