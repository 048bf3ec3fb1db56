"""The posterior given noisy counts in bins: its parts against SciPy, itself against a lattice."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
import pytest
from scipy import stats
from scipy.special import logsumexp, polygamma

import understudy as us
from understudy.dp.binned_counts import BinnedValues, NoisyBins, bin_edges, counted
from understudy.fitting import fitter as fitter_module
from understudy.fitting import noisy_counts
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.noisy_counts import (
    NODES,
    REACH,
    STEP,
    _interpolated,
    counted_density,
    counted_inputs,
    known_information,
    log_noisy_counts,
    nodes_of,
    slopes_of,
    spread_over_files,
    starts,
)
from understudy.fitting.nuts import sample
from understudy.fitting.posterior import parameters_at
from understudy.survey.codebook import Codebook, Column

UNIT = Column("share", "sensitive", "continuous", bounds=(0.0, 1.0), rounding=None)
VISITS = Column("visits", "sensitive", "integer", bounds=(0, 200))
WIDE = Column("share", "sensitive", "continuous", bounds=(0.0, 3.0), rounding=None)
GROUP = Column("group", "public", "categorical", levels=("a", "b"))


def fitter_of(model, *declared, **columns) -> ModelFitter:
    facts = {"share": UNIT, "visits": VISITS, "group": GROUP} | {c.name: c for c in declared}
    codebook = Codebook({name: facts[name] for name in columns if name in facts})
    survey = us.Survey(pl.DataFrame(columns), us.Design(), codebook)
    nobody = np.zeros(survey.n, dtype=bool)
    return ModelFitter(model, survey, model.prepare(survey), nobody, Settings(), 7)


def shares(n: int, first: float = 2.0, second: float = 5.0) -> ModelFitter:
    values = np.random.default_rng(3).beta(first, second, n)
    return fitter_of(us.Beta("share"), share=values)


def visits(n: int) -> ModelFitter:
    rng = np.random.default_rng(4)
    group = rng.integers(0, 2, n)
    values = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(1.0 + group)))
    return fitter_of(
        us.NegativeBinomial("visits", "group"), visits=values, group=np.array(["a", "b"])[group]
    )


@pytest.mark.parametrize("scale", [0.2, 1.0, 6.0])
def test_probabilities_of_noisy_counts_are_sums_over_true_ones(scale, monkeypatch):
    """Term by term, by SciPy's Poisson and two-sided geometric laws; also far from the middle."""
    monkeypatch.setattr(noisy_counts, "REACH", 1e6)
    shown = np.array([-7, 0, 1, 12, 60, 400])
    rate = np.array([0.0, 1e-4, 0.5, 3.0, 40.0, 350.0])
    k = np.arange(2_000)
    wanted = np.array(
        [
            [(stats.poisson.pmf(k, r) * stats.dlaplace.pmf(h - k, 1 / scale)).sum() for r in rate]
            for h in shown
        ]
    )
    ours = log_noisy_counts(shown, scale, np.sqrt(rate))
    seen = wanted > 1e-200
    assert seen.mean() > 0.7
    np.testing.assert_allclose(ours[seen], np.log(wanted[seen]), atol=1e-9)
    assert np.isfinite(ours).all()  # chains may start anywhere


@pytest.mark.parametrize("scale", [0.6, 3.0])
def test_beyond_its_reach_nothing_is_explained_by_noise(scale):
    """The same sums over true counts within reach; by a series from its end on, which is not less.
    A bin of 100 records that a model does not expect costs what it costs without noise."""
    shown = np.array([-3, 0, 5, 30, 100])
    rate = np.array([0.01, 0.3, 2.0, 20.0, 90.0, 300.0])
    reach = int(np.ceil(REACH * scale))
    ours = log_noisy_counts(shown, scale, np.sqrt(rate))
    for h, row in zip(shown, ours, strict=True):
        k = np.arange(max(h - reach, 0), max(h + reach, 0) + 1)
        log_noise = stats.dlaplace.logpmf(h - k, 1 / scale)
        for r, ours_at in zip(rate, row, strict=True):
            wanted = logsumexp(stats.poisson.logpmf(k, r) + log_noise)
            assert -0.05 < ours_at - wanted < 1.0
    alone = stats.poisson.logpmf(100 - reach, 0.3)
    assert ours[-1, 1] == pytest.approx(alone - REACH, abs=3.0)


