"""The fit's distance from the records: what a record moves, what is solved, and that it covers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy.integrate import trapezoid
from scipy.stats import laplace, norm

import understudy as us
from understudy.dp.choice import UNITS
from understudy.errors import Refused
from understudy.mechanisms.whole_file import distance_figures, misfit
from understudy.mechanisms.whole_file.budget import TableBudget, budget_of
from understudy.mechanisms.whole_file.fit import fitted
from understudy.mechanisms.whole_file.noisy_file import from_draws
from understudy.mechanisms.whole_file.plan import MISFIT
from understudy.survey.codebook import Codebook, Column, parse_codebook
from understudy.survey.codebook_text import codebook_to_toml
from understudy.survey.misfit import Misfit
from understudy.tables.coded_records import coded_records
from understudy.tables.variance_factor import VarianceFactor, evenly

COLUMNS = {
    "a": Column("a", "sensitive", "categorical", levels=("x", "y", "z"), blanks=False),
    "b": Column("b", "sensitive", "categorical", levels=("u", "v"), blanks=False),
    "y": Column("y", "sensitive", "integer", bounds=(0, 20), blanks=False),
    "w": Column("w", "weight", "continuous", bounds=(1, 40)),
}


def population(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.integers(0, 2, n)
    y = np.clip(rng.poisson(4 + 3 * a * b), 0, 20)
    w = np.exp(rng.normal(2 + 0.2 * a - 0.03 * y, 0.3))
    return pl.DataFrame(
        {"a": np.array(["x", "y", "z"])[a], "b": np.array(["u", "v"])[b], "y": y, "w": w}
    )


def survey(frame: pl.DataFrame, weighted: bool) -> us.Survey:
    names = list(COLUMNS) if weighted else ["a", "b", "y"]
    design = us.Design(weight="w") if weighted else us.Design()
    return us.Survey(frame.select(names), design, Codebook({n: COLUMNS[n] for n in names}))


@pytest.fixture(autouse=True)
def small_pool(monkeypatch):
    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.POOL", 10_000)
    monkeypatch.setattr("understudy.mechanisms.whole_file.measure.SMALL_POOL", 5_000)


def test_the_misfit_gives_its_distance_back():
    rng = np.random.default_rng(1)
    expected, spread = rng.uniform(5, 500, 4000), rng.uniform(0, 80, 4000)
    for t in (0.3, 4.0):
        deviations = rng.laplace(0, np.sqrt(t * expected / 2)) + rng.normal(0, np.sqrt(spread))
        assert distance_figures.misfit_of(
            np.abs(deviations).sum(), expected, spread
        ) == pytest.approx(t, rel=0.1)
    assert distance_figures.misfit_of(0.0, expected, spread) == 0.0
    assert distance_figures.misfit_of(1e30, expected, spread) == distance_figures.WIDEST


def test_the_expected_size_of_a_sum_is_the_integral_of_its_law():
    """Against numerical integration of |x + y| over both laws."""
    for heavy, normal in ((1.0, 1.0), (4.0, 0.25), (0.1, 3.0)):
        scale, s = np.sqrt(heavy / 2), np.sqrt(normal)
        x, y = np.linspace(-30, 30, 6001) * scale, np.linspace(-9, 9, 1201) * s
        size = np.abs(x[:, None] + y)
        whole = trapezoid(laplace.pdf(x, 0, scale) * trapezoid(size * norm.pdf(y, 0, s), y), x)
        size = distance_figures.expected_size(np.array([heavy]), np.array([normal]))
        assert size == pytest.approx(whole, abs=1e-4)
    alone = distance_figures.expected_size(np.array([0.0, 2.0]), np.array([2.0, 0.0]))
    assert alone == pytest.approx([2 / np.sqrt(np.pi), 1.0])


def test_a_table_is_drawn_to_its_kind_as_far_as_noise_hides_it():
    """4,000 tables whose distances vary by a third: with noise of the same size, half of a
    deviation is kept, nearer to the truth than all or nothing; without noise all is kept."""
    rng, n = np.random.default_rng(6), 4000
    groups = [distance_figures.Groups(np.full(8, 50.0), np.zeros(8), 0.0)] * n
    usual = groups[0].distance(1.0)
    true = usual * (1 + rng.normal(0, 0.3, n))
    seen = true + rng.normal(0, 0.3 * usual, n)
    bases = [(1.0, 0.0)] * n
    drawn = distance_figures.drawn_to(bases, seen, np.full(n, 0.3 * usual), groups)
    kept = np.polyfit(seen - usual, [d - usual for d, _ in drawn.laws], 1)[0]
    assert kept == pytest.approx(0.5, abs=0.07)
    assert drawn.variance == pytest.approx(0.3**2, rel=0.3)
    error = np.mean([(d - t) ** 2 for (d, _), t in zip(drawn.laws, true, strict=True)])
    assert error < 0.75 * min(np.mean((seen - true) ** 2), np.mean((usual - true) ** 2))
    assert np.mean([e for _, e in drawn.laws]) == pytest.approx(np.sqrt(error), rel=0.2)
    alike = distance_figures.drawn_to(bases, np.full(n, usual), np.full(n, 0.3 * usual), groups)
    assert [d for d, _ in alike.laws] == pytest.approx([usual] * n)
    exact = distance_figures.drawn_to(bases, seen, np.zeros(n), groups)
    assert [d for d, _ in exact.laws] == pytest.approx(seen)
    # one that is known without noise shows that distances vary by 0.3^2, the noise of the other
    two = distance_figures.drawn_to(
        bases[:2], np.full(2, 1.3 * usual), np.array([0, 0.3 * usual]), groups[:2]
    )
    assert [d for d, _ in two.laws] == pytest.approx([1.3 * usual, 1.15 * usual])


def test_all_tables_together_have_the_figure_and_the_error_of_their_sum():
    """Without noise between the sets a distance is sqrt(t/2) times the sum of sqrt(e), and the mean
    of t over a normal law of the distance, of which hardly anything is below 0, has its variance
    on top: that of the noise of the sum, and that between the tables as they are found."""
    expected = np.array([40.0, 90.0, 160.0])
    tables = [distance_figures.Groups(k * expected, np.zeros(3), 0.0) for k in (1.0, 2.0, 3.0, 4.0)]
    roots = sum(np.sqrt(table.expected).sum() for table in tables)
    distances, noise = np.array([30.0, 90.0, 40.0, 190.0]), 5.0
    together, error, own = distance_figures.common_and_own(distances, noise, tables)
    total, wrong = distances.sum(), 5.0 * np.sqrt(4)
    base = 2 * (total / roots) ** 2
    usual = np.array([table.distance(base) for table in tables])
    squares = (distances - usual) ** 2 / 5.0**2 - 1
    between = max(squares.sum() / (usual**2 / 5.0**2).sum(), 0.0)
    assert between > 0
    variance = wrong**2 + between * total**2
    assert together == pytest.approx(2 * (total**2 + variance) / roots**2, rel=0.02)
    squares = (total + wrong) ** 2 - total**2
    assert error == pytest.approx(2 * squares / roots**2, rel=1e-4)
    assert len(own) == 4


def test_what_a_table_shows_beyond_its_margins_has_its_degrees_of_freedom():
    """Three by two cells: 2 of the 5 that six groups with a given sum have."""
    columns = [SimpleNamespace(levels="x" * k, size=k, grid_size=0) for k in (3, 2)]
    noisy = SimpleNamespace(coarse=[np.arange(3), np.arange(2)], sizes=[3, 2])
    view = SimpleNamespace(noisy=noisy, cells=columns, followed={(0, 1): 0.75})

    def free(names, statistic, kind):
        return misfit._View.free(view, misfit.Probe(names), (statistic, kind))

    assert free((0, 1), "counts", "pairs") == free((0, 1), "means", "more") == pytest.approx(2 / 5)
    assert free((0,), "counts", "more") == pytest.approx(1.0)
    # a fit to noisy counts follows a part of it, and all of what is one column's
    assert free((0, 1), "counts", "measured") == pytest.approx(0.25 * 2 / 5)
    assert free((0,), "counts", "measured") == 0
    assert free((0, 1), "means", "measured") == 0


def test_counts_by_one_column_are_off_by_what_keeps_the_fit_from_its_margin():
    """Two sets whose fits are off by what a misfit of 0.5 lets expect, on average over both; the
    margins that they were made to meet are public, so no record is asked."""
    margins = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]])
    margin = margins.mean(axis=0)
    parts = 1000 * margin * (1 - margin)
    off = np.sqrt(0.5 * parts / 2).sum() / 2 / 1000 * np.array([1.0, -1.0, 0.0])
    pool = SimpleNamespace(codes=np.array([[7, 0], [7, 1], [7, 2]]))
    sets = [SimpleNamespace(margins={1: shares}) for shares in margins]
    view = SimpleNamespace(fit=SimpleNamespace(total=1000.0, sets=sets, pool=pool))
    for moved, figure in ((0.0, 0.0), (1.0, 0.5)):
        view.weights = [margin + 3 * moved * off, margin - moved * off]
        beside = misfit._View.beside_margin(view, 1)  # type: ignore[arg-type]
        assert beside == pytest.approx(figure, abs=1e-9)


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_by_one_column_are_not_measured(weighted):
    """The files' codebook has a figure for them, which is hardly any without rules; with weights an
    estimate of them rests on two columns."""
    made = survey(population(300, 2), weighted)
    files = us.synthesize(made, us.WholeFile(), us.Marginals(3, 1e-9), datasets=2).datasets
    known = files[0].codebook.misfit
    assert known is not None
    columns = [names for kind, names, _ in known.own if kind == "counts"]
    assert columns[: len(made.columns)] == [(name,) for name in made.columns]
    assert min(len(names) for names in columns[len(made.columns) :]) == 2
    assert all(known.figure([name], counts=True) < 0.01 for name in made.columns)


def test_a_fit_that_does_not_follow_the_sample_is_not_charged_with_it():
    """Simulated tables without any misfit, of which the fit keeps three quarters of what sampling
    adds: its estimates vary by 9/16 of the sampling variance and its deviations have 1/16 of it. In
    the figure nothing is left of them, and a misfit is found beside."""
    rng, n = np.random.default_rng(4), 100_000
    expected = rng.uniform(40, 400, n)
    sampling = rng.laplace(0, np.sqrt(expected / 2))
    lost, lacking = 0.25, 2 * 0.25 - 0.25**2
    look = misfit._Look(np.ones((n, 1)), np.zeros(n), expected, np.zeros(n))
    shares = 1 - expected / expected.sum()
    for t in (0.0, 0.5):
        off = rng.laplace(0, np.sqrt(t * expected / 2))
        groups = look.groups(0.0, lost)
        figure = groups.figure(float(np.abs(off - lost * sampling).sum()), 0.0)
        exact = np.var((off + (1 - lost) * sampling) / np.sqrt(expected)) - 1
        assert exact == pytest.approx(t - lacking, abs=0.08)
        assert figure == pytest.approx(max(exact, 0.0), abs=0.08)
    assert groups.expected == pytest.approx(expected * shares)


def test_a_figure_is_the_mean_over_the_law_of_the_distance():
    """Against a sum over a fine grid of the law; without an error, t itself."""
    groups = distance_figures.Groups(np.array([50.0, 200.0]), np.array([10.0, 40.0]), 0.2)
    usual = groups.distance(1.5)
    assert groups.figure(usual, 0.0) == pytest.approx(1.5 - 0.2)
    x = (np.arange(400) + 0.5) / 400
    for error in (2.0, 0.7 * usual):
        each = [max(groups.plain(d) - 0.2, 0.0) for d in usual + error * norm.ppf(x)]
        assert groups.figure(usual, error) == pytest.approx(np.mean(each), rel=0.03)


def test_of_many_tables_some_are_looked_at_from_the_first_to_the_last():
    probes = [misfit.Probe((j,)) for j in range(100)]
    assert misfit._some(probes[:30]) == probes[:30]
    chosen = [probe.names[0] for probe in misfit._some(probes)]
    assert (len(chosen), chosen[0], chosen[-1]) == (30, 0, 99)
    assert set(np.diff(chosen)) <= {3, 4}


def test_what_records_add_to_a_mean_is_that_of_the_records():
    """By NumPy, record by record: w (y - mean) over its root mean square, cut; nothing where there
    is no number. Each of two groups has a mean of its own."""
    rng = np.random.default_rng(3)
    y, w = np.array([1.0, 2.0, 5.0, np.nan, 9.0]), np.array([1.0, 3.0, 1.0, 2.0, 8.0])
    table = rng.integers(1, 40, (2, 5)).astype(float)
    table[:, 4] = 1.0
    scores, answers = misfit.scores_of(table, y, w, 2)
    for group in (0, 1):
        cell = np.repeat(np.arange(5), table[group].astype(int))
        cell = cell[~np.isnan(y[cell])]
        assert answers[group] == cell.size
        z = w[cell] * (y[cell] - np.average(y[cell], weights=w[cell]))
        z = z / np.sqrt(np.mean(z**2))
        assert z.max() > 2
        np.testing.assert_allclose(scores[group][cell], UNITS * np.clip(z, -2, 2), atol=0.51)
        assert scores[group, 3] == 0
    counted, all_of_them = misfit.scores_of(table, None, w, 3)
    np.testing.assert_array_equal(all_of_them, table.sum(axis=1))
    size = np.sqrt((table * w**2).sum(axis=1) / table.sum(axis=1))
    np.testing.assert_allclose(counted, UNITS * np.minimum(w / size[:, None], 3), atol=0.51)


def test_a_coarse_cell_stands_for_the_mean_of_its_fine_ones():
    """Of the shares of two sets together; a cell that nobody is in, for the plain mean."""
    shares = np.array([[0.1, 0.2, 0.0, 0.0, 0.7], [0.1, 0.4, 0.0, 0.0, 0.5]])
    noisy = SimpleNamespace(coarse=[np.array([0, 0, 1, 1, 2])], sizes=[3])
    values = np.array([1.0, 4.0, 5.0, 7.0, np.nan])
    column = SimpleNamespace(expected=values, levels=None, size=5, grid_size=5)
    sets = [[of_set] for of_set in shares]
    view = SimpleNamespace(noisy=noisy, cells=[column], shares=sets)
    made = misfit._View._values(view, misfit.Probe((), w=0), 0)  # type: ignore[arg-type]
    np.testing.assert_allclose(made, [np.average([1.0, 4.0], weights=[0.2, 0.6]), 6.0, np.nan])


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("weighted", [False, True])
def test_a_record_moves_a_distance_by_at_most_its_cut(weighted):
    """Brute force: every record of a small file is taken away in turn, for every table."""
    data = survey(population(60, 3), weighted)
    result = us.synthesize(data, us.WholeFile(), us.Marginals(3.0, 1e-6), datasets=2, seed=1)
    noisy = from_draws(result.draws)
    cells = us.WholeFile().for_survey(data).cells(data)
    rng = np.random.default_rng(1)
    view = misfit._View(noisy, fitted(noisy, rng, 5_000), cells, rng)
    whole = coded_records(data, cells)
    probes = [p for kind in misfit.probes_of(noisy, cells, ()).values() for p in kind]
    assert {probe.cut for probe in probes} == ({3} if weighted else {1, 2})
    furthest = 0.0
    for probe in probes:
        look = view.look(probe)
        before = look.distance(misfit._counted(whole, noisy, cells, [probe])[0])
        for record in range(0, 60, 7):
            left = replace(whole, codes=tuple(np.delete(codes, record) for codes in whole.codes))
            after = look.distance(misfit._counted(left, noisy, cells, [probe])[0])
            assert abs(after - before) <= UNITS * probe.cut
            furthest = max(furthest, abs(after - before) / (UNITS * probe.cut))
    assert furthest > 0.25  # the limit is not far from what happens


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_noise_of_a_distance_is_for_all_its_tables_and_the_shares_add_up(weighted, monkeypatch):
    """A record is in every table of a kind, so that the kind's noise covers their cuts together."""
    asked = []
    noisy_numbers = TableBudget.noisy_numbers

    def listed(budget, numbers, moved, share):
        asked.append((list(moved), share))
        return noisy_numbers(budget, numbers, moved, share)

    monkeypatch.setattr(TableBudget, "noisy_numbers", listed)
    evenly_off, groups = [], misfit._Look.groups

    def seen(look, of_all, free, even):
        evenly_off.append(even)
        return groups(look, of_all, free, even)

    monkeypatch.setattr(misfit._Look, "groups", seen)
    data = survey(population(60, 3), weighted)
    result = us.synthesize(data, us.WholeFile(), us.Marginals(3.0, 1e-6), datasets=2, seed=1)
    cells = us.WholeFile().for_survey(data).cells(data)
    by_kind = misfit.probes_of(from_draws(result.draws), cells, ())
    kinds = by_kind.values()
    # measured tables are off by as many records in every group
    assert evenly_off == [kind == "measured" for (_, kind), k in by_kind.items() for _ in k]
    assert [moved for moved, _ in asked] == [
        [UNITS * probe.cut for probe in probes] for probes in kinds if probes
    ]
    assert sum(share for _, share in asked) == MISFIT


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noisy_numbers_have_the_noise_of_their_share(delta, stand_in_noise):  # noqa: ARG001
    """A unit of three records is replaced: 6 times what one record moves. Distances of two numbers
    add up in L1 for Laplace noise, as squares for Gaussian noise."""
    budget = budget_of(2.0, delta, 3, True)
    _, deviation = budget.noisy_numbers(np.array([1000, 500]), [3, 4], Fraction(1, 10))
    if delta:
        assert deviation == pytest.approx(5 * 6 / np.sqrt(2 * float(budget.total) / 10))
    else:
        assert deviation == pytest.approx(np.sqrt(2) * 7 * 6 / 0.2)


