"""Epsilon is exact: what cannot be held exactly is refused (threat 4)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import Refused
from understudy.ledger.epsilon import LARGEST, exact_epsilon, parse_epsilon, show_epsilon


@given(st.integers(1, LARGEST))
def test_text_and_number_are_one(micro: int) -> None:
    assert parse_epsilon(show_epsilon(micro)) == micro
    assert Decimal(show_epsilon(micro)) * 1_000_000 == micro


@pytest.mark.parametrize(("text", "micro"), [("1", 1_000_000), ("0.1", 100_000), ("0.000001", 1)])
def test_by_hand(text: str, micro: int) -> None:
    assert parse_epsilon(text) == micro


@pytest.mark.parametrize(
    "bad",
    [
        *("nan", "inf", "-1", "-0", "0", "0.0", "1e400", "1e-9", "0.0000001", "", " 1", "1 "),
        *("+1", "1.", ".5", "1,5", "1_0", "\u0661", "1000.000001", "99999", "0x1", "1\n"),
        *(1, 0.5, None, True),
    ],
)
def test_everything_else_is_refused(bad: object) -> None:
    with pytest.raises(Refused, match="Epsilon must be"):
        parse_epsilon(bad)  # type: ignore[arg-type]


def test_a_thousand_tenths_are_a_hundred() -> None:
    assert show_epsilon(sum(parse_epsilon("0.1") for _ in range(1000))) == "100"


@pytest.mark.parametrize(("micro", "text"), [(0, "0"), (-250_000, "-0.25"), (-3_000_000, "-3")])
def test_nothing_and_less_than_nothing_are_shown(micro: int, text: str) -> None:
    assert show_epsilon(micro) == text


def test_the_exact_number_is_a_fraction() -> None:
    assert exact_epsilon(parse_epsilon("0.3")) == Fraction(3, 10)