@pytest.mark.parametrize("scale", [0.5, 20.0])
def test_large_counts_are_nearly_poissons(scale):
    rate = 2_100.0  # just where counts become normal
    shown = np.rint(rate + np.array([-2.5, -1, 0, 1, 2.5]) * np.sqrt(rate + 2 * scale**2))
    k = np.arange(4_000)
    wanted = [
        np.log((stats.poisson.pmf(k, rate) * stats.dlaplace.pmf(h - k, 1 / scale)).sum())
        for h in shown
    ]
    grid = np.array([0.0, np.sqrt(rate)])  # a grid begins at 0
    ours = log_noisy_counts(shown.astype(np.int64), scale, grid)[:, 1]
    np.testing.assert_allclose(ours, wanted, atol=0.06)


def test_between_the_points_of_the_grid_probabilities_are_interpolated():
    shown = np.array([-2, 0, 3, 30])
    grid = np.arange(0.0, 7.0, STEP)
    table = log_noisy_counts(shown, 0.8, grid)
    rng = np.random.default_rng(2)
    for root in (0.01, 0.03, *rng.uniform(0.0, 6.5, 20)):
        direct = log_noisy_counts(shown, 0.8, np.array([root]))[:, 0]
        ours = _interpolated(jnp.full(4, root), table, slopes_of(table))
        np.testing.assert_allclose(ours[:3], direct[:3], atol=0.03)
        np.testing.assert_allclose(ours[3], direct[3], rtol=0.05)  # 30 are far from a small mean


def log_bins(fitter: ModelFitter, edges, parameters):
    name = fitter.model.targets[0]
    rows = (
        np.unique(fitter.arrays["X"], axis=0, return_index=True)[1] if "X" in fitter.arrays else [0]
    )
    sizes = np.full(len(rows), 50)
    whole = fitter.density.whole
    counts = np.zeros((len(rows), len(edges) - 1), dtype=np.int64)
    seen = BinnedValues(counts, sizes, edges, rows, whole, 1)
    density, arrays = counted_density(fitter.model, fitter.arrays, seen, NoisyBins(counts, 1.0))
    assert len(arrays[name]) == counts.size * NODES  # of the tails none, as there are none
    position = density.unconstrain(parameters, arrays)
    return np.exp(density.log_bins(position, arrays)[1])


@pytest.mark.parametrize(("first", "second"), [(2.0, 5.0), (0.6, 0.8), (30.0, 4.0)])
def test_bins_have_scipys_probabilities_of_a_beta_law(first, second):
    """Also where the density is infinite at both bounds."""
    edges = bin_edges((0.0, 1.0), 20, whole=False)
    total = first + second
    shown = log_bins(shares(50), edges, {"phi": first / total, "lambda": total})
    wanted = np.diff(stats.beta(first, second).cdf(edges))
    np.testing.assert_allclose(shown[0], wanted, rtol=2e-3, atol=2e-5)


def test_bins_have_scipys_probabilities_of_a_negative_binomial_law():
    """In both cells, with bins of one number and of many, and a last one without an end."""
    edges = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 20.0, 30.0])
    fitter = visits(60)
    assert fitter.density.whole
    assert not shares(60).density.whole
    shown = log_bins(fitter, edges, {"beta": np.array([1.0, 0.7]), "overdispersion": 0.5})
    X = np.unique(fitter.arrays["X"], axis=0)
    assert len(X) == 2
    for row, ours in zip(X, shown, strict=True):
        mean = np.exp(row @ [1.0, 0.7])
        law = stats.nbinom(2.0, 2.0 / (2.0 + mean))
        wanted = np.append(np.diff(law.cdf(edges[:-1] - 1)), law.sf(edges[-2] - 1))
        assert wanted[-1] > 1e-4
        np.testing.assert_allclose(ours, wanted, rtol=0.02, atol=1e-6)


