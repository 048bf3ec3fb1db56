"""The study of paper V: its samples, its medians and areas, its files, going on after a stop."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import kstest, laplace, mannwhitneyu, norm

import chance
import understudy as us
from understudy_studies.verification import run as verification
from understudy_studies.verification.figures import FIGURES
from understudy_studies.verification.influence import (
    estimate,
    influence_repeat,
    influence_table,
    parts_of,
    units_of,
)
from understudy_studies.verification.normal import conditions, normal_pairs, normal_table
from understudy_studies.verification.replicate import (
    Pair,
    VerificationDesign,
    answers,
    pairs_of,
    replicate,
)
from understudy_studies.verification.roc import auc, auc_se, roc
from understudy_studies.verification.run import run_study
from understudy_studies.verification.samples import (
    BLOCKS,
    Moments,
    biased_moments,
    moments,
    population,
    selected,
    simple_moments,
    systematic_pps,
)
from understudy_studies.verification.tables import (
    POINTS,
    auc_table,
    rows_of,
    summary,
)

SMALL = VerificationDesign(
    population=100_000, sizes=(60, 300), partitions=(10, 30), roc_size=100, roc_partitions=20,
    roc_pairs=20, influence_pairs=1, influence_sizes=(200,),
    influence_epsilons=(), influence_smallest=(),
)  # fmt: skip


@pytest.fixture(scope="module")
def units() -> Any:
    return population(20_000, np.random.default_rng(1))


def test_the_units_that_are_selected(units: Any) -> None:
    rng = np.random.default_rng(2)
    length = units.n // BLOCKS
    ends = units.reached[length - 1 :: length]
    sizes = np.diff(ends, prepend=0.0)
    for n in (50, 4000):
        order = rng.permutation(BLOCKS)
        starts = np.empty(BLOCKS)
        starts[order] = np.cumsum(sizes[order]) - sizes[order]
        arguments = (units, n / units.size, starts - (ends - sizes), float(rng.uniform()))
        # The definition, unit by unit: a point start + j falls into the unit's stretch.
        blocks = np.concatenate([np.arange(b * length, (b + 1) * length) for b in order])
        edge = np.concatenate([[0.0], np.cumsum(units.z[blocks])]) * arguments[1] - arguments[3]
        slow = np.sort(blocks[np.floor(edge[1:]) > np.floor(edge[:-1])])
        np.testing.assert_array_equal(np.sort(selected(*arguments)), slow)


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
    with pytest.raises(us.Refused, match="certain"):
        systematic_pps(units, 15_000, rng)
    with pytest.raises(us.Refused, match="multiple"):
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
    for column, n in enumerate((2000, 8000)):
        se = np.sqrt((1 - n / units.n) * spread / n)
        assert kstest((drawn[:, column, 0] - mean) / se, "norm").pvalue > 1e-3
        np.testing.assert_allclose(drawn[:, column, 1].mean(), spread, rtol=0.02)
    # The whole population is one sample only.
    whole = simple_moments(units, [units.n], rng)[0]
    assert whole.mean == pytest.approx(mean, rel=1e-12)
    assert whole.variance == pytest.approx(spread, rel=1e-10)
    made = [biased_moments(Moments(3.0, 4.0), 50, rng) for _ in range(2000)]
    slow = [moments(rng.normal(3.0, 2.0, 50)) for _ in range(2000)]
    for name in ("mean", "variance"):
        ours, reference = ([getattr(m, name) for m in some] for some in (made, slow))
        assert mannwhitneyu(ours, reference).pvalue > 1e-4
        assert np.std(ours) == pytest.approx(np.std(reference), rel=0.1)


def test_pairs_hold_the_papers_estimates_unit_by_unit(units: Any) -> None:
    """V eq. 3, 7, 8 and the synthetic variances, in loops over the sampled units."""
    n_k, m, N = 50, 8, units.n
    n = n_k * m
    chosen = systematic_pps(units, n, np.random.default_rng(7))
    weight = {i: float(units.z.sum()) / (n * float(units.z[i])) for i in chosen}
    total = sum(weight[i] * float(units.x[i]) for i in chosen)
    full = {"total": total, "mean": total / sum(weight.values())}
    pairs = pairs_of(units, n_k, m, Moments(9.0, 16.0), np.random.default_rng(7), biased=True)
    assert len(pairs) == 8
    for pair in pairs:
        scale = N if pair.estimand == "total" else 1
        assert pair.full == pytest.approx(full[pair.estimand], rel=1e-12)
        assert len(pair.estimates) == m
        if pair.synthesis == "faithful":
            assert pair.centre == pytest.approx(9 * scale)
            assert pair.se**2 == pytest.approx(scale**2 * (1 - n / N) * 16.0 / n)
        else:  # the unweighted sample has larger values, because large units are in it
            assert pair.centre == pytest.approx(scale * units.x[chosen].mean(), rel=0.05)
        if pair.estimand == "total":  # both factors: the mean of the parts is the whole
            assert pair.estimates.mean() == pytest.approx(pair.full, rel=1e-12)
        else:
            assert pair.estimates.mean() == pytest.approx(pair.full, rel=0.05)


def test_the_synthetic_variance_is_that_of_repeated_samples(units: Any) -> None:
    """Two fifths of the population are drawn, so that a wrong finite correction shows."""
    rng = np.random.default_rng(11)
    n = 2 * units.n // 5
    means = [float(units.x[rng.permutation(units.n)[:n]].mean()) for _ in range(800)]
    whole = Moments(float(units.x.mean()), float(units.x.var(ddof=1)))
    first = pairs_of(units, n // 4, 4, whole, rng, biased=False)[0]
    assert (first.estimand, first.se) == (
        "total",
        pytest.approx(units.n * np.std(means), rel=0.12),  # 800 draws: an error of 2.5 %
    )


@pytest.mark.usefixtures("stand_in_answers")
def test_answers_count_and_clip_as_the_definitions_say() -> None:
    rng = np.random.default_rng(8)
    m, centre, se = 9, 100.0, 2.0
    pairs = [
        Pair(7, m, "total", "faithful", "equal", centre, se, full, rng.normal(full, 12.0, m))
        for full in (99.0, 102.0, 106.0, 109.0, 90.0)  # 102 and 106 are on the edge
    ]
    design = VerificationDesign(alphas=(1.0, 3.0, 5.0))
    result = {"answers": answers(pairs, design), "replicate": 0}
    rows = rows_of([result], "answers", 1.0)
    assert len(rows) == 5 * 2 * 3
    for number, row in enumerate(rows.iter_rows(named=True)):
        pair = pairs[number // 6]
        reach = row["alpha"] * se
        width = reach * {"fixed": 1, "adjusted": 3}[row["interval"]]  # the root of 9 parts
        assert row["count"] == sum(abs(estimate - centre) <= width for estimate in pair.estimates)
        assert row["inside"] == (abs(pair.full - centre) <= reach)
        steps = [
            max(-1.0, min(1.0, (estimate - centre) / (2 * 3 * se))) for estimate in pair.estimates
        ]
        assert row["steps"] == sum(round(1000 * step) for step in steps)
    shares = {row["alpha"]: row["r_full"] for row in summary(rows).iter_rows(named=True)}
    assert shares == {1.0: 0.4, 3.0: 0.6, 5.0: 1.0}


def test_normal_pairs_have_their_moments() -> None:
    whole, parts = normal_pairs(20, 2.0, 6000, np.random.default_rng(9))
    np.testing.assert_allclose(parts.mean(axis=1), whole, atol=1e-12)
    assert kstest(whole / np.sqrt(5.0), "norm").pvalue > 1e-3
    # About tau_hat a part has the variance M ratio^2 (1 - 1/M).
    assert np.var(parts - whole[:, None]) == pytest.approx(4 * 19, rel=0.02)


@pytest.mark.usefixtures("stand_in_answers")
def test_areas_of_the_normal_setting() -> None:
    """Agreement by counting; the discrepancy by integrating where nothing is clipped."""
    m, pairs = 30, 1500
    table = normal_table((m,), "40", pairs, ratios=(1.0,), seed=5)
    whole, parts = normal_pairs(m, 1.0, pairs, np.random.default_rng(5))
    for row in table.iter_rows(named=True):
        alpha = row["alpha"]
        inside = np.abs(whole) <= alpha
        assert row["inside"] == inside.mean()
        assert row["inside"] == pytest.approx(2 * norm.cdf(alpha / np.sqrt(2)) - 1, abs=0.05)
        counts = (np.abs(parts) <= alpha * np.sqrt(m)).sum(axis=1)
        area = mannwhitneyu(counts[inside], counts[~inside]).statistic
        assert row["agreement"] == pytest.approx(area / (inside.sum() * (~inside).sum()))
    many = 20_000
    sharp = normal_table((m,), "1", many, ratios=(0.25,), seed=6)
    assert sharp["clipped"].max() == 0.0
    # Unclipped, the answer is d plus Laplace noise of scale 2 c sqrt(M)/(M epsilon), c = 2.
    d = np.linspace(-6.5, 6.5, 2601)
    t = np.linspace(0.0, 12.0, 1201)
    density = norm.pdf(d, scale=np.sqrt(1 + 0.25**2))
    scale = 4 / np.sqrt(m)
    near = laplace.cdf(t[:, None], d, scale) - laplace.cdf(-t[:, None], d, scale)
    for row in sharp.iter_rows(named=True):
        inside, outside = (
            near[:, some] @ density[some] / density[some].sum()
            for some in (np.abs(d) <= row["alpha"], np.abs(d) > row["alpha"])
        )
        exact = float(np.trapezoid(inside, outside))
        # The variance of an area is at most A (1 - A) over the smaller number of pairs.
        fewer = many * min(row["inside"], 1 - row["inside"])
        most = np.sqrt(exact * (1 - exact) / fewer)
        assert row["discrepancy"] == pytest.approx(exact, abs=5 * most + 0.002)


@pytest.mark.usefixtures("stand_in_answers")
def test_areas_of_answers_and_the_conditions_that_they_depend_on() -> None:
    """Normal pairs, told as if they came from a population."""
    whole, parts = normal_pairs(20, 2.0, 600, np.random.default_rng(10))
    design = VerificationDesign(alphas=(1.0, 3.0))
    pairs = [
        Pair(1, 20, "mean", "faithful", "equal", 0.0, 1.0, float(d), tau)
        for d, tau in zip(whole, parts, strict=True)
    ]
    rows = rows_of([{"answers": answers(pairs, design), "replicate": 0}], "answers", 1.0)
    areas = auc_table(rows)
    for row in areas.iter_rows(named=True):
        some = rows.filter(interval="adjusted", alpha=row["alpha"])
        inside = some["inside"].to_numpy()
        for name, score in (
            ("discrepancy", -some["discrepancy"].abs()),  # near 0 speaks for inside
            ("no_noise", -some["steps"].abs()),
            ("agreement", some["geometric"]),  # a large count speaks for inside
            ("agreement_laplace", some["laplace"]),
        ):
            of = score.to_numpy()
            area = mannwhitneyu(of[inside], of[~inside]).statistic
            assert row[name] == pytest.approx(area / (inside.sum() * (~inside).sum()))
    normal = normal_table((20,), "1", 1500)
    table = conditions(normal, 20, {"like normal": (rows, areas)})
    assert table["setting"].to_list() == ["normal errors"] * 3 + ["like normal"]
    assert table["ratio"].to_list() == [1.0, 2.0, 4.0, pytest.approx(2.0, rel=0.08)]
    clipped = np.clip(parts / (2 * np.sqrt(20)), -1, 1).mean(axis=1)
    assert table["follows"][3] == pytest.approx(np.corrcoef(clipped, whole)[0, 1], abs=1e-4)
    assert table["follows"][3] == pytest.approx(table["follows"][1], abs=0.05)
    assert table["discrepancy_min"][3] == pytest.approx(table["discrepancy_min"][1], abs=0.12)


@pytest.mark.parametrize("m", [25, 90])
def test_medians_are_those_of_the_exact_posterior(m: int) -> None:
    noisy = np.array([-3.2, 0.0, 0.4, 7.7, m / 2, m - 0.1, m + 4.0])
    medians = us.agreement_medians(noisy, m, 1.0, "laplace", POINTS)
    exact = [us.agreement_posterior(y, m, 1.0, "laplace").median for y in noisy]
    np.testing.assert_allclose(medians, exact, atol=2e-6)
    whole = np.arange(m + 1.0)
    exact = [us.agreement_posterior(y, m, 1.0).median for y in whole]
    np.testing.assert_allclose(
        us.agreement_medians(whole, m, 1.0, "geometric", POINTS), exact, atol=2e-6
    )


def test_the_area_under_the_roc() -> None:
    rng = np.random.default_rng(5)
    score = rng.integers(0, 12, 300).astype(float)
    inside = rng.uniform(size=300) < 0.3 + score / 30
    area = auc(score, inside)
    expected = mannwhitneyu(score[inside], score[~inside]).statistic
    assert area == pytest.approx(expected / (inside.sum() * (~inside).sum()))
    assert area == pytest.approx(np.trapezoid(*roc(score, inside)[::-1]))
    areas = []
    for _ in range(300):
        some = rng.integers(0, 300, 300)
        areas.append(auc(score[some], inside[some]))
    assert auc_se(area, inside) == pytest.approx(np.std(areas), rel=0.25)


def test_near_zero_is_the_order_of_the_probability_inside() -> None:
    chances = [
        us.discrepancy_posterior(y, 50, 1.0, 14.1, 3.0).probability_within()
        for y in (0, 900, 2100, 5000, 11_000, 24_000)
    ]
    assert chances == sorted(chances, reverse=True)
    mirrored = us.discrepancy_posterior(-5000, 50, 1.0, 14.1, 3.0).probability_within()
    assert mirrored == pytest.approx(chances[3])


@pytest.mark.usefixtures("stand_in_answers", "stand_in_noise")
def test_influence_tells_what_partitions_do_not() -> None:
    """In the normal setting answers follow the difference; with equal weights they do not, and the
    planner says so."""
    design = VerificationDesign(
        population=100_000, sizes=(40,), partitions=(25,), roc_partitions=20, influence_pairs=30,
        influence_sizes=(1000,), influence_epsilons=(), influence_smallest=(),
    )  # fmt: skip
    rows = pl.DataFrame(influence_repeat(None, design, 1, 0)["influence"])
    rows = rows.with_columns(inside=pl.col("distance").abs() <= pl.col("alpha"))
    even = rows.filter(population="normal", estimand="mean")
    assert pl.Series(even.select(pl.corr("difference", "distance"))).item() > 0.9
    line = influence_table(even).filter(alpha=1.0).row(0, named=True)
    inside = even.filter(alpha=1.0)["inside"].to_numpy()
    score = -even.filter(alpha=1.0)["difference"].abs().to_numpy()
    area = mannwhitneyu(score[inside], score[~inside]).statistic
    assert line["influence"] == pytest.approx(area / (inside.sum() * (~inside).sum()))
    assert line["influence"] > line["agreement"]
    equal = rows.filter(synthesis="faithful, equal weights", alpha=1.0)
    assert equal["advice"].str.contains("weights of the released files are equal").all()
    assert ((equal["difference"] - equal["distance"]).abs() > 5 * equal["expected"]).all()


def test_parts_are_estimated_as_whole_files_are() -> None:
    draw = np.random.default_rng(4)
    x0 = draw.normal(size=60)
    file = us.ArrayFile({"y": draw.normal(size=60), "x0": x0}, draw.uniform(1, 3, 60))
    y, w = file.values["y"], file.weight
    assert estimate("mean", file) == pytest.approx(np.average(y, weights=w))
    assert estimate("slope", file) == pytest.approx(np.polyfit(x0, y, 1, w=np.sqrt(w))[0])
    assert parts_of("total", file, np.arange(60) % 3, 3).mean() == pytest.approx(w @ y)
    with pytest.raises(us.Refused, match="no file"):
        units_of("schools", 1000, 1, Path("nowhere"))


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
    with chance.seeded_answers(), chance.seeded_noise():
        with pytest.raises(KeyboardInterrupt):
            run_study(14, out, seed=3, progress=False, design=SMALL)
        run_study(14, out, seed=3, progress=False, design=SMALL)
    patch.undo()
    return out, computed


def test_a_stopped_study_goes_on(finished: tuple[Path, list[int]]) -> None:
    out, computed = finished
    assert computed == [0, 1, -1, *range(2, 14)]
    text = (out / "study.html").read_text(encoding="utf-8")
    assert text.count("<img") == 2 * len(FIGURES) + 4  # influence has one for Figures 1 and 2
    assert "99,984,562" in text
    assert "When the discrepancy is informative" in text
    for name in ("auc-normal.csv", "auc-conditions.csv"):
        assert len(pl.read_csv(out / name)) >= 6
    for number in FIGURES:
        assert f"Figure {number}." in text
    with pytest.raises(us.Refused, match="another `seed`"):
        run_study(14, out, seed=4, progress=False, design=SMALL)


@pytest.mark.chance(
    3 * (1 / (1 + math.exp(-1))) ** 60, "the same noise in 60 answers, be they at an end of 0..M"
)
def test_files_are_seeded_and_noise_is_not() -> None:
    first, second = (replicate(SMALL, 3, 7)["answers"] for _ in range(2))
    for name in ("centre", "full", "distance", "count", "steps"):
        assert first[name] == second[name]
    assert len(first["count"]) >= 60
    for name in ("laplace", "geometric", "discrepancy"):
        assert first[name] != second[name]


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
