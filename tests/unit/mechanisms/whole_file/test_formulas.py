"""The rules and formulas of whole files one by one, by closed forms and by what must not matter."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm, poisson

import understudy as us
from understudy.dp.consistent import Agreed, agreed
from understudy.dp.record_pool import Pool
from understudy.mechanisms.whole_file import misfit
from understudy.mechanisms.whole_file.budget import CellNoise, TableBudget
from understudy.mechanisms.whole_file.files import _empty, published_codebook
from understudy.mechanisms.whole_file.fit import (
    Fit,
    _tail,
    bending,
    falling,
    fine_shares,
    fitted,
    smoothed,
)
from understudy.mechanisms.whole_file.measure import FileQuestion, _all_tables, _coarse
from understudy.mechanisms.whole_file.noisy_file import NoisyFile, NoisySet
from understudy.mechanisms.whole_file.plan import AFFORDABLE, TablePlan, averaged, plan_of
from understudy.mechanisms.whole_file.weights import table_places
from understudy.survey.cells import cells_of
from understudy.survey.codebook import Codebook, Column
from understudy.tables.rule_cells import ruled_out

MAPPED = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2], dtype=np.int32)  # nine fine cells in three coarse
COUNTS = np.array([30.0, 50, 20, 40, 60, 35, 25, 22, 18])


def noisy_file(*one_way: np.ndarray, variance: float = 0.0) -> NoisyFile:
    """One column, a set for each table of it."""
    sets = tuple(NoisySet([table], []) for table in one_way)
    return NoisyFile(("x",), (MAPPED,), (), (variance,), (), sets, 300)


def fit_of(sets: int) -> Fit:
    pool = Pool(np.arange(3, dtype=np.int32)[:, None], np.full(3, 1 / 3))
    margin = np.bincount(MAPPED, COUNTS) / 300
    return Fit(
        pool, pool.weights, 300.0, (3,), [Agreed([], {0: margin}, 300.0)] * sets, ((0,),) * sets
    )


def test_a_set_has_the_curve_of_its_own_coarse_cells() -> None:
    """Noise so large that nothing is kept of it: each set follows the curve of its margins, so that
    what noise does to the tail shows in the spread between the sets."""
    margins = [np.array([0.5, 0.4, 0.1]), np.array([0.4, 0.4, 0.2])]
    fit = replace(fit_of(2), sets=[Agreed([], {0: margin}, 300.0) for margin in margins])
    flat = noisy_file(*[np.zeros(9)] * 2, variance=1e9)
    for margin, (shares,) in zip(margins, fine_shares(flat, fit, [9]), strict=True):
        curve = smoothed(margin, MAPPED, 9)
        np.testing.assert_allclose(shares, curve / margin[MAPPED], rtol=0.02)
    assert np.abs(smoothed(margins[0], MAPPED, 9) / margins[0][MAPPED] - shares).max() > 0.05


def test_without_noise_fine_cells_have_their_own_shares() -> None:
    (shares,) = fine_shares(noisy_file(COUNTS), fit_of(1), [9])
    sums = np.bincount(MAPPED, COUNTS)
    np.testing.assert_allclose(shares[0], COUNTS / sums[MAPPED], rtol=1e-12)


@pytest.mark.parametrize("variance", [5.0, 20.0])
def test_three_equal_sets_of_three_times_the_variance_are_one_set(variance: float) -> None:
    """What is drawn to a smooth curve is the average, which has a third of a set's variance."""
    (alone,) = fine_shares(noisy_file(COUNTS, variance=variance), fit_of(1), [9])
    three = fine_shares(noisy_file(*[COUNTS] * 3, variance=3 * variance), fit_of(3), [9])
    for (of_set,) in three:
        np.testing.assert_allclose(of_set, alone[0], rtol=1e-12)
    (other,) = fine_shares(noisy_file(COUNTS, variance=9 * variance), fit_of(1), [9])
    assert np.abs(other[0] - alone[0]).max() > 1e-4