def posterior_of(fitter: ModelFitter, shown, scale: float, grid):
    """The posterior of a model's one parameter given noisy counts, on a grid of its position."""
    seen = replace(fitter.binned_values("auto", 1.0), counts=np.array([shown]))
    density, arrays = counted_density(
        fitter.model, fitter.arrays, seen, NoisyBins(seen.counts, scale)
    )
    height = [sum(np.sum(part) for part in density.evaluate_now(q, arrays)) for q in grid[:, None]]
    return np.exp(np.array(height) - max(height))


def yes_or_no(n, answer=None):
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    with numpyro.plate("record", n):
        numpyro.sample("answer", dist.Bernoulli(p), obs=answer)


@pytest.mark.parametrize("answers", [[False, True], ["no", "yes"], [0, 1]])
def test_the_posterior_of_yes_and_no_is_the_exact_one(answers):
    """By a lattice of p: the number of yes is binomial, and both noises are summed out; and nearer
    with Poisson numbers, as ours are. Truth values, texts with declared levels and numbers need no
    bounds."""
    values = np.array(answers)[np.arange(60) % 2]
    column = Column("answer", "sensitive", "categorical", levels=tuple(answers))
    fitter = fitter_of(us.from_numpyro(yes_or_no, ["answer"]), column, answer=values)
    shown, scale = np.array([33, 24]), 2.0
    logit, k = np.linspace(-3.0, 3.0, 601), np.arange(200)
    p = 1 / (1 + np.exp(-logit))
    prior = stats.beta.pdf(p, 2, 3) * p * (1 - p)
    no, yes = (stats.dlaplace.pmf(h - k, 1 / scale) for h in shown)
    yes_of_60 = stats.binom.pmf(k[:61], 60, p[:, None])
    exact = prior * (yes_of_60 * no[60::-1] * yes[:61]).sum(axis=1)
    poisson = [stats.poisson.pmf(k, 60 * each[:, None]) for each in (1 - p, p)]
    nearer = prior * (poisson[0] * no).sum(axis=1) * (poisson[1] * yes).sum(axis=1)
    ours = moments_of(p, posterior_of(fitter, shown, scale, logit))
    np.testing.assert_allclose(ours, moments_of(p, nearer), rtol=0.002)
    mean, spread = moments_of(p, exact)
    assert abs(ours[0] - mean) < 0.1 * spread
    assert ours[1] == pytest.approx(spread, rel=0.05)


def moments_of(values, weight):
    mean = (weight * values).sum() / weight.sum()
    return mean, np.sqrt((weight * (values - mean) ** 2).sum() / weight.sum())


def successes(tries, done=None):
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    with numpyro.plate("record", tries.shape[0]):
        numpyro.sample("done", dist.Binomial(tries, p), obs=done)


