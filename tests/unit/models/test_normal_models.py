"""FBS and FBP: likelihoods against SciPy and each other, priors, coordinates, synthetic files."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
import scipy.integrate
import scipy.stats

import understudy as us
from understudy.demo.doctorates import codebook, doctorates
from understudy.errors import Refused
from understudy.models.compilation import compiled
from understudy.models.density import density_of
from understudy.models.gaussian import GaussianModel, cell_numbers
from understudy.models.normal_population import FBP, exact_loglik
from understudy.models.normal_sample import FBS
from understudy.models.scale_mixture import HalfTScaleNormal, kept_mass
from understudy.survey.codebook import Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey

PREDICTORS = "C(field) + gender"


@pytest.fixture(scope="module")
def small() -> Survey:
    return doctorates(300, seed=3)


@pytest.fixture(scope="module")
def two_outcomes(small: Survey) -> Survey:
    rng = np.random.default_rng(5)
    bonus = pl.Series("bonus", np.exp(8 + rng.standard_normal(small.n)))
    book = small.codebook.with_column(Column("bonus", "sensitive"))
    return Survey(small.frame().with_columns(bonus), small.design, book)


def some_parameters(K: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d)) * 0.3 + 0.5 * np.eye(d)
    return rng.standard_normal((K, d)), root @ root.T


@cache
def value_and_slope(s: float) -> Any:
    return jax.jit(jax.value_and_grad(HalfTScaleNormal(s, 0.1).log_prob))


@pytest.mark.parametrize("s", [10.0, 2.5])
@pytest.mark.parametrize("beta", [1e-3, 0.2, 3.0, 11.5, 40.0, 400.0])
def test_integrated_prior_is_the_integral(beta: float, s: float) -> None:
    def joint(log_sigma: float) -> float:
        sigma = np.exp(log_sigma)
        half_t = 2 * scipy.stats.t.pdf(sigma, 3, scale=s)
        kept = np.exp(-0.5 * (0.1 / sigma) ** 2)
        return float(scipy.stats.norm.pdf(beta, 0, sigma) * half_t * kept * sigma)

    # the integrand is smooth in log sigma; each part is easy for the quadrature
    parts = [scipy.integrate.quad(joint, a, a + 2, epsabs=0)[0] for a in range(-20, 20, 2)]
    log_prob = value_and_slope(s)
    value, slope = log_prob(jnp.asarray(beta))
    expected = np.log(sum(parts)) - np.log(kept_mass(0.1 / s))
    assert float(value) == pytest.approx(expected, rel=1e-8)
    step = 1e-3 * beta
    rise = log_prob(jnp.asarray(beta + step))[0] - log_prob(jnp.asarray(beta - step))[0]
    assert float(slope) == pytest.approx(float(rise) / (2 * step), rel=1e-4)


def test_integrated_prior_draws_have_its_distribution() -> None:
    prior = HalfTScaleNormal(2.0, 0.1)
    key = jax.random.key(0)
    draw = compiled(lambda key: prior.sample(key, (40_000,)), key, optimisation=1)
    draws = np.asarray(draw(key))
    grid = np.concatenate([-np.geomspace(1e4, 1e-9, 60_000), np.geomspace(1e-9, 1e4, 60_000)])
    density = np.exp(np.asarray(jax.jit(prior.log_prob)(grid)))
    cdf = scipy.integrate.cumulative_trapezoid(density, grid, initial=0.0)
    assert cdf[-1] == pytest.approx(1.0, abs=1e-3)
    test = scipy.stats.kstest(draws, lambda x: np.interp(x, grid, cdf))
    assert test.pvalue > 1e-6


def test_fbs_likelihood_is_scipys(two_outcomes: Survey) -> None:
    model = FBS(["salary", "bonus"], PREDICTORS).for_survey(two_outcomes)
    arrays = model.prepare(two_outcomes)
    density = density_of(model, arrays)
    B, Sigma = some_parameters(9, 3)
    position = model.position(jnp.asarray(B), jnp.asarray(Sigma))
    loglik = density.evaluate_now(position, arrays)[1]
    frame = two_outcomes.frame()
    weight = frame["weight"].to_numpy() * two_outcomes.n / 100_000
    Y = np.log(np.c_[frame["salary"].to_numpy(), frame["bonus"].to_numpy(), weight])
    residual = Y - arrays["X"] @ B
    expected = scipy.stats.multivariate_normal(np.zeros(3), Sigma).logpdf(residual)
    np.testing.assert_allclose(loglik, expected, rtol=1e-10, atol=1e-10)


def test_fbs_prior_is_scipys(small: Survey) -> None:
    model = FBS("salary", PREDICTORS).for_survey(small)
    density = density_of(model, arrays := model.prepare(small))
    B, Sigma = some_parameters(9, 2)
    position = model.position(jnp.asarray(B), jnp.asarray(Sigma))
    scale = np.sqrt(np.diag(Sigma))
    rho = Sigma[0, 1] / scale.prod()
    half_t = scipy.stats.t.logpdf(scale, 3, scale=10) + np.log(2) + np.log(scale)  # + Jacobian
    # LKJ(6) in two dimensions: (1 + rho)/2 ~ Beta(6, 6); rho = tanh(x) has derivative 1 - rho^2
    lkj = scipy.stats.beta.logpdf((1 + rho) / 2, 6, 6) - np.log(2) + np.log(1 - rho**2)
    coefficients = np.asarray(HalfTScaleNormal(10.0, 0.1).log_prob(jnp.asarray(B)))
    expected = coefficients.sum() + half_t.sum() + lkj
    assert float(density.evaluate_now(position, arrays)[0]) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("outcomes", [["salary"], ["salary", "bonus"]], ids=len)
def test_fbp_is_fbs_in_other_coordinates(two_outcomes: Survey, outcomes: list[str]) -> None:
    """methods §4: f_FBP = log N((log y, l); x B, Sigma) - l, to 1e-10."""
    models = (m(outcomes, PREDICTORS).for_survey(two_outcomes) for m in (FBS, FBP))
    sampled, population = models
    arrays = population.prepare(two_outcomes)
    fbs, fbp = density_of(sampled, arrays), density_of(population, arrays)
    d = len(outcomes) + 1
    for seed in range(5):
        B, Sigma = map(jnp.asarray, some_parameters(9, d, seed))
        turned = jnp.ones(d).at[-1].set(-1.0)  # FBS has log w = -l as its last column
        at = sampled.position(B * turned, Sigma * jnp.outer(turned, turned))
        of_fbs = fbs.evaluate_now(at, arrays)[1]
        of_fbp = fbp.evaluate_now(population.position(B, Sigma), arrays)[1]
        difference = np.asarray(of_fbp - (of_fbs + arrays["w"]))
        assert np.abs(difference).max() < 1e-10 * max(1.0, float(jnp.abs(of_fbs).max()))


def test_fbps_likelihood_of_two_outcomes_is_that_of_a_sample_with_chance_pi() -> None:
    """T eq. 6 by its definition: pi p(l | y) p(y) over its integral, by quadrature and SciPy."""
    rng = np.random.default_rng(4)
    mean, kappa, design, sigma = (
        rng.normal(size=(5, 2)),
        np.array([0.7, -0.4]),
        rng.normal(size=5),
        0.6,
    )
    factor = np.array([[0.8, 0.0], [0.3, 0.5]])
    y, log_pi = rng.normal(size=(5, 2)), rng.normal(size=5)
    ours = exact_loglik(y, log_pi, mean, design, kappa, factor, sigma)
    nodes, masses = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    mass = np.einsum("i,j,k->ijk", masses, masses, masses).ravel() / (2 * np.pi) ** 1.5
    for i in range(5):
        of_y = scipy.stats.multivariate_normal(mean[i], factor @ factor.T).logpdf(y[i])
        of_l = scipy.stats.norm(y[i] @ kappa + design[i], sigma).logpdf(log_pi[i])
        drawn = mean[i] + grid[:, :2] @ factor.T
        pi = np.exp(drawn @ kappa + design[i] + sigma * grid[:, 2])
        # the lognormal density of pi has 1/pi, which cancels the chance of being in the sample
        assert float(ours[i]) == pytest.approx(of_y + of_l - np.log(mass @ pi), rel=1e-9)


def test_fbp_prior_is_scipys(two_outcomes: Survey) -> None:
    for outcomes in (["salary"], ["salary", "bonus"]):
        model = FBP(outcomes, PREDICTORS).for_survey(two_outcomes)  # type: ignore[arg-type]
        density = density_of(model, arrays := model.prepare(two_outcomes))
        position = np.random.default_rng(1).standard_normal(density.dimension)
        p = len(outcomes)
        coefficients, logs, free = np.split(position, [(9 * p) + p + 9, (9 * p) + p + 9 + p + 1])
        expected = scipy.stats.norm.logpdf(coefficients, 0, 10).sum()
        expected += (scipy.stats.halfcauchy.logpdf(np.exp(logs)) + logs).sum()
        for rho in np.tanh(free):  # LKJ(6): (1 + rho)/2 ~ Beta(6, 6)
            expected += (
                scipy.stats.beta.logpdf((1 + rho) / 2, 6, 6) - np.log(2) + np.log(1 - rho**2)
            )
        prior = density.evaluate_now(jnp.asarray(position), arrays)[0]
        assert float(prior) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "model",
    [FBS(["a", "b"], "x"), FBS("a", "x"), FBP(["a", "b"], "x"), FBP("a", "x")],  # type: ignore[arg-type]
    ids=repr,
)
def test_log_volume_is_the_jacobian(model: GaussianModel) -> None:
    """The determinant by automatic differentiation of the inverse map, position -> (B, Sigma)."""
    d = len(model.outcomes) + 1  # type: ignore[attr-defined]
    lower = np.tril_indices(d)
    B, Sigma = map(jnp.asarray, some_parameters(3, d, seed=4))

    def flat(B_and_Sigma: jax.Array) -> jax.Array:
        S = jnp.zeros((d, d)).at[lower].set(B_and_Sigma[3 * d :])
        S = S + jnp.tril(S, -1).T
        return model.position(B_and_Sigma[: 3 * d].reshape(3, d), S)

    jacobian = jax.jit(jax.jacfwd(flat))(np.r_[np.ravel(B), np.asarray(Sigma)[lower]])
    expected = -np.linalg.slogdet(np.asarray(jacobian))[1]
    assert float(jax.jit(model.log_volume)(B, Sigma)) == pytest.approx(expected, rel=1e-9)


def generated(model: FBS | FBP, survey: Survey, tables: str) -> tuple[dict[str, np.ndarray], ...]:
    model = replace(model, tables=tables).for_survey(survey)  # type: ignore[arg-type]
    arrays = model.prepare(survey)
    density = density_of(model, arrays)
    B = np.zeros((9, 2))
    B[:, 0], B[0, 0], B[8, 1] = 0.1, 11.5, 0.3
    Sigma = np.array([[0.16, -0.12], [-0.12, 0.25]])
    if isinstance(model, FBP):
        B[:, 1], Sigma = -B[:, 1], Sigma * np.array([[1, -1], [-1, 1]])
    position = model.position(jnp.asarray(B), jnp.asarray(Sigma))
    made = jax.jit(density.generate)(jax.random.key(0), position, arrays)
    columns = model.restore({k: np.asarray(v) for k, v in made.items()}, survey)
    return {k: v.to_numpy() for k, v in columns.items()}, arrays, {"B": B, "Sigma": Sigma}


@pytest.mark.parametrize("tables", ["recommended", "paper"])
def test_fbs_weights_are_smoothed_and_add_up(small: Survey, tables: str) -> None:
    columns, arrays, at = generated(FBS("salary", PREDICTORS), small, tables)
    X, B, Sigma = arrays["X"], at["B"], at["Sigma"]
    slope = Sigma[0, 1] / Sigma[0, 0]
    smoothed = X @ B[:, 1] + slope * (np.log(columns["salary"]) - X @ B[:, 0])
    field = small.frame()["field"].to_numpy()
    gap = np.log(columns["weight"]) - smoothed
    groups = [field == h for h in range(1, 9)] if tables == "recommended" else [field > 0]
    for inside in groups:
        np.testing.assert_allclose(gap[inside], gap[inside][0], atol=1e-9)
    assert columns["weight"].sum() == pytest.approx(100_000, rel=1e-12)
    if tables == "recommended":
        sizes = codebook().population_by["field"]
        for h, inside in zip(range(1, 9), groups, strict=True):
            assert columns["weight"][inside].sum() == pytest.approx(sizes[h], rel=1e-12)


def test_fbp_weights(small: Survey) -> None:
    columns, arrays, at = generated(FBP("salary", PREDICTORS), small, "recommended")
    for c in np.unique(arrays["cell"]):  # the population's y: no weighting inside a cell
        inside = columns["weight"][arrays["cell"] == c]
        np.testing.assert_allclose(inside, inside[0], rtol=1e-12)
    gender = arrays["X"][:, 8] == 1
    field = small.frame()["field"].to_numpy()
    first_field = field == 1
    ratio = np.log(
        columns["weight"][first_field & gender][0] / columns["weight"][first_field & ~gender][0]
    )
    # 1/E[pi | x] = exp(-(B_l + constant)) in FBS coordinates, and B_l of gender is -.3
    assert ratio == pytest.approx(0.3, abs=1e-9)
    columns, _, at = generated(FBP("salary", PREDICTORS), small, "paper")
    kappa = at["Sigma"][0, 1] / at["Sigma"][0, 0]
    gap = np.log(columns["weight"]) + kappa * np.log(columns["salary"])
    np.testing.assert_allclose(gap, gap[0], atol=1e-9)


def test_balanced_outcomes_have_the_models_cell_means(small: Survey) -> None:
    """Within a cell the mean of y* is all but exp(x b + sigma^2/2): far closer than chance, by
    which a lognormal mean of n records has a relative error of sqrt((exp(sigma^2) - 1)/n)."""
    errors = {}
    for tables in ("recommended", "paper"):
        columns, arrays, at = generated(FBP("salary", PREDICTORS), small, tables)
        b = at["B"][:, 0].copy()
        b[0] -= at["Sigma"][0, 1]
        expected = np.exp(arrays["X"] @ b + at["Sigma"][0, 0] / 2)
        cell = arrays["cell"]
        large = [c for c in np.unique(cell) if (cell == c).sum() >= 15]
        relative = [columns["salary"][cell == c].mean() / expected[cell == c][0] - 1 for c in large]
        errors[tables] = np.sqrt(np.mean(np.square(relative)))
        if tables == "paper":  # independent draws
            residual = np.log(columns["salary"]) - arrays["X"] @ b
            law = scipy.stats.norm(0.0, np.sqrt(at["Sigma"][0, 0]))
            assert scipy.stats.kstest(residual, law.cdf).pvalue > 1e-6
    by_chance = [np.expm1(at["Sigma"][0, 0]) / (cell == c).sum() for c in large]
    assert errors["recommended"] < 0.4 * np.sqrt(np.mean(by_chance))
    assert errors["paper"] > errors["recommended"]


def test_cells_are_the_distinct_rows() -> None:
    X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0], [1.0, 0.5]])
    cell = cell_numbers(X)
    assert cell[0] == cell[2]
    assert len(set(cell)) == 3


def with_column(survey: Survey, **columns: object) -> Survey:
    frame = survey.frame().with_columns(**columns)  # type: ignore[arg-type]
    return Survey(frame, survey.design, survey.codebook)


def test_what_follows_from_the_predictors_cannot_be_modelled(small: Survey) -> None:
    by_gender = with_column(small, weight=pl.col("weight").mean().over("gender"))
    alike = with_column(small, salary=pl.lit(7.0))
    for model, survey, match in (
        (FBP("salary", "gender"), by_gender, "`weight` follows from the predictors `gender`"),
        (FBS("salary", "1"), alike, "`salary` follows from the predictors `1`"),
    ):
        with pytest.raises(Refused, match=match):
            us.synthesize(survey, model, us.Unweighted())
    other = FBS("salary", "1").for_survey(by_gender)
    other.check_records(other.prepare(by_gender))  # two weights are a spread


def test_refusals(small: Survey) -> None:
    def refused(model: FBS | FBP, survey: Survey, match: str) -> None:
        with pytest.raises(Refused, match=match):
            model.for_survey(survey).prepare(survey)

    model = FBS("salary", PREDICTORS)
    zero = pl.when(pl.int_range(pl.len()) == 0).then(0.0).otherwise("salary")
    refused(model, with_column(small, salary=zero), "zero or negative")
    refused(model, with_column(small, salary=-pl.col("salary")), "zero or negative")
    no_weight = pl.when(pl.int_range(pl.len()) == 0).then(0.0).otherwise("weight")
    refused(model, with_column(small, weight=no_weight), "zero or negative")
    with pytest.raises(Refused, match="negative"):  # refused as a survey already
        with_column(small, weight=-pl.col("weight"))
    in_field = small.frame().filter(
        (pl.col("field") > 1) | (pl.col("gender") == pl.col("gender").min())
    )
    without_the_other = Survey(in_field, small.design, small.codebook)
    refused(FBS("salary", "C(field) + C(field)*gender"), without_the_other, "collinear")
    refused(FBS("salary", "gender + twin"), with_column(small, twin=pl.col("gender")), "collinear")
    refused(model, Survey(small.frame(), Design(), small.codebook), "design weight")
    refused(model, with_column(small, weight=pl.col("weight").round().cast(pl.Int64)), "whole")
    book = small.codebook
    refused(
        model, Survey(small.frame(), small.design, replace(book, population_size=9e4)), "add up"
    )
    unknown = replace(book, population_size=None, population_by={})
    refused(model, Survey(small.frame(), small.design, unknown), "population.size")
    fewer = replace(
        book, population_by={"field": dict.fromkeys(range(1, 8), 12500.0) | {9: 12_500.0}}
    )
    refused(model, Survey(small.frame(), small.design, fewer), "no records")
    part = replace(
        book, population_size=None, population_by={"field": dict.fromkeys(range(1, 8), 10000.0)}
    )
    refused(model, Survey(small.frame(), small.design, part), "no public total")
    with pytest.raises(Refused, match="does not know its survey"):
        model.prepare(small)
    with pytest.raises(Refused, match="Unknown kind of tables"):
        FBS("salary", PREDICTORS, tables="best")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="histogram"):
        model.for_survey(small).bounded_target(small.codebook)


def test_population_may_be_given_to_the_model(small: Survey) -> None:
    bare = replace(small.codebook, population_size=None, population_by={})
    survey = Survey(small.frame(), small.design, bare)
    model = FBS("salary", PREDICTORS, population=100_000).for_survey(survey)
    expected = FBS("salary", PREDICTORS).for_survey(small).prepare(small)["w"]
    np.testing.assert_allclose(model.prepare(survey)["w"], expected)
    assert "N = 100,000" in model.units(survey.codebook)