def test_the_kind_of_an_estimate_decides():
    known = Misfit((("a", "b"),), (0.5, 1.0, 2.0), (3.0, 4.0, 5.0), exact=("k", "l"))
    assert known.figure(["a"], counts=True) == 0.5
    assert known.figure(["a", "b"], counts=False) == 3
    assert known.figure(["a", "c"], counts=True) == 1
    assert known.figure(["a", "b", "c"], counts=True) == 2
    assert known.figure(["k", "l"], counts=True) == 0
    assert known.figure(["k", "a"], counts=False) == 4
    known = replace(
        known,
        numbers={"y": (6.0, 7.0, 8.0), "a": (0.1, 7.5, 9.0)},
        own=(("means", ("y", "b"), 2.5), ("counts", ("c",), 0.25)),
    )
    assert known.figure(["y"], counts=False) == 6
    assert known.figure(["y", "c"], counts=False) == 7
    assert known.figure(["y", "a"], counts=False) == 7.5  # the larger of both numbers' figures
    assert known.figure(["b", "y"], counts=False) == 2.5
    assert known.figure(["b", "y"], counts=True) == 1
    assert known.figure(["c"], counts=True) == 0.25
    codebook = Codebook({"a": COLUMNS["a"], "b": COLUMNS["b"]}, misfit=known, design_effect=1.5)
    assert parse_codebook(codebook_to_toml(codebook)) == codebook
    with pytest.raises(Refused, match="three numbers"):
        parse_codebook("[misfit]\ncounts = [1.0]\nmeans = [1.0, 1.0, 1.0]\n")


