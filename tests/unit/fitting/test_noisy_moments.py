"""The posterior given noisy moments, against prior simulation weighted by the noise's density."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from understudy.demo.doctorates import doctorates
from understudy.dp.clipped_moments import GRID, NoisyCellSums, cell_sums
from understudy.errors import Refused
from understudy.fitting import noisy_moments
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.noisy_moments import (
    LatentDraws,
    ShownMoments,
    _covariance,
    _spread,
    mixing_variance,
    placed,
    sample_given_noisy,
    shown_moments,
    spread_positions,
    starts,
    sweep,
)
from understudy.mechanisms.contract import plain_terms
from understudy.models.normal_sample import FBS

SIZES, X = np.array([15, 25]), np.array([[1.0, 0.0], [1.0, 1.0]])
HALF = np.array([1.5, 1.0])
FIRST = np.array([[7.0, -3.0], [2.0, 9.0]])
SECOND = np.array([14.0, -5.0, 17.0])
FREEDOM, SCALE = 9, 2.0 * np.eye(2)  # of the inverse Wishart that Sigma has beforehand
WIDE = 0.5  # the standard deviation that each coefficient has beforehand
SIMULATED = 80_000


def shown(scale: float = 1.0) -> ShownMoments:
    """Scales of noise of 8 for sums and 12 for squares, or a part of them."""
    cell = np.repeat([0, 1], SIZES)
    seen = cell_sums(np.zeros((40, 2)), cell, X, np.zeros(2), HALF, 1)
    pairs = np.array([HALF[0] ** 2, HALF[0] * HALF[1], HALF[1] ** 2])
    return shown_moments(
        seen, NoisyCellSums(FIRST / HALF, SECOND / pairs, scale * 5.0, scale * 8.0)
    )


def test_a_covariance_matrix_is_drawn_from_scipys_inverse_wishart() -> None:
    """Under a prior that is flat where the proposal is, so that every proposal is taken."""
    W, mean = jnp.array([[30.0, 8.0], [8.0, 20.0]]), jnp.asarray(FIRST / SIZES[:, None])

    def flat(state: dict[str, jax.Array]) -> jax.Array:
        return -1.5 * jnp.linalg.slogdet(state["Sigma"])[1]

    at = placed({"Sigma": jnp.eye(2), "mean": mean, "B": jnp.zeros((2, 2)), "W": W}, flat)
    draw = jax.jit(jax.vmap(lambda key: _covariance(key, at, shown(), flat)["Sigma"]))
    drawn = np.array(draw(jax.random.split(jax.random.key(1), 4000)))
    R = np.asarray(W) + (np.asarray(mean) * SIZES[:, None]).T @ np.asarray(mean)
    known = stats.invwishart(SIZES.sum(), R).rvs(4000, random_state=np.random.default_rng(2))
    for each in (drawn, known):
        each[:, 0, 1] /= np.sqrt(each[:, 0, 0] * each[:, 1, 1])  # the correlation
    for j, k in ((0, 0), (1, 1), (0, 1)):
        assert stats.ks_2samp(drawn[:, j, k], known[:, j, k]).pvalue > 1e-6


def log_prior(state):
    B, Sigma = state["B"], state["Sigma"]
    size = jnp.linalg.slogdet(Sigma)[1]
    of_Sigma = -0.5 * (FREEDOM + 3) * size - 0.5 * jnp.trace(jnp.linalg.solve(Sigma, SCALE))
    return of_Sigma - 0.5 * (B**2).sum() / WIDE**2


@cache
def compiled():
    def chain(state, key, moments):
        def step(state, key):
            state = sweep(state, key, moments, log_prior)
            kept = [state["B"].ravel(), state["Sigma"][jnp.triu_indices(2)], state["mean"].ravel()]
            return state, jnp.concatenate([*kept, state["W"][jnp.triu_indices(2)]])

        return jax.lax.scan(step, placed(state, log_prior), jax.random.split(key, 2000))[1]

    return jax.jit(jax.vmap(chain, in_axes=(0, 0, None)))


def by_chains(scale: float = 1.0) -> np.ndarray:
    """(draws, 14): B, Sigma, the cells' means and W."""
    moments = shown(scale)
    state = starts(jax.random.key(1), 8, moments)
    drawn = np.asarray(compiled()(state, jax.random.split(jax.random.key(2), 8), moments))
    return drawn[:, 200:]


