"""Audit of tables of counts: sound supports hold, observed leaks, mutants are caught."""

from __future__ import annotations

import math

import pytest

from understudy.audit.attack import ALPHA, attacks
from understudy.audit.audit import audit
from understudy.audit.counts import CountAttack, neighbours
from understudy.errors import Refused
from understudy.mechanisms.modips import Modips

RELATIONS = ("add-remove", "replace", "blank")
SOUND = ("modips-public", "modips-threshold", "marginals")
# With these the bound lies 4 to 6 standard errors above .9 of the claim. The marginals' deciding
# event under `replace` is four counts at once, with chance .01.
TRIALS = {
    ("marginals", "replace"): 115_000,
    ("marginals", "add-remove"): 50_000,
    ("modips-public", "replace"): 40_000,
    ("modips-threshold", "replace"): 40_000,
}
PLANTED = [
    (name, mutant)
    for name, attack in attacks().items()
    if isinstance(attack, CountAttack)
    for mutant in attack.mutants
]

AUDITED = [
    *((name, relation) for name in SOUND for relation in RELATIONS[:2]),
    ("modips-public", "blank"),
]


def audit_counts(name, relation, epsilon=1.0, trials=None, mutant=None):
    (result,) = audit(name, epsilon, trials, mutant, relations=(relation,))
    return result


@pytest.mark.chance(ALPHA, "confidence limits, which the pairs of files share")
@pytest.mark.parametrize(("mechanism", "relation"), AUDITED)
def test_the_noise_of_opendp_itself_stays_below_the_claim(mechanism, relation):
    """At epsilon 3, where few trials are enough; `understudy audit` shows it at 1 as well."""
    result = audit_counts(mechanism, relation, 3.0, TRIALS.get((mechanism, relation), 25_000))
    assert result.lower_bound <= result.claimed


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize(("mechanism", "relation"), AUDITED)
def test_a_sound_mechanism_stays_below_its_claim_and_above_nine_tenths(mechanism, relation):
    result = audit_counts(mechanism, relation, 3.0, TRIALS.get((mechanism, relation), 25_000))
    assert result.claimed == (1.5 if relation == "blank" else 3.0)
    assert result.exact == pytest.approx(result.claimed)
    assert 0.9 * result.claimed <= result.lower_bound <= result.claimed
    assert result.verdict == "holds"


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_observed_support_leaks_at_any_epsilon(relation, epsilon):
    """A record alone in its cell: there on one file, never on the other."""
    result = audit_counts("modips-observed", relation, epsilon, trials=3000)
    assert result.lower_bound > 4
    assert result.exact == math.inf
    assert result.verdict == "broken"
    assert Modips(epsilon).promise(1, False).kind == "local"


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize(("mechanism", "mutant"), PLANTED)
def test_every_mutant_is_caught_by_simulation_alone(mechanism, mutant):
    result = audit_counts(mechanism, "add-remove", trials=4000, mutant=mutant)
    assert result.lower_bound > result.claimed
    assert result.verdict == "broken"


def test_neighbours_differ_in_one_record():
    for relation, gap in zip(RELATIONS, (1, 0, 1), strict=True):
        for first, second in neighbours(relation):
            assert first.n - second.n == gap
            rows = [sorted(neighbour.frame().rows()) for neighbour in (first, second)]
            assert (
                len(rows[0]) - sum(min(rows[0].count(r), rows[1].count(r)) for r in set(rows[0]))
                == 1
            )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("modips", "replace"), "mechanism to audit"),
        (("marginals", "remove"), "relation"),
        (("marginals", "replace", 5.0), "up to epsilon 4"),
        (("marginals", "replace", 1.0, 99), "at least 100"),
        (("marginals", "replace", 1.0, 100, "two-sets"), "mutant of marginals"),
    ],
)
def test_refusals(arguments, text):
    with pytest.raises(Refused, match=text):
        audit_counts(*arguments)