def test_what_a_small_group_lacks_a_large_one_has_too_much_of():
    """Two groups of 9,500 and 500 that are off by 150 each, as those of an association that was not
    measured are: the misfit explains 150 records of both, and of nothing more where all are off."""
    look = misfit._Look(np.ones((2, 1)), np.zeros(2), np.array([9500.0, 500.0]), np.zeros(2))
    for even in (False, True):
        groups = look.groups(0.0, 0.0, even)
        variances = groups.plain(300.0) * groups.expected
        assert np.sqrt(variances / 2) == pytest.approx([150.0, 150.0])  # mean sizes
    # both move with the mean of all: by 190 and 10, and by the same 100 against each other
    all_off = 2 * 200**2 / 10_000
    shared = look.groups(all_off, 0.0)
    assert np.sqrt(shared.in_common / 2) == pytest.approx([190.0, 10.0])
    assert shared.plain(shared.distance(3.0)) == pytest.approx(3.0, rel=1e-5)
    assert shared.plain(200.0) == 0.0  # what they have in common explains it
    alone = misfit._Look(np.ones((1, 1)), np.zeros(1), np.array([10_000.0]), np.zeros(1))
    assert alone.groups(all_off, 0.0).plain(200.0) == pytest.approx(all_off, rel=1e-5)


