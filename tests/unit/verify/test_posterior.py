"""Posteriors against numerical integration, direct sums and the paper's Gibbs sampler."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binom, kstest, norm

from understudy.errors import Refused
from understudy.verify.catalogue import packaged
from understudy.verify.measure import QuestionTerms
from understudy.verify.measures.agreement import agreement_posterior
from understudy.verify.measures.discrepancy import discrepancy_posterior

CASES = [
    (18, 25, 1.0, "geometric"),
    (0, 25, 0.5, "geometric"),
    (25, 25, 2.0, "geometric"),
    (7, 50, 0.1, "geometric"),
    (18.37, 25, 1.0, "laplace"),
    (-3.2, 25, 1.0, "laplace"),
    (60.0, 50, 0.5, "laplace"),
]


def chance_of_answer(y: float, s: int, m: int, epsilon: float, noise: str) -> float:
    if noise == "laplace":
        return epsilon / 2 * math.exp(-epsilon * abs(y - s))
    a = math.exp(-epsilon)
    if y in (0, m):
        return a ** abs(y - s) / (1 + a)
    return (1 - a) / (1 + a) * a ** abs(y - s)


def likelihood(r: float, y: float, m: int, epsilon: float, noise: str) -> float:
    """P(S^R | r), V eq. 4 with S summed out."""
    return float(chances_of_answer(y, m, epsilon, noise) @ binom.pmf(np.arange(m + 1), m, r))


@cache
def chances_of_answer(y: float, m: int, epsilon: float, noise: str) -> np.ndarray:
    """For each count."""
    return np.array([chance_of_answer(y, s, m, epsilon, noise) for s in range(m + 1)])


@pytest.mark.parametrize(("y", "m", "epsilon", "noise"), CASES)
def test_agreement_equals_numerical_integration(
    y: float, m: int, epsilon: float, noise: str
) -> None:
    posterior = agreement_posterior(y, m, epsilon, noise)  # type: ignore[arg-type]

    def integral(power: int, upper: float) -> float:
        inner = lambda r: r**power * likelihood(r, y, m, epsilon, noise)  # noqa: E731
        return float(quad(inner, 0, upper, epsabs=0, epsrel=1e-11, limit=200)[0])

    whole = integral(0, 1.0)
    assert posterior.mean == pytest.approx(integral(1, 1.0) / whole, abs=1e-8)
    for x in (0.1, 0.5, 0.8):
        assert float(posterior.cdf(x)) == pytest.approx(integral(0, x) / whole, abs=1e-8)
        assert float(posterior.pdf(x)) == pytest.approx(
            likelihood(x, y, m, epsilon, noise) / whole, rel=1e-8
        )
    assert integral(0, posterior.median) / whole == pytest.approx(0.5, abs=1e-8)
    low, high = posterior.interval(0.9)
    assert float(posterior.cdf(high) - posterior.cdf(low)) == pytest.approx(0.9, abs=1e-8)


@pytest.mark.parametrize(("y", "m", "epsilon"), [(18.4, 25, 1.0), (2.0, 50, 0.5), (27.5, 25, 1.0)])
def test_agreement_equals_the_papers_gibbs_sampler(y: float, m: int, epsilon: float) -> None:
    """V eq. 5-6; the last state of each of 3,000 chains, so that draws are independent."""
    draw = np.random.default_rng(11)
    counts = np.arange(m + 1)
    r = np.full((3000, 1), 0.5)
    for _ in range(80):
        log_weight = -epsilon * np.abs(y - counts) + binom.logpmf(counts, m, r)
        cumulative = np.cumsum(np.exp(log_weight), axis=1)
        s = np.sum(cumulative < draw.random((3000, 1)) * cumulative[:, -1:], axis=1)
        r = draw.beta(s + 1, m - s + 1)[:, None]
    kept = r[:, 0]
    posterior = agreement_posterior(y, m, epsilon, noise="laplace")
    assert kstest(kept, posterior.cdf).pvalue > 1e-3


def test_without_noise_it_is_the_beta_of_the_count() -> None:
    posterior = agreement_posterior(18, 25, 60.0)
    assert posterior.median == pytest.approx(beta(19, 8).median(), abs=1e-9)


def test_density_is_the_derivative_and_integrates_to_one() -> None:
    x, height = agreement_posterior(18, 25, 1.0).density(2001)
    assert np.trapezoid(height, x) == pytest.approx(1, abs=1e-6)
    x, height = discrepancy_posterior(4000, 50, 1.0, 14.0).density(4001)
    assert np.trapezoid(height, x) == pytest.approx(0.999, abs=1e-3)


def direct(noisy: int, m: int, epsilon: float, bound: float) -> tuple[np.ndarray, np.ndarray]:
    """The flat-prior posterior by the definition, term by term."""
    sums = np.arange(-1000 * m, 1000 * m + 1)
    a = math.exp(-epsilon / 2000)
    pmf = (1 - a) / (1 + a) * a ** np.abs(noisy - sums).astype(float)
    return sums / (1000 * m) * bound, pmf / pmf.sum()


@pytest.mark.parametrize(
    ("noisy", "m", "epsilon"), [(3000, 50, 1.0), (-24000, 25, 0.5), (30000, 20, 1.0)]
)
def test_discrepancy_equals_the_direct_sum(noisy: int, m: int, epsilon: float) -> None:
    bound = 2 * math.sqrt(m) * 3.0
    posterior = discrepancy_posterior(noisy, m, epsilon, bound, tolerance=6.0)
    values, weights = direct(noisy, m, epsilon, bound)
    assert posterior.mean == pytest.approx(float(values @ weights), abs=1e-8)
    assert posterior.probability_within() == pytest.approx(
        float(weights[np.abs(values) <= 6.0].sum()), abs=1e-8
    )
    for x in (-7.3, 0.0, 2.2):
        assert float(posterior.cdf(x)) == pytest.approx(float(weights[values <= x].sum()), abs=1e-8)
    low, high = posterior.interval(0.9)
    step = bound / (1000 * m)
    assert weights[values <= low].sum() >= 0.05 > weights[values <= low - step].sum() - 1e-9
    assert weights[values <= high].sum() >= 0.95 - 1e-9


def test_far_from_the_ends_it_is_a_laplace_about_the_answer() -> None:
    posterior = discrepancy_posterior(1000, 90, 2.0, 10.0)
    scale = 2000 / 2.0 * 10.0 / 90_000
    assert posterior.estimate == pytest.approx(1000 / 90_000 * 10.0)
    assert posterior.median == pytest.approx(posterior.estimate, abs=1e-9)
    low, high = posterior.interval(0.8)
    assert high - low == pytest.approx(2 * scale * math.log(5), rel=1e-3)


def test_an_assumed_sampling_error_spreads_by_a_normal() -> None:
    plain = discrepancy_posterior(1000, 50, 5.0, 10.0)
    spread = discrepancy_posterior(1000, 50, 5.0, 10.0, sampling_se=0.7)
    values, weights = direct(1000, 50, 5.0, 10.0)
    for x in (-1.0, 0.2, 1.5):
        assert float(spread.cdf(x)) == pytest.approx(
            float(weights @ norm.cdf((x - values) / 0.7)), abs=1e-10
        )
        numeric = (spread.cdf(x + 1e-5) - spread.cdf(x - 1e-5)) / 2e-5
        assert float(spread.pdf(x)) == pytest.approx(float(numeric), rel=1e-6)
    assert np.diff(spread.interval()) > np.diff(plain.interval())


def test_the_interval_covers_the_noise_as_often_as_it_says() -> None:
    draw = np.random.default_rng(5)
    a, m, inside = math.exp(-1 / 2000), 50, 0
    truth = 3000
    noise = draw.geometric(1 - a, 500) - draw.geometric(1 - a, 500)
    for y in truth + noise:
        low, high = discrepancy_posterior(int(y), m, 1.0, 1.0).interval(0.9)
        inside += low <= truth / (1000 * m) <= high
    assert abs(inside / 500 - 0.9) < 4 * math.sqrt(0.09 / 500)


@pytest.mark.parametrize(
    ("noisy", "flag"), [(0, False), (37_000, False), (38_000, True), (-60_000, True)]
)
def test_near_the_clip_bound_it_says_so(noisy: int, flag: bool) -> None:
    assert discrepancy_posterior(noisy, 50, 1.0, 10.0).near_clip is flag


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: agreement_posterior(3.5, 25, 1.0),
        lambda: agreement_posterior(26, 25, 1.0),
        lambda: agreement_posterior(float("nan"), 25, 1.0, "laplace"),
        lambda: agreement_posterior(3, 0, 1.0),
        lambda: agreement_posterior(3, 25, -1.0),
        lambda: agreement_posterior(3, 25, float("inf")),
        lambda: agreement_posterior(3, 25, 1.0, "normal"),  # type: ignore[arg-type]
        lambda: agreement_posterior(3, 25, 1.0).interval(1.0),
        lambda: discrepancy_posterior(1, 25, 1.0, 0.0),
        lambda: discrepancy_posterior(1, 25, 1.0, 1.0, sampling_se=-1),
        lambda: discrepancy_posterior(1.5, 25, 1.0, 1.0),  # type: ignore[arg-type]
        lambda: discrepancy_posterior(1, 25, 1.0, 1.0).probability_within(),
    ],
)
def test_impossible_arguments_are_refused(wrong: object) -> None:
    with pytest.raises(Refused):
        wrong()  # type: ignore[operator]


def test_an_interval_has_95_percent_unless_another_is_asked_for() -> None:
    for posterior in (agreement_posterior(18, 25, 1.0), discrepancy_posterior(900, 25, 1.0, 9.0)):
        assert posterior.interval() == posterior.interval(0.95)


def test_a_chance_lies_between_0_and_1() -> None:
    posterior = agreement_posterior(25, 25, 1.0)
    assert posterior.pdf(np.array([-0.1, 1.1])).tolist() == [0.0, 0.0]
    assert posterior.cdf(np.array([-0.1, 1.1])).tolist() == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize("partitions", [0, -3, 2.5, True])
def test_a_number_of_partitions_is_whole(partitions: int) -> None:
    with pytest.raises(Refused, match="number of partitions"):
        discrepancy_posterior(0, partitions, 1.0, 1.0)


def test_the_picture_reaches_beyond_tolerance_and_answer() -> None:
    measure = packaged().measures["discrepancy"]()
    terms = QuestionTerms(10.0, 2.0, 3.0, 25, 50.0, "adjusted", "geometric")
    near = measure.posterior(terms, 0)
    assert measure.picture(terms, near).reach == (-3.75, 3.75)
    far = measure.posterior(terms, 20_000)
    x, _ = far.density(241)
    assert measure.picture(terms, far).reach == (-3.75, x[-1])
    assert x[-1] > 16


@pytest.mark.chance(1e-6, "a Kolmogorov-Smirnov test of draws from the system's own randomness")
def test_draws_follow_the_closed_form() -> None:
    posterior = agreement_posterior(17.0, 25, 0.5, "laplace")
    assert kstest(posterior.draws(4000), posterior.cdf).pvalue > 1e-6
