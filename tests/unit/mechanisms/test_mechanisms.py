"""Mechanisms: arguments are checked before any data is touched; terms and claims by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import pytest

from understudy.dp.record_bounds import RecordBounds
from understudy.errors import Refused
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.contract import FixedWeights, Terms
from understudy.mechanisms.perturbed_histogram import PerturbedHistogram
from understudy.mechanisms.reference_censored import ReferenceCensored, reference_scale
from understudy.mechanisms.unweighted import Unweighted
from understudy.mechanisms.weighted import Weighted
from understudy.mechanisms.weighted_e import WeightedE

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


# --- Terms and claims, with a fitter whose posterior is one known point ---------------------------

LOGLIK = np.array([-1.0, -2.0, 3.0, -5.0, inf])  # f_i at the point; the last record is absent
PRESENT = np.array([True, True, True, True, False])


@dataclass
class PointFit:
    terms: Terms
    positions: np.ndarray = field(default_factory=lambda: np.zeros((7, 1)))
    checked: int = 0

    @property
    def bounds(self) -> RecordBounds:
        finite = np.where(PRESENT, LOGLIK, 0.0)
        gain = np.abs(self.terms.alpha * (finite - self.terms.reference_loglik))
        limit = self.terms.limit
        return RecordBounds(np.abs(LOGLIK), gain, np.minimum(gain, limit), limit, 7)

    def check(self) -> None:
        self.checked += 1


@dataclass
class PointFitter:
    """Every fit has the same f_i, so that bounds are alpha_i |f_i| exactly."""

    log: list[tuple[str, Any]] = field(default_factory=list)
    n: int = 5
    present: np.ndarray = field(default_factory=lambda: PRESENT)
    conditions: tuple[str, ...] = ("Units are fixed",)
    step: float = 0.0  # how far the reference's records move between its draws

    def fit(self, terms: Terms, stage: str, start: Any = None) -> PointFit:  # noqa: ARG002
        self.log.append((stage, terms))
        return PointFit(terms)

    def record_loglik(self, position: np.ndarray) -> np.ndarray:
        return np.where(PRESENT, LOGLIK, 0.0) + self.step * position[0]

    def bounds_over(self, positions: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return np.abs(LOGLIK)

    def on(self, survey: Any, purpose: str) -> PointFitter:
        self.log.append((purpose, survey))
        return self

    def on_histogram(self, epsilon: float, bins: Any) -> PointFitter:
        self.log.append(("histogram", (epsilon, bins)))
        return self

    def generate(self, fitted: PointFit, datasets: int) -> tuple[list[Any], list[Any]]:
        assert fitted.checked == 1  # nothing is generated before the diagnostics
        return [{} for _ in range(datasets)], [{} for _ in range(datasets)]


LINEAR = np.array([1.0, 0.75, 0.5, 0.0, 0.0])  # 1 - (|f| - 1)/(5 - 1), absent 0


def released(mechanism: Any, datasets: int = 1) -> tuple[Any, PointFitter]:
    fitter = PointFitter()
    return mechanism.release(fitter, datasets), fitter


def test_unweighted_weighs_every_present_record_fully() -> None:
    result, _ = released(Unweighted())
    assert result.record_weights.tolist() == [1, 1, 1, 1, 0]
    assert (result.claim.kind, result.claim.epsilon) == ("risk", None)
    assert result.claim.conditions[0] == "Units are fixed"


def test_weighted_states_what_came_out() -> None:
    result, fitter = released(Weighted(), datasets=3)
    np.testing.assert_allclose(result.record_weights, LINEAR)
    assert [stage for stage, _ in fitter.log] == ["weights", "release"]
    # bounds 1, 1.5, 1.5, 0: epsilon = 2 * 3 draws * 1.5
    assert result.claim.epsilon == pytest.approx(9.0)
    assert result.claim.kind == "asymptotic"
    assert "maximum over 7 posterior draws" in str(result.claim)


def test_weighted_meets_a_total_epsilon_over_all_draws() -> None:
    result, _ = released(Weighted(epsilon=2.0), datasets=4)
    assert 0.98 * 0.25 <= result.bounds.overall <= 0.25
    assert result.claim.epsilon == 2.0
    assert result.weights.c1 == pytest.approx(result.record_weights[0])
    inverse, _ = released(Weighted(bound=0.5, map="inverse"), datasets=4)
    assert 0.98 * 0.5 <= inverse.bounds.overall <= 0.5
    assert inverse.claim.epsilon == 4.0
    assert inverse.weights is None


def test_weighted_e_drops_records_above_the_limit() -> None:
    result, fitter = released(WeightedE(2.5))
    # weighted bounds 1, 1.5, 1.5, 0 against 1.25
    assert result.record_weights.tolist() == [1, 0, 0, 0, 0]
    assert [stage for stage, _ in fitter.log] == ["weights", "weighted", "release"]
    assert result.claim.epsilon == 2.5
    with pytest.raises(Refused, match="drops every record"):
        released(WeightedE(0.01, c2=0.5))


def test_censored_clips_at_half_of_each_draws_epsilon() -> None:
    result, fitter = released(Censored(6.0, c1=0.5), datasets=3)
    np.testing.assert_allclose(result.record_weights, LINEAR / 2)
    assert fitter.log[-1][1].limit == 1.0
    assert result.claim.kind == "formal"
    assert (result.claim.epsilon, result.claim.epsilon_replace) == (6.0, 12.0)
    plain, fitter = released(Censored(6.0, weighted=False))
    assert plain.record_weights.tolist() == [1, 1, 1, 1, 0]
    assert fitter.log[-1][1].limit == 3.0
    assert plain.bounds.overall == 3.0


def test_a_fixed_weight_function_uses_the_historical_range() -> None:
    weights = FixedWeights(np.zeros((3, 1)), low=0.0, high=4.0, c1=0.8, c2=0.1)
    result, _ = released(Censored(6.0, weights=weights))
    expected = np.clip(0.8 * (1 - np.array([1, 2, 3, 5]) / 4) + 0.1, 0, 1)
    np.testing.assert_allclose(result.record_weights, [*expected, 0.0])
    again = Weighted(epsilon=3.0).fixed_from(result)
    assert (again.weights, again.epsilon) == (weights, None)


def test_reference_censored_subtracts_the_reference_and_splits_epsilon() -> None:
    history = object()
    result, fitter = released(ReferenceCensored(3.0, history, scale=0.25), datasets=3)
    assert fitter.log[0] == ("the reference", history)
    terms = fitter.log[-1][1]
    assert terms.limit == 0.5
    np.testing.assert_array_equal(terms.reference_loglik[:4], LOGLIK[:4])
    assert terms.alpha.tolist() == [0.25, 0.25, 0.25, 0.25, 0]
    assert result.claim.epsilon == 3.0

    result, fitter = released(ReferenceCensored(3.0, "two-stage", first_stage=0.25, bins=9))
    # under `blank` a count changes by 1: noise of scale 1/0.75, which is 1.5 under `replace`
    assert fitter.log[0] == ("histogram", (1.5, 9))
    limit = fitter.log[-1][1].limit
    assert limit == pytest.approx(2.25 / 2, rel=1e-12)
    assert 0.75 + 2 * limit <= 3.0
    assert result.claim.epsilon == 3.0


def test_the_scale_is_lowered_until_the_reference_is_hardly_clipped() -> None:
    positions = np.random.default_rng(0).normal(size=(50, 1))

    def found(step: float, limit: float) -> float:
        fitter: Any = PointFitter(step=step)
        return reference_scale(fitter, positions, np.zeros(1), limit)

    assert found(0.0, 2.0) == 1.0
    assert found(0.1, 0.5) == 0.5
    # gains are 3 z / sqrt(alpha): alpha |gain| = 3 sqrt(alpha) |z| against the limit 0.5
    alpha = found(3.0, 0.5)
    clipped = [np.mean(3 * np.sqrt(a) * np.abs(positions) > 0.5) for a in (alpha, 2 * alpha)]
    assert clipped[0] <= 0.02 < clipped[1]