def test_means_of_small_groups_are_off_by_as_many_records_as_those_of_large_ones():
    """Noise of the same variance in all cells, of which a fit keeps nothing: sums of z over a
    group's cells are off alike, in groups of 100 to 4,000 records, and the variance that the misfit
    gives to their means is that of the simulated noise."""
    rng = np.random.default_rng(11)
    sizes = np.array([100.0, 150.0, 400.0, 1350.0, 4000.0])
    z = np.repeat([1.0, -1.0], 8)  # sixteen cells a group
    off = rng.laplace(0, 15 / np.sqrt(2), (4000, 5, 16)) @ z
    look = misfit._Look(np.ones((5, 1)), np.zeros(5), sizes, np.zeros(5))
    groups = look.groups(0.0, 0.0, even=True)
    variances = groups.plain(float(np.abs(off).sum(axis=1).mean())) * groups.expected
    assert np.ptp(variances) < 1e-9 * variances[0]
    # sums of many are normal, and the misfit is double exponential: pi/2 to 2 for the same size
    assert variances / off.var(axis=0) == pytest.approx(4 / np.pi, rel=0.1)
    of_means = variances / sizes**2  # over the variance in the group
    figure = groups.plain(float(np.abs(off).sum(axis=1).mean()))
    stated = VarianceFactor(even=figure).of(sizes / 6000, 6000.0) - 1
    assert stated / sizes == pytest.approx(of_means)


