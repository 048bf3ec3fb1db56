"""The loss of all draws of a release without history, exactly, on a grid of parameters."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from understudy.audit.attack import attacks
from understudy.audit.attacks.stages import (
    NEAR,
    SCALE,
    SHARE,
    SIGMA,
    StagesAttack,
    _prior,
)
from understudy.audit.audit import audit
from understudy.audit.epsilon_bound import exact_epsilon
from understudy.audit.problems import BLANK, COMMON, GRID, RARE
from understudy.dp.contributions import clip_bound
from understudy.mechanisms.reference_censored import ReferenceCensored

EPSILON = 2.0
STAGES = cast(StagesAttack, attacks()["reference-censored-stages"])
HOMES = cast(StagesAttack, attacks()["reference-censored-stages-units"])
MECHANISM = ReferenceCensored(EPSILON, "none", scale=SCALE, stages=(SHARE,))


def by_hand(values: list[float], prior: np.ndarray, homes: bool) -> np.ndarray:
    """P(theta_1, theta_2) by loops: M = epsilon/4 for each of the two draws."""
    M, joint = EPSILON / 4, np.zeros((GRID.size, GRID.size))

    def density(reference: float) -> np.ndarray:
        gains = [
            [SCALE * ((y - reference) ** 2 - (y - theta) ** 2) / (2 * SIGMA**2) for y in values]
            for theta in GRID
        ]
        if homes:
            sums = [np.clip(sum(gain), -M, M) for gain in gains]
        else:
            sums = [np.clip(gain, -M, M).sum() for gain in gains]
        mass = np.exp(prior) * np.exp(sums)
        return np.asarray(mass / mass.sum())

    for k, chance in enumerate(density(0.5)):
        joint[k] = chance * density(GRID[k])
    return joint


@pytest.mark.parametrize(("attack", "homes"), [(STAGES, False), (HOMES, True)])
def test_both_draws_agree_with_plain_python(attack: StagesAttack, homes: bool) -> None:
    values, prior = [RARE] * attack.per_unit, _prior(EPSILON / 2, blank=True)
    joint = np.exp(attack._joint(MECHANISM, np.array(values), prior, None))
    np.testing.assert_allclose(joint, by_hand(values, prior, homes).ravel(), rtol=1e-5, atol=1e-15)


def test_both_draws_lose_what_is_claimed_and_not_more() -> None:
    """Where the prior makes all but COMMON rare. A draw of NEAR, then of RARE, is the worst."""
    prior = np.full(GRID.size, 1e-9)
    prior[np.argmin(np.abs(GRID - COMMON))] = 1.0
    log_prior = np.log(prior / prior.sum())
    first, second = (
        STAGES._joint(MECHANISM, np.array([value]), log_prior, None) for value in (RARE, BLANK)
    )
    assert exact_epsilon(first, second) == pytest.approx(EPSILON, rel=1e-6)
    near, rare = (int(np.argmin(np.abs(GRID - theta))) for theta in (NEAR, RARE))
    worst = (first - second).reshape(GRID.size, GRID.size)[near, rare]
    assert worst == pytest.approx(EPSILON, rel=1e-6)


def test_a_stage_that_is_not_charged_in_the_program_shows_in_the_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def all_of_epsilon(mechanism: ReferenceCensored, datasets: int) -> float:
        return clip_bound(mechanism.epsilon, datasets)

    monkeypatch.setattr(ReferenceCensored, "_last_limit", all_of_epsilon)
    for result in audit("reference-censored-stages", trials=1000):
        assert result.exact > 1.4 * result.claimed
        assert result.verdict == "broken"


def test_the_prior_is_proper_and_both_thetas_are_met() -> None:
    for blank in (True, False):
        prior = np.exp(_prior(1.0, blank))
        assert prior.sum() == pytest.approx(1.0)
        met = prior[[int(np.argmin(np.abs(GRID - theta))) for theta in (NEAR, RARE)]]
        assert met == pytest.approx(met[0])
        assert 0.005 < met[0] < 0.05
