"""Audit of noisy moments: the claim is reached and not exceeded, planted mistakes are caught."""

from __future__ import annotations

import pytest

from understudy.audit.attack import ALPHA, attacks
from understudy.audit.audit import audit

AUDITED = ["noisy-moments", "noisy-moments-units", "noisy-moments-bins"]
PLANTED = [(name, mutant) for name in AUDITED for mutant in attacks()[name].mutants]


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("name", AUDITED)
def test_the_claim_is_reached_and_not_exceeded(name):
    (result,) = audit(name)
    assert result.exact == pytest.approx(1.0, rel=1e-9)
    assert 0.9 <= result.lower_bound <= 1.0
    assert result.verdict == "holds"


@pytest.mark.chance(ALPHA, "confidence limits")
def test_the_noise_of_opendp_itself_stays_below_the_claim():
    (result,) = audit("noisy-moments", epsilon=3.0, trials=10_000)
    assert result.lower_bound <= 3.0


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize(("name", "mutant"), PLANTED)
def test_every_mutant_is_caught_by_simulation_alone(name, mutant):
    (result,) = audit(name, trials=100_000, mutant=mutant)
    assert result.lower_bound > result.claimed
    assert result.verdict == "broken"
