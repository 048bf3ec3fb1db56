"""The planner against V §5 as written (simulation), SciPy, and the posteriors themselves."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from understudy.errors import Refused
from understudy.verify import discrepancy_law
from understudy.verify.measure import report_quantiles
from understudy.verify.measures import agreement
from understudy.verify.measures.agreement import agreement_posterior, beta_medians
from understudy.verify.measures.discrepancy import discrepancy_posterior
from understudy.verify.planner import plan

RUNS = 4000


def noise(draw: np.random.Generator, scale: float, size: int) -> np.ndarray:
    q = 1 - math.exp(-1 / scale)
    return draw.geometric(q, size) - draw.geometric(q, size)


@pytest.mark.parametrize(
    ("tau", "sigma", "kwargs"),
    [
        (101.0, 2.0, {"partitions": 25, "tolerance": 1.0}),
        (107.0, 3.0, {"partitions": 25, "tolerance": 2.0, "interval": "fixed"}),
        (104.0, 1.5, {"partitions": 25, "tolerance": 2.0, "noise": "laplace"}),
    ],
)
def test_agreement_equals_simulation(tau: float, sigma: float, kwargs: dict[str, Any]) -> None:
    """V §5, steps 3 and 4, literally."""
    draw = np.random.default_rng(3)
    planned = plan(100.0, 2.0, measure="agreement", estimates=[tau], ses=[sigma], **kwargs)
    row = planned.table.row(0, named=True)
    gamma = 1.0 if kwargs.get("interval") == "fixed" else 5.0
    parts = draw.normal(tau, 5 * sigma, (RUNS, 25))
    count = np.sum(np.abs(parts - 100) <= kwargs["tolerance"] * 2 * gamma, axis=1)
    if kwargs.get("noise") == "laplace":
        answers = count + draw.laplace(0, 1, RUNS)
        medians = np.array(
            [agreement_posterior(y, 25, 1.0, "laplace").median for y in answers[:800]]
        )
    else:
        answers = np.clip(count + noise(draw, 1.0, RUNS), 0, 25)
        by_answer = np.array([agreement_posterior(y, 25, 1.0).median for y in range(26)])
        medians = by_answer[answers]
    error = math.sqrt(0.25 / len(medians))
    assert np.mean(medians >= 0.5) == pytest.approx(row["says_inside"], abs=4 * error)
    assert answers.mean() / 25 == pytest.approx(row["noisy_mean"], abs=4 * row["noisy_sd"] / 60)
    assert answers.std() / 25 == pytest.approx(row["noisy_sd"], rel=0.1)
    for name, p in (("median_low", 0.05), ("median_mid", 0.5), ("median_high", 0.95)):
        assert abs(np.mean(medians <= row[name] + 1e-4) - p) < 4 * error + (
            0.12 if "noise" not in kwargs else 0.0  # a jump of the discrete distribution
        )


@pytest.mark.parametrize(("tau", "sigma", "m"), [(103.0, 2.0, 50), (90.0, 6.0, 25)])
def test_discrepancy_equals_simulation(tau: float, sigma: float, m: int) -> None:
    draw = np.random.default_rng(4)
    planned = plan(100.0, 2.0, estimates=[tau], ses=[sigma], partitions=m, epsilon="0.5")
    row = planned.table.row(0, named=True)
    bound = 2 * math.sqrt(m) * 2.0
    parts = draw.normal(tau, math.sqrt(m) * sigma, (RUNS, m))
    steps = np.rint(np.clip((parts - 100) / bound, -1, 1) * 1000).sum(axis=1)
    answers = steps + noise(draw, 4000.0, RUNS)
    scaled = answers / (1000 * m) * bound
    assert scaled.mean() == pytest.approx(row["noisy_mean"], abs=4 * row["noisy_sd"] / 60)
    assert scaled.std() == pytest.approx(row["noisy_sd"], rel=0.08)
    some = answers[:300].astype(int)
    posteriors = [discrepancy_posterior(int(y), m, 0.5, bound, tolerance=4.0) for y in some]
    says = np.mean([p.probability_within() >= 0.5 for p in posteriors])
    assert says == pytest.approx(row["says_inside"], abs=4 * math.sqrt(0.25 / 300))
    medians = np.array([p.median for p in posteriors])
    for name, p in (("median_low", 0.05), ("median_mid", 0.5), ("median_high", 0.95)):
        assert np.mean(medians <= row[name]) == pytest.approx(
            p, abs=4 * math.sqrt(p * (1 - p) / 300)
        )


@pytest.mark.parametrize(("epsilon", "tau", "sigma"), [(1.0, 1.0, 1.5), (5.0, 0.0, 0.01)])
def test_agreement_is_the_convolution_written_out(epsilon: float, tau: float, sigma: float) -> None:
    row = plan(
        *(0.0, 1.0),
        measure="agreement",
        partitions=10,
        tolerance=2.0,
        epsilon=epsilon,
        estimates=[tau],
        ses=[sigma],
    ).table.row(0, named=True)
    width, spread = 2 * math.sqrt(10), sigma * math.sqrt(10)
    p = norm.cdf((width - tau) / spread) - norm.cdf((-width - tau) / spread)
    a = math.exp(-epsilon)
    noisy = np.zeros(11)
    for s in range(11):
        for e in range(-60, 61):
            noisy[min(max(s + e, 0), 10)] += binom.pmf(s, 10, p) * (1 - a) / (1 + a) * a ** abs(e)
    mean = noisy @ np.arange(11)
    assert row["noisy_mean"] == pytest.approx(mean / 10, abs=1e-10)
    assert row["noisy_sd"] == pytest.approx(
        math.sqrt(noisy @ (np.arange(11) - mean) ** 2) / 10, abs=1e-10
    )
    yes = [agreement_posterior(y, 10, epsilon).median >= 0.5 for y in range(11)]
    assert row["says_inside"] == pytest.approx(noisy @ yes, abs=1e-10)


@pytest.mark.parametrize(("tau", "tolerance"), [(1.2, 1.5), (-2.5, 0.4), (0.0, 2.5)])
def test_discrepancy_is_the_convolution_written_out(
    tau: float, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a grid of four steps: three partitions, the noise, and the posterior of every answer."""
    monkeypatch.setattr(discrepancy_law, "PLAN_GRID", 4)
    asked = {"partitions": 3, "tolerance": tolerance, "epsilon": 2.0}
    row = plan(0.0, 1.0, estimates=[tau], ses=[0.8], **asked).table.row(0, named=True)  # type: ignore[arg-type]
    bound = 2 * math.sqrt(3)
    edges = (np.arange(-4, 4) + 0.5) / 4 * bound
    step = np.diff(norm.cdf((edges - tau) / (math.sqrt(3) * 0.8)), prepend=0.0, append=1.0)
    a = math.exp(-2 / 8)
    noise = (1 - a) / (1 + a) * a ** np.abs(np.arange(-300, 301))
    noisy = np.convolve(np.convolve(np.convolve(step, step), step), noise)
    sums, states = np.arange(-312, 313), np.arange(-12, 13)
    mean = noisy @ sums
    assert row["noisy_mean"] == pytest.approx(mean / 12 * bound, abs=1e-9)
    variance = noisy @ (sums - mean) ** 2
    assert row["noisy_sd"] == pytest.approx(math.sqrt(variance) / 12 * bound, abs=1e-9)
    posterior = a ** np.abs(np.clip(sums, -12, 12)[:, None] - states)
    posterior /= posterior.sum(axis=1, keepdims=True)
    inside = posterior[:, np.abs(states / 12 * bound) <= tolerance].sum(axis=1) >= 0.5
    assert row["says_inside"] == pytest.approx(noisy @ inside, abs=1e-9)
    medians = states[np.argmax(np.cumsum(posterior, axis=1) >= 0.5 - 1e-9, axis=1)] / 12 * bound
    for name, p in (("median_low", 0.05), ("median_mid", 0.5), ("median_high", 0.95)):
        assert row[name] == pytest.approx(medians[np.argmax(np.cumsum(noisy) >= p)], abs=1e-9)


