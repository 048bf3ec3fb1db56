"""Risk mechanisms: weights by the direct loops on the published scale, claims, and refusals."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.constant_weight import ConstantWeight
from understudy.mechanisms.risk_weights import (
    OTHER_FILE,
    SAME_DATABASE,
    MarginalRisk,
    PairwiseRisk,
    QWayRisk,
)
from understudy.mechanisms.unweighted import Unweighted
from understudy.models.mixture.mixture import Mixture
from understudy.models.negative_binomial import NegativeBinomial
from understudy.risk.reference_weights import reference_risk_weights
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.synthesis import synthesize


def people(n: int = 40, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    y = np.rint(np.exp(rng.normal(3, 0.6, n))).astype(np.int64)
    return pl.DataFrame({"region": rng.choice(["n", "s"], n), "y": y})


def fitter_on(frame: pl.DataFrame, present: Any = None) -> Any:
    """As much of a fitter as weights need."""
    here = np.ones(frame.height, bool) if present is None else np.asarray(present)
    model = SimpleNamespace(sensitive=("y",))
    return SimpleNamespace(survey=Survey(frame), model=model, n=frame.height, present=here)


def inside(centre: float, y: np.ndarray, radius: float) -> np.ndarray:
    return np.abs(y - centre) <= radius * abs(centre) + 1e-9


def by_groups(y: np.ndarray, pool: np.ndarray, radius: float, q: int, self_in_pool: bool) -> list:
    """1 - the mean, over groups of record i and q - 1 of the pool, of the share of the pool that
    lies outside all of the group's balls: R eq. 3 and 6-9 written out."""
    weights = []
    for i, own in enumerate(y):
        others = [j for j in range(len(pool)) if not (self_in_pool and j == i)]
        shares = []
        for group in combinations(others, q - 1):
            outside = ~inside(own, pool, radius)
            for j in group:
                outside &= ~inside(pool[j], pool, radius)
            shares.append(outside.mean())
        weights.append(1 - np.mean(shares))
    return weights


@pytest.mark.parametrize(("mechanism", "q"), [
    (MarginalRisk(["region"], 0.3), 1),
    (PairwiseRisk(["region"], 0.3), 2),
    (QWayRisk(["region"], 0.3, 3), 3),
])  # fmt: skip
def test_weights_are_the_direct_definition_by_pattern(mechanism: Any, q: int) -> None:
    frame = people()
    alpha, condition = mechanism.settle(fitter_on(frame))
    assert condition == SAME_DATABASE
    for region in ("n", "s"):
        rows = (frame["region"] == region).to_numpy()
        y = frame["y"].to_numpy()[rows]
        np.testing.assert_allclose(alpha[rows], by_groups(y, y, 0.3, q, True), atol=1e-12)


def test_adjustments_and_absent_records() -> None:
    frame = people()
    plain, _ = PairwiseRisk([], 0.2).settle(fitter_on(frame))
    adjusted, _ = PairwiseRisk([], 0.2, 1.5, 0.1).settle(fitter_on(frame))
    np.testing.assert_allclose(adjusted, np.minimum(1.5 * plain + 0.1, 1.0))
    present = np.arange(40) >= 5
    some, _ = PairwiseRisk([], 0.2).settle(fitter_on(frame, present))
    without, _ = PairwiseRisk([], 0.2).settle(fitter_on(frame[5:]))
    assert (some[:5] == 0).all()
    np.testing.assert_array_equal(some[5:], without)  # an absent record covers nobody


@pytest.mark.parametrize("q", [1, 2, 3])
def test_weights_against_a_reference_are_the_direct_definition(q: int) -> None:
    frame, reference = people(12, 2), people(15, 3)
    weights = reference_risk_weights(frame, reference, [], "y", 0.25, q)
    pool = reference["y"].to_numpy()
    expected = by_groups(frame["y"].to_numpy(), pool, 0.25, q, False)
    np.testing.assert_allclose(weights, expected, atol=1e-12)


