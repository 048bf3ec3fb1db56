"""Mechanisms: what they are given, checked before any data is touched."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.errors import Refused
from understudy.privacy.mechanisms import (
    Censored,
    PerturbedHistogram,
    ReferenceCensored,
    Weighted,
    WeightedE,
)

NOT_AN_EPSILON = [0.0, -1.0, float("nan"), float("inf"), "3", None, True]


@pytest.mark.parametrize("epsilon", NOT_AN_EPSILON)
def test_epsilon_is_a_finite_number_above_zero(epsilon: Any) -> None:
    made = [
        lambda: WeightedE(epsilon),
        lambda: Censored(epsilon),
        lambda: ReferenceCensored(epsilon, "two-stage"),
        lambda: PerturbedHistogram(epsilon),
    ]
    if epsilon is not None:
        made.append(lambda: Weighted(epsilon=epsilon))
    for make in made:
        with pytest.raises(Refused, match="epsilon must be"):
            make()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Weighted(epsilon=1, bound=1), "not both"),
        (lambda: Weighted(bound=0), "`bound` must be"),
        (lambda: Weighted(bound=float("nan")), "`bound` must be"),
        (lambda: Weighted(map="cubic"), "map of the record weights"),
        (lambda: Weighted(map="inverse"), "needs a target"),
        (lambda: Weighted(c1=0), "c1 must be"),
        (lambda: WeightedE(1, c2=float("inf")), "c1 must be"),
        (lambda: Censored(1, weighted=False, weights="any"), "weighted=True"),
        (lambda: Censored(1).fixed_from(None), "fixed_from"),
        (lambda: ReferenceCensored(1, None), "two-stage"),
        (lambda: ReferenceCensored(1, "history"), "two-stage"),
        (lambda: ReferenceCensored(1, "two-stage", scale=2), "`scale`"),
        (lambda: ReferenceCensored(1, "two-stage", scale=float("nan")), "`scale`"),
        (lambda: ReferenceCensored(1, "two-stage", prior_scale=0), "`prior_scale`"),
        (lambda: ReferenceCensored(1, "two-stage", first_stage=1), "`first_stage`"),
        (lambda: PerturbedHistogram(1, bins=0), "`bins`"),
    ],
)
def test_arguments_are_checked(make: Any, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        make()
