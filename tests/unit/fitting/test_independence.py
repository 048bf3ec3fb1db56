"""Independent proposals for clipped posteriors: their density, their weights, what they draw."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from flat_prior import fbs_numbers, fbs_reference, flat_draws
from monte_carlo import Matrix, compare, known_moments

from understudy.demo.doctorates import doctorates
from understudy.fitting import fitter as fitter_module
from understudy.fitting import gaussian_records, independence
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.independence import accepted, effective_share, log_proposal
from understudy.fitting.moments import cell_moments, metropolis_places
from understudy.fitting.nuts import log_density
from understudy.mechanisms.contract import Terms
from understudy.models import density as density_module
from understudy.models.density import Density
from understudy.models.normal_sample import FBS

N = 400  # records of the tests, so that they share programs


def fitter_of(draws: int = 2000, records: int = N) -> ModelFitter:
    survey = doctorates(records, seed=2)
    model = FBS("salary", "gender").for_survey(survey)
    nobody = np.zeros(records, dtype=bool)
    return ModelFitter(model, survey, model.prepare(survey), nobody, Settings(draws, warmup=200), 7)


def clipped_terms(fitter: ModelFitter, alpha: Matrix, limit: float) -> Terms:
    """Around a reference that is somewhat off."""
    X, Y = fitter.arrays["X"], np.c_[fitter.arrays["y0"], fitter.arrays["w"]]
    B = np.linalg.lstsq(X, Y, rcond=None)[0]
    Sigma = np.cov((Y - X @ B).T)
    centre = np.asarray(fitter.model.position(jnp.asarray(B + 0.03), jnp.asarray(1.1 * Sigma)))
    return Terms(alpha, fitter.record_loglik(centre), limit, centre, inf)


def test_the_density_of_proposals_is_scipys() -> None:
    rng = np.random.default_rng(1)
    X = np.c_[np.ones(40), rng.standard_normal(40)]
    Y = X @ rng.standard_normal((2, 3)) + rng.standard_normal((40, 3)) @ rng.random((3, 3))
    alpha = rng.random(40)
    moments = cell_moments(X, np.arange(40), Y.T, alpha)
    centre = np.linalg.solve(moments.XX, moments.XY)
    R = np.asarray(moments.YY) - np.asarray(moments.XY).T @ centre
    wishart = scipy.stats.invwishart(alpha.sum() - 2, R)
    for seed in range(3):
        Sigma = wishart.rvs(random_state=seed)
        B = centre + rng.standard_normal((2, 3))
        normal = scipy.stats.matrix_normal(centre, np.linalg.inv(moments.XX), Sigma)
        expected = wishart.logpdf(Sigma) + normal.logpdf(B)
        assert float(log_proposal(B, Sigma, moments)) == pytest.approx(expected, rel=1e-10)


def test_acceptance_is_that_of_the_other_metropolis() -> None:
    rng = np.random.default_rng(2)
    log_weights, levels = rng.normal(0, 2, 500), np.log(rng.random(500))
    places = jax.jit(metropolis_places)(jnp.asarray(log_weights), jnp.asarray(levels))
    assert accepted(log_weights, levels).tolist() == np.asarray(places).tolist()


def test_a_proposal_that_is_impossible_is_never_kept() -> None:
    log_weights = np.array([-inf, 0.0, -inf, 1.0])
    assert accepted(log_weights, np.full(4, -1e-9)).tolist() == [0, 1, 1, 3]


def test_the_effective_share() -> None:
    assert effective_share(np.full(8, -300.0)) == pytest.approx(1.0)
    assert effective_share(np.array([0.0, -800.0, -800.0, -800.0])) == pytest.approx(0.25)
    assert effective_share(np.log([1.0, 3.0])) == pytest.approx(16 / 10 / 2)


@partial(jax.jit, static_argnums=0)
def expected_log_weight(
    density: Density, position: jax.Array, inputs: Any, moments: Any, wide: Any
) -> jax.Array:
    parameters = density.constrain(position, inputs["arrays"])
    F = parameters["scale"][:, None] * parameters["correlation"]
    B, Sigma = parameters["coefficients"], F @ F.T
    mixture = jnp.logaddexp(
        np.log(0.9) + log_proposal(B, Sigma, moments),
        np.log(0.1) + log_proposal(B, Sigma, wide),
    )
    target = log_density(density, position, inputs)
    return target - mixture - density.model.log_volume(B, Sigma)  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["whole", "in parts", "in blocks", "with units", "another prior"])
def test_weights_are_the_target_over_the_proposal(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is NUTS's; the proposal's density is SciPy's, above."""
    fitter = fitter_of()
    terms = clipped_terms(fitter, np.linspace(0.2, 0.8, N), 0.4)
    if way == "another prior":
        terms = replace(terms, prior_scale=0.7)
    if way == "with units":
        object.__setattr__(fitter, "units", np.repeat(np.arange(N // 4, dtype=np.int32), 4))
    if way == "in parts":
        monkeypatch.setattr(density_module, "FEW_RECORDS", 100)
        monkeypatch.setattr(density_module, "PART", 64)
    inputs = fitter._inputs(terms, None, None)
    inputs.pop("scale")
    sums = None
    if way == "in blocks":
        monkeypatch.setattr(gaussian_records, "FEW_RECORDS", 100)
        monkeypatch.setattr(gaussian_records, "LEAST_PER_CELL", 2)
        sums = fitter._sums(replace(terms, reference=terms.prior_centre))
        assert sums is not None
    chains: list[Any] = []
    make = independence._Chain

    def seen(*problem: Any) -> Any:
        chains.append(make(*problem))
        return chains[-1]

    monkeypatch.setattr(independence, "_Chain", seen)
    monkeypatch.setattr(independence, "_misses_a_mode", lambda *_: False)  # not the subject here
    settings = replace(fitter.settings, draws=16)
    independence.sample_by_independence(
        fitter.density, inputs, settings, jax.random.key(1), None, sums
    )
    positions, log_weights, _ = chains[0]._blocks[0]
    data = fitter.model.gaussian_cells(fitter.safe_arrays)
    moments = cell_moments(*data, terms.alpha)
    wide = independence.tempered(moments, independence.WIDER)
    for position, log_weight in zip(positions[:5], log_weights, strict=False):
        expected = expected_log_weight(fitter.density, position, inputs, moments, wide)
        assert log_weight == pytest.approx(float(expected), abs=1e-8)


def test_clipped_draws_are_those_of_the_clipped_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent draws under the flat prior and half of the weight, which are wider, weighted by
    the model's prior and the clipped contributions, both by NumPy and SciPy: the same means within
    .3 sd, and sds within 25 %."""
    monkeypatch.delattr(fitter_module, "sample")  # NUTS is not asked,
    monkeypatch.setattr(independence, "LEAST_SHARE", 0.0)  # however little the pilot promises
    fitter = fitter_of(draws=8000)
    alpha = 0.2 + 0.6 * np.random.default_rng(0).random(N)
    terms = clipped_terms(fitter, alpha, 0.8)
    posterior = fitter.fit(terms, "release")
    posterior.check()
    assert np.mean(posterior.bounds.weighted > terms.limit) > 0.02  # of the records
    X, Y = fitter.arrays["X"], np.c_[fitter.arrays["y0"], fitter.arrays["w"]]
    B, Sigma = flat_draws(X, Y, 0.5 * alpha, 40_000)
    log_det = np.linalg.slogdet(Sigma)[1]
    points, log_prior = fbs_reference(B, Sigma)

    def added(some: slice) -> np.ndarray:
        """What the clipped contributions add to half of the weight, for some of the draws."""
        factor = np.linalg.inv(np.linalg.cholesky(Sigma[some]))
        white = np.einsum("mij,mnj->mni", factor, Y - X @ B[some])
        loglik = -np.log(2 * np.pi) - 0.5 * log_det[some, None] - 0.5 * (white**2).sum(axis=2)
        gain = alpha * (loglik - terms.reference_loglik)
        return (np.clip(gain, -0.8, 0.8) - 0.5 * alpha * loglik).sum(axis=1)

    parts = [added(slice(first, first + 500)) for first in range(0, len(B), 500)]
    log_weight = log_prior + 1.5 * log_det + np.concatenate(parts)
    mass = np.exp(log_weight - log_weight.max())
    assert mass.sum() ** 2 / (mass**2).sum() > 5_000
    compare(fbs_numbers(posterior.draws), known_moments(points, mass), shift=0.3, spread=0.25)


def test_where_proposals_do_not_suit_nuts_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    fitter = fitter_of()
    terms = clipped_terms(fitter, np.full(N, 0.5), 0.3)
    inputs = fitter._inputs(terms, None, None)
    inputs.pop("scale")
    key = jax.random.key(0)
    monkeypatch.setattr(independence, "LEAST_SHARE", 1.1)
    sampled = independence.sample_by_independence(fitter.density, inputs, fitter.settings, key)
    assert sampled is None
    too_little = inputs | {"alpha": jnp.full(N, 0.0075)}
    sampled = independence.sample_by_independence(fitter.density, too_little, fitter.settings, key)
    assert sampled is None


@pytest.mark.parametrize(("limit", "missed"), [(0.4, True), (1e3, False)])
def test_a_mode_that_gives_up_a_tail_is_seen(limit: float, missed: bool) -> None:
    """A fifth of the outcomes far below: the fit to all, and that to the others, which is higher by
    hundreds where what the fifth may say is clipped, and lower where it is not."""
    usual = fitter_of()
    y = np.array(usual.arrays["y0"])
    y[::5] -= 6.0
    fitter = replace(usual, arrays=usual.arrays | {"y0": y})
    terms = clipped_terms(usual, np.full(N, 0.4), limit)
    centre = terms.prior_centre
    assert centre is not None
    terms = replace(terms, reference_loglik=fitter.record_loglik(centre))
    inputs = fitter._inputs(terms, None, None)
    inputs.pop("scale")
    model, data = fitter.model, fitter.model.gaussian_cells(fitter.safe_arrays)
    of_all = cell_moments(*data, inputs["alpha"])
    of_others = cell_moments(*data, inputs["alpha"].at[::5].set(0.0))
    height = jax.jit(lambda point: log_density(fitter.density, model.position(*point), inputs))
    heights = [float(height(independence._mode(each))) for each in (of_all, of_others)]
    assert (heights[1] > heights[0]) is missed
    assert independence._misses_a_mode(fitter.density, of_all, inputs) is missed


def test_modes_are_sought_until_a_thousandth_of_the_records_changes_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From all records and from half of them; those that are clipped have no weight in a fit."""
    fitter, asked, weights = fitter_of(records=1000), [], []
    half = np.arange(1000) % 2 == 0

    def given_up(*_: Any) -> tuple[Matrix, Matrix]:
        asked.append(np.arange(1000) < len(asked) % 2)  # record 0, at every second time
        return asked[-1], half

    def moments_of(X: Any, cell: Any, Y: Any, alpha: Any) -> Any:
        weights.append(alpha)
        return cell_moments(X, cell, Y, alpha)

    monkeypatch.setattr(independence, "_given_up", given_up)
    monkeypatch.setattr(independence, "cell_moments", moments_of)
    monkeypatch.setattr(independence, "_height", lambda *_: (0.0, 0.0))
    alpha = np.linspace(0.2, 0.8, 1000)
    of_all = cell_moments(*fitter.model.gaussian_cells(fitter.arrays), alpha)
    inputs = {"arrays": fitter.arrays, "alpha": alpha}
    assert independence._misses_a_mode(fitter.density, of_all, inputs) is False
    assert len(asked) == 2 + 3  # half of the records are others than those that are clipped
    expected = [alpha, np.where(half, 0.0, alpha), np.where(asked[3], 0.0, alpha)]
    np.testing.assert_array_equal(weights, expected)
