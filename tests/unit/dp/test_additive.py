"""The laws of the noise against SciPy's, and what they cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

import chance
from understudy.dp.accounting import epsilon_of
from understudy.dp.additive import GaussianNoise, LaplaceNoise, noise_for
from understudy.errors import Refused


@pytest.mark.parametrize("scale", [0.7, 3.0, 2000.0])
def test_integer_laplace_has_its_closed_form(scale: float) -> None:
    noise, law = LaplaceNoise(1.0), stats.dlaplace(1 / scale)
    values = np.array([-5 * scale, -1.0, -0.5, 0.0, 0.5, 1.0, 2 * scale])
    np.testing.assert_allclose(noise.cdf(values, scale), law.cdf(np.floor(values)), rtol=1e-9)
    for probability in (0.001, 0.2, 0.45, 0.5, 0.7, 0.999):
        quantile = noise.quantile(probability, scale)
        assert quantile.is_integer()
        assert law.cdf(quantile - 1) < probability <= law.cdf(quantile)


def test_far_out_the_law_is_0_or_1_and_nothing_overflows() -> None:
    with np.errstate(over="raise"):
        assert LaplaceNoise(1.0).cdf([-1e6, 1e6], 3.0).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("blur", [0.0, 0.5, 3.0, 40.0])
def test_noise_with_a_normal_error_has_the_law_of_their_sum(blur: float) -> None:
    """Against the integral over the noise, and for Gaussian noise against the normal law."""
    scale, values = 2.0, np.array([-9.0, -1.0, 0.0, 0.7, 12.0])
    law = (scale, blur) if blur else (scale,)
    laplace, gaussian = LaplaceNoise(1.0), GaussianNoise(1.0, 1e-6, rho=0.03)
    normal = stats.norm(0, math.hypot(scale, blur))
    np.testing.assert_allclose(gaussian.blurred_cdf(values, *law), normal.cdf(values))
    np.testing.assert_allclose(gaussian.blurred_pdf(values, *law), normal.pdf(values))
    plain = stats.laplace(0, scale)
    cdf, pdf = plain.cdf(values), plain.pdf(values)
    if blur:
        error = stats.norm(0, blur)
        noise = np.linspace(-70, 70, 28_001)  # 35 scales: exp(-35) is left out
        for function, into in ((error.cdf, cdf), (error.pdf, pdf)):
            into[:] = [
                integrate.simpson(plain.pdf(noise) * function(value - noise), x=noise)
                for value in values
            ]
    np.testing.assert_allclose(laplace.blurred_cdf(values, *law), cdf, atol=1e-9)
    np.testing.assert_allclose(laplace.blurred_pdf(values, *law), pdf, atol=1e-9)
    for noise_law in (laplace, gaussian):
        reached = noise_law.blurred_quantile(0.975, *law)
        assert noise_law.blurred_cdf(reached, scale, blur) == pytest.approx(0.975, abs=1e-9)


def test_scales_are_what_the_budget_buys() -> None:
    laplace, gaussian = noise_for(0.5), noise_for(0.5, 1e-6)
    assert isinstance(laplace, LaplaceNoise)
    assert isinstance(gaussian, GaussianNoise)
    assert laplace.scale(10) == 20
    assert laplace.deviation(10) == pytest.approx(20 * math.sqrt(2))
    assert gaussian.scale(10) == pytest.approx(10 / math.sqrt(2 * gaussian.rho), rel=1e-12)
    assert gaussian.deviation(10) == pytest.approx(gaussian.scale(10))
    assert epsilon_of(gaussian.rho, 1e-6) <= 0.5
    assert epsilon_of(gaussian.rho * 1.001, 1e-6) > 0.5
    np.testing.assert_allclose(
        gaussian.cdf([-7.5, 0.5, 12.5], 5.0)[1], stats.norm.cdf(1 / 5), atol=0.05
    )
    assert gaussian.quantile(0.975, 100.0) == pytest.approx(195.996, rel=1e-4)
    with pytest.raises(Refused):
        LaplaceNoise(0.0)


@pytest.mark.chance(2 * chance.ALPHA, "exact binomial intervals of all cells of two laws")
def test_noise_follows_its_law() -> None:
    zeros = np.zeros(4000, dtype=np.int64)
    laplace, gaussian = noise_for(1.0), noise_for(1.0, 1e-6)
    assert chance.follows(laplace.add(zeros, 2000), stats.dlaplace(1 / 2000))
    assert chance.follows(gaussian.add(zeros, 2000), stats.norm(0, gaussian.scale(2000)))
