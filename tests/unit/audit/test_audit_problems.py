"""The theorem of docs/proofs/censoring.md on any database, and the designs that nearly reach it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from understudy.audit.attack import attacks
from understudy.audit.epsilon_bound import exact_epsilon
from understudy.audit.problems import (
    BLANK,
    FLAT,
    GRID,
    RARE,
    GridAttack,
    GridFitter,
)
from understudy.audit.problems import grid_neighbours as neighbours_of
from understudy.mechanisms.contract import Terms

POSTERIOR = [name for name, attack in attacks().items() if isinstance(attack, GridAttack)]
HOUSEHOLD = 3
value = st.floats(-1e6, 1e6)


def grid_neighbours(name, *arguments, **options):
    return neighbours_of(attacks()[name], *arguments, **options)


def records_of(name):
    return HOUSEHOLD if name.endswith("-units") else 1


def around_a_reference(name):
    return name.startswith("reference-censored")


def by_hand(pair, values, reference):
    """One draw's posterior in plain Python, with SciPy's normal density and M = epsilon/2."""
    M = pair.epsilon / 2
    alpha = 1.0 if pair.attack.name in ("censored", "censored-units") else 0.5
    size = records_of(pair.attack.name)
    weights = []
    for theta, prior in zip(GRID, pair.log_prior, strict=True):
        total = prior
        for start in range(0, len(values), size):
            unit = 0.0
            for y in values[start : start + size]:
                if math.isnan(y):
                    continue
                f = stats.norm.logpdf(y, theta, pair.sigma)
                if around_a_reference(pair.attack.name):
                    f -= stats.norm.logpdf(y, reference, pair.sigma)
                unit += alpha * f
            total += min(M, max(-M, unit))
        weights.append(total)
    mass = np.exp(np.array(weights) - max(weights))
    return mass / mass.sum()


@pytest.mark.parametrize("mechanism", POSTERIOR)
@pytest.mark.parametrize("relation", ["blank", "replace"])
def test_posteriors_agree_with_plain_python(mechanism, relation):
    for pair in grid_neighbours(mechanism, 1.0, relation):
        for values, posterior in zip((pair.first, pair.second), pair.log_posteriors(), strict=True):
            expected = by_hand(pair, values, pair.reference[0])
            np.testing.assert_allclose(np.exp(posterior), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("mechanism", POSTERIOR)
def test_neighbours_differ_in_one_record(mechanism):
    for relation in ("blank", "replace"):
        for pair in grid_neighbours(mechanism, 1.0, relation):
            changed = records_of(mechanism)
            np.testing.assert_array_equal(pair.first[:-changed], pair.second[:-changed])
            assert math.isnan(pair.second[-1]) == (relation == "blank")


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_no_database_loses_more_than_the_theorem_allows(data):
    """Any records, any prior, any fixed weights and references: the theorem, by search."""
    others = data.draw(st.lists(value, max_size=4))
    n = len(others) + 1
    sigma, M = data.draw(st.floats(0.001, 3)), data.draw(st.floats(0.01, 3))
    log_prior = np.array(data.draw(st.lists(st.floats(-30, 0), min_size=41, max_size=41)))
    alpha = np.array(data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)))
    theta_ref = data.draw(st.one_of(st.none(), st.floats(-2, 2)))

    def released(last):
        fitter = GridFitter(np.array([*others, last]), sigma, log_prior)
        reference = np.zeros(n) if theta_ref is None else fitter.record_loglik([theta_ref])
        return fitter.log_posterior(Terms(np.where(fitter.present, alpha, 0.0), reference, M))

    with_one, with_other, blanked = map(released, (data.draw(value), data.draw(value), BLANK))
    assert exact_epsilon(with_one, blanked) <= 2 * M + 1e-9
    assert exact_epsilon(with_one, with_other) <= 4 * M + 1e-9


@pytest.mark.parametrize("mechanism", POSTERIOR)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_worst_record_reaches_the_claim_up_to_a_few_per_cent(mechanism, epsilon):
    for relation in ("blank", "replace"):
        worst = grid_neighbours(mechanism, epsilon, relation)[0]
        claim = worst.claim()
        claimed = claim.epsilon if relation == "blank" else claim.epsilon_replace
        assert claimed == epsilon * (1 if relation == "blank" else 2)
        assert 0.95 * claimed < exact_epsilon(*worst.log_posteriors()) <= claimed + 1e-9


def test_the_exact_loss_on_the_worst_record_in_closed_form():
    """2M - log(1 + p (e^2M - 1)), p the blanked posterior of RARE (docs/proofs, tightness)."""
    pair = grid_neighbours("censored", 1.0, "blank")[0]
    p = np.exp(pair.log_posteriors()[1])[np.abs(GRID - RARE) < 0.04].sum()
    closed = 1.0 - math.log1p(p * math.expm1(1.0))
    assert exact_epsilon(*pair.log_posteriors()) == pytest.approx(closed, abs=2e-3)


@pytest.mark.parametrize("mechanism", POSTERIOR)
def test_two_draws_share_the_claim_when_both_are_paid_for(mechanism):
    """m = 2: the mechanism halves M, and the pair of draws stays within the same epsilon."""
    worst = grid_neighbours(mechanism, 1.0, "blank", datasets=2)[0]
    assert worst.claim().epsilon == 1.0
    assert 0.95 < exact_epsilon(*worst.log_posteriors()) <= 1.0 + 1e-9
    unpaid = grid_neighbours(mechanism, 1.0, "blank", "two-draws")[0]
    assert exact_epsilon(*unpaid.log_posteriors()) == pytest.approx(
        2 * exact_epsilon(*replace(unpaid, mutant=None).log_posteriors())
    )


@pytest.mark.parametrize(
    ("mechanism", "mutant"),
    [
        ("censored-weighted", "weights-from-data"),
        ("reference-censored", "reference-from-data"),
        ("reference-censored", "alpha-from-data"),
        ("reference-censored-units", "alpha-from-data"),
    ],
)
def test_a_setting_from_the_data_loses_far_more_than_one_record_s_share(mechanism, mutant):
    moved = grid_neighbours(mechanism, 1.0, "blank", mutant)[1]
    sound = replace(moved, mutant=None)
    assert exact_epsilon(*sound.log_posteriors()) <= 1.0 + 1e-9
    assert exact_epsilon(*moved.log_posteriors()) > 5.0


def test_the_claim_that_weights_from_the_same_data_break_says_where_they_should_come_from():
    claim = grid_neighbours("censored-weighted", 1.0, "blank", "weights-from-data")[0].claim()
    assert claim.kind == "formal"
    assert any("was fixed on another file" in condition for condition in claim.conditions)


def test_quantiles_of_an_exact_fit_have_its_mean():
    fitter = GridFitter(np.full(50, 0.5), 0.3, FLAT)
    terms = Terms(np.ones(50), np.zeros(50))
    assert fitter.fit(terms, "reference").positions.mean() == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("mechanism", POSTERIOR)
@pytest.mark.parametrize("M", [0.05, 0.5, 2.0])
def test_a_record_says_twice_the_limit_for_its_theta_and_loses_it_elsewhere(mechanism, M):
    """Half a unit from the reference, where there is one: 2M at the top, below -M a unit away."""
    attack = attacks()[mechanism]
    law = stats.norm(scale=attack.sigma(M))
    subtracted = law.logpdf(0.5) if around_a_reference(mechanism) else 0.0
    assert attack.alpha * (law.logpdf(0.0) - subtracted) == pytest.approx(2 * M)
    assert attack.alpha * (law.logpdf(1.0) - subtracted) < -M


@pytest.mark.parametrize("M", [0.05, 0.5, 2.0])
def test_a_mover_takes_the_mean_to_where_the_others_lose_the_limit(M):
    attack = attacks()["reference-censored"]
    others, mover, centre = attack.moved(M)
    law = stats.norm(np.mean([*others, mover]), attack.sigma(M))
    assert law.logpdf(centre) - law.logpdf(law.mean()) == pytest.approx(-M / attack.alpha)


@pytest.mark.parametrize("mechanism", POSTERIOR)
def test_priors_are_proper_and_give_the_rare_theta_its_share(mechanism):
    """3 % of the claim over e^claim - 1 for the worst record, a half for the moved setting; what
    every other theta keeps takes some of it."""
    for relation, claimed in (("blank", 1.0), ("replace", 2.0)):
        pairs = grid_neighbours(mechanism, 1.0, relation)
        for pair, share in zip(pairs, (0.03 * claimed / math.expm1(claimed), 0.5), strict=True):
            assert np.exp(pair.log_prior).sum() == pytest.approx(1.0)
            posterior = np.exp(pair.log_posteriors()[1])
            odds = posterior[np.argmin(np.abs(GRID - RARE))] / posterior[np.argmin(np.abs(GRID))]
            assert odds == pytest.approx(share / (1 - share), rel=0.4)