@pytest.mark.fixed_seed("of a few records, the first must have neighbours to lose")
def test_weights_against_a_reference_do_not_see_other_records() -> None:
    frame, reference = people(30, 2), Survey(people(60, 3))
    mechanism = PairwiseRisk(["region"], 0.3, reference=reference)
    alpha, condition = mechanism.settle(fitter_on(frame))
    moved = frame.with_columns(
        y=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(900)).otherwise("y")
    )
    again, _ = mechanism.settle(fitter_on(moved))
    assert condition == OTHER_FILE
    assert alpha[0] != again[0]
    np.testing.assert_array_equal(alpha[1:], again[1:])
    unknown = frame.with_columns(region=pl.lit("elsewhere"))
    assert (reference_risk_weights(unknown, reference, ["region"], "y") == 0).all()


def test_constant_weight_is_constant() -> None:
    prepared = ConstantWeight(0.25).prepare(fitter_on(people()), 1)
    assert (prepared.terms.alpha == 0.25).all()


def test_bad_arguments_are_refused() -> None:
    for make in (
        lambda: PairwiseRisk(["region"], 0.0),
        lambda: PairwiseRisk(["region"], 0.2, c=-1.0),
        lambda: PairwiseRisk(["region"], 0.2, c=float("nan")),
        lambda: PairwiseRisk(["region"], 0.2, g=float("inf")),
        lambda: QWayRisk(["region"], 0.2, 0),
        lambda: QWayRisk(["region"], 0.2, True),
        lambda: QWayRisk(["region"], 0.2, 2.5),  # type: ignore[arg-type]
        lambda: ConstantWeight(0.0),
        lambda: ConstantWeight(1.5),
        lambda: PairwiseRisk(["region"], reference="file.csv"),  # type: ignore[arg-type]
    ):
        with pytest.raises(Refused):
            make()
    lonely = people().with_columns(region=pl.int_range(pl.len()).cast(pl.String))
    with pytest.raises(Refused, match="fewer than"):
        PairwiseRisk(["region"]).settle(fitter_on(lonely))
    reference = Survey(people(60, 3))
    for several in ({"radius": (0.2,)}, {"target": ("y", "region")}):
        with pytest.raises(Refused, match="for one sensitive variable"):
            PairwiseRisk([], reference=reference, **several).settle(fitter_on(people()))  # type: ignore[arg-type]
    assert QWayRisk([], 0.2, 1).records_together == 1


def test_risk_weights_release_without_epsilon_and_inside_a_clip_with_one() -> None:
    survey = Survey(people(150).drop("region"))
    few: dict[str, Any] = {"draws": 600, "chains": 2, "warmup": 200}
    risky = synthesize(survey, NegativeBinomial("y"), PairwiseRisk([], 0.2), **few)
    assert risky.claim.kind == "risk"
    assert risky.claim.epsilon is None
    assert "PairwiseRisk" in risky.claim.mechanism
    assert 0 < risky.record_weights.min() < risky.record_weights.max() <= 1
    own = Censored(8.0, weights=PairwiseRisk([], 0.2))  # a clip beyond what most records contribute
    clipped = synthesize(survey, NegativeBinomial("y"), own, **few)
    assert (clipped.claim.kind, own.claims) == ("local", "local")
    assert clipped.claim.epsilon == 8.0
    assert SAME_DATABASE in clipped.claim.conditions
    assert clipped.record_bounds.max() <= 4.0
    np.testing.assert_array_equal(clipped.record_weights, risky.record_weights)
    other = PairwiseRisk([], 0.2, reference=Survey(people(60).drop("region")))
    assert Censored(4.0, weights=other).claims == "formal"


def test_risk_against_the_same_file_as_its_reference_is_refused() -> None:
    frame = people(150).drop("region")
    shuffled = Survey(frame.sample(fraction=1.0, shuffle=True, seed=2))
    mechanism = Censored(4.0, weights=PairwiseRisk([], 0.2, reference=shuffled))
    declared = Codebook({"y": Column("y", "sensitive", "integer", bounds=(0.0, 1000.0))})
    with pytest.raises(Refused, match="must not come from the confidential data itself"):
        synthesize(Survey(frame, codebook=declared), NegativeBinomial("y"), mechanism)


def test_components_by_record_carry_no_epsilon() -> None:
    survey = Survey(people(150))
    model = Mixture("y", "region", 3)
    with pytest.raises(Refused, match="assignments='prior'"):
        synthesize(survey, model, Censored(2.0))
    assert Unweighted.claims == "risk"
