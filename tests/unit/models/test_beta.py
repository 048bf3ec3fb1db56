"""Beta: densities against SciPy, bounds from declarations, values back in the file's units."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
import scipy.stats

from understudy.errors import Refused
from understudy.models.beta import Beta
from understudy.models.density import density_of
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey


def survey_of(y: np.ndarray, **facts: object) -> Survey:
    column = Column("y", role="sensitive", **facts)  # type: ignore[arg-type]
    return Survey(pl.DataFrame({"y": y}), codebook=Codebook({"y": column}))


@pytest.fixture
def percent() -> Survey:
    return survey_of(100 * np.random.default_rng(1).beta(0.5, 3, 40), bounds=(0.0, 100.0))


def test_record_log_likelihoods_are_scipys(percent: Survey) -> None:
    model = Beta("y")
    arrays = model.prepare(percent)
    density = density_of(model, arrays)
    for position in ([-1.8, 1.2], [0.4, -2.0], [3.0, 5.0]):
        value = density.constrain_now(np.asarray(position), arrays)
        phi, lam = float(value["phi"]), float(value["lambda"])
        expected = scipy.stats.beta.logpdf(arrays["y"], lam * phi, lam * (1 - phi))
        loglik = density.evaluate_now(np.asarray(position), arrays)[1]
        np.testing.assert_allclose(loglik, expected, rtol=1e-10, atol=1e-10)


def test_log_prior_is_scipys_with_the_jacobian(percent: Survey) -> None:
    model = Beta("y")
    arrays = model.prepare(percent)
    density = density_of(model, arrays)
    logit, log_excess = 0.3, -0.7
    position = {"phi": logit, "lambda": log_excess}
    free = np.array([position[site] for site in density.shapes])
    log_prior, _ = density.evaluate_now(free, arrays)
    phi, lam = 1 / (1 + np.exp(-logit)), 0.1 + np.exp(log_excess)
    expected = scipy.stats.pareto.logpdf(lam, 1.5, scale=0.1)  # C: Pareto(0.1, 1.5), flat phi
    expected += np.log(phi) + np.log1p(-phi) + log_excess
    assert float(log_prior) == pytest.approx(expected, abs=1e-12)


def test_generated_values_follow_the_beta() -> None:
    model = Beta("y")
    arrays = {"y": np.random.default_rng(0).beta(0.5, 3, 10_000)}
    density = density_of(model, arrays)
    position = np.array([-1.8, 1.2])
    value = density.constrain_now(position, arrays)
    phi, lam = float(value["phi"]), float(value["lambda"])
    drawn = np.asarray(jax.jit(density.generate)(jax.random.key(5), position, arrays)["y"])
    assert scipy.stats.kstest(drawn, "beta", args=(lam * phi, lam * (1 - phi))).pvalue > 1e-6


def test_bounds_come_from_the_argument_or_a_declaration() -> None:
    y = np.array([10.0, 55.0, 100.0])
    declared = survey_of(y, bounds=(0.0, 200.0))
    np.testing.assert_allclose(Beta("y").prepare(declared)["y"], [0.05, 0.275, 0.5])
    np.testing.assert_allclose(Beta("y", (0, 100)).prepare(declared)["y"], [0.1, 0.55, 1.0])
    drafted = survey_of(y, bounds=(10.0, 100.0), drafted=frozenset({"bounds"}))
    for survey in (drafted, survey_of(y)):
        with pytest.raises(Refused, match="not declared"):
            Beta("y").prepare(survey)


def test_a_declared_log_transform_scales_the_logs() -> None:
    survey = survey_of(np.array([1.0, 10.0, 100.0]), bounds=(1.0, 100.0), transform="log")
    model = Beta("y")
    unit = model.prepare(survey)["y"]
    np.testing.assert_allclose(unit, [0.0, 0.5, 1.0], atol=1e-15)
    assert unit[0] == 0.0
    assert unit[2] == 1.0
    np.testing.assert_allclose(model.restore({"y": unit}, survey)["y"], [1.0, 10.0, 100.0])
    assert "log(y)" in model.units(survey.codebook)


def test_values_outside_the_bounds_are_refused() -> None:
    with pytest.raises(Refused, match="outside the declared bounds"):
        Beta("y", (0, 1)).prepare(survey_of(np.array([0.2, 1.2])))
    with pytest.raises(Refused, match="not numeric"):
        Beta("y", (0, 1)).prepare(survey_of(np.array(["a", "b"])))
    with pytest.raises(Refused, match="Unknown outcome column `z`"):
        Beta("z", (0, 1)).prepare(survey_of(np.array([0.2, 0.3])))


@pytest.mark.parametrize("bounds", [(1, 0), (0, float("inf")), (0,), "ab", (float("nan"), 1)])
def test_bounds_are_two_finite_numbers(bounds: object) -> None:
    with pytest.raises(Refused, match="two finite numbers"):
        Beta("y", bounds)  # type: ignore[arg-type]


def test_whole_number_columns_stay_whole() -> None:
    column = Column("y", "sensitive", "integer", bounds=(0.0, 40.0))
    survey = Survey(pl.DataFrame({"y": [10, 20, 30]}), codebook=Codebook({"y": column}))
    restored = Beta("y").restore({"y": np.array([0.126, 0.9, 1.0])}, survey)["y"]
    assert restored.dtype == pl.Int64
    assert restored.to_list() == [5, 36, 40]


def test_the_sum_of_weighted_log_likelihoods_needs_moments_alone() -> None:
    rng = np.random.default_rng(4)
    y, alpha = rng.beta(0.5, 3.0, 200), rng.random(200)
    model = Beta("y", bounds=(0.0, 1.0))
    summed = model.summed_loglik(
        {"phi": jnp.asarray(0.2), "lambda": jnp.asarray(3.1)}, model.moments({"y": y}, alpha)
    )
    expected = alpha @ scipy.stats.beta.logpdf(y, 0.2 * 3.1, 0.8 * 3.1)
    assert float(summed) == pytest.approx(expected, rel=1e-12)
