"""Posterior: draws by name, record log-likelihoods, and when a release is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

from understudy.errors import Refused
from understudy.fitting.diagnostics import diagnose
from understudy.fitting.posterior import Posterior
from understudy.mechanisms.contract import Terms
from understudy.models.density import density_of
from understudy.models.from_numpyro import from_numpyro


def normal(n: int, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0))
    with numpyro.plate("record", n):
        numpyro.sample("y", dist.Normal(mean, sd), obs=y)


N = 9


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    rng = np.random.default_rng(0)
    y = rng.normal(size=N)
    density = density_of(from_numpyro(normal, ["y"]), {"y": y})
    chains = rng.normal(size=(4, 300, 2))
    alpha = np.full(N, 0.5)
    alpha[0] = 0.0
    terms = Terms(alpha, np.zeros(N), limit=1.0)
    present = np.arange(N) > 0
    diagnostics = diagnose(chains, 0, density.coordinates)
    return Posterior(density, {"y": y}, terms, present, chains, diagnostics)


def test_draws_have_the_models_coordinates(posterior: Posterior) -> None:
    assert {name: draws.shape for name, draws in posterior.draws.items()} == {
        "mean": (4, 300),
        "sd": (4, 300),
    }
    column = list(posterior.density.shapes).index("sd")
    np.testing.assert_allclose(posterior.draws["sd"], np.exp(posterior.chains[:, :, column]))


def test_record_log_likelihoods_come_in_order(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.fitting.posterior.LOGLIK_BLOCK", 100 * N)
    blocks = list(posterior.record_loglik())
    assert [len(block) for block in blocks] == [100] * 12
    mean, sd = (posterior.draws[name].reshape(-1, 1) for name in ("mean", "sd"))
    expected = scipy.stats.norm.logpdf(posterior.arrays["y"], mean, sd)
    np.testing.assert_allclose(np.concatenate(blocks), expected, rtol=1e-10)


def test_bounds_are_maxima_under_the_terms(posterior: Posterior) -> None:
    loglik = np.concatenate(list(posterior.record_loglik()))
    np.testing.assert_allclose(posterior.bounds.loglik[1:], np.abs(loglik).max(axis=0)[1:])
    assert posterior.bounds.loglik[0] == np.inf  # not present
    expected = np.abs(np.clip(0.5 * loglik, -1, 1)).max(axis=0)
    expected[0] = 0.0
    np.testing.assert_allclose(posterior.bounds.contribution, expected)


def test_released_draws_are_distinct_and_far_apart(posterior: Posterior) -> None:
    chosen = posterior.spaced(6)
    rows = [int(np.flatnonzero((posterior.positions == c).all(axis=1))[0]) for c in chosen]
    assert rows == [199, 399, 599, 799, 999, 1199]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_each_data_set_has_a_chain_of_its_own(posterior: Posterior, number: int) -> None:
    for_each = [
        np.argwhere((posterior.chains == draw).all(axis=2)) for draw in posterior.spaced(number)
    ]
    assert all(len(places) == 1 for places in for_each)
    assert len({int(places[0][0]) for places in for_each}) == number


def test_more_data_sets_than_independent_draws_are_refused(posterior: Posterior) -> None:
    chains = np.repeat(posterior.chains, 4, axis=1)  # the same worth, four times as many draws
    diagnostics = diagnose(chains, 0, posterior.density.coordinates)
    slow = replace(posterior, chains=chains, diagnostics=diagnostics)
    with pytest.raises(Refused, match="fewer data sets or more `draws`"):
        slow.spaced(2400)
    assert len(slow.spaced(500)) == 500


def test_failed_diagnostics_say_what_to_do(posterior: Posterior) -> None:
    posterior.check()
    chains = posterior.chains.copy()
    chains[1] += 3.0
    diagnostics = diagnose(chains, 0, posterior.density.coordinates)
    with pytest.raises(Refused, match=r"R-hat of `.*` is .*Ask for more `draws`"):
        replace(posterior, chains=chains, diagnostics=diagnostics).check()


def test_chains_that_alternate_are_not_worth_more_data_sets_than_draws(
    posterior: Posterior,
) -> None:
    worth = np.full(2, 5000.0)
    alternating = replace(posterior.diagnostics, ess_bulk=worth)
    fit = replace(posterior, diagnostics=alternating)
    assert len(fit.spaced(1200)) == 1200
    with pytest.raises(Refused, match="1201 data sets need as many independent draws"):
        fit.spaced(1201)
    exactly = replace(fit, diagnostics=replace(alternating, ess_bulk=worth / 10))
    assert len(exactly.spaced(500)) == 500
    with pytest.raises(Refused, match="501 data sets"):
        exactly.spaced(501)


def test_a_posterior_shows_no_data(posterior: Posterior) -> None:
    assert repr(posterior) == f"Posterior(diagnostics={posterior.diagnostics!r})"
    assert "array" not in repr(posterior)