def test_choices_see_the_fit_of_all_sets_together() -> None:
    """That of their mean, whose noise has a third of the variance."""
    tables = [COUNTS + added for added in (-3.0, 0.0, 6.0)]
    sets = noisy_file(*tables, variance=12.0)
    fit = fitted(sets.averaged, np.random.default_rng(1), 200)
    sums = np.bincount(MAPPED, np.mean(tables, axis=0))
    assert fit.total == pytest.approx(sums.sum())
    assert fit.sets[0].margins[0] == pytest.approx(sums / sums.sum())
    assert sets.averaged.one_way_variances == (4.0,)


def test_all_coarse_cells_of_a_grid_lie_on_its_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine fine cells are three coarse ones; beside five on a grid the third is a level."""
    heard = []

    def listed(*asked: Any) -> list[Agreed]:
        heard.append(asked[-1])
        return agreed(*asked)

    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.agreed", listed)
    for grids in ([9], [5], [0], []):
        fitted(noisy_file(COUNTS), np.random.default_rng(1), 200, grids=grids)
    assert heard == [{0: 3}, {0: 2}, {}, {}]


def test_noisy_cells_say_whether_a_tail_bends() -> None:
    """Cells of a normal law bend; with noise that hides it both shapes are as likely."""
    steps = np.arange(60)
    shares = norm.pdf(steps, 20, 9) / norm.pdf(steps, 20, 9).sum()
    mapped = np.searchsorted([12, 16, 20, 24, 28], steps, side="right").astype(np.int32)
    coarse = np.bincount(mapped, shares)
    assert bending(shares, coarse, mapped, 60, (1e-3) ** 2)[1] > 0.99
    assert bending(shares, coarse, mapped, 60, 1.0)[1] == pytest.approx(0.5, abs=1e-3)


def test_what_noise_has_too_much_in_a_tail_is_not_spread_over_its_empty_end() -> None:
    """Poisson counts of mean 12 on a grid up to 100, 5,000 records with noise of 20 in a cell: the
    spread of what is drawn is the law's; corrected in all cells of a run alike, it is wider."""
    rng, steps = np.random.default_rng(3), np.arange(101)
    mapped = np.searchsorted(np.arange(7, 20), steps, side="right").astype(np.int32)
    law = poisson.pmf(steps, 12)
    margin = np.bincount(mapped, law)
    fit = replace(fit_of(1), total=5000.0, sets=[Agreed([], {0: margin}, 5000.0)])
    spreads = []
    for _ in range(20):
        counts = 5000 * law + rng.normal(0, 20, steps.size)
        noisy = replace(noisy_file(counts, variance=400.0), coarse=(mapped,))
        shares = fine_shares(noisy, fit, [steps.size])[0][0] * margin[mapped]
        spreads.append(np.sqrt(shares @ steps**2 - (shares @ steps) ** 2))
    assert np.mean(spreads) == pytest.approx(np.sqrt(12), rel=0.05)


def test_a_tail_starts_on_the_line_of_the_runs_beside_it() -> None:
    """Log heights on a line a + b x at the middles of runs of 3, 4 and 6 cells: at the border of
    the outermost run, x = 3, the line is at a + 3 b. With so much mass the tail stays there."""
    members, a, b = np.array([3.0, 4.0, 6.0]), -2.0, 0.3
    middles = np.cumsum(members) - members / 2
    logs = _tail(a + b * middles, members, mass=np.inf, bend=0.5)
    np.testing.assert_allclose(logs, a + 3 * b, rtol=1e-12)
    # rising to the outside: it does not go on
    rising = _tail(a - b * middles, members, mass=np.inf, bend=0.5)
    np.testing.assert_allclose(rising, a - b * middles[1], rtol=1e-12)


def test_a_tail_that_holds_less_than_its_slope_says_bends_down() -> None:
    """Of a normal law on a grid, slope and mass of the tail give its curvature back; a tail with
    more mass than the slope says keeps one ratio."""
    steps = np.arange(1, 31)
    true = -0.2 * steps - 0.015 * steps**2
    start = 0.01
    logs = falling(start * np.exp(true).sum(), start, 30, slope=-0.2)
    np.testing.assert_allclose(logs, true, atol=1e-6)
    heavy = falling(start * np.exp(-0.1 * steps).sum(), start, 30, slope=-0.2)
    np.testing.assert_allclose(heavy, -0.1 * steps, atol=1e-6)


