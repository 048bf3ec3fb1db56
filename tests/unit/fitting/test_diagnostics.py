"""R-hat and effective sample sizes against ArviZ, on chains good and bad."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from understudy.fitting.diagnostics import diagnose, ess_bulk, ess_tail, rhat

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its successor when it is imported
    import arviz


def chains_of(correlation: float, shift: float = 0.0, draws: int = 500) -> np.ndarray:
    """Four AR(1) chains in three coordinates, the first chain shifted."""
    rng = np.random.default_rng(int(100 * abs(correlation)) + int(10 * shift) + draws)
    x = np.zeros((4, draws, 3))
    for t in range(1, draws):
        x[:, t] = correlation * x[:, t - 1] + rng.normal(size=(4, 3))
    x[0] += shift
    x[:, :, 2] = np.exp(x[:, :, 2])  # a skewed coordinate: ranks do not mind
    return x


CASES = [chains_of(0.0), chains_of(0.7), chains_of(-0.4), chains_of(0.95), chains_of(0.3, 1.0)]
CASES += [chains_of(0.5, draws=251), chains_of(-0.3, draws=21)]
# autocorrelations that never fall below 0 end where the chain does
CASES += [chains_of(0.9, draws=draws) for draws in (16, 18, 19)]
CASES += [np.round(chains_of(0.5))]  # draws repeat, and many are the quantile itself


@pytest.mark.parametrize("x", CASES)
def test_rhat_is_arvizs(x: np.ndarray) -> None:
    expected = [float(arviz.rhat(x[:, :, k], method="rank")) for k in range(3)]
    np.testing.assert_allclose(rhat(x), expected, rtol=1e-10)


@pytest.mark.parametrize("x", [*CASES, chains_of(0.6)[:1]])
def test_effective_sample_sizes_are_arvizs(x: np.ndarray) -> None:
    bulk = [float(arviz.ess(x[:, :, k], method="bulk")) for k in range(3)]
    np.testing.assert_allclose(ess_bulk(x), bulk, rtol=1e-10)
    # ArviZ has another definition of a quantile than Stan and NumPy: its ESS of our indicators
    below = [x <= np.quantile(x, p, axis=(0, 1)) for p in (0.05, 0.95)]
    tail = [
        min(float(arviz.ess(1.0 * low[:, :, k], method="mean")) for low in below) for k in range(3)
    ]
    np.testing.assert_allclose(ess_tail(x), tail, rtol=1e-10)


def test_failures_name_the_parameter_and_the_figure() -> None:
    good = diagnose(chains_of(0.0), 0, ["a", "b", "c"])
    assert good.failures == []
    shifted = chains_of(0.0)
    shifted[0, :, 1] += 2.0
    assert "R-hat of `b`" in diagnose(shifted, 0, ["a", "b", "c"]).failures[0]
    slow = chains_of(0.95)
    slow[:, :, 2] = chains_of(0.0)[:, :, 2]
    assert any("bulk ESS of" in failure for failure in diagnose(slow, 0, ["a", "b", "c"]).failures)
    assert diagnose(chains_of(0.0), 3, ["a", "b", "c"]).failures == [
        "3 of 2000 transitions diverged"
    ]


def test_a_stuck_coordinate_fails() -> None:
    x = chains_of(0.0)
    x[:, :, 0] = 1.0
    diagnostics = diagnose(x, 0, ["a", "b", "c"])
    assert diagnostics.largest_rhat == np.inf
    assert diagnostics.least_ess_bulk == 0.0
    assert len(diagnostics.failures) == 2
