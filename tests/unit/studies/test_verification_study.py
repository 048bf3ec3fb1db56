"""The study of paper V: its samples, its medians and areas, its files, going on after a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import kstest, mannwhitneyu

from understudy.errors import Refused
from understudy.studies import verification
from understudy.studies.verification import run_study
from understudy.studies.verification_beyond import median_and_slope
from understudy.studies.verification_page import FIGURES
from understudy.studies.verification_replicate import VerificationDesign, replicate
from understudy.studies.verification_samples import (
    BLOCKS,
    Moments,
    biased_moments,
    by_pass,
    by_search,
    moments,
    population,
    simple_moments,
    systematic_pps,
)
from understudy.studies.verification_tables import auc, auc_se, posterior_medians, roc
from understudy.verify.posterior import agreement_posterior, discrepancy_posterior

SMALL = VerificationDesign(
    population=100_000, sizes=(60, 300), partitions=(10, 30), roc_size=100, roc_partitions=20,
    roc_pairs=20, beyond_size=60,
)  # fmt: skip


@pytest.fixture(scope="module")
def units() -> Any:
    return population(20_000, np.random.default_rng(1))


def test_both_ways_to_select_find_the_same_units(units: Any) -> None:
    rng = np.random.default_rng(2)
    length = units.n // BLOCKS
    ends = units.reached[length - 1 :: length]
    sizes = np.diff(ends, prepend=0.0)
    for n in (50, 4000):
        order = rng.permutation(BLOCKS)
        starts = np.empty(BLOCKS)
        starts[order] = np.cumsum(sizes[order]) - sizes[order]
        given = (units, n / units.size, starts - (ends - sizes), float(rng.uniform()))
        np.testing.assert_array_equal(by_search(*given), by_pass(*given))
        # The definition, unit by unit: a point start + j falls into the unit's stretch.
        blocks = np.concatenate([np.arange(b * length, (b + 1) * length) for b in order])
        edge = np.concatenate([[0.0], np.cumsum(units.z[blocks])]) * given[1] - given[3]
        slow = np.sort(blocks[np.floor(edge[1:]) > np.floor(edge[:-1])])
        np.testing.assert_array_equal(np.sort(by_pass(*given)), slow)


def test_pps_chances_are_proportional_to_size(units: Any) -> None:
    rng = np.random.default_rng(3)
    repeats, n = 400, 4000
    hits = np.zeros(units.n)
    for _ in range(repeats):
        chosen = systematic_pps(units, n, rng)
        assert len(np.unique(chosen)) == len(chosen) == n
        hits[chosen] += 1
    chance = n * units.z / units.size
    groups = np.argsort(units.z).reshape(40, -1)
    got, wanted = hits[groups].mean(axis=1) / repeats, chance[groups].mean(axis=1)
    np.testing.assert_allclose(got, wanted, rtol=0.05, atol=0.001)
    with pytest.raises(Refused, match="certain"):
        systematic_pps(units, 15_000, rng)
    with pytest.raises(Refused, match="multiple"):
        population(1500, rng)


def test_simple_and_biased_moments_have_their_distributions(units: Any) -> None:
    rng = np.random.default_rng(4)
    drawn = np.array(
        [
            [(m.mean, m.variance) for m in simple_moments(units, [2000, 8000], rng)]
            for _ in range(60)
        ]
    )
    mean, spread = units.x.mean(), units.x.var(ddof=1)
    for place, n in enumerate((2000, 8000)):
        se = np.sqrt((1 - n / units.n) * spread / n)
        assert kstest((drawn[:, place, 0] - mean) / se, "norm").pvalue > 1e-3
        np.testing.assert_allclose(drawn[:, place, 1].mean(), spread, rtol=0.02)
    # The whole population is one sample only.
    whole = simple_moments(units, [units.n], rng)[0]
    assert whole.mean == pytest.approx(mean, rel=1e-12)
    assert whole.variance == pytest.approx(spread, rel=1e-10)
    made = [biased_moments(Moments(3.0, 4.0), 50, rng) for _ in range(2000)]
    slow = [moments(rng.normal(3.0, 2.0, 50)) for _ in range(2000)]
    for name in ("mean", "variance"):
        one, two = ([getattr(m, name) for m in some] for some in (made, slow))
        assert mannwhitneyu(one, two).pvalue > 1e-4
        assert np.std(one) == pytest.approx(np.std(two), rel=0.1)


@pytest.mark.parametrize("m", [25, 90])
def test_medians_are_those_of_the_exact_posterior(m: int) -> None:
    noisy = np.array([-3.2, 0.0, 0.4, 7.7, m / 2, m - 0.1, m + 4.0])
    found = posterior_medians(noisy, m, 1.0, "laplace")
    exact = [agreement_posterior(y, m, 1.0, "laplace").median for y in noisy]
    np.testing.assert_allclose(found, exact, atol=2e-6)
    whole = np.arange(m + 1.0)
    exact = [agreement_posterior(y, m, 1.0).median for y in whole]
    np.testing.assert_allclose(posterior_medians(whole, m, 1.0, "geometric"), exact, atol=2e-6)


def test_the_area_under_the_roc() -> None:
    rng = np.random.default_rng(5)
    score = rng.integers(0, 12, 300).astype(float)
    inside = rng.uniform(size=300) < 0.3 + score / 30
    found = auc(score, inside)
    assert found is not None
    expected = mannwhitneyu(score[inside], score[~inside]).statistic
    assert found == pytest.approx(expected / (inside.sum() * (~inside).sum()))
    assert found == pytest.approx(np.trapezoid(*roc(score, inside)[::-1]))
    assert auc(score, np.full(300, True)) is None
    areas = []
    for _ in range(300):
        some = rng.integers(0, 300, 300)
        areas.append(auc(score[some], inside[some]))
    assert auc_se(found, inside) == pytest.approx(np.std(areas), rel=0.25)  # type: ignore[arg-type]


def test_near_zero_is_the_order_of_the_probability_inside() -> None:
    chances = [
        discrepancy_posterior(y, 50, 1.0, 14.1, 3.0).probability_within()
        for y in (0, 900, 2100, 5000, 11_000, 24_000)
    ]
    assert chances == sorted(chances, reverse=True)
    mirrored = discrepancy_posterior(-5000, 50, 1.0, 14.1, 3.0).probability_within()
    assert mirrored == pytest.approx(chances[3])


def test_estimators_beyond_the_paper_are_near_their_targets(units: Any) -> None:
    found = median_and_slope(units, 200, 10, np.random.default_rng(6))
    truth = {"median": np.median(units.x), "slope": np.polyfit(units.z, units.x, 1)[0]}
    for name, (centre, se, full, parts) in found.items():
        assert abs(centre - truth[name]) < 5 * se
        assert abs(full - truth[name]) < 15 * se
        assert len(parts) == 10
        assert abs(parts.mean() - full) < 10 * se


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A study that is killed after its first repeats, then run again to the end."""
    out = tmp_path_factory.mktemp("study")
    computed: list[int] = []
    patch = pytest.MonkeyPatch()

    def counted(design: VerificationDesign, seed: int, number: int) -> dict[str, Any]:
        if number == 2 and computed == [0, 1]:
            computed.append(-1)
            raise KeyboardInterrupt
        computed.append(number)
        return replicate(design, seed, number)

    patch.setattr(verification, "replicate", counted)
    with pytest.raises(KeyboardInterrupt):
        run_study(14, out, seed=3, progress=False, design=SMALL)
    run_study(14, out, seed=3, progress=False, design=SMALL)
    patch.undo()
    return out, computed