def test_bins_of_a_binomial_law_end_where_it_ends_in_each_cell():
    """By SciPy; 31 values in 8 bins, of which a cell with ten tries has three."""
    tries = np.repeat([10, 30], 40)
    fitter = fitter_of(us.from_numpyro(successes, ["done"]), done=tries // 3, tries=tries)
    seen = fitter.binned_values(8, 1.0)
    np.testing.assert_array_equal(seen.edges, [0, 4, 8, 12, 16, 19, 23, 27, 31])
    density, arrays = counted_density(
        fitter.model, fitter.arrays, seen, NoisyBins(seen.counts, 1.0)
    )
    shown = np.exp(density.log_bins(density.unconstrain({"p": 0.4}, arrays), arrays)[1])
    for ours, number in zip(shown, (10, 30), strict=True):
        wanted = np.diff(stats.binom(number, 0.4).cdf(seen.edges - 1))
        np.testing.assert_allclose(ours, wanted, atol=1e-9)
    loss = jax.grad(lambda q: density.log_bins(q, arrays)[1][0].sum())(np.array([0.1]))
    assert np.isfinite(loss).all()


def bell(n, share=None):
    centre = numpyro.sample("centre", dist.Normal(0.0, 1.0))
    with numpyro.plate("record", n):
        numpyro.sample("share", dist.Normal(centre, 0.4), obs=share)


def bell_of_logs(n, share=None):
    centre = numpyro.sample("centre", dist.Normal(0.0, 1.0))
    with numpyro.plate("record", n):
        logs = numpyro.sample(
            "logs", dist.Normal(centre, 0.4), obs=None if share is None else jnp.log(share)
        )
        numpyro.deterministic("share", jnp.exp(logs))


@pytest.mark.parametrize(
    ("function", "law"),
    [(bell, stats.norm(0.7, 0.4)), (bell_of_logs, stats.lognorm(0.4, scale=np.exp(0.7)))],
)
def test_values_beyond_the_bounds_are_in_the_first_and_the_last_bin(function, law):
    """As they are counted there, and drawn from the whole law; of log values in the outcome's own
    units. The bounds hold .93 and .82 of the law."""
    values = np.random.default_rng(1).uniform(0.1, 1.0, 50)
    fitter = fitter_of(us.from_numpyro(function, ["share"]), WIDE, share=values)
    seen = fitter.binned_values(12, 1.0)
    density, arrays = counted_density(
        fitter.model, fitter.arrays, seen, NoisyBins(seen.counts, 1.0)
    )
    shown = np.exp(density.log_bins(np.array([0.7]), arrays)[1])[0]
    wanted = np.diff(law.cdf(np.r_[-np.inf, seen.edges[1:-1], np.inf]))
    np.testing.assert_allclose(shown, wanted, rtol=0.005, atol=1e-7)


def several_numbers(n, share=None):
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    with numpyro.plate("record", n):
        numpyro.sample("some", dist.Bernoulli(p), obs=None if share is None else share > 0)
        numpyro.sample("share", dist.Normal(p, 1.0), obs=share)


def test_a_model_that_observes_more_than_one_number_is_refused():
    values = np.random.default_rng(1).uniform(0.1, 1.0, 50)
    fitter = fitter_of(us.from_numpyro(several_numbers, ["share"]), WIDE, share=values)
    with pytest.raises(us.Refused, match=r"this one has some and share: take Censored"):
        fitter.binned_values(12, 1.0)


@pytest.mark.parametrize(("edges", "mean"), [((0, 1, 2, 3, 40), 15.0), ((0, 40, 80, 82), 60.0)])
def test_the_last_bin_of_whole_numbers_is_looked_at_as_far_as_a_law_goes(edges, mean):
    """Where it is wide, and where it is narrow and far out."""
    values, log_weight = nodes_of(np.array(edges, dtype=float), True)
    law = stats.gamma(2.0, scale=mean / 2)
    shown = (law.pdf(values[-1]) * np.exp(log_weight[-1])).sum()
    assert shown == pytest.approx(law.sf(edges[-2] - 0.5), rel=0.01)


@cache
def noisy_shares():
    """60 records in 12 bins, with noise of scale 2: a Beta law of which the counts say little."""
    fitter = shares(60)
    edges = bin_edges((0.0, 1.0), 12, whole=False)
    counts = counted(fitter.arrays["y"], np.zeros(60, dtype=np.int64), 1, edges)
    noise = stats.dlaplace(0.5).rvs(counts.shape, random_state=np.random.default_rng(6))
    seen = BinnedValues(counts, np.array([60]), edges, np.array([0]), False, 1)
    return fitter, seen, NoisyBins(counts + noise, 2.0)


def test_the_posterior_is_that_of_a_lattice_by_scipy():
    """Over phi and log lambda, with the prior of C: all counts summed out one by one."""
    fitter, seen, noisy = noisy_shares()
    phi, log_lambda = np.meshgrid(np.linspace(0.01, 0.99, 99), np.linspace(-2.25, 8.0, 120))
    phi, lam = phi.ravel(), np.exp(log_lambda.ravel())
    cdf = stats.beta.cdf(seen.edges[:, None], lam * phi, lam * (1 - phi))
    rate = 60 * np.diff(cdf, axis=0)  # (bins, lattice)
    k = np.arange(200)
    log_density = stats.pareto.logpdf(lam, 1.5, scale=0.1) + np.log(lam)
    for h, r in zip(noisy.counts[0], rate, strict=True):
        terms = stats.poisson.pmf(k[:, None], r) * stats.dlaplace.pmf(h - k, 0.5)[:, None]
        log_density += np.log(terms.sum(axis=0))
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    density, arrays = counted_density(fitter.model, fitter.arrays, seen, noisy)
    inputs = counted_inputs(density, arrays)
    points = starts(density, arrays, noisy, 4, 1)
    chains = sample(density, inputs, Settings(4000), jax.random.key(3), points)
    assert not chains.diagnostics.failures
    made = parameters_at(density, chains.positions.reshape(-1, 2), arrays)
    values = np.array([[float(p["phi"]), np.log(float(p["lambda"]))] for p in made])
    for column, exact in enumerate((phi, np.log(lam))):
        mean = (weight * exact).sum()
        spread = np.sqrt((weight * (exact - mean) ** 2).sum())
        # 4,000 draws worth 400 at least: six errors of a mean are .3 of a spread
        assert abs(values[:, column].mean() - mean) < 0.3 * spread
        assert values[:, column].std() == pytest.approx(spread, rel=0.2)


def test_information_is_that_of_the_records_in_closed_form():
    """Of the Beta law in (first, second), by SciPy's trigamma; the prior by differences. Of three
    records, so that the prior is seen."""
    fitter, seen, noisy = noisy_shares()
    seen = replace(seen, sizes=np.array([3]))
    density, arrays = counted_density(fitter.model, fitter.arrays, seen, noisy)
    centre = np.asarray(density.unconstrain({"phi": 0.3, "lambda": 8.0}, arrays))
    information = known_information(density, centre, arrays)

    def shapes(position):
        made = density.constrain(jnp.asarray(position), arrays)
        phi, lam = float(made["phi"]), float(made["lambda"])
        return np.array([lam * phi, lam * (1 - phi)])

    def log_prior(position):
        return float(density.at_nodes(jnp.asarray(position), arrays)[0])

    step = 1e-4 * np.eye(2)
    slope = np.array([(shapes(centre + e) - shapes(centre - e)) / 2e-4 for e in step])
    of_prior = np.array(
        [
            [
                (log_prior(centre + a + b) - log_prior(centre + a - b)
                 - log_prior(centre - a + b) + log_prior(centre - a - b)) / 4e-8
                for b in step
            ]
            for a in step
        ]
    )  # fmt: skip
    first, second = shapes(centre)
    shared = polygamma(1, first + second)
    of_shapes = 3 * (np.diag(polygamma(1, [first, second])) - shared)
    wanted = slope @ of_shapes @ slope.T - of_prior
    np.testing.assert_allclose(information, wanted, rtol=0.01)


def test_chains_start_around_the_best_fit_of_the_counts_and_apart():
    fitter, seen, _ = noisy_shares()
    counts = 100 * seen.counts  # of 6,000 records there is little doubt
    seen = BinnedValues(counts, np.array([6_000]), seen.edges, seen.rows, False, 1)
    noisy = NoisyBins(counts, 2.0)
    density, arrays = counted_density(fitter.model, fitter.arrays, seen, noisy)
    points = starts(density, arrays, noisy, 4, 1)
    first, second, *_ = stats.beta.fit(
        np.repeat((seen.edges[1:] + seen.edges[:-1]) / 2, counts[0]), floc=0, fscale=1
    )
    for point in points:
        made = density.constrain(jnp.asarray(point), arrays)
        assert float(made["phi"]) == pytest.approx(first / (first + second), abs=0.02)
    assert np.ptp(points, axis=0).min() > 0


@pytest.mark.parametrize("m", [2, 5])
def test_what_noise_leaves_open_is_spread_and_what_records_do_is_not(m):
    """By simulation: of 2,000 releases, the variance between files and that of their mean. Noise
    leaves .75 open in the first direction and nothing in the second."""
    rng = np.random.default_rng(m)
    turn = np.array([[0.8, -0.6], [0.6, 0.8]]) @ np.diag([2.0, 0.5])
    information = np.linalg.inv(turn @ np.diag([0.25, 1.0]) @ turn.T)
    between, means = [], []
    for _ in range(2_000):
        draws = rng.standard_normal((4_000, 2)) @ turn.T
        files = np.linalg.solve(turn, spread_over_files(draws, information, m).T)
        between.append(files.var(axis=1, ddof=1))
        means.append(files.mean(axis=1))
    np.testing.assert_allclose(np.mean(between, axis=0), [0.75 * m + 0.25, 1.0], rtol=0.2)
    # the common part is centred: what is left of it in the mean is the files' own part
    np.testing.assert_allclose(np.var(means, axis=0), [0.25 / m, 1 / m], rtol=0.2, atol=0.01)


def test_one_file_alone_is_a_draw():
    draws = np.random.default_rng(1).standard_normal((100, 3))
    np.testing.assert_array_equal(spread_over_files(draws, np.eye(3), 1), draws[99:])


@pytest.mark.parametrize("failures", [[], ["R-hat of `phi` is 1.2"]])
def test_files_are_drawn_from_chains_given_counts_and_a_failure_is_told(monkeypatch, failures):
    fitter, seen, noisy = noisy_shares()
    density, arrays = counted_density(fitter.model, fitter.arrays, seen, noisy)
    around = starts(density, arrays, noisy, 4, 2)[0]
    positions = around + 0.1 * np.random.default_rng(1).standard_normal((4, 25, 2))
    chains = SimpleNamespace(positions=positions, diagnostics=SimpleNamespace(failures=failures))
    monkeypatch.setattr(fitter_module, "sample", lambda *_: chains)
    drawn = fitter.given_noisy(seen, noisy, 3)
    flat = positions.reshape(100, 2)
    known = known_information(density, flat.mean(axis=0), arrays)
    wanted = parameters_at(density, spread_over_files(flat, known, 3), arrays)
    assert drawn.passed == (not failures)
    assert [float(p["phi"]) for p in drawn.parameters] == [float(p["phi"]) for p in wanted]


def test_counts_are_within_the_predictors_cells():
    fitter = visits(200)
    seen = fitter.binned_values(10, 1.0)
    assert seen.cells == 2
    assert seen.whole
    np.testing.assert_array_equal(seen.sizes, seen.counts.sum(axis=1))
    for row, counts in zip(seen.rows, seen.counts, strict=True):
        mine = (fitter.arrays["X"] == fitter.arrays["X"][row]).all(axis=1)
        wanted = np.histogram(fitter.arrays["y"][mine], seen.edges)[0]
        np.testing.assert_array_equal(counts, wanted)


def test_bins_are_for_the_records_of_one_cell():
    fitter = visits(400)
    seen = fitter.binned_values("auto", 2.0)  # 200 records of each: .05 * 200 * 2^2 / 2
    np.testing.assert_array_equal(seen.edges, bin_edges((0, 200), 20, whole=True))
