"""Mixture: densities against SciPy, components from R's eq. 7, zeros and losses never dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
import scipy.stats
from monte_carlo import FAR
from scipy.special import logsumexp

from understudy.errors import Refused
from understudy.models.contract import Predicted
from understudy.models.density import Density, density_of
from understudy.models.design_matrix import whitening
from understudy.models.mixture.hurdle import (
    LARGEST_SIZE,
    HalfT,
    Hurdle,
    HurdleMixture,
    mixture_log_density,
    normal_below,
)
from understudy.models.mixture.judged import PLACES, _expected
from understudy.models.mixture.mixture import SIGMA_FLOOR, SPREAD_FLOOR, Mixture
from understudy.models.mixture.start import em_start
from understudy.models.negative_binomial import NegativeBinomial
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey

MODEL = Mixture("income", "sex + age", 4, zero_by=("sex",), typical=40_000)


def incomes(n: int = 80, seed: int = 1, **facts: Any) -> Survey:
    rng = np.random.default_rng(seed)
    sex, age = rng.choice(["F", "M"], n), rng.normal(45, 12, n)
    y = np.exp(10.5 + 0.4 * (sex == "M") + 0.01 * age + rng.normal(0, 0.7, n))
    y[:6], y[6:9] = 0.0, -np.exp(rng.normal(8, 1, 3))
    frame = pl.DataFrame({"sex": sex, "age": age, "income": y})
    book = Codebook({"income": Column("income", role="sensitive", **facts)}) if facts else None
    return Survey(frame, codebook=book)


def parameters(arrays: dict[str, Any], K: int, seed: int = 0) -> dict[str, Any]:
    rng, R = np.random.default_rng(seed), arrays["Q"].shape[1]
    return {
        "gamma": np.asarray(1.3),
        "share": rng.dirichlet(np.ones(K)),
        "sigma": rng.uniform(0.3, 1.2, K),
        "spread": rng.uniform(0.3, 1.5, R),
        "theta": rng.normal(0, 0.6, (K, R)),
        "zero": rng.uniform(0.05, 0.3, arrays["groups"].shape[1]),
        "negative": np.asarray(0.07),
        "loss_mean": np.asarray(-1.5),
        "loss_sigma": np.asarray(0.8),
    }


def prepared(model: Mixture, survey: Survey) -> tuple[Density, dict[str, Any], dict[str, Any]]:
    arrays = model.prepare(survey)
    density = density_of(model, arrays)
    values = parameters(arrays, model.components)
    return density, arrays, {name: values[name] for name in density.shapes}


def test_record_log_likelihoods_are_scipys() -> None:
    density, arrays, values = prepared(MODEL, incomes())
    loglik = density.evaluate_now(density.unconstrain_now(values, arrays), arrays)[1]
    y, negative = arrays["y"], 0.07
    zero = (1 - negative) * (arrays["groups"] @ values["zero"])
    with np.errstate(divide="ignore"):
        size = np.log(np.abs(y) / 40_000)
    means = arrays["Q"] @ values["theta"].T
    parts = np.log(values["share"]) + scipy.stats.norm.logpdf(size[:, None], means, values["sigma"])
    expected = np.where(y > 0, np.log1p(-zero - negative) + logsumexp(parts, axis=1), 0.0)
    expected = np.where(y == 0, np.log(zero), expected)
    loss = np.log(negative) + scipy.stats.norm.logpdf(size, -1.5, 0.8)
    expected = np.where(y < 0, loss, expected)
    np.testing.assert_allclose(loglik, expected, rtol=3e-5, atol=3e-5)  # single precision inside


def test_log_prior_is_scipys() -> None:
    density, arrays, values = prepared(MODEL, incomes())
    position = density.unconstrain_now(values, arrays)

    # the Jacobian of the map from the free position to the parameters, by JAX
    def flat(q: Any) -> Any:
        parts = density.constrain(q, arrays)
        parts["share"] = parts["share"][:-1]  # the last share follows from the others
        return jnp.concatenate([jnp.ravel(part) for part in parts.values()])

    free = jax.jit(jax.jacobian(flat))(position)
    log_det = np.linalg.slogdet(np.asarray(free))[1]
    stats = scipy.stats
    beta = np.linalg.solve(arrays["L"], values["theta"].T).T
    expected = stats.gamma.logpdf(1.3, 1.0) + stats.dirichlet.logpdf(
        values["share"], np.full(4, 1.3 / 4)
    )
    expected += (stats.t.logpdf(values["sigma"], 3) - stats.t.logsf(SIGMA_FLOOR, 3)).sum()
    expected += (stats.t.logpdf(values["spread"], 3) - stats.t.logsf(SPREAD_FLOOR, 3)).sum()
    expected += stats.norm.logpdf(beta, 0, values["spread"]).sum()
    expected -= 4 * np.log(np.diag(arrays["L"])).sum()  # theta = L beta, for each component
    expected += stats.norm.logpdf(-1.5, 0, 2) + stats.t.logpdf(0.8, 3)
    expected -= stats.t.logsf(SIGMA_FLOOR, 3)
    expected += stats.beta.logpdf(values["zero"], 0.5, 0.5).sum()
    expected += stats.beta.logpdf(0.07, 0.5, 0.5)
    log_prior, _ = density.evaluate_now(position, arrays)
    assert float(log_prior) == pytest.approx(expected + log_det, abs=1e-6)


def test_whitened_columns_are_uncorrelated_and_mean_the_same() -> None:
    X = np.column_stack([np.ones(50), np.random.default_rng(1).normal(3, 2, (50, 3))])
    L = whitening(X)
    Q = np.linalg.solve(L.T, X.T).T
    assert np.allclose(L, np.tril(L))
    np.testing.assert_allclose(Q.T @ Q / 50, np.eye(4), atol=1e-10)
    beta = np.arange(4.0)
    np.testing.assert_allclose(Q @ (L @ beta), X @ beta, atol=1e-9)
    with pytest.raises(Refused, match="collinear"):
        whitening(np.column_stack([X, X[:, 1]]))


def test_components_come_from_the_record_or_from_pi() -> None:
    # two components so far apart that eq. 7 leaves no doubt which one a record belongs to
    # shares of 10,000 records have errors below 0.011: tolerances are six of them or more
    n, rng, centre = 10_000, np.random.default_rng(3), np.log(20_000)
    own = np.arange(n) % 4 == 0
    y = jnp.asarray(np.exp(np.where(own, 12.0, 9.0) + rng.normal(0, 0.1, n)))
    theta = jnp.asarray([[9.0 - centre, 0.0], [12.0 - centre, 0.0]])
    rows = jnp.asarray(np.stack([np.ones(n), rng.normal(size=n)]))
    hurdle = Hurdle(jnp.asarray([0.2]), jnp.ones((n, 1)), jnp.asarray(0.07))

    def drawn(outcome: Any) -> Any:
        law = HurdleMixture(
            theta, jnp.full(2, 0.25), jnp.log(jnp.asarray([0.75, 0.25])), hurdle,
            (jnp.asarray(-1.0), jnp.asarray(1.0)), centre, jnp.full(2, LARGEST_SIZE), rows,
            confidential=outcome,
        )  # fmt: skip
        return law.sample(jax.random.key(1))

    for observed, shares in ((y, (1.0, 0.0)), (None, (0.25, 0.25))):
        made = np.asarray(jax.jit(drawn)(observed))
        positive = made > 0
        assert positive.mean() == pytest.approx(1 - 0.93 * 0.2 - 0.07, abs=0.04)
        assert (made < 0).mean() == pytest.approx(0.07, abs=0.025)
        losses = np.log(-made[made < 0]) - centre
        assert scipy.stats.kstest(losses, scipy.stats.norm(-1.0, 1.0).cdf).pvalue > 1e-6
        high = made > np.exp(10.5)
        assert high[positive & own].mean() == pytest.approx(
            shares[0], abs=0.08 * (observed is None)
        )
        assert high[positive & ~own].mean() == pytest.approx(
            shares[1], abs=0.05 * (observed is None)
        )
    survey = incomes()
    assert "confidential" in MODEL.prepare(survey)
    assert "confidential" not in replace(MODEL, assignments="prior").prepare(survey)


def test_the_full_conditional_of_a_component_is_bayes_rule() -> None:
    # overlapping components of unlike widths and shares (R supplement eq. 7)
    rng, n, centre = np.random.default_rng(6), 12, np.log(20_000)
    theta, sigma, share = rng.normal(size=(3, 2)), np.array([0.3, 0.8, 2.0]), [0.2, 0.7, 0.1]
    rows = np.stack([np.ones(n), rng.normal(size=n)])
    y = np.exp(centre + rng.normal(size=n))
    y[:3] = 0.0, -500.0, 0.5  # the first two have no own positive value: from pi
    law = HurdleMixture(
        jnp.asarray(theta), jnp.asarray(sigma), jnp.log(jnp.asarray(share)),
        Hurdle(jnp.asarray([0.2]), jnp.ones((n, 1)), jnp.asarray(0.07)),
        (jnp.asarray(-1.0), jnp.asarray(1.0)), jnp.asarray(centre), jnp.full(2, LARGEST_SIZE),
        jnp.asarray(rows), confidential=jnp.asarray(y),
    )  # fmt: skip
    means = theta @ rows
    probabilities = jax.nn.softmax(law._component_logits(jnp.asarray(means)), axis=0)
    size = np.log(np.where(y > 0, y, 1.0)) - centre
    joint = np.array(share)[:, None] * scipy.stats.norm.pdf(size, means, sigma[:, None])
    joint[:, y <= 0] = np.array(share)[:, None]
    np.testing.assert_allclose(probabilities, joint / joint.sum(axis=0), rtol=1e-9, atol=1e-30)


def test_zero_and_negative_incomes_come_out_again() -> None:
    model = Mixture("income", "sex + age", 3, zero="public", typical=40_000)
    survey = incomes()
    arrays = model.prepare(survey)
    assert arrays["groups"].tolist() == [[1.0]] * survey.n
    density = Density(model, arrays)
    position = jnp.zeros(density.dimension)
    y = np.asarray(jax.jit(density.generate)(jax.random.key(1), position, arrays)["y"])
    np.testing.assert_array_equal(np.sign(y), np.sign(arrays["y"]))
    assert "public and kept" in model.units(survey.codebook)


def test_losses_are_possible_by_declaration_only() -> None:
    with pytest.raises(Refused, match="outside the declared bounds"):
        Mixture("income", "sex", 3).prepare(incomes(bounds=(0.0, 1e7)))
    no_losses = pl.DataFrame({"sex": ["F", "M"] * 20, "income": np.arange(40.0)})
    prior = Mixture("income", "sex", 3, assignments="prior", typical=10.0)
    assert prior.prepare(Survey(no_losses))["losses"] == 1.0  # absence is a fact of the records
    declared = Codebook({"income": Column("income", role="sensitive", bounds=(0.0, 1e7))})
    assert prior.prepare(Survey(no_losses, codebook=declared))["losses"] == 0.0
    at_the_ends = Codebook({"income": Column("income", role="sensitive", bounds=(0.0, 39.0))})
    assert prior.prepare(Survey(no_losses, codebook=at_the_ends))["y"].max() == 39.0
    with pytest.raises(Refused, match="typical"):
        Mixture("income", "sex", 3, assignments="prior").prepare(Survey(no_losses))


def test_the_typical_income_is_the_median_of_the_positive_ones() -> None:
    model = Mixture("income", "sex", 2)
    frame = pl.DataFrame({"sex": ["F", "M"] * 3, "income": [0.0, -9.0, 0.5, 4.0, 6.0, 0.25]})
    assert float(model.prepare(Survey(frame))["centre"]) == pytest.approx(np.log(2.25))
    nobody = frame.with_columns(income=-pl.col("income").abs())
    with pytest.raises(Refused, match="no positive value"):
        model.prepare(Survey(nobody))


def test_sizes_are_cut_off_at_the_declared_bounds() -> None:
    below = jax.jit(normal_below)
    drawn = np.asarray(below(jax.random.key(4), jnp.full(8000, 0.5), 2.0, 1.5))
    law = scipy.stats.truncnorm(-np.inf, (1.5 - 0.5) / 2, 0.5, 2.0)
    assert scipy.stats.kstest(drawn, law.cdf).pvalue > 1e-6
    far = below(jax.random.key(4), jnp.full(4000, 90.0), 0.1, 1.5)
    assert np.isfinite(np.asarray(far)).all()
    bounded = MODEL.prepare(incomes(bounds=(-1e5, 2e6)))["largest"]
    np.testing.assert_allclose(bounded, np.log([2e6 / 40_000, 1e5 / 40_000]))
    assert (MODEL.prepare(incomes())["largest"] == LARGEST_SIZE).all()


def test_half_t_integrates_to_one_above_its_floor() -> None:
    grid = np.geomspace(0.05, 400, 20_001)
    density = np.exp(np.asarray(jax.jit(HalfT(0.05).log_prob)(grid)))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-4)
    drawn = np.asarray(jax.jit(lambda key: HalfT(0.05).sample(key, (6000,)))(jax.random.key(0)))
    law = scipy.stats.t(3)
    cdf = lambda x: (law.cdf(x) - law.cdf(0.05)) / law.sf(0.05)  # noqa: E731
    assert scipy.stats.kstest(drawn, cdf).pvalue > 1e-6


def test_em_finds_two_regressions() -> None:
    rng = np.random.default_rng(2)
    Q = np.column_stack([np.ones(3600), rng.normal(size=3600)])
    low = rng.random(3600) < 0.3
    size = np.where(low, -3 + 0.5 * Q[:, 1], 1 - 0.5 * Q[:, 1]) + rng.normal(0, 0.2, 3600)
    start = em_start(Q, size, np.ones(3600), 2, 0.05, 0)
    np.testing.assert_allclose(start.share, [0.7, 0.3], atol=0.05)  # 6 standard errors
    np.testing.assert_allclose(start.theta, [[1, -0.5], [-3, 0.5]], atol=0.1)
    np.testing.assert_allclose(start.sigma, 0.2, atol=0.05)


def test_chains_are_judged_on_what_generates_the_data() -> None:
    """Where components are drawn from pi, on its expectations, exactly."""
    density, arrays, values = prepared(replace(MODEL, assignments="prior"), incomes())
    swapped = dict(values)
    for name in ("share", "sigma", "theta"):
        swapped[name] = values[name][[2, 0, 3, 1]]
    positions = np.stack([density.unconstrain_now(v, arrays) for v in (values, swapped)])[None]
    names, numbers, variance = density.judged(positions, arrays)
    assert variance is None  # exact draws are wanted
    assert numbers.shape == (1, 2, len(names))
    np.testing.assert_allclose(numbers[0, 0], numbers[0, 1], atol=1e-10)  # labels do not matter
    means = arrays["Q"] @ values["theta"].T
    law = scipy.stats.norm(means, values["sigma"])
    for size_at in PLACES:  # of log(y / typical)
        expected = (values["share"] * law.cdf(size_at)).sum(axis=1).mean()
        assert numbers[0, 0, names.index(f"F({size_at:g})")] == pytest.approx(expected, abs=1e-9)
    slopes = np.linalg.lstsq(arrays["Q"], means @ values["share"], rcond=None)[0]
    coefficients = [numbers[0, 0, names.index(f"coefficient[{r}]")] for r in range(3)]
    np.testing.assert_allclose(coefficients, slopes, atol=1e-9)


def test_of_many_records_some_are_judged_by_evenly() -> None:
    """Every third of 1,200 for the 400 that are enough."""
    rng = np.random.default_rng(8)
    Q, share = rng.normal(size=(1200, 2)), np.array([0.3, 0.7])
    sigma, theta = np.array([0.5, 1.5]), rng.normal(size=(2, 2))
    below, _ = _expected({"share": share, "sigma": sigma, "theta": theta}, {"Q": Q})
    law = scipy.stats.norm(Q[::3] @ theta.T, sigma)
    expected = [(share * law.cdf(point)).sum(axis=1).mean() for point in PLACES]
    np.testing.assert_allclose(below, expected, atol=1e-9)


def test_chains_of_records_own_components_are_judged_on_drawn_files() -> None:
    """Files of one draw differ as SciPy says of records that are drawn one by one (eq. 7)."""
    density, arrays, values = prepared(MODEL, incomes())
    swapped = dict(values)
    for name in ("share", "sigma", "theta"):
        swapped[name] = values[name][[2, 0, 3, 1]]
    files = 4000
    for each in (values, swapped):  # labels do not matter
        position = np.asarray(density.unconstrain(each, arrays))
        names, numbers, variance = density.judged(np.tile(position, (1, files, 1)), arrays)
        drawn = {name: numbers[0, :, number] for number, name in enumerate(names)}
        # each record's own component decides, except for zeros and losses
        y, Q = arrays["y"], arrays["Q"]
        means = Q @ values["theta"].T
        law = scipy.stats.norm(means, values["sigma"])
        size = np.log(np.where(y > 0, y, 1.0) / 40_000)[:, None]
        joint = values["share"] * law.pdf(size)
        own = np.where((y > 0)[:, None], joint / joint.sum(axis=1, keepdims=True), values["share"])
        for size_at in PLACES:
            inside = (own * law.cdf(size_at)).sum(axis=1)
            spread = np.sqrt((inside * (1 - inside)).sum()) / len(y)
            agree(drawn[f"F({size_at:g})"], inside.mean(), spread)
        mean = (own * means).sum(axis=1)
        square = (own * (values["sigma"] ** 2 + means**2)).sum(axis=1)
        for r in range(3):
            spread = np.sqrt((Q[:, r] ** 2 * (square - mean**2)).sum()) / len(y)
            agree(drawn[f"coefficient[{r}]"], (Q[:, r] * mean).mean(), spread)
        # what a user states: p (1 - p) / n; and least squares', whose columns are orthonormal
        stated = dict(zip(names, np.asarray(variance), strict=True))
        for size_at in PLACES:
            share = drawn[f"F({size_at:g})"]
            assert stated[f"F({size_at:g})"] == pytest.approx(
                (share * (1 - share)).mean() / len(y),
                rel=1e-6,  # single precision
            )
        fitted = np.stack([drawn[f"coefficient[{r}]"] for r in range(3)])
        residual = square.mean() - (fitted**2).sum(axis=0).mean()
        for r in range(3):
            assert stated[f"coefficient[{r}]"] == pytest.approx(residual / len(y), rel=0.02)


def agree(drawn: Any, mean: float, spread: float) -> None:
    """Mean and standard deviation, within six Monte Carlo errors (kurtosis up to 5)."""
    assert abs(drawn.mean() - mean) < FAR * spread / np.sqrt(len(drawn))
    assert abs(drawn.std() / spread - 1) < FAR / np.sqrt(len(drawn))


def test_a_level_that_few_records_have_is_judged_too() -> None:
    """Every 400th record and the like may lack it; a constant has no R-hat, and no fit passed."""
    survey = incomes(2000)
    frame = survey.frame().with_columns(
        rare=pl.int_range(pl.len()).is_in([7, 1013]).cast(pl.String)
    )
    for assignments in ("posterior", "prior"):
        model = Mixture("income", "rare", 2, assignments=assignments, typical=40_000)
        arrays = model.prepare(Survey(frame))
        density = density_of(model, arrays)
        rng = np.random.default_rng(1)
        names, numbers, _ = density.judged(rng.normal(size=(2, 4, density.dimension)), arrays)
        assert (numbers.std(axis=(0, 1)) > 0).all(), names


def test_no_claim_is_eased_by_a_stated_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Components come from pi: a claim may rest on exact draws, whatever the model says."""

    def bold(_: Any, key: Any, parameters: Any, arrays: Any) -> Predicted:  # noqa: ARG001
        return Predicted({"share": parameters["share"][0]}, {"share": parameters["share"][0]})

    monkeypatch.setattr(Mixture, "predictive", bold)
    model = Mixture("income", "age", 2, assignments="prior", typical=40_000)
    arrays = model.prepare(incomes())
    density = density_of(model, arrays)
    judged = density.judged(np.zeros((2, 4, density.dimension)), arrays)
    assert judged.names == ["share"]
    assert judged.variance is None


