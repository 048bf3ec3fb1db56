"""Intervals and rules of precision as the command line writes them."""

from __future__ import annotations

import pytest

from understudy.cli.options import parse_pairs, parse_precision
from understudy.errors import Refused


def test_pairs_and_rules() -> None:
    assert parse_pairs(["proportion=beta", "count = log"], "--interval") == {
        "proportion": "beta",
        "count": "log",
    }
    assert parse_precision("") is None
    assert parse_precision("nchs") == "nchs"
    assert parse_precision("records=30,cv=0.3") == {"records": 30.0, "cv": 0.3}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: parse_pairs(["beta"], "--interval"), "--interval is written name=value"),
        (lambda: parse_precision("cv=low"), "In --precision `cv` must be a number, not `low`."),
    ],
)
def test_mistakes_are_said(call, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Refused) as refusal:
        call()
    assert sentence in str(refusal.value)