def test_what_is_reported_is_read_off_the_distribution_function() -> None:
    reached = np.array([[0.05, 0.5, 0.95, 1.0], [0.01, 0.02, 0.03, 0.04]])
    columns = report_quantiles(reached, np.array([1.0, 2.0, 3.0, 4.0]))
    assert {name: column.tolist() for name, column in columns.items()} == {
        "median_low": [1.0, 4.0],
        "median_mid": [2.0, 4.0],
        "median_high": [3.0, 4.0],
    }


def test_an_estimate_at_the_end_of_the_tolerance_is_inside() -> None:
    table = plan(100.0, 0.1, tolerance=3.0, estimates=[99.7, 100.3, 100.30001], ses=[0.1]).table
    assert table["inside"].to_list() == [True, True, False]


def test_the_coarse_grid_costs_nothing_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"estimates": [96.0, 101.0, 120.0], "ses": [1.0, 4.0]}
    coarse = plan(100.0, 2.0, **arguments).table  # type: ignore[arg-type]
    monkeypatch.setattr(discrepancy_law, "PLAN_GRID", 1000)
    fine = plan(100.0, 2.0, **arguments).table  # type: ignore[arg-type]
    for name in ("median_low", "median_mid", "median_high", "noisy_mean", "noisy_sd"):
        np.testing.assert_allclose(coarse[name], fine[name], atol=0.02)
    np.testing.assert_allclose(coarse["says_inside"], fine["says_inside"], atol=2e-3)


