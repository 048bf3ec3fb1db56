"""The rule for chains that miss their diagnostics, on made-up chains: no sampler takes part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from understudy.fitting.continuation import MOST, PATIENCE, goes_on, run_until_good
from understudy.fitting.diagnostics import LARGEST_RHAT, Diagnostics, diagnose, rhat
from understudy.models.contract import Judged

NAMES = ["a"]


def autoregression(correlation: float, length: int, chains: int = 4, seed: int = 1) -> np.ndarray:
    """Stationary AR(1) chains with standard normal margins, (chains, length, 1)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(chains, length))
    for t in range(1, length):
        x[:, t] = correlation * x[:, t - 1] + np.sqrt(1 - correlation**2) * x[:, t]
    return x[:, :, None]


def runner(whole: np.ndarray, asked: int) -> tuple[Callable[[int], tuple[np.ndarray, int]], list]:
    """Every k-th draw of the first k * asked of `whole`, and the list of k that were asked for."""
    seen: list[int] = []

    def run(times: int) -> tuple[np.ndarray, int]:
        seen.append(times)
        return whole[:, times - 1 : times * asked : times], 0

    return run, seen


def judged(positions: np.ndarray) -> Judged:
    return Judged(NAMES, positions)


def of_files(variance: float) -> Callable[[np.ndarray], Judged]:
    """Numbers of drawn files, with this sampling variance each."""
    return lambda positions: Judged(NAMES, positions, np.array([variance]))


def verdict(rhat: float, ess: float, draws: int = 2000, divergences: int = 0) -> Diagnostics:
    unit = np.ones(1)
    return Diagnostics(("a",), rhat * unit, ess * unit, ess * unit, divergences, 4, draws, 1)


def test_good_chains_are_not_run_on() -> None:
    run, seen = runner(autoregression(0.0, 500), 500)
    positions, reached = run_until_good(run, judged)
    assert seen == [1]
    assert reached.thinning == 1
    assert positions.shape == (4, 500, 1)