def test_what_the_fit_does_not_follow_is_taken_off_on_average_over_the_groups():
    """Deviations with a sampling part g e (1 - p) and one of equal variance t n q in all groups:
    the figure gives the groups together the variance of the second less that of the first."""
    rng = np.random.default_rng(13)
    sizes = np.array([100.0, 300.0, 600.0, 2000.0, 3000.0])
    share, t, g = sizes / 6000, 1.5, 0.4
    sampled = g * sizes * (1 - share)
    even = t * sizes * evenly(share, 6000.0)
    off = np.sqrt(sampled + even) * rng.laplace(0, np.sqrt(0.5), (40_000, 5))
    look = misfit._Look(np.ones((5, 1)), np.zeros(5), sizes, np.zeros(5))
    groups = look.groups(0.0, g, even=True)
    published = groups.figure(float(np.abs(off).sum(axis=1).mean()), 0.0)
    stated = VarianceFactor(even=published).of(share, 6000.0) - 1
    assert (stated * sizes).sum() == pytest.approx((even - sampled).sum(), rel=0.03)


def test_each_of_equal_groups_has_what_the_others_leave_of_the_figure():
    assert evenly(np.full(5, 0.2), 1000) == pytest.approx(np.full(5, 0.8))
    assert evenly(np.array([0.3]), 1000) == pytest.approx([0.7])  # a condition alone
    assert evenly(1.0, 1000) == 0
    # as many records in all groups, but not more than a group has
    shares = np.array([0.6, 0.38, 0.015, 0.005, 0.0])
    parts = evenly(shares, 1000) * 1000 * shares
    even = np.average(shares * (1 - shares), weights=shares)
    assert parts[:2] == pytest.approx([1000 * even] * 2)
    assert parts[2:] == pytest.approx([15**2, 5**2, 0])