def wisharts(rng: np.random.Generator, freedom: int) -> np.ndarray:
    """With the identity as their scale, by Bartlett: SciPy makes them one by one."""
    factor = np.zeros((SIMULATED, 2, 2))
    for j in range(2):
        factor[:, j, j] = np.sqrt(rng.chisquare(freedom - j, SIMULATED))
    factor[:, 1, 0] = rng.standard_normal(SIMULATED)
    return np.asarray(factor @ factor.mT)


def test_wishart_matrices_are_scipys() -> None:
    """Diagonal elements are chi squared; what the first leaves of the second is, with one degree
    less; and the element beside them over the root of the first is normal."""
    W = wisharts(np.random.default_rng(5), FREEDOM)
    left = np.linalg.det(W) / W[:, 0, 0]
    for values, freedom in ((W[:, 0, 0], 9), (W[:, 1, 1], 9), (left, 8)):
        assert stats.kstest(values, stats.chi2(freedom).cdf).pvalue > 1e-6
    assert stats.kstest(W[:, 1, 0] / np.sqrt(W[:, 0, 0]), "norm").pvalue > 1e-6


@cache
def by_simulation() -> tuple[np.ndarray, np.ndarray]:
    """Parameters and moments from the prior, and weights by the Laplace density of the noise."""
    rng = np.random.default_rng(3)
    B = WIDE * rng.standard_normal((SIMULATED, 2, 2))
    half = np.linalg.cholesky(SCALE)
    Sigma = half @ np.linalg.inv(wisharts(rng, FREEDOM)) @ half.T
    root = np.linalg.cholesky(Sigma)
    deviates = rng.standard_normal((SIMULATED, 2, 2))
    mean = X @ B + np.einsum("sij,scj->sci", root, deviates) / np.sqrt(SIZES)[:, None]
    W = root @ wisharts(rng, 38) @ root.mT
    sums = mean * SIZES[:, None]
    second = W + np.einsum("sci,scj->sij", sums, mean)
    j, k = np.triu_indices(2)
    gaps = np.abs(sums - FIRST) / (5.0 * HALF)
    squares = np.abs(second[:, j, k] - SECOND) / (8.0 * HALF[j] * HALF[k])
    weight = np.exp(-gaps.sum(axis=(1, 2)) - squares.sum(axis=1))
    parts = B.reshape(-1, 4), Sigma[:, j, k], mean.reshape(-1, 4), W[:, j, k]
    return np.concatenate(parts, axis=1), weight / weight.sum()


def apart(scale: float = 1.0) -> np.ndarray:
    """How far means and second moments by chains are from those by simulation, in standard
    errors of both."""
    chains, (simulated, weight) = by_chains(scale), by_simulation()
    ours, theirs = (np.concatenate([v, v**2], axis=-1) for v in (chains, simulated))
    centre = weight @ theirs
    error = np.sqrt((weight**2) @ (theirs - centre) ** 2)
    by_chain = ours.mean(axis=1)
    own = by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain))
    return np.abs(by_chain.mean(axis=0) - centre) / np.hypot(error, own)


def test_draws_follow_the_posterior_that_knows_the_noise():
    weight = by_simulation()[1]
    assert 1 / (weight**2).sum() > 1_500
    assert apart().max() < 6  # 28 numbers; eight chains have wide tails


def test_a_posterior_that_ignores_the_noise_is_seen():
    assert apart(scale=0.02).max() > 20


def test_a_normal_of_mixed_variance_is_laplace():
    """Noise from the variances that Laplace noise suggests is Laplace noise again."""
    of_first, of_tau, of_second = jax.random.split(jax.random.key(4), 3)
    noise = 3.0 * jax.random.laplace(of_first, (40_000,))
    variance = mixing_variance(of_tau, noise, jnp.array(3.0))
    again = jnp.sqrt(variance) * jax.random.normal(of_second, (40_000,))
    assert stats.kstest(np.asarray(again), stats.laplace(scale=3.0).cdf).pvalue > 1e-4


@pytest.mark.parametrize("m", [2, 5])
def test_files_are_spread_by_the_root_of_their_number_around_the_same_mean(m):
    draws = np.random.default_rng(m).standard_normal((100, 3))
    ends = np.arange(m) * 7
    spread = _spread(draws, ends)
    np.testing.assert_allclose(spread.mean(axis=0), draws.mean(axis=0), atol=1e-12)
    wanted = m * draws[ends].var(axis=0, ddof=1)
    np.testing.assert_allclose(spread.var(axis=0, ddof=1), wanted)


