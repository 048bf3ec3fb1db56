"""Numbers as people read them."""

from __future__ import annotations

import pytest

from understudy.verify.numbers import chance, percent, short


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (float("nan"), "?"),
        (float("inf"), "?"),
        (12.34567, "12.35"),
        (999.96, "1000"),
        (1000.0, "1,000"),
        (-1234567.8, "−1,234,568"),
        (9.99e9, "9,990,000,000"),
        (1e10, "1e+10"),
        (0.0001, "0.0001"),
        (0.00005, "5e-05"),
    ],
)
def test_short(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("probability", "two_digits", "in_percent"),
    [
        (0.0, "under 0.01", "Under 1 %"),
        (0.0099, "under 0.01", "Under 1 %"),
        (0.01, "0.01", "1 %"),
        (0.0149, "0.01", "1 %"),
        (0.5, "0.50", "50 %"),
        (0.99, "0.99", "99 %"),
        (0.991, "over 0.99", "Over 99 %"),
        (1.0, "over 0.99", "Over 99 %"),
    ],
)
def test_certainty_is_never_claimed(probability: float, two_digits: str, in_percent: str) -> None:
    assert chance(probability) == two_digits
    assert percent(probability) == in_percent
