"""The mixture's Gibbs sampler part by part, against NumPy and SciPy, and against NUTS (another
sampler of the same density). Whole sweeps and fits: tests/statistical/test_mixture_sampler.py."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
import scipy.stats
from monte_carlo import FAR, standard_scores

from understudy.errors import Refused
from understudy.fitting.diagnostics import ess_bulk
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.gibbs import has_gibbs
from understudy.fitting.nuts import Chains, sample
from understudy.mechanisms.contract import Terms
from understudy.models.contract import is_weighted
from understudy.models.density import density_of
from understudy.models.mixture import gibbs
from understudy.models.mixture.hurdle_gibbs import draw_shares, hurdle_sums, sweep_losses
from understudy.models.mixture.mixture import Mixture
from understudy.models.mixture.random_walk import random_walk, scale_walk
from understudy.survey.survey import Survey

MODEL = Mixture("income", "age", 3, zero_by=("sex",), typical=40_000)
CORRELATED = Mixture("income", "sex + age", 3, zero_by=("sex",), typical=40_000)
FLOORS = 0.2, 0.02


def incomes(n: int = 90) -> Survey:
    """Two overlapping groups, some zeros, some losses."""
    rng = np.random.default_rng(4)
    sex, age = rng.choice(["F", "M"], n), rng.normal(45, 12, n)
    low = rng.random(n) < 0.4
    y = np.exp(10.4 + 0.02 * (age - 45) - 1.3 * low + rng.normal(0, 0.5, n))
    y[:7], y[7:12] = 0.0, -np.exp(rng.normal(9, 1, 5))
    return Survey(pl.DataFrame({"sex": sex, "age": age, "income": y}))


def fitter_of(survey: Survey, settings: Settings) -> ModelFitter:
    missing = np.zeros(survey.n, dtype=bool)
    return ModelFitter(MODEL, survey, MODEL.prepare(survey), missing, settings, 3, (), False)


def terms_of(alpha: Any) -> Terms:
    return Terms(alpha, np.zeros(len(alpha)))


def by_nuts(fitter: ModelFitter, terms: Terms) -> Chains:
    first = MODEL.start(fitter.safe_arrays, terms.alpha)
    start = fitter._own_starts(first, terms)
    inputs = fitter._inputs(terms, first, start)
    return sample(fitter.density, inputs, fitter.settings, jax.random.key(1), start)


def label_free(fitter: ModelFitter, chains: Chains) -> Any:
    """Numbers that do not depend on labels, (chains, draws, numbers)."""

    def at(position: Any) -> Any:
        values = fitter.density.constrain(position, arrays)
        judged = MODEL.predictive(jax.random.key(0), values, arrays)
        largest = jnp.sort(values["share"])[::-1]
        # gamma is judged below: NumPyro's stick-breaking cannot hold the smallest shares, which
        # tell about it
        more = [largest[0], largest[1], values["loss_mean"]]
        more += [jnp.log(values["loss_sigma"]), values["negative"]]
        more += [jnp.log(jnp.sort(values["sigma"])).sum(), *jnp.log(values["spread"])]
        return jnp.stack([*judged.numbers.values(), *more])

    arrays = {name: jnp.asarray(a) for name, a in fitter.safe_arrays.items()}
    flat = chains.positions.reshape(-1, chains.positions.shape[-1])
    numbers = np.asarray(jax.jit(lambda q: jax.lax.map(at, q))(flat))
    return numbers.reshape(*chains.positions.shape[:2], -1)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["ones", "small"])
def test_gibbs_and_nuts_sample_the_same_density(weights: str) -> None:
    survey = incomes()
    fitter = fitter_of(survey, Settings(30_000, 4, 500, 0.95, most_thinning=1))
    rng = np.random.default_rng(8)
    alpha = np.ones(survey.n) if weights == "ones" else rng.uniform(0.05, 0.6, survey.n)
    terms = terms_of(alpha)
    assert has_gibbs(fitter.density, terms)
    posterior = fitter.fit(terms, "release")
    ours = Chains(posterior.chains, posterior.diagnostics)
    a, b = label_free(fitter, ours), label_free(fitter, by_nuts(fitter, terms))
    seen = FAR * np.sqrt(1 / ess_bulk(a) + 1 / ess_bulk(b))  # the least shift that is seen, in sd
    assert np.median(seen) < 0.25  # or the comparison says little
    assert seen.max() < 0.75  # NUTS finds the scale of the coefficients' prior slow
    score = standard_scores(a, b)
    assert np.abs(score).max() < FAR, score.round(1)


def data_and_state(alpha: Any, n: int = 300) -> tuple[dict[str, Any], gibbs.State]:
    survey = incomes(n)
    arrays = CORRELATED.prepare(survey)
    data = {k: jnp.asarray(v) for k, v in gibbs.mixture_data(arrays, alpha, FLOORS).items()}
    return data, gibbs.mixture_state(CORRELATED.start(arrays, alpha))


evaluated = jax.jit(gibbs.evaluate)


def test_told_parameters_fit_the_records_as_the_state_does() -> None:
    """Whatever the order of the components, and though a share be next to nothing."""
    survey = incomes(300)
    arrays = CORRELATED.prepare(survey)
    data, state = data_and_state(np.ones(300))
    log_share = jnp.array([0.0, -600.0, -45.0])
    state = state._replace(log_share=log_share - jax.nn.logsumexp(log_share))
    density = density_of(CORRELATED, arrays)
    parameters = jax.jit(gibbs.mixture_parameters)(jax.random.key(1), state, data)
    inputs = {name: jnp.asarray(a) for name, a in arrays.items()}
    position = jax.jit(density.unconstrain)(parameters, inputs)
    back = jax.jit(density.constrain)(position, inputs)
    np.testing.assert_allclose(jnp.log(back["share"]), [-600.0, -45.0, 0.0], atol=1e-6)
    for name, value in (("theta", state.theta), ("sigma", state.sigma)):
        np.testing.assert_allclose(back[name], value[jnp.array([1, 2, 0])], rtol=1e-9)


def test_with_weights_of_one_every_move_is_accepted() -> None:
    data, state = data_and_state(np.ones(300))

    @jax.jit
    def both(*problem: Any) -> Any:
        return (gibbs.sweep(*problem, weighted=False), gibbs.sweep(*problem, weighted=True))

    for expected, moved in zip(*both(jax.random.key(5), state, data), strict=True):
        np.testing.assert_allclose(moved, expected, rtol=1e-12)


def test_components_fit_records_as_scipy_says() -> None:
    data, state = data_and_state(np.ones(300))
    fit = evaluated(state, data)
    table = np.asarray(data["table"])[:-1]
    Q, size = table[:, :-1], table[:, -1]
    law = scipy.stats.norm(Q @ np.asarray(state.theta).T, np.asarray(state.sigma))
    joint = np.exp(np.asarray(state.log_share)) * law.pdf(size[:, None]) * np.sqrt(2 * np.pi)
    log_sums = np.asarray(fit.log_sum, dtype=float) + np.asarray(fit.top)
    np.testing.assert_allclose(log_sums, np.log(joint.sum(axis=1)), atol=3e-5)
    share = np.asarray(fit.joint / fit.joint.sum(axis=0)).T
    np.testing.assert_allclose(share, joint / joint.sum(axis=1, keepdims=True), atol=1e-5)


def moments(*arrays: Any) -> Any:
    """Compiled anew: the size of blocks is no argument."""
    return jax.jit(partial(gibbs._moments))(*arrays)


def test_members_and_their_moments_are_those_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gibbs, "BLOCK", 4)
    rng = np.random.default_rng(1)
    z, part = rng.choice([0, 0, 2, 3], 50), rng.random(50) < 0.7  # component 1 is empty
    table = np.vstack([rng.normal(size=(50, 3)), np.zeros(3)])
    own = (z == np.arange(4)[:, None]) & part
    number, gram = moments(own, z, part, table)
    for k in range(4):
        rows = table[:-1][own[k]]
        assert float(number[k]) == len(rows)
        np.testing.assert_allclose(gram[k], rows.T @ rows, atol=1e-12)


def test_incomes_that_are_all_the_same_have_an_order() -> None:
    arrays = MODEL.prepare(incomes(30))
    arrays["y"] = np.where(arrays["y"] > 0, 40_000.0, arrays["y"])
    data = gibbs.mixture_data(arrays, np.ones(30), FLOORS)
    table = data["table"]
    expected = np.c_[arrays["Q"], np.zeros(30)][arrays["y"] > 0]  # log(y / typical) is 0
    assert sorted(table[:-1].tolist()) == sorted(expected.tolist())
    assert not table[-1].any()


def test_blocks_are_enough_when_components_hardly_miss_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gibbs, "BLOCK", 4)
    for sizes in ([5, 1, 1], [1, 1, 1], [5, 5, 5]):  # each needs all of n // 4 + 3 blocks
        z = np.repeat(np.arange(3), sizes)
        n = len(z)
        table = np.vstack([np.arange(1.0, n + 1)[:, None], [[0.0]]])
        own, part = z == np.arange(3)[:, None], np.ones(n, dtype=bool)
        gram = moments(own, z, part, table)[1]
        assert float(gram.sum()) == pytest.approx((table**2).sum())


@partial(jax.jit, static_argnums=2)
def members_of(state: gibbs.State, data: dict[str, Any], weighted: bool) -> gibbs.Members:
    return gibbs.draw_members(jax.random.key(1), gibbs.evaluate(state, data), data, weighted)


def test_a_record_without_weight_counts_for_nothing() -> None:
    rng = np.random.default_rng(2)
    survey = incomes(300)
    arrays = MODEL.prepare(survey)
    for others in (np.ones(300), rng.uniform(0.1, 0.9, 300)):
        alpha = np.where(np.arange(300) % 3 == 0, 0.0, others)
        changed = dict(arrays)
        changed["y"] = np.where((alpha == 0) & (arrays["y"] > 0), 1e9, arrays["y"])
        for inputs in (arrays, changed):
            data = {k: jnp.asarray(v) for k, v in gibbs.mixture_data(inputs, alpha, FLOORS).items()}
            weighted = is_weighted(alpha)
            state = gibbs.mixture_state(MODEL.start(arrays, others))
            members = members_of(state, data, weighted)
            assert not np.asarray(members.left)[np.asarray(data["alpha"]) == 0].any()
            assert float(members.number.sum()) <= (alpha > 0).sum()
    silent = np.where(arrays["y"] > 0, 0.0, 1.0)
    with pytest.raises(Refused, match="too few positive values with a weight"):
        MODEL.start(arrays, silent)


def test_records_take_part_as_often_as_their_weight_and_in_their_component() -> None:
    alpha = np.linspace(0.05, 1.0, 300)
    data, state = data_and_state(alpha)
    fit = evaluated(state, data)
    keys = jax.random.split(jax.random.key(2), 8000)
    drawn = jax.jit(jax.vmap(lambda key: gibbs.draw_members(key, fit, data, True)))(keys)
    weight = np.asarray(data["alpha"])
    took = weight - np.asarray(drawn.left)
    assert set(np.unique(took.round(9))) == {0.0, 1.0}
    np.testing.assert_allclose(took.mean(axis=0), weight, atol=FAR * 0.5 / np.sqrt(8000))
    share = np.asarray(fit.joint / fit.joint.sum(axis=0))
    expected = (share * weight).sum(axis=1)
    error = np.asarray(drawn.number).std(axis=0) / np.sqrt(8000)
    assert (np.abs(np.asarray(drawn.number).mean(axis=0) - expected) < FAR * error).all()


def test_a_move_is_weighed_by_the_records_that_it_changes() -> None:
    """The change of sum_i (alpha_i - t_i) log S_i, recomputed from nothing."""
    alpha = np.linspace(0.05, 1.0, 300)
    data, state = data_and_state(alpha)
    fit = evaluated(state, data)
    members = members_of(state, data, True)
    theta = state.theta + 0.02
    moved, after = jax.jit(gibbs._moves)(
        jax.random.key(3), state, fit, members, data, theta, 1.01 * state.sigma
    )
    assert 0 < int(moved.sum()) <= 3
    new = state._replace(
        theta=jnp.where(moved[:, None], theta, state.theta),
        sigma=jnp.where(moved, 1.01 * state.sigma, state.sigma),
    )
    fresh = evaluated(new, data)
    np.testing.assert_allclose(after.log_sum + after.top, fresh.log_sum + fresh.top, atol=3e-5)
    # accepted as often as the ratio says, also where a record is hundreds of logs away
    change = np.zeros(len(members.left))
    change[0], change[1] = -300.0, -0.5
    left = np.zeros(len(members.left))
    left[0], left[1] = 0.001, 0.8
    altered = members._replace(left=jnp.asarray(left))
    keys = jax.random.split(jax.random.key(4), 40_000)
    accepted = jax.vmap(lambda key: gibbs._accepted(key, altered, fit, fit.log_sum + change))
    taken = jax.jit(accepted)(keys)
    assert float(taken.mean()) == pytest.approx(np.exp(-0.3 - 0.4), abs=FAR * 0.5 / np.sqrt(40_000))


def test_walked_scales_have_their_distribution() -> None:
    """Against numerical integration of the half-t posterior."""
    number, squares, floor = jnp.array([0.0, 3.0, 40.0]), jnp.array([0.0, 0.9, 90.0]), 0.2
    keys = jax.random.split(jax.random.key(6), 12_000)

    def step(at: Any, key: Any) -> tuple[Any, Any]:
        at = scale_walk(at, number, squares, floor, key)
        return at, at

    walked = np.asarray(jax.lax.scan(step, jnp.ones(3), keys)[1])
    grid = np.exp(np.linspace(np.log(floor), np.log(400), 200_001))
    for k in range(3):
        log_density = scipy.stats.t.logpdf(grid, 3) - float(number[k]) * np.log(grid)
        log_density -= 0.5 * float(squares[k]) / grid**2
        mass = np.exp(log_density - log_density.max()) * np.gradient(grid)
        mean = (np.log(grid) * mass).sum() / mass.sum()
        logs = np.log(walked[:, k])
        error = logs.std() / np.sqrt(ess_bulk(logs.reshape(4, 3000, 1))[0])
        assert abs(logs.mean() - mean) < FAR * error


def test_a_random_walk_leaves_a_normal_density_alone() -> None:
    points = jax.random.normal(jax.random.key(1), (40_000,))
    moved = random_walk(lambda x: -0.5 * x * x, points, jnp.full(40_000, 2.4), jax.random.key(2))
    assert scipy.stats.kstest(np.asarray(moved), "norm").pvalue > 1e-6
    assert float(jnp.mean(moved != points)) > 0.95


def test_losses_and_zeros_follow_their_conditionals() -> None:
    sums = {"zeros": jnp.array([3.0, 0.0]), "positive": jnp.array([5.5, 8.0]),
            "possible": jnp.asarray(1.0), "losses": jnp.array([2.5, 4.0, 9.0])}  # fmt: skip
    keys = jax.random.split(jax.random.key(3), 16_000)
    draw = jax.jit(jax.vmap(draw_shares, in_axes=(0, None)))
    drawn = draw(keys, sums)
    beta = scipy.stats.beta
    for g, (a, b) in enumerate([(3.5, 6.0), (0.5, 8.5)]):
        assert scipy.stats.kstest(np.asarray(drawn["zero"])[:, g], beta(a, b).cdf).pvalue > 1e-6
    assert scipy.stats.kstest(drawn["negative"], beta(3.0, 17.0).cdf).pvalue > 1e-6
    sigma = jnp.array([0.7])
    losses = jax.jit(jax.vmap(lambda k: sweep_losses(k, jnp.asarray(0.0), sigma, sums, 0.2)[0]))
    mean = losses(keys)
    precision = 0.25 + 2.5 / 0.49
    law = scipy.stats.norm(4.0 / 0.49 / precision, precision**-0.5)
    assert scipy.stats.kstest(np.asarray(mean), law.cdf).pvalue > 1e-6
    arrays = MODEL.prepare(incomes())
    counted = hurdle_sums(arrays, np.ones(90))
    assert float(counted["possible"]) == 1.0
    assert float(hurdle_sums(arrays | {"losses": np.asarray(0.0)}, np.ones(90))["possible"]) == 0.0
    assert counted["zeros"].sum() == 7
    assert counted["positive"].sum() == 78
    size = np.log(-arrays["y"][7:12] / 40_000)
    np.testing.assert_allclose(counted["losses"], [5, size.sum(), (size**2).sum()])
    impossible = sums | {"possible": jnp.asarray(0.0)}
    share = draw(keys, impossible)["negative"]
    assert scipy.stats.kstest(np.asarray(share), beta(0.5, 0.5).cdf).pvalue > 1e-6


def test_censoring_another_prior_and_weights_above_one_are_left_to_nuts() -> None:
    density = fitter_of(incomes(), Settings()).density
    ones = np.ones(90)
    assert has_gibbs(density, terms_of(ones))
    assert not has_gibbs(density, terms_of(1.5 * ones))
    assert not has_gibbs(density, Terms(ones, np.zeros(90), limit=1.0))
    assert not has_gibbs(density, Terms(ones, np.zeros(90), prior_scale=2.0))