def test_two_runs_fall_off_from_each_other() -> None:
    """A tenth in the first three cells beside nine tenths in two: r + r^2 + r^3 = (1/10)/(9/20)."""
    mapped = np.array([0, 0, 0, 1, 1], dtype=np.int32)
    smooth = smoothed(np.array([0.1, 0.9]), mapped, 5)
    r = float(np.roots([1, 1, 1, -0.1 / 0.45]).real[-1])
    np.testing.assert_allclose(smooth, [0.45 * r**3, 0.45 * r**2, 0.45 * r, 0.45, 0.45], rtol=1e-9)


def test_sets_of_noise_share_a_smaller_pool() -> None:
    """Fitted again for every set: cells of next to no weight are thinned out."""
    rng = np.random.default_rng(2)
    shape = (40, 40)
    table = rng.dirichlet(np.full(1600, 0.05)).reshape(shape) * 1e5
    ways = [table.sum(axis=1), table.sum(axis=0)]
    maps = tuple(np.arange(40, dtype=np.int32) for _ in shape)

    def cells(sets: int) -> int:
        of_set = tuple(NoisySet(ways, [table]) for _ in range(sets))
        noisy = NoisyFile(("a", "b"), maps, ((0, 1),), (1.0, 1.0), (1.0,), of_set, 1000)
        return len(fitted(noisy, np.random.default_rng(1), 20_000).pool.codes)

    assert cells(2) < 0.9 * cells(1)


def test_one_set_is_the_fit_itself() -> None:
    fit = replace(fit_of(1), sets=[None])  # type: ignore[list-item]
    assert fit.weights_of(0) is fit.weights


# -- the plan ------------------------------------------------------------------------------------

POOR = TableBudget(Fraction(1, 10**6), "rho")


def test_two_tables_a_column_are_two_fifths_of_eleven_columns_pairs() -> None:
    """22 of 55 pairs are exactly the share at which all pairs are measured."""
    assert AFFORDABLE * math.comb(11, 2) == 22
    plan = plan_of("chosen", 1000, 11, 0, POOR, 1)
    assert (plan.order, plan.tables) == (2, 55)


def test_above_twelve_columns_tables_are_chosen_unless_all_are_affordable() -> None:
    tables = set()
    for thousandths in range(1, 400, 3):
        budget = TableBudget(Fraction(thousandths, 1000), "rho")
        plan = plan_of("chosen", 3000, 13, 0, budget, 1)
        tables.add(plan.tables)
        assert (plan.order == "chosen") is (plan.tables < math.comb(13, 2))
    assert any(AFFORDABLE * math.comb(13, 2) <= number < math.comb(13, 2) for number in tables)


def test_coarse_cells_are_as_many_as_noise_moves_a_pair_by_a_tenth() -> None:
    """k^2 cells with noise of size s move a pair by k^2 s / (2 n): .1 at k = sqrt(.2 n / s)."""
    budget, n = TableBudget(Fraction(1, 50), "rho"), 20_000
    plan = plan_of(2, n, 4, 0, budget, 1)
    size = math.sqrt(2 / math.pi) * math.sqrt(6 / (2 * 0.02 * 0.65))  # six tables
    assert plan.noise.size == pytest.approx(size, rel=1e-6)
    assert 8 < plan.most_cells < 32
    assert plan.most_cells == round(math.sqrt(0.2 * n / size))


def test_a_file_has_at_least_one_record() -> None:
    rich = TableBudget(Fraction(10**9), "rho")
    none, single, two = (
        plan_of(2, records, 4, 0, rich, 1).most_triple for records in (0.0, 1.0, 2.0)
    )
    assert none == single
    assert two == pytest.approx(2 * single, abs=1)  # whole cells