def test_slow_chains_double_until_they_pass_and_keep_evenly_spaced_draws() -> None:
    """tau of 0.97 is (1 + .97)/(1 - .97) = 66: 2,000 draws are worth 30 and 64 times as many 1,900.
    The first run cannot pass, and the longest allowed one must."""
    whole = autoregression(0.97, 500 * MOST)
    run, seen = runner(whole, 500)
    positions, reached = run_until_good(run, judged)
    assert reached.failures == []
    assert seen == [2**k for k in range(len(seen))]
    assert PATIENCE < seen[-1] <= MOST  # eight times the length would have been refused
    np.testing.assert_array_equal(positions, whole[:, seen[-1] - 1 : 500 * seen[-1] : seen[-1]])
    # the run before failed: nothing is run on that had passed
    assert diagnose(run(seen[-1] // 2)[0], 0, NAMES).failures


def test_chains_apart_are_refused_at_eight_times_the_length() -> None:
    whole = autoregression(0.0, 500 * MOST)
    whole[0] += 2.0
    run, seen = runner(whole, 500)
    _, reached = run_until_good(run, judged)
    assert seen == [1, 2, 4, PATIENCE]
    assert reached.failures[0].startswith("R-hat of `a`")


def test_files_that_serve_their_users_are_taken_when_patience_ends() -> None:
    """A chain that is 2 above the others: R-hat is far above its limit for good, and the variance
    of the mean over all chains is 2^2 / 4 / 4."""
    whole = autoregression(0.0, 500 * PATIENCE)
    whole[0] += 2.0
    for part, passes in ((0.04, True), (0.2, False)):
        run, seen = runner(whole, 500)
        _, reached = run_until_good(run, of_files(2.0**2 / 16 / part))
        assert seen == [1, 2, 4, PATIENCE]
        assert reached.misses[0].startswith("R-hat of `a`")
        assert (reached.failures == []) is passes
        assert reached.largest_shortfall == pytest.approx(np.sqrt(1 + part) - 1, rel=0.25)
    assert reached.failures[-1].startswith("a standard error of `a` would be")
    run, seen = runner(autoregression(0.0, 500), 500)  # good chains need no such mercy
    assert run_until_good(run, of_files(1e-9))[1].failures == []
    assert seen == [1]


def test_a_narrow_miss_is_not_run_on_once_files_serve() -> None:
    narrow = verdict(1.05, 100.0)
    for shortfall, on in ((0.01, False), (0.2, True)):
        of_file = replace(narrow, shortfall=np.array([shortfall]))
        assert goes_on(of_file, PATIENCE) is on
        assert goes_on(of_file, PATIENCE // 2) is True


@pytest.mark.parametrize(("most", "expected"), [(1, [1]), (2, [1, 2]), (7, [1, 2, 4])])
def test_a_shorter_longest_run_can_be_asked_for(most: int, expected: list[int]) -> None:
    whole = autoregression(0.0, 500 * MOST)
    whole[0] += 2.0
    run, seen = runner(whole, 500)
    run_until_good(run, judged, most)
    assert seen == expected


@pytest.mark.parametrize(
    ("times", "rhat", "ess", "expected"),
    [
        (1, 3.0, 5.0, True),  # patience: any chains may take eight times as long
        (4, 3.0, 5.0, True),
        (8, 1.079, 51.0, True),  # eight times as long: R-hat 1.0099, ESS 408
        (8, 1.081, 51.0, False),
        (8, 1.0 + 8 * (LARGEST_RHAT - 1.0), 51.0, False),  # 1.01 would not be below 1.01
        (8, 1.079, 50.0, False),  # 400 would not be above 400
        (16, 1.039, 101.0, True),
        (16, 1.041, 101.0, False),
        (16, 1.039, 99.0, False),
        (32, 1.019, 201.0, True),
        (32, 1.021, 201.0, False),
        (32, 1.019, 199.0, False),
        (64, 1.0101, 399.0, False),  # the end
        (8, np.nan, 100.0, False),  # a stuck coordinate
    ],
)
def test_what_is_narrow(times: int, rhat: float, ess: float, expected: bool) -> None:
    assert goes_on(verdict(rhat, ess), times) is expected


def test_what_running_on_cannot_mend_is_not_run_on() -> None:
    narrow = verdict(1.012, 390.0)
    assert goes_on(narrow, PATIENCE)
    assert not goes_on(replace(narrow, draws=400), PATIENCE)  # 400 draws are never worth more
    assert not goes_on(replace(narrow, divergences=100), 1)  # smaller steps, not longer chains


def test_one_transition_in_a_thousand_of_the_whole_run_may_diverge() -> None:
    """2,000 kept draws, and as many transitions as the thinning says for each of them."""
    kept = verdict(1.0, 1000.0)
    for thinning, allowed in ((1, 2), (4, 8)):
        run = replace(kept, thinning=thinning, divergences=allowed)
        assert run.diverged is False
        assert run.failures == []
        more = replace(run, divergences=allowed + 1)
        assert more.diverged is True
        assert more.failures == [f"{allowed + 1} of {2000 * thinning} transitions diverged"]


def test_the_rule_sees_nothing_but_the_diagnostics() -> None:
    """Ranks are all that the diagnostics know: values pushed through any increasing function stop
    at the same length."""
    whole = autoregression(0.95, 500 * MOST)
    run, seen = runner(whole, 500)
    run_until_good(run, judged)
    other, others = runner(np.exp(3.0 * whole) - 7.0, 500)
    _, reached = run_until_good(other, judged)
    assert others == seen
    assert len(seen) > 1
    assert reached.failures == []


def first_failure(chains: int, draws: int, limit: float) -> float:
    """docs/proofs/diagnostics.md: P(R-hat >= limit) for one coordinate of exact draws."""
    halves, n = 2 * chains, draws // (2 * chains)
    law = scipy.stats.f(halves - 1, halves * (n - 1))
    return float(2 * law.sf(1 + n * (limit**2 - 1)))


@pytest.mark.parametrize(("chains", "draws"), [(2, 200), (4, 240)])
def test_exact_draws_fail_as_often_as_the_proof_says(chains: int, draws: int) -> None:
    """Whatever the distribution: Cauchy here. Within 5 standard errors over 8,000 coordinates, and
    15 % for normal scores, which are not quite normal draws."""
    number = 8000
    shape = chains, draws // chains, number
    values = rhat(np.random.default_rng(5).standard_cauchy(shape))
    for limit in (1.02, 1.03):
        expected = first_failure(chains, draws, limit)
        assert 0.001 < expected < 0.3
        room = 5 * np.sqrt(expected / number) + 0.15 * expected
        assert abs((values >= limit).mean() - expected) < room


@pytest.mark.parametrize(("chains", "draws", "stated"), [(4, 2000, "1.1e-6"), (2, 1000, "9.1e-4")])
def test_the_proof_states_the_probability_of_a_first_failure(
    chains: int, draws: int, stated: str
) -> None:
    proof = (Path(__file__).parents[3] / "docs/proofs/diagnostics.md").read_text(encoding="utf-8")
    assert f"| {chains} | {draws:,} | {stated} |" in proof
    assert float(stated) == pytest.approx(first_failure(chains, draws, LARGEST_RHAT), rel=0.05)
