"""Mechanisms: arguments are checked before any data is touched; terms and claims by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from understudy.dp.record_bounds import RecordBounds
from understudy.errors import Refused
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.constant_weight import ConstantWeight
from understudy.mechanisms.contract import (
    FixedWeights,
    Mechanism,
    Terms,
    checked_share,
    weights_from,
)
from understudy.mechanisms.marginals import Marginals
from understudy.mechanisms.modips import Modips
from understudy.mechanisms.noisy_moments import NoisyMoments
from understudy.mechanisms.perturbed_histogram import PerturbedHistogram
from understudy.mechanisms.reference_censored import ReferenceCensored, reference_scale
from understudy.mechanisms.risk_weights import MarginalRisk, PairwiseRisk, QWayRisk
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
        (lambda: ReferenceCensored(1, "two-stage", scale=True), "`scale`"),
        (lambda: ReferenceCensored(1, "two-stage", prior_scale=0), "`prior_scale`"),
        (lambda: ReferenceCensored(1, "two-stage", prior_scale=True), "`prior_scale`"),
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

    def parameters(self, number: int) -> list[Any]:
        assert self.checked == 1  # nothing is handed out before the diagnostics
        return [{} for _ in range(number)]


@dataclass
class PointFitter:
    """Every fit has the same f_i, so that bounds are alpha_i |f_i| exactly."""

    log: list[tuple[str, Any]] = field(default_factory=list)
    n: int = 5
    present: np.ndarray = field(default_factory=lambda: PRESENT)
    conditions: tuple[str, ...] = ("Units are fixed",)
    unit: str = "record"
    units: Any = None
    step: float = 0.0  # how far the reference's records move between its draws
    fits: list[PointFit] = field(default_factory=list)
    looks: int = 0

    def fit(self, terms: Terms, stage: str, start: Any = None) -> PointFit:  # noqa: ARG002
        self.log.append((stage, terms))
        self.fits.append(PointFit(terms))
        return self.fits[-1]

    @property
    def sensitive_values(self) -> np.ndarray:
        return LOGLIK[PRESENT][:, None]

    def refuse_source(self, values: np.ndarray, purpose: str) -> None:
        self.log.append((purpose, values))

    def record_loglik(self, position: np.ndarray) -> np.ndarray:
        self.looks += 1
        return np.where(PRESENT, LOGLIK, 0.0) + self.step * position[0]

    def bounds_over(self, positions: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return np.abs(LOGLIK)

    def on(self, survey: Any, purpose: str) -> PointFitter:
        self.log.append((purpose, survey))
        return self

    def on_histogram(self, epsilon: float, bins: Any) -> PointFitter:
        self.log.append(("histogram", (epsilon, bins)))
        return self


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


def test_weighted_e_may_drop_by_the_bounds_of_the_unweighted_fit() -> None:
    """Where a fit under alpha has other bounds than alpha times those of the first fit."""

    @dataclass
    class Moving(PointFitter):
        def fit(self, terms: Terms, stage: str, start: Any = None) -> PointFit:
            fitted = super().fit(terms, stage, start)
            if stage == "weighted":  # every contribution has grown by half
                fitted.terms = replace(terms, alpha=1.5 * terms.alpha)
            return fitted

    fitter = Moving()
    # alpha |f| is 1, 1.5, 1.5, 0 in the first fit, and half as much again in the second
    unrefitted = WeightedE(3.0, reading="unrefitted").prepare(fitter, 1)
    assert unrefitted.terms.alpha.tolist() == [1, 0.75, 0.5, 0, 0]
    assert [stage for stage, _ in fitter.log] == ["weights"]
    assert WeightedE(3.0).prepare(Moving(), 1).terms.alpha.tolist() == [1, 0, 0, 0, 0]
    with pytest.raises(Refused, match="Unknown reading"):
        WeightedE(3.0, reading="first")  # type: ignore[arg-type]


def test_censored_clips_at_half_of_each_draws_epsilon() -> None:
    result, fitter = released(Censored(6.0, c1=0.5), datasets=3)
    np.testing.assert_allclose(result.record_weights, LINEAR / 2)
    assert fitter.log[-1][1].limit == 1.0
    assert (result.claim.kind, result.claim.epsilon) == ("local", 6.0)
    plain, fitter = released(Censored(6.0, weighted=False))
    assert (plain.claim.kind, plain.claim.epsilon_replace) == ("formal", 12.0)
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

    def scale_at(step: float, limit: float) -> float:
        fitter: Any = PointFitter(step=step)
        return reference_scale(fitter, positions, np.zeros(1), limit)

    assert scale_at(0.0, 2.0) == 1.0
    assert scale_at(0.1, 0.5) == 0.5
    # gains are 3 z / sqrt(alpha): alpha |gain| = 3 sqrt(alpha) |z| against the limit 0.5
    alpha = scale_at(3.0, 0.5)
    clipped = [np.mean(3 * np.sqrt(a) * np.abs(positions) > 0.5) for a in (alpha, 2 * alpha)]
    assert clipped[0] <= 0.02 < clipped[1]
    assert np.log2(alpha / 0.5).is_integer()  # halved, from min(1, limit)


def test_some_fifty_draws_of_the_reference_settle_the_scale() -> None:
    fitter: Any = PointFitter()
    reference_scale(fitter, np.zeros((500, 1)), np.zeros(1), 2.0)
    assert fitter.looks == 1 + 50


@pytest.mark.parametrize(
    ("mechanism", "fits"),
    [
        (Unweighted(), 1),
        (ConstantWeight(0.5), 1),
        (WeightedE(9.0), 3),
        (Censored(6.0), 2),
        (ReferenceCensored(3.0, object(), scale=0.5), 2),  # type: ignore[arg-type]
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_fit_is_checked_and_counted(mechanism: Any, fits: int) -> None:
    _, fitter = released(mechanism)
    assert [fit.checked for fit in fitter.fits] == [1] * fits
    assert fits <= mechanism.fits <= max(fits, 3)
    if not isinstance(mechanism, ReferenceCensored):
        assert mechanism.fits == fits


def test_the_first_fit_of_a_calibration_is_checked() -> None:
    _, fitter = released(Weighted(epsilon=2.0))
    assert fitter.fits[0].checked == 1


def test_mechanisms_say_whether_a_seed_makes_their_bytes() -> None:
    """Noise from OpenDP has no seed; counts alone need no fit."""
    unseeded = [Marginals(1.0), Modips(1.0), PerturbedHistogram(1.0)]
    unseeded.append(ReferenceCensored(1.0, "two-stage"))
    seeded = [Unweighted(), ConstantWeight(0.5), Weighted(), WeightedE(1.0), Censored(1.0)]
    seeded += [PairwiseRisk(["a"]), MarginalRisk(["a"]), QWayRisk(["a"])]
    seeded.append(ReferenceCensored(1.0, object()))  # type: ignore[arg-type]
    assert [m.seeded for m in unseeded] == [False] * 4
    assert [m.seeded for m in seeded] == [True] * 9
    assert [m.fits for m in (*unseeded[:3], PairwiseRisk(["a"]))] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("mechanism", "price"),
    [
        (Unweighted(), None),
        (Modips(0.1), None),  # which cells are occupied is shown as it is
        (Modips(0.1, "public"), "0.2"),
        (Modips(0.1, "public", "replace"), "0.1"),
        (Weighted(), None),
        (Weighted(epsilon=0.3), "0.6"),
        (Censored(0.3), None),  # weights from the same file: not a guarantee
        (Censored(0.3, weighted=False), "0.6"),
        (PerturbedHistogram(0.3), "0.3"),
        (NoisyMoments(0.3), "0.6"),
        (PairwiseRisk(["a"]), None),
    ],
)
def test_a_ledger_counts_every_epsilon_under_replace(mechanism: Any, price: str | None) -> None:
    cost = mechanism.cost()
    charged = None if cost is None else cost.under("replace").epsilon
    assert charged == (None if price is None else Fraction(price))
    assert cost is None or cost.delta == 0


def test_a_ledger_hears_of_the_delta_too() -> None:
    """Two steps make a replacement: (1 + e^epsilon) delta."""
    cost = Modips(0.5, "threshold", delta=1e-8).cost()
    assert cost is not None
    assert (cost.relations, cost.delta) == (("add-remove",), Fraction("1e-8"))
    assert float(cost.under("replace").delta) == pytest.approx((1 + math.exp(0.5)) * 1e-8)


def test_what_is_not_said() -> None:
    censored, _ = released(Censored(6.0))
    np.testing.assert_allclose(censored.record_weights, LINEAR)
    dropped, _ = released(WeightedE(10.0))
    np.testing.assert_allclose(dropped.record_weights, LINEAR)
    _, fitter = released(ReferenceCensored(3.0, "two-stage", scale=0.5))
    assert fitter.log[0] == ("histogram", (pytest.approx(2.0), "sqrt"))  # a third, under `replace`
    assert QWayRisk(["a"]).records_together == 3
    assert PairwiseRisk("a").known == MarginalRisk(["a"]).known == ("a",)


def test_weighted_keeps_its_weight_function_for_later_files() -> None:
    result, _ = released(Weighted(epsilon=2.0, c1=0.5), datasets=4)
    assert result.weights.c1 == pytest.approx(result.record_weights[0])
    assert (result.weights.low, result.weights.high) == (1.0, 5.0)
    later, fitter = released(Weighted(epsilon=2.0, c1=0.5).fixed_from(result))
    np.testing.assert_allclose(later.record_weights, result.record_weights)
    assert [stage for stage, _ in fitter.log] == ["release"]
    assert later.weights is result.weights


def test_weighted_e_claims_what_came_out_where_that_is_more() -> None:
    def claimed(bound: float) -> float | None:
        each = np.array([bound])
        fitted: Any = SimpleNamespace(bounds=RecordBounds(each, each, each, inf, 7))
        return WeightedE(2.5).claim(None, fitted, 2).epsilon  # type: ignore[arg-type]

    assert (claimed(0.5), claimed(3.0)) == (2.5, 12.0)


def test_without_one_finite_record_there_are_no_weights() -> None:
    every = np.full(3, inf)
    fitted: Any = SimpleNamespace(
        bounds=RecordBounds(every, every, every, inf, 7), positions=np.zeros((7, 1))
    )
    with pytest.raises(Refused, match="Every record has an infinite log-likelihood"):
        weights_from(PointFitter(), fitted, 1.0, 0.0)


def test_a_perturbed_histogram_is_drawn_anew_for_each_data_set() -> None:
    class HistogramFitter(PointFitter):
        def histogram(self, epsilon: float, bins: Any) -> Any:
            self.log.append(("histogram", (epsilon, bins)))
            return SimpleNamespace(edges=len(self.log), probabilities=bins)

    fitter: Any = HistogramFitter()
    result = PerturbedHistogram(6.0, 9).release(fitter, 3)
    assert fitter.log == [("histogram", (2.0, 9))] * 3
    assert result.output.draws() == [{"edges": k + 1, "probabilities": 9} for k in range(3)]
    assert (result.claim.epsilon, result.claim.relation) == (6.0, "replace")
    assert result.claim.conditions == ("Units are fixed",)
    assert result.bounds.overall == 1.0
    assert result.record_weights.tolist() == [1, 1, 1, 1, 0]


FACTS = {
    "claims": "risk",
    "relation": "blank",
    "seeded": True,
    "fits": 1,
    "hands_out": "rows",
    "epsilon": None,
    "delta": 0.0,
}


@pytest.mark.parametrize(
    ("does", "has", "lacks"),
    [
        ("outcome", "prepare", "needs `prepare` and `claim`"),
        ("outcome, rows or file", "release_rows", "needs `prepare` and `claim`"),
        ("rows", "prepare", "needs `release_rows`"),
    ],
)
def test_a_mechanism_that_cannot_do_what_it_says_is_not_defined(
    does: str, has: str, lacks: str
) -> None:
    body = {**FACTS, "synthesizes": does, has: lambda *_: None}
    with pytest.raises(TypeError, match=lacks):
        type("Mine", (Mechanism,), body)


def test_a_mechanism_may_release_outcomes_in_its_own_way() -> None:
    mine = type("Mine", (Mechanism,), {**FACTS, "synthesizes": "outcome", "release": id})
    assert issubclass(mine, Mechanism)


def test_a_constant_weight_can_be_one_and_carries_no_epsilon() -> None:
    result, _ = released(ConstantWeight(1), datasets=2)
    assert result.record_weights.tolist() == [1, 1, 1, 1, 0]
    assert (result.claim.kind, result.claim.epsilon) == ("risk", None)
    assert result.claim.mechanism == "Constant weight 1, 2 draws"


def test_a_share_is_returned_as_a_number() -> None:
    assert checked_share(0.25, "share") == 0.25