def test_variances_carry_clusters_and_fit():
    frame = population(400, 5)
    known = Misfit((("a", "b"),), (0.5, 1.0, 2.0), (3.0, 4.0, 5.0))
    plain = us.Survey(frame, us.Design())
    codebook = Codebook({"a": COLUMNS["a"]}, misfit=known, design_effect=2.0)
    made = us.Survey(frame, us.Design(), codebook)

    def ratio(statistic: str, by: list[str], **arguments: str) -> float:
        errors, other = (us.tabulate(s, statistic, by, **arguments)["se"] for s in (made, plain))
        return float((errors / other)[0] ** 2)

    cells = frame.group_by("a", "b").len().sort("a", "b")["len"].to_numpy() / 400
    even_cells = np.average(cells * (1 - cells), weights=cells)
    assert ratio("count", ["a", "b"]) == pytest.approx(2 + 0.5 * even_cells / cells[0])
    assert ratio("count", ["a"]) == pytest.approx(2 + 0.5)
    assert ratio("count", ["a"], where="y > 3") == pytest.approx(2 + 1.0)
    share = (frame["a"] == frame["a"].sort()[0]).mean()  # of the records, in the first group
    shares = frame["a"].value_counts(normalize=True)["proportion"].to_numpy()
    even = np.average(shares * (1 - shares), weights=shares)
    assert ratio("mean(y)", ["a"]) == pytest.approx(2 + share * 3.0 + (1 - share) * 4.0)
    measured = replace(codebook, misfit=replace(known, measured=(("a", "y"),)))
    books = (measured, Codebook())
    errors = [
        us.tabulate(us.Survey(frame, us.Design(), book), "mean(y)", ["a"])["se"][0]
        for book in books
    ]
    assert (errors[0] / errors[1]) ** 2 == pytest.approx(2 + share * 3.0 + 3.0 * even / share)
    assert ratio("mean(y)", []) == pytest.approx(2 + 3.0)
    assert ratio("total(y)", ["a"]) == pytest.approx(2 + 4.0)
    assert ratio("total(y)", []) == pytest.approx(2 + 3.0)
    # of two levels the table of both columns has all cells
    part = frame.filter(a=frame["a"].sort()[0]).select((pl.col("b") == "u").mean()).item()
    off = even_cells / (share * part * (1 - part))
    assert ratio('proportion(b == "u")', ["a"]) == pytest.approx(2 + 0.5 * off)
    assert ratio('proportion(b == "u")', []) == pytest.approx(2 + 0.5)  # one column
    slopes = [us.regress(s, "y ~ a")["se"] for s in (made, plain)]
    assert (slopes[0] / slopes[1]).to_numpy() ** 2 == pytest.approx(2 + 4.0)
    # the file's own clusters need no factor for clusters
    clusters = pl.Series("p", np.arange(400) // 4)
    designs = [
        us.Survey(frame.with_columns(clusters), us.Design(psu="p"), book)
        for book in (replace(codebook, misfit=None), Codebook())
    ]
    count_errors, other = (us.tabulate(s, "count", ["a"])["se"] for s in designs)
    assert count_errors.to_list() == other.to_list()


@pytest.mark.any_noise
@pytest.mark.usefixtures("stand_in_noise")
def test_intervals_cover_and_shares_stay_within_bounds():
    """A small version of bench/whole_file_coverage.py; three columns alone carry an interaction
    that no pair shows."""
    people = population(20_000, 9)
    whole = us.Survey(people.drop("w"), us.Design(), Codebook())
    statistics = ["mean(y)", 'proportion(b == "u")']
    truth = us.tabulate(whole, statistics, ["a", "b"], margins=True)
    inside: dict[str, list[bool]] = {"released": [], "plain": []}
    for number in range(6):
        chosen = np.random.default_rng([4, number]).integers(0, people.height, 2500)
        data = survey(people[chosen], weighted=False)
        mechanism = us.Marginals(1.0, 1e-6)
        files = us.synthesize(data, us.WholeFile(), mechanism, datasets=4, seed=number).datasets
        without = [us.Survey(f.raw, f.design, replace(f.codebook, misfit=None)) for f in files]
        for how, which in (("released", files), ("plain", without)):
            table = us.tabulate(which, statistics, ["a", "b"], margins=True, combine="partial")
            shares = table.filter(pl.col("statistic").str.starts_with("prop"))
            assert shares["lower"].min() >= 0
            assert shares["upper"].max() <= 1
            both = table.join(truth, on=["a", "b", "statistic"], suffix="_true")
            both = both.filter(pl.col("se") > 0)
            inside[how] += ((both["lower"] <= both["estimate_true"])
                            & (both["upper"] >= both["estimate_true"])).to_list()  # fmt: skip
    coverage = {how: float(np.mean(values)) for how, values in inside.items()}
    assert coverage["released"] >= 0.88
    assert coverage["plain"] < coverage["released"] - 0.1