def test_the_written_derivative_is_that_of_the_density() -> None:
    rng = np.random.default_rng(8)
    theta, sigma = jnp.asarray(rng.normal(size=(3, 2))), jnp.asarray([0.3, 0.7, 2.0])
    log_share, size = jnp.log(jnp.asarray([0.2, 0.5, 0.3])), jnp.asarray(rng.normal(size=40))
    rows, pull = jnp.asarray(rng.normal(size=(2, 40))), jnp.asarray(rng.uniform(0, 1, 40))

    def ours(theta: Any, sigma: Any, log_share: Any) -> Any:
        return mixture_log_density(theta, sigma, log_share, size, rows)

    def plain(theta: Any, sigma: Any, log_share: Any) -> Any:
        law = jax.scipy.stats.norm.logpdf(size, theta @ rows, sigma[:, None])
        return jax.scipy.special.logsumexp(log_share[:, None] + law, axis=0)

    at = (theta, sigma, log_share)
    by_all = (0, 1, 2)
    gradient, expected = (
        jax.jit(jax.value_and_grad(lambda *p, f=f: (f(*p) * pull).sum(), by_all))(*at)
        for f in (ours, plain)
    )
    assert float(gradient[0]) == pytest.approx(float(expected[0]), abs=1e-4)
    for slope, written in zip(expected[1], gradient[1], strict=True):
        np.testing.assert_allclose(written, slope, rtol=1e-4, atol=1e-4)


def test_each_chain_has_its_own_start() -> None:
    arrays = MODEL.prepare(incomes())
    first, again, other = (MODEL.start(arrays, np.ones(80), chain) for chain in (0, 0, 1))
    assert (first["theta"] == again["theta"]).all()
    assert (first["theta"] != other["theta"]).all()
    assert MODEL.deepest_tree < NegativeBinomial("y").deepest_tree


def test_bad_arguments_are_refused() -> None:
    for arguments in (
        {"components": 1},
        {"assignments": "z"},
        {"zero": "drop"},
        {"typical": -1.0},
    ):
        with pytest.raises(Refused):
            Mixture("income", "sex", **arguments)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="not numeric"):
        Mixture("sex", "age").prepare(incomes())
    one_unknown = incomes().frame().with_columns(income=pl.col("income").replace(0.0, None))
    with pytest.raises(Refused, match="missing values"):
        MODEL.prepare(Survey(one_unknown))