def test_medians_are_those_of_the_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrepancy_law, "PLAN_GRID", 1000)
    answers = np.array([-20_000, -19_999, -15_000, -1, 0, 777, 18_500, 20_000])
    ours = discrepancy_law.laplace_medians(answers, 20_000, math.exp(-1 / 2000)) / 20_000 * 7.0
    theirs = [discrepancy_posterior(int(y), 20, 1.0, 7.0).median for y in answers]
    np.testing.assert_allclose(ours, theirs, atol=7.0 / 20_000 * 1.01)
    beta = beta_medians(np.arange(26.0), 25, 1.0, "geometric")
    exact = [agreement_posterior(y, 25, 1.0).median for y in range(26)]
    np.testing.assert_allclose(beta, exact, atol=1e-5)


@pytest.mark.parametrize("measure", ["agreement", "discrepancy"])
def test_symmetry_and_range(measure: Any) -> None:
    table = plan(50.0, 1.0, measure=measure).table
    assert table.shape == (400, 10)
    says = table["says_inside"].to_numpy().reshape(20, 20)
    np.testing.assert_allclose(says, says[::-1], atol=1e-9)
    assert np.all((says >= 0) & (says <= 1 + 1e-12))
    assert table["inside"].sum() == 200


@pytest.mark.parametrize("measure", ["agreement", "discrepancy"])
def test_the_work_of_a_plan_hardly_grows_with_its_grid(
    measure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One table of posterior medians for all 400 assumed results, and few large arrays.

    Seconds are in `bench/cases/planning.py`.
    """
    calls: Counter[str] = Counter()
    counts = [(agreement, name) for name in ("beta_medians", "log_likelihood")]
    counts += [(discrepancy_law, name) for name in ("laplace_medians", "mass", "noisy_sum")]
    for module, name in counts:
        function = getattr(module, name)

        def counted(*arguments: Any, name: str = name, function: Any = function) -> Any:
            calls[name] += 1
            return function(*arguments)

        monkeypatch.setattr(module, name, counted)
    plan(50.0, 1.0, measure=measure)
    once = {
        "agreement": {"beta_medians": 1, "log_likelihood": 2},
        "discrepancy": {"laplace_medians": 1, "mass": 4, "noisy_sum": calls["noisy_sum"]},
    }
    assert calls == once[measure]
    assert calls["noisy_sum"] <= 20  # blocks of at least twenty of the 400


def test_the_figure_is_the_same_svg_every_time() -> None:
    planned = plan(100.0, 2.0, estimates=[97.0, 100.0, 103.0], ses=[1.0, 2.0])
    text = planned.figure()
    assert text == planned.figure()
    assert ET.fromstring(text).tag.endswith("svg")
    assert "chance that the verdict is right" in text


@pytest.mark.parametrize(
    ("words", "kwargs"),
    [
        ("`se`", {"se": 0.0}),
        ("`epsilon`", {"epsilon": float("nan")}),
        ("Epsilon", {"epsilon": "0"}),
        ("Partitions", {"partitions": 1}),
        ("measure", {"measure": "distance"}),
        ("zero width", {"estimate": 0.0, "tolerance_kind": "percent"}),
        ("clip", {"tolerance": 30.0}),
        ("`clip` must be greater than or equal to 0.5", {"clip": 0.0}),
        ("`clip` must be less than or equal to 20", {"clip": float("inf")}),
        ("`clip` must be a valid number", {"clip": "wide"}),
        ("assumed standard error", {"ses": [1.0, -1.0]}),
        ("assumed standard error", {"ses": [0.0]}),
        ("setting of a plan", {"clop": 2.0}),
        ("lists of 1 to 200", {"estimates": []}),
        ("lists of 1 to 200", {"estimates": [float("inf")]}),
    ],
)
def test_impossible_plans_are_refused(words: str, kwargs: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=words):
        plan(**({"estimate": 100.0, "se": 2.0} | kwargs))


def test_noise_beyond_an_end_is_counted_at_the_end() -> None:
    sums = np.array([[0.2, 0.0, 0.5, 0.3], [0.0, 1.0, 0.0, 0.0]])
    a = 0.8
    direct = np.zeros_like(sums)
    for s in range(4):
        for e in range(-200, 201):
            chance = (1 - a) / (1 + a) * a ** abs(e)
            direct[:, min(max(s + e, 0), 3)] += sums[:, s] * chance
    np.testing.assert_allclose(discrepancy_law.noisy_sum(sums, a), direct, atol=1e-12)


@pytest.mark.parametrize(("low", "high"), [(-5, 5), (-2, 3), (4, 5)])
def test_the_geometric_series_is_the_sum(low: int, high: int) -> None:
    answers = np.arange(-8, 9)
    direct = [sum(0.7 ** abs(y - s) for s in range(low, high + 1)) for y in answers]
    np.testing.assert_allclose(discrepancy_law.mass(answers, low, high, 0.7), direct, rtol=1e-12)


def test_a_tiny_budget_leaves_the_prior() -> None:
    """At epsilon near zero the answer says nothing: chances are those of the bare range."""
    planned = plan(100.0, 2.0, epsilon="0.000001", estimates=[100.0], ses=[2.0], partitions=2)
    row = planned.table.row(0, named=True)
    bound = 2 * math.sqrt(2) * 2
    assert row["median_high"] - row["median_low"] < 1e-3 * bound
    assert row["says_inside"] == pytest.approx(1.0 if 4.0 / bound > 0.5 else 0.0, abs=1e-6)


@pytest.mark.parametrize("decay", [0.3, 0.7, 0.97])
@pytest.mark.parametrize("most", [1, 2, 9])
def test_medians_are_those_of_the_sum_written_out(most: int, decay: float) -> None:
    answers, states = np.arange(-most, most + 1), np.arange(-most, most + 1)
    posterior = decay ** np.abs(answers[:, None] - states)
    share = np.cumsum(posterior, axis=1) / posterior.sum(axis=1, keepdims=True)
    direct = states[np.argmax(share >= 0.5 - 1e-9, axis=1)]
    assert discrepancy_law.laplace_medians(answers, most, decay).tolist() == direct.tolist()


def test_an_agreement_that_cannot_be_is_planned_too() -> None:
    """A chance of 1e-300 and less, for which SciPy's binomial overflows."""
    made = plan(41_205.0, 99_254.0, measure="agreement", tolerance=41_205.0,
                tolerance_kind="percent", interval="fixed", epsilon="0.01")  # fmt: skip
    assert np.isfinite(made.table["says_right"].to_numpy()).all()


def test_answers_far_outside_are_answers_at_the_end() -> None:
    """Beyond M all that noise can say is e^(epsilon S), however far the answer is."""
    near, far = beta_medians(np.array([25.0, 5000.0]), 25, 1.0, "laplace")
    assert far == pytest.approx(near, abs=1e-12)
