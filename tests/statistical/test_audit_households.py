"""Audit of counts for planted households: claims hold for the whole of it, mutants are caught."""

from __future__ import annotations

import pytest

from understudy.audit.attack import ALPHA, attacks
from understudy.audit.attacks.households import (
    LIMIT,
    MEMBERS,
    HouseholdAttack,
    neighbouring_files,
)
from understudy.audit.audit import audit
from understudy.errors import Refused

HOUSEHOLDS = [attack for attack in attacks().values() if isinstance(attack, HouseholdAttack)]
AUDITED = [(attack.name, relation) for attack in HOUSEHOLDS for relation in attack.relations]
PLANTED = [(attack.name, mutant) for attack in HOUSEHOLDS for mutant in attack.mutants]
TRIALS = 40_000  # at epsilon 3 the bound lies well above .9 of the claim


def audit_households(name, relation, epsilon=1.0, trials=None, mutant=None):
    (result,) = audit(name, epsilon, trials, mutant, relations=(relation,))
    return result


@pytest.mark.chance(ALPHA, "confidence limits, which the two files share")
@pytest.mark.parametrize("mechanism", ["modips-threshold-units", "laplace-table-units"])
def test_the_noise_of_opendp_itself_stays_below_the_claim(mechanism):
    assert audit_households(mechanism, "replace", 3.0, 10_000).lower_bound <= 3.0


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize(("mechanism", "relation"), AUDITED)
def test_a_household_is_protected_as_a_whole_and_exactly(mechanism, relation):
    result = audit_households(mechanism, relation, 3.0, TRIALS)
    assert result.exact == pytest.approx(3.0, rel=1e-4)
    assert 0.9 * 3.0 <= result.lower_bound <= 3.0
    assert result.verdict == "holds"


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize(("mechanism", "mutant"), PLANTED)
def test_every_mutant_is_caught_by_simulation_alone(mechanism, mutant):
    result = audit_households(mechanism, "replace", 2.0, TRIALS, mutant)
    assert result.lower_bound > result.claimed
    assert result.verdict == "broken"


def test_the_files_differ_in_one_household():
    """By hand: four members, of whom three count, on one side or on both."""
    for relation, gap in (("add-remove", MEMBERS), ("replace", 0)):
        first, second = neighbouring_files(relation)
        assert first.n - second.n == gap
        homes = [file.frame()["home"].value_counts() for file in (first, second)]
        planted = [dict(home.iter_rows()).get("planted", 0) for home in homes]
        assert planted == [MEMBERS, MEMBERS - gap]
        others = [set(file.frame().rows()) for file in (first, second)]
        assert {row[0] for row in others[0] ^ others[1]} == {"planted"}
    assert LIMIT < MEMBERS


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("modips", "replace"), "mechanism to audit"),
        (("histogram-units", "add-remove"), "relation"),
        (("marginals-units", "replace", 5.0), "up to epsilon 4"),
        (("marginals-units", "replace", 1.0, 99), "at least 100"),
        (("marginals-units", "replace", 1.0, 100, "two-sets"), "mutant of marginals-units"),
    ],
)
def test_refusals(arguments, text):
    with pytest.raises(Refused, match=text):
        audit_households(*arguments)