def test_one_file_alone_is_a_draw():
    draws = np.random.default_rng(1).standard_normal((100, 3))
    np.testing.assert_array_equal(_spread(draws, np.array([99])), draws[99:])


def moments_of(rows: np.ndarray, cell: np.ndarray, scale: float) -> ShownMoments:
    """What sums of these values show, with a scale that their noise is said to have."""
    half = np.array([4.0, 8.0])
    z = rows / half
    seen = cell_sums(z, cell, X, np.zeros(2), half, 1)
    first = np.stack([z[cell == c].sum(axis=0) for c in (0, 1)])
    second = np.array([z[:, 0] @ z[:, 0], z[:, 0] @ z[:, 1], z[:, 1] @ z[:, 1]])
    return shown_moments(seen, NoisyCellSums(first, second, scale, scale))


def test_without_noise_chains_start_at_least_squares():
    rng = np.random.default_rng(8)
    cell = rng.integers(0, 2, 500)
    rows = 0.3 + 0.5 * X[cell] @ [[1.0, 0.0], [-1.0, 2.0]] + rng.normal(size=(500, 2)) * [0.5, 1.0]
    start = moments_of(rows, cell, 1e-9)
    B, *_ = np.linalg.lstsq(X[cell], rows, rcond=None)
    np.testing.assert_allclose(start.B, B)
    residuals = rows - X[cell] @ B
    np.testing.assert_allclose(start.Sigma, residuals.T @ residuals / 500)
    state = starts(jax.random.key(5), 3, start)
    np.testing.assert_allclose(state["mean"], np.tile(X @ B, (3, 1, 1)))
    np.testing.assert_allclose(state["W"], 498 * state["Sigma"])  # two cells' means are known


@pytest.mark.parametrize("scale", [0.01, 8.0], ids=["sampling", "noise"])
def test_steps_reach_as_far_as_sampling_and_noise_leave_open(scale):
    """Simulated: factors of scatter matrices by SciPy with Laplace noise. Of a logarithm, sampling
    alone gives sqrt(2) times the reach, which is a step's size and nothing that must be exact."""
    rng, n, half = np.random.default_rng(9), 2000, np.array([4.0, 8.0])
    rows = rng.normal(size=(n, 2)) * [1.0, 2.0]
    start = moments_of(rows, rng.integers(0, 2, n), scale)
    scatter = stats.wishart(n, np.diag(np.diag(start.Sigma))).rvs(20_000, random_state=rng)
    noise = rng.laplace(0, scale, (20_000, 3)) * [half[0] ** 2, half[0] * half[1], half[1] ** 2]
    scatter[:, [0, 0, 1], [0, 1, 1]] += noise
    ratio = scatter[:, 0, 1] / scatter[:, 0, 0]
    logs = 0.5 * np.log(scatter[:, [0, 1], [0, 1]])
    reach = np.asarray(start.reach)
    assert reach[1, 0] == pytest.approx(ratio.std(), rel=0.1)
    exact = logs.std(axis=0) / (np.sqrt(2) if scale < 1 else 1.0)
    np.testing.assert_allclose(np.diag(reach), exact, rtol=0.1)


def test_draws_are_those_of_all_runs_chain_by_chain(monkeypatch):
    """Chains that disagree in the first run are run on; sweeps before it are left out."""
    rng, asked, made = np.random.default_rng(10), [], []

    def sweeps(_density, count, _like, state, key, _noisy):
        asked.append((count, int(state["number"]), jax.random.key_data(key).tolist()))
        number = state["number"] + 1
        position = rng.normal(size=(4, count, 3))
        position[0] += 0.8 * (number == 4)  # after three runs that are left out
        made.append((rng.normal(size=(4, count, 2, 2)), rng.normal(size=(4, count, 2, 2))))
        return {"number": number}, {"position": position, "mean": made[-1][0], "W": made[-1][1]}

    monkeypatch.setattr(noisy_moments, "_sweeps", sweeps)
    monkeypatch.setattr(noisy_moments, "BURN_IN", 2250)
    monkeypatch.setattr(noisy_moments, "starts", lambda *_: {"number": 0})
    density = SimpleNamespace(coordinates=["a", "b", "c"])
    latent = sample_given_noisy(density, {}, None, Settings(800), jax.random.key(1))
    assert [count for count, _, _ in asked] == [200] * len(asked)
    assert [number for _, number, _ in asked] == list(range(len(asked)))
    assert len({tuple(key) for *_, key in asked}) == len(asked)
    kept = made[3:]  # 2250 sweeps of five a draw: three runs of 200
    assert latent.diagnostics.thinning == len(kept) > 1
    assert not latent.diagnostics.failures
    for ours, theirs in ((latent.mean, 0), (latent.W, 1)):
        by_chain = np.concatenate([part[theirs] for part in kept], axis=1)
        np.testing.assert_array_equal(ours, by_chain.reshape(-1, 2, 2))