def test_a_stopped_study_goes_on(finished: tuple[Path, list[int]]) -> None:
    out, computed = finished
    assert computed == [0, 1, -1, *range(2, 14)]
    text = (out / "study.html").read_text(encoding="utf-8")
    assert text.count("<img") == len(FIGURES) + 2
    assert "99,984,562" in text
    for number in FIGURES:
        assert f"Figure {number}." in text
    with pytest.raises(Refused, match="another `seed`"):
        run_study(14, out, seed=4, progress=False, design=SMALL)


def test_files_are_seeded_and_noise_is_not() -> None:
    one, two = (replicate(SMALL, 3, 7)["answers"] for _ in range(2))
    for name in ("centre", "full", "distance", "count", "steps"):
        assert one[name] == two[name]
    for name in ("laplace", "geometric", "discrepancy"):
        assert one[name] != two[name]


def test_the_small_study_shows_what_the_paper_shows(finished: tuple[Path, list[int]]) -> None:
    table = pl.read_csv(finished[0] / "summary.csv").filter(partitioning="equal")
    good = table.filter(synthesis="faithful", estimand="total")
    gaps = {
        name: (good.filter(interval=name)["median"] - good.filter(interval=name)["r_full"])
        for name in ("fixed", "adjusted")
    }
    assert gaps["fixed"].mean() < -0.2  # type: ignore[operator]
    assert gaps["adjusted"].abs().mean() < 0.15  # type: ignore[operator]
    biased = table.filter(synthesis="biased", interval="adjusted", n_k=300, M=30, alpha=1.0)
    assert biased["median"].max() < 0.25  # type: ignore[operator]
    areas = pl.read_csv(finished[0] / "auc-bounded.csv").filter(alpha=3.0, partitioning="equal")
    better = areas["discrepancy"] - areas["agreement"]
    assert better.mean() > 0.1  # type: ignore[operator]
