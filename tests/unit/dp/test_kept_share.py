"""What is kept of noisy deviations: against the Bayes rule of a known law, and by integrals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm

from understudy.dp.kept_share import kept_share


def test_deviations_of_one_spread_have_nearly_the_least_error() -> None:
    """Deviations of variance t e, seen with noise: the least error is that of t e / (t e + v)."""
    rng = np.random.default_rng(7)
    expected = rng.dirichlet(np.full(4000, 0.5))
    true = rng.normal(0, np.sqrt(2e-4 * expected))
    seen = true + rng.normal(0, 3e-4, expected.size)
    kept = kept_share(seen, expected, 9e-8).share
    best = 2e-4 * expected / (2e-4 * expected + 9e-8)
    error, least, raw = (((s * seen - true) ** 2).sum() for s in (kept, best, 1.0))
    assert error < 1.05 * least < 0.8 * raw


def test_few_deviations_that_are_far_are_kept_and_the_noise_of_others_is_not() -> None:
    """Nine cells of ten are as expected. The Bayes rule of that law, by its closed form, has the
    least error; one spread for all has twice as much."""
    rng = np.random.default_rng(8)
    far = rng.random(3000) < 0.1
    true = np.where(far, rng.normal(0, 6, far.size), 0.0)
    seen = true + rng.normal(0, 1, far.size)
    kept = kept_share(seen, np.ones(far.size), 1.0).share
    wide, narrow = 0.1 * norm.pdf(seen, 0, np.sqrt(37)), 0.9 * norm.pdf(seen)
    best = wide / (wide + narrow) * 36 / 37
    alike = (true.var()) / (true.var() + 1)
    error, least, plain = (((s * seen - true) ** 2).mean() for s in (kept, best, alike))
    assert error < 1.05 * least < 0.55 * plain
    assert kept == pytest.approx(best, abs=0.15)


def test_the_slope_is_the_posterior_variance_and_how_much_a_change_comes_through() -> None:
    """A change of one of 3,000 deviations leaves the law as it is. Beside that, the posterior of a
    law with two spreads, integrated by NumPy."""
    rng = np.random.default_rng(9)
    far = rng.random(3000) < 0.3
    seen = np.where(far, rng.normal(0, 5, far.size), 0.0) + rng.normal(0, 1, far.size)
    for position, value in ((0, 0.4), (1, 2.3), (2, -3.1), (3, 8.0)):
        seen[position] = value
    kept = kept_share(seen, np.ones(far.size), 1.0)
    for position in range(4):
        moved = seen.copy()
        moved[position] += 0.01
        after = kept_share(moved, np.ones(far.size), 1.0).share[position] * moved[position]
        change = (after - kept.share[position] * seen[position]) / 0.01
        assert kept.slope[position] == pytest.approx(change, abs=0.02)
    true = np.linspace(-30, 30, 60_001)
    prior = 0.3 * norm.pdf(true, 0, 5) + 0.7 * norm.pdf(true, 0, 0.02)
    for position in range(4):
        density = prior * norm.pdf(seen[position] - true)
        density /= trapezoid(density, true)
        mean = trapezoid(true * density, true)
        variance = trapezoid((true - mean) ** 2 * density, true)
        assert kept.share[position] * seen[position] == pytest.approx(mean, abs=0.3)
        assert kept.slope[position] == pytest.approx(variance, abs=0.35)


def test_without_noise_and_of_a_single_cell_everything_is_kept() -> None:
    for kept in (kept_share(np.ones(5), np.ones(5), 0.0), kept_share(np.ones(1), np.ones(1), 2.0)):
        assert (kept.share == 1).all()
        assert (kept.slope == 1).all()