def test_each_file_is_drawn_given_moments_that_are_spread(monkeypatch):
    """Without spread, as of one file, the moments are those of records with these means and W."""
    rng = np.random.default_rng(11)
    cell = np.repeat([0, 1], SIZES)
    values = 0.2 * rng.normal(size=(40, 2))
    mean = np.stack([values[cell == c].mean(axis=0) for c in (0, 1)])
    residuals = values - mean[cell]
    latent = LatentDraws(mean[None], (residuals.T @ residuals)[None], None)
    asked = []

    def drawn(_density, _arrays, moments, key):
        asked.append((moments, jax.random.key_data(key).tolist()))
        return np.full(3, len(asked))

    monkeypatch.setattr(noisy_moments, "one_draw", drawn)
    centre = np.array([7.0, -3.0])
    noisy = SimpleNamespace(half=HALF, centre=centre, sizes=SIZES, X=X)
    positions = spread_positions(None, {}, noisy, latent, 1, jax.random.key(3))
    assert positions.tolist() == [[1.0] * 3]
    (moments, _), rows = asked[0], values + centre
    np.testing.assert_allclose(moments.XX, X[cell].T @ X[cell])
    np.testing.assert_allclose(moments.XY, X[cell].T @ rows)
    np.testing.assert_allclose(moments.YY, rows.T @ rows)
    assert float(moments.total) == 40
    # three files: their W's factors are three draws' around the mean, sqrt(3) times as far apart
    asked.clear()
    means = mean + 0.05 * rng.normal(size=(30, 2, 2))
    W = stats.wishart(60, np.array([[1.0, 0.5], [0.5, 2.0]])).rvs(30, random_state=rng)
    spread_positions(None, {}, noisy, LatentDraws(means, W, None), 3, jax.random.key(3))
    assert len({tuple(key) for _, key in asked}) == 3
    shown = np.stack([np.asarray(moments.XY) for moments, _ in asked])
    sums = np.einsum("ck,sci->ski", SIZES[:, None] * X, means + centre)
    np.testing.assert_allclose(shown.mean(axis=0), sums.mean(axis=0))
    chosen = sums[[9, 19, 29]]
    np.testing.assert_allclose(shown.std(axis=0), np.sqrt(3) * chosen.std(axis=0))
    scatter = [
        np.asarray(m.YY) - np.asarray(m.XY).T @ np.linalg.solve(np.asarray(m.XX), np.asarray(m.XY))
        for m, _ in asked
    ]
    roots, every = np.linalg.cholesky(scatter), np.linalg.cholesky(W)
    for ours, theirs in (
        (np.log(roots[:, 0, 0]), np.log(every[:, 0, 0])),
        (np.log(roots[:, 1, 1]), np.log(every[:, 1, 1])),
        (roots[:, 1, 0] / roots[:, 0, 0], every[:, 1, 0] / every[:, 0, 0]),
    ):
        assert ours.mean() == pytest.approx(theirs.mean())
        assert ours.std() == pytest.approx(np.sqrt(3) * theirs[[9, 19, 29]].std())


def fitter_of(predictors: str, n: int) -> ModelFitter:
    survey = doctorates(n, seed=2)
    model = FBS("salary", predictors).for_survey(survey)
    nobody = np.zeros(n, dtype=bool)
    return ModelFitter(model, survey, model.prepare(survey), nobody, Settings(), 7)


def test_values_are_clipped_logarithms_between_their_bounds():
    """By hand, with bounds that cut at both ends."""
    fitter = fitter_of("gender", 200)
    rows = fitter.survey.frame()
    clip = [tuple(rows[name].quantile(q) for q in (0.1, 0.9)) for name in ("salary", "weight")]
    seen = fitter.cell_sums_within(tuple(clip))
    for column, name in enumerate(("salary", "weight")):
        low, high = np.log(clip[column])
        wanted = 2 * (np.log(rows[name].to_numpy()) - low) / (high - low) - 1
        assert wanted.min() < -1 < 1 < wanted.max()
        sums = np.bincount(fitter.arrays["cell"], np.clip(wanted, -1, 1))
        np.testing.assert_allclose(seen.first[:, column] / GRID, sums, atol=200 / GRID)
        assert seen.half[column] == pytest.approx((high - low) / 2)
    X = np.asarray(fitter.model.gaussian_data(fitter.arrays)[0])
    np.testing.assert_array_equal(seen.X[fitter.arrays["cell"]], X)
    assert seen.sizes.tolist() == np.bincount(fitter.arrays["cell"]).tolist()