def test_the_average_of_sets_has_the_variance_of_a_mean() -> None:
    """Three sets, each at a third of the cost: a Gaussian's variance is tables / (2 rho share / 3)
    in one, and a third of that in the mean, as if all had been spent on one set."""
    budget, share = TableBudget(Fraction(1, 100), "rho"), Fraction(1, 2)
    noise = averaged(budget, 7, share, 3)
    assert noise.variance == pytest.approx(7 / (2 * 0.01 * 0.5), rel=1e-6)
    assert noise.size == pytest.approx(math.sqrt(2 / math.pi * noise.variance), rel=1e-6)


def test_tables_of_more_columns_than_there_are_hold_all_of_them() -> None:
    columns = [Column(name, levels=("a", "b"), type="categorical", blanks=False) for name in "xy"]
    cells = tuple(map(cells_of, columns))
    maps = tuple(np.arange(2, dtype=np.int32) for _ in cells)
    noisy = NoisyFile(("x", "y"), maps, (), (1.0, 1.0), (), (), 10)
    for kept, tables in (((), [(0, 1)]), ((0,), [(0, 1)]), ((0, 1), [])):
        assert _all_tables(FileQuestion(cells, kept, 3, 1, None), noisy, 3) == tables


def test_cells_of_weights_are_those_of_tables_with_the_weight() -> None:
    columns = {
        "a": Column("a", type="categorical", levels=("x", "y"), blanks=False),
        "b": Column("b", type="categorical", levels=("u", "v", "z"), blanks=False),
        "w": Column("w", "weight", bounds=(1, 9)),
    }
    cells = tuple(map(cells_of, columns.values()))
    maps = tuple(np.arange(each.size, dtype=np.int32) for each in cells)
    noisy = NoisyFile(("a", "b", "w"), maps, ((0, 1), (1, 2)), (1.0,) * 3, (1.0,) * 2, (), 4)
    frame = pl.DataFrame({"a": ["x", "y", "y", "x"], "b": ["u", "z", "z", "v"], "w": [1, 2, 3, 4]})
    codes = np.column_stack([c.codes(frame[c.column.name]) for c in cells]).astype(np.int32)
    (places,) = table_places(codes, noisy, 2)
    assert places.tolist() == [0, 2, 2, 1]


def test_large_tables_and_tables_of_kept_columns_are_not_looked_at(monkeypatch) -> None:
    columns = [
        Column(name, type="categorical", levels=tuple(range(size)), blanks=False)
        for name, size in (("a", 2), ("b", 3), ("c", 5))
    ]
    cells = tuple(map(cells_of, columns))
    maps = tuple(np.arange(each.size, dtype=np.int32) for each in cells)
    noisy = NoisyFile(("a", "b", "c"), maps, ((0, 1),), (1.0,) * 3, (1.0,), (), 4)

    def looked_at(kept: tuple[int, ...]) -> set[tuple[int, ...]]:
        probes = misfit.probes_of(noisy, cells, kept)
        return {probe.columns for listed in probes.values() for probe in listed}

    assert looked_at(()) == {(0, 1), (0, 2), (1, 2), (0, 1, 2)}
    assert looked_at((0, 1)) == {(0, 2), (1, 2), (0, 1, 2)}
    monkeypatch.setattr(misfit, "LARGEST", 10)
    assert looked_at(()) == {(0, 1), (0, 2)}


def test_levels_without_a_grid_may_be_merged_and_special_values_not() -> None:
    """Rare levels of a category share a coarse cell; special values beside a grid keep their own,
    however rare."""
    category = Column("c", "sensitive", "categorical", levels=("a", "b", "c", "d"), blanks=False)
    amount = Column(
        "m", "sensitive", "continuous", bounds=(0, 100), special=(0.0, 50.0, 100.0), blanks=False
    )
    cells = (cells_of(category), cells_of(amount))
    of_c, of_m = np.array([500.0, 300.0, 3.0, 2.0]), np.ones(cells[1].size)
    of_m[: cells[1].grid_size] = 100.0
    noisy = NoisyFile(
        ("c", "m"),
        tuple(np.arange(each.size, dtype=np.int32) for each in cells),
        (), (1.0, 1.0), (), (NoisySet([of_c, of_m], []),), 805,
    )  # fmt: skip
    plan: TablePlan = replace(plan_of(2, 805, 2, 0, POOR, 1), least_records=20.0, most_cells=8)
    merged, kept = _coarse(noisy, FileQuestion(cells, (), 2, 1, None), plan)
    assert merged[0] != merged[1]
    assert merged[2] == merged[3]
    beside = kept[cells[1].grid_size :]
    assert len(set(beside.tolist())) == len(beside) == 3
    assert not set(beside.tolist()) & set(kept[: cells[1].grid_size].tolist())


