"""Proposals around the mode of a clipped posterior: their weights, their laws, what they draw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from flat_prior import fbs_numbers
from monte_carlo import FAR, standard_scores

from understudy.demo.doctorates import doctorates
from understudy.fitting import around_mode
from understudy.fitting import fitter as fitter_module
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import log_density
from understudy.mechanisms.contract import Terms, plain_terms
from understudy.models.normal_sample import FBS

N = 400


def stage() -> tuple[ModelFitter, Terms, np.ndarray]:
    """As the first stage without history: much is clipped, and the prior is around a reference that
    is somewhat off."""
    survey = doctorates(N, seed=2)
    model = FBS("salary", "gender").for_survey(survey)
    nobody = np.zeros(N, dtype=bool)
    settings = Settings(4000, warmup=200)
    fitter = ModelFitter(model, survey, model.prepare(survey), nobody, settings, 7)
    start = fitter.fit(plain_terms(fitter), "reference").positions
    centre = start.mean(axis=0) + 0.3
    alpha = np.full(N, 0.1)
    return fitter, Terms(alpha, fitter.record_loglik(centre), 0.1, centre, 0.5, centre), start


def test_draws_are_those_of_chains_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    fitter, terms, start = stage()
    monkeypatch.setattr(fitter_module, "sample_by_independence", lambda *_: None)
    with monkeypatch.context() as alone:
        alone.delattr(fitter_module, "sample")
        ours = fitter.fit(terms, "stage 1", start)
    ours.check()
    assert np.mean(ours.bounds.weighted >= terms.limit) > 0.1  # of the records
    monkeypatch.setattr(fitter_module, "sample_around_mode", lambda *_: None)
    walked = fitter.fit(terms, "stage 1", start)
    walked.check()
    scores = standard_scores(fbs_numbers(ours.draws), fbs_numbers(walked.draws))
    assert np.abs(scores).max() < FAR, scores.round(1)


def test_weights_are_the_target_over_scipys_t(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a constant; at the law that chains are made of."""
    fitter, terms, start = stage()
    seen: list[Any] = []
    monkeypatch.setattr(around_mode, "weigh", lambda *asked: seen.append(asked))
    inputs = fitter._inputs(terms, None, start)
    around_mode.sample_around_mode(fitter.density, inputs, fitter.settings, jax.random.key(1))
    ((_, block, sums, *_),) = seen
    _, centre, factor, _ = block.args
    positions, before, levels = (np.asarray(part) for part in block(jax.random.key(5)))
    inputs.pop("scale")
    target = [float(log_density(fitter.density, jnp.asarray(q), inputs)) for q in positions]
    law = scipy.stats.multivariate_t(centre, factor @ factor.T, df=around_mode.FREEDOM)
    ratio = before + sums(positions) - (np.array(target) - law.logpdf(positions))
    np.testing.assert_allclose(ratio, ratio[0], atol=1e-8)
    assert (levels < 0).all()
    many = np.concatenate([block(jax.random.key(k))[0] for k in range(100)])
    white = np.linalg.solve(factor, (many - centre).T).T
    square = (white**2).sum(axis=1) / white.shape[1]
    assert scipy.stats.kstest(square, scipy.stats.f(white.shape[1], 20).cdf).pvalue > 1e-4


def test_the_next_law_has_the_moments_of_weighted_pilots() -> None:
    """By NumPy; the twentieth part with the highest weights counts alike."""
    rng = np.random.default_rng(3)
    positions, log_weights = rng.normal(2.0, [1.0, 3.0], (400, 2)), rng.normal(-300.0, 2.0, 400)
    centre, factor = around_mode.next_law(positions, log_weights)
    weights = np.exp(np.minimum(log_weights, np.quantile(log_weights, 0.95)) + 300.0)
    np.testing.assert_allclose(centre, np.average(positions, axis=0, weights=weights))
    wanted = np.cov(positions.T, aweights=weights, ddof=0)
    np.testing.assert_allclose(factor @ factor.T, wanted, rtol=1e-10)


def test_the_first_law_is_the_curvature_at_the_mode() -> None:
    """Where nothing is clipped the density is nearly normal: SciPy's sds of the exact posterior."""
    fitter, _, start = stage()
    own = replace(plain_terms(fitter), limit=1e6)
    inputs = fitter._inputs(own, None, start)
    mode, height = around_mode._mode(fitter.density, np.zeros(start.shape[1]), inputs)
    assert height > float(log_density(fitter.density, jnp.asarray(mode + 0.2), inputs))
    scale = np.asarray(inputs["scale"])
    factor = scale @ around_mode._factor(fitter.density, mode, inputs)
    np.testing.assert_allclose(np.sqrt((factor**2).sum(axis=1)), start.std(axis=0), rtol=0.15)
    np.testing.assert_allclose(scale @ mode, start.mean(axis=0), atol=0.3 * start.std(axis=0).max())


@pytest.mark.parametrize(("away", "below", "suits"), [(400.0, 1.0, False), (400.0, 40.0, True),
                                                      (0.5, 1.0, True)])  # fmt: skip
def test_another_mode_that_is_high_and_far_is_left_to_chains_of_gradients(
    monkeypatch: pytest.MonkeyPatch, away: float, below: float, suits: bool
) -> None:
    fitter, terms, start = stage()
    climb, reached = around_mode._mode, []

    def modes(density: Any, first: Any, inputs: Any) -> tuple[np.ndarray, float]:
        mode, height = climb(density, first, inputs)
        reached.append(mode)
        return (mode, height) if len(reached) == 1 else (reached[0] + away, height - below)

    monkeypatch.setattr(around_mode, "_mode", modes)
    monkeypatch.setattr(around_mode, "weigh", lambda *_: "chains")
    inputs = fitter._inputs(terms, None, start)
    made = around_mode.sample_around_mode(
        fitter.density, inputs, fitter.settings, jax.random.key(1)
    )
    assert (made is not None) is suits