@pytest.mark.parametrize(("n", "enough"), [(39, False), (40, True)])
def test_a_cell_needs_five_records_on_average(n, enough):
    fitter = fitter_of("field", n)
    clip = ((13_000.0, 480_000.0), (20.0, 400.0))
    assert len(np.unique(fitter.arrays["cell"])) == 8
    if enough:
        assert len(fitter.cell_sums_within(clip).X) == 8
    else:
        with pytest.raises(Refused, match="8 combinations for 39 records"):
            fitter.cell_sums_within(clip)


def test_a_record_without_a_value_has_no_sum():
    fitter = fitter_of("gender", 40)
    lacking = replace(fitter, missing=np.arange(40) == 7)
    with pytest.raises(Refused, match="NoisyMoments needs a value of every record"):
        lacking.cell_sums_within(((13_000.0, 480_000.0), (20.0, 400.0)))


@pytest.mark.slow
def test_with_next_to_no_noise_the_posterior_is_that_of_the_records():
    """Through the model's own prior, against exact draws; of 40 records the prior is seen."""
    fitter = fitter_of("gender", 40)
    rows = fitter.survey.frame()
    ends = [(0.95 * rows[name].min(), 1.05 * rows[name].max()) for name in ("salary", "weight")]
    seen = fitter.cell_sums_within(tuple(ends))  # nothing is clipped
    Y, (j, k) = fitter.model.gaussian_data(fitter.arrays)[1], np.triu_indices(2)
    z, cell = (Y - seen.centre) / seen.half, fitter.arrays["cell"]
    first = np.stack([z[cell == c].sum(axis=0) for c in range(len(seen.X))])
    second = (z[:, j] * z[:, k]).sum(axis=0)
    moments = shown_moments(seen, NoisyCellSums(first, second, 0.004, 0.004))
    like = tuple((name, a.shape, str(a.dtype)) for name, a in sorted(fitter.safe_arrays.items()))
    state = starts(jax.random.key(1), 8, moments)
    for key in jax.random.split(jax.random.key(2)):  # the first run is left out
        state, made = noisy_moments._sweeps(fitter.density, 1000, like, state, key, moments)
    exact = fitter.fit(plain_terms(fitter), "the records").positions
    ours, theirs = (
        np.concatenate([v, v**2], axis=-1) for v in (np.asarray(made["position"]), exact)
    )
    by_chain = ours.mean(axis=1)
    error = np.hypot(by_chain.std(axis=0, ddof=1) / np.sqrt(8), theirs.std(axis=0) / np.sqrt(1000))
    apart = np.abs(by_chain.mean(axis=0) - theirs.mean(axis=0))
    assert (error < 0.06 * theirs.std(axis=0)).all()  # chains that mix badly are seen
    assert (apart / error).max() < 6


@pytest.mark.parametrize("failures", [[], ["R-hat of `scale[0]` is 1.2"]])
def test_files_are_drawn_from_what_chains_gave_and_a_failure_is_told(monkeypatch, failures):
    fitter = fitter_of("gender", 50)
    latent = SimpleNamespace(diagnostics=SimpleNamespace(failures=failures))
    noisy = NoisyCellSums(np.zeros((2, 2)), np.array([9.0, 1.0, 8.0]), 1.0, 1.0)

    def sampled(_density, _arrays, shown, settings, _key):
        assert settings == Settings()
        assert shown.second[0] == pytest.approx(9 * seen.half[0] ** 2)
        return latent

    def positions(density, _arrays, _shown, made_of, count, _key):
        assert made_of is latent
        return np.arange(count)[:, None] * np.ones(density.dimension)

    seen = fitter.cell_sums_within(((13_000.0, 480_000.0), (20.0, 400.0)))
    monkeypatch.setattr(noisy_moments, "sample_given_noisy", sampled)
    monkeypatch.setattr(noisy_moments, "spread_positions", positions)
    monkeypatch.setattr(noisy_moments, "parameters_at", lambda _density, at, _arrays: at.tolist())
    drawn = fitter.given_noisy(seen, noisy, 3)
    assert [row[0] for row in drawn.parameters] == [0, 1, 2]
    assert drawn.passed == (not failures)