# -- before anything is spent --------------------------------------------------------------------


def forecast_of(mechanism: us.Marginals, n: int, **of_units: Any) -> list[str]:
    levels = {name: tuple("abcdef"[:size]) for name, size in (("x", 2), ("y", 3), ("z", 6))}
    columns = {
        name: Column(name, "sensitive", "categorical", levels=of, blanks=False)
        for name, of in levels.items()
    }
    frame = pl.DataFrame({name: (list(of) * n)[:n] for name, of in levels.items()})
    survey = us.Survey(
        frame.with_columns(house=pl.int_range(pl.len()) // 3),
        codebook=Codebook(columns, **of_units),
    )
    return mechanism.forecast(us.WholeFile().for_survey(survey), survey, 2)


def test_the_forecast_is_the_expected_size_of_laplace_noise() -> None:
    """c E|noise| / (2 n) of a table with c cells. The average of two sets has noise of E|.|/sqrt(2)
    with half of the share each; for a large scale b, E|noise| of the discrete Laplace law is b."""
    n, epsilon = 1000, 0.2
    one_way, together = forecast_of(us.Marginals(epsilon), n)[1:]
    _, *pairs = together.splitlines()
    scale = 3 * 2 / (epsilon * 0.3)  # three tables, two sets, three tenths of epsilon
    for name, cells in (("x", 2), ("y", 3), ("z", 6)):
        moved = cells * scale / math.sqrt(2) / (2 * n)
        assert f"{name} {min(moved, 1.0):.3f}".replace(" 0.", " .") in one_way, one_way
    scale = 3 * 2 / (epsilon * 0.65)
    shares = {
        c: f"{min(c * scale / math.sqrt(2) / (2 * n), 1.0):.3f}".lstrip("0") for c in (6, 12, 18)
    }
    assert pairs == [f"- x with y {shares[6]}, z {shares[12]}.", f"- y with z {shares[18]}."]


def test_the_forecast_names_every_pair_of_many_columns() -> None:
    """276 of 24 columns, one line for each column but the last."""
    columns = {f"c{j}": Column(f"c{j}", levels=(0, 1), blanks=False) for j in range(24)}
    frame = pl.DataFrame({name: [0, 1] * 50 for name in columns})
    survey = us.Survey(frame, codebook=Codebook(columns))
    model = us.WholeFile().for_survey(survey)
    said = us.Marginals(1.0, 1e-6).forecast(model, survey, 1)
    first, *pairs = said[2].splitlines()
    assert "276 pairs of columns, if they are chosen," in first
    assert (len(said), len(pairs)) == (3, 23)
    assert sum(line.count(" c") for line in pairs) == 23 + 276


def test_the_forecast_says_what_a_unit_costs() -> None:
    houses = {"unit": "house", "records_per_unit": 3}
    said = forecast_of(us.Marginals(0.2), 90, **houses)[-1]
    assert said == (
        "The claim is for each `house` with up to 3 records: the noise is 3 times that of a claim "
        "for one record."
    )
    assert "3 times (sigma)" in forecast_of(us.Marginals(0.2, 1e-6), 90, **houses)[-1]
    alone = forecast_of(us.Marginals(0.2), 90, unit="house", records_per_unit=1)
    assert not any("The claim is for" in line for line in alone)


def test_drafted_facts_of_a_published_codebook_are_empty() -> None:
    column = Column("x")
    for fact in ("missing", "special", "levels", "bounds", "grid", "rounding", "blanks"):
        assert _empty(fact) == getattr(column, fact), fact


def test_a_derived_column_is_published_with_the_columns_that_it_is_made_of() -> None:
    columns = [
        Column("a", bounds=(0, 5)),
        Column("b", bounds=(0, 5)),
        Column("c", bounds=(0, 5)),
        Column("both", derived="a + b"),
        Column("other", derived="a + c"),
    ]
    book = Codebook({column.name: column for column in columns})
    maps = (np.arange(1, dtype=np.int32),) * 2
    noisy = NoisyFile(("a", "b"), maps, (), (1.0, 1.0), (), (), 10)
    assert list(published_codebook(book, noisy, us.Design()).columns) == ["a", "b", "both"]


def test_a_kind_without_tables_has_the_largest_figure_before_it() -> None:
    assert misfit.KINDS == ("measured", "pairs", "more")
    figures = {("counts", "measured"): 2.0, ("counts", "pairs"): 5.0, ("means", "measured"): 3.0}
    assert misfit._all_kinds("counts", figures) == (2.0, 5.0, 5.0)
    assert misfit._all_kinds("means", figures) == (3.0, 5.0, 5.0)  # of counts, which is larger
    figures = {("counts", "pairs"): 1.0, ("means", "measured"): 3.0}
    assert misfit._all_kinds("means", figures) == (3.0, 3.0, 3.0)


def test_coarse_cells_end_where_a_rule_begins_to_say_something_else() -> None:
    """`work` is asked from 16 on, so that 16 begins a coarse cell of age; `first <= age` compares
    two numbers and begins none. Both parts of the divided run hold enough."""
    ages = Column("age", "sensitive", "integer", bounds=(0, 99), blanks=False)
    first = Column("first", "sensitive", "integer", bounds=(0, 99), blanks=False)
    work = Column(
        "work",
        "sensitive",
        "categorical",
        levels=("y", "n"),
        applies_when="age >= 16",
        blanks=False,
    )
    codebook = Codebook({c.name: c for c in (ages, first, work)}, order=("first <= age",))
    cells = tuple(map(cells_of, (ages, first, work)))
    rules = tuple(ruled_out(codebook, {each.name: each for each in cells}))
    assert [rule.limits("age", 100) for rule in rules] == [[], [16]]
    tables = [np.full(each.size, 100.0) for each in cells]
    noisy = NoisyFile(
        ("age", "first", "work"),
        tuple(np.arange(each.size, dtype=np.int32) for each in cells),
        (), (1.0,) * 3, (), (NoisySet(tables, []),), 10_000,
    )  # fmt: skip
    asked = FileQuestion(cells, (), "chosen", 1, None, rules=rules)
    assert asked.quality == asked.clusters == 0  # no part of the budget that nobody asked for
    noise = CellNoise(1.0, 0.8)
    plan = TablePlan("chosen", 3, Fraction(1), (), noise, 10, 200.0, 100)
    of_age, of_first, _ = _coarse(noisy, asked, plan)
    assert np.flatnonzero(np.diff(of_first)).tolist() == [*range(9, 99, 10)]
    assert np.flatnonzero(np.diff(of_age)).tolist() == sorted([15, *range(9, 99, 10)])


def test_fine_cells_that_are_alone_do_not_speak_for_those_that_are_merged() -> None:
    """Twelve levels alone, whose deviation from their coarse cell is 0 by definition, and six that
    share one: these keep 1 - v / s^2 of their deviations, s^2 the sample variance of the six."""
    rare, variance = np.array([400.0, 300.0, 20.0, 15.0, 10.0, 5.0]), 3600.0
    ways = np.concatenate([np.full(12, 2000.0), rare])
    mapped = np.array([*range(12), *[12] * 6], dtype=np.int32)
    noisy = NoisyFile(("a",), (mapped,), (), (variance,), (), (NoisySet([ways], []),), 1000)
    shares = fine_shares(noisy, fitted(noisy, np.random.default_rng(1), 2000), [0])[0][0]
    kept = 1 - variance / np.var(rare, ddof=1)
    expected = (rare.mean() + kept * (rare - rare.mean())) / rare.sum()
    np.testing.assert_allclose(shares[12:], expected, atol=0.01)  # t is one of 73 steps
    np.testing.assert_array_equal(shares[:12], 1.0)
