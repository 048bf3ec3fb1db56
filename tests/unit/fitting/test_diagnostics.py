"""R-hat and effective sample sizes against ArviZ, on chains good and bad."""

from __future__ import annotations

import warnings
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from understudy.fitting.diagnostics import (
    LARGEST_SHORTFALL,
    diagnose,
    ess_bulk,
    ess_tail,
    rhat,
    shortfall,
)

with (
    warnings.catch_warnings(),
    TemporaryDirectory() as own,
    pytest.MonkeyPatch.context() as patch,
):
    # ArviZ announces its successor once a day, and processes that import it together then rename
    # one file of the user's from under each other
    warnings.simplefilter("ignore")
    patch.setenv("XDG_CACHE_HOME", own)
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


def modes(
    chains: int, draws: int, apart: float, files: int, rng: np.random.Generator
) -> np.ndarray:
    """`files` runs (chains, draws, files) whose chains keep to one of two modes for good, as likely
    as each other; within a mode draws are independent with variance 1."""
    mode = rng.integers(0, 2, (chains, 1, files)) - 0.5
    return apart * mode + rng.normal(size=(chains, draws, files))


def test_the_shortfall_is_that_of_known_chains() -> None:
    """The variance of the mean over chains is known: of modes apart^2 / 4 / C + 1 / S, of first
    autoregressions (1 + r) / (1 - r) / S. Estimates of it are right on average over 4,000 runs, the
    larger of two by no more than a third above it."""
    rng, C, draws, runs = np.random.default_rng(3), 4, 100, 4000
    x = rng.normal(size=(C, draws, runs))
    for t in range(1, draws):
        x[:, t] = 0.6 * x[:, t - 1] + 0.8 * x[:, t]
    known = (modes(C, draws, 3.0, runs, rng), 9 / 16 + 1 / 400), (x, 4.0 / 400)
    for chains, variance in known:
        excess = (1.0 + shortfall(chains, np.ones(runs))) ** 2 - 1.0
        assert chains.mean(axis=(0, 1)).var() == pytest.approx(variance, rel=0.12)
        assert 0.95 * variance < excess.mean() < 1.35 * variance
        unit = (1.0 + shortfall(chains, np.full(runs, 0.5))) ** 2 - 1.0
        np.testing.assert_allclose(unit, 2 * excess)  # in units of the file's own
    # what is slow within chains is seen there too, where four means alone are below half of the
    # truth in 32 runs of 100
    assert (excess < 0.5 * variance).mean() < 0.05


@pytest.mark.parametrize("files", [4, 8, 20])
def test_users_intervals_are_short_by_no_more_than_the_shortfall(files: int) -> None:
    """docs/proofs/diagnostics.md, the theorem on files: chains keep to modes; each gives as many
    files. T = ubar + b/m is below the variance of the mean by B/C (m - C)/(m - 1), and sampling
    errors of variance ubar are common to all files."""
    rng, C, runs, ubar, apart = np.random.default_rng(files), 4, 200_000, 1.0, 1.2
    B = apart**2 / 4
    numbers = modes(C, files // C, apart, runs, rng).reshape(files, runs)
    numbers += rng.normal(size=runs) * np.sqrt(ubar)
    T = ubar + numbers.var(axis=0, ddof=1).mean() / files
    true = numbers.mean(axis=0).var()
    missing = B / C * (files - C) / (files - 1)
    assert true - T == pytest.approx(missing, abs=0.02)  # 5 standard errors of the variance
    assert np.sqrt(true / T) - 1 <= np.sqrt(1 + B / C / ubar) - 1 + 0.01


def test_files_pass_by_what_their_users_are_told_and_nothing_else_does() -> None:
    chains = modes(4, 500, 0.0, 1, np.random.default_rng(4))
    chains[:2] += 0.8  # two and two: the variance of the mean is .8^2 / 3 / 4
    for part in (0.9, 1.1):  # of the limit
        own = np.array([0.64 / 12 / ((1 + LARGEST_SHORTFALL * part) ** 2 - 1)])
        judged = diagnose(chains, 0, ["a"], variance=own)
        assert judged.misses == diagnose(chains, 0, ["a"]).failures != []
        assert (judged.failures == []) is (part < 1)
    large = np.array([100.0])
    assert diagnose(chains, 0, ["a"], variance=large).failures == []
    assert diagnose(chains, 100, ["a"], variance=large).failures == [
        "100 of 2000 transitions diverged"
    ]
    # three means say too little, and a number that no file varies in says nothing
    assert diagnose(chains[1:], 0, ["a"], variance=large).failures
    assert diagnose(0.0 * chains, 0, ["a"], variance=0.0 * large).failures
