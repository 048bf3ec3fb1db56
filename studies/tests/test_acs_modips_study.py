"""The MODIPS study: its figures on small tables against SciPy and the closed form; going on."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import understudy as us
from understudy_studies.acs_modips.figures import QUANTILES, quantiles
from understudy_studies.acs_modips.pairs import compare_pairs, distances
from understudy_studies.acs_modips.population import (
    acs_categories,
    invented_tables,
    margin_of,
    population,
)
from understudy_studies.acs_modips.replicate import (
    Method,
    cell_figures,
    class_bias,
    integer_noise,
    methods,
    over_cells,
    run,
    t_quantile,
)
from understudy_studies.acs_modips.run import ModipsDesign, run_study

COUNTS = np.repeat([1, 2, 3, 10, 200], [3000, 800, 400, 150, 20])
FEW = (0.5, 5.0, 500.0)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return run(COUNTS, 30, tmp_path_factory.mktemp("study") / "state.npz", FEW)


@pytest.fixture(scope="module")
def means(classes):
    return over_cells(classes)


def test_cell_figures_are_those_of_the_report():
    """M eq. 3.1-3.3 for each cell by itself, in shares, with SciPy's t."""
    rng = np.random.default_rng(1)
    sets = rng.poisson(3.0, (5, 200)).astype(float)
    sets[:, 0] = 0
    true, size = rng.poisson(3.0, 200) + 1, 5000
    mean, square, covered, or_empty, empty, empty_sets = cell_figures(sets, true, size)
    for k in range(200):
        p = sets[:, k] / size
        W, B = np.mean(p * (1 - p) / size), np.var(p, ddof=1)
        T = B / 5 + W
        df = 4 * (1 + 5 * W / B) ** 2 if B > 0 else np.inf
        inside = abs(p.mean() - true[k] / size) <= stats.t.ppf(0.975, df) * math.sqrt(T)
        assert covered[k] == inside
        assert mean[k] == pytest.approx(p.mean() * size)
    assert square == pytest.approx((mean - true) ** 2)
    assert (covered[0], or_empty[0], empty[0], empty_sets[0]) == (0, 1, 1, 1)
    assert empty_sets[5] == pytest.approx(np.mean(sets[:, 5] == 0))


def test_t_quantiles():
    degrees = np.array([4.0, 4.7, 9.0, 33.3, 1e4, 1e12])
    assert t_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), abs=2e-6)


@pytest.mark.parametrize("scale", [0.3, 4.0])
def test_simulated_noise_has_the_law_of_opendps(scale):
    drawn = integer_noise(40_000, scale, np.random.default_rng(2))
    edge = int(5 * scale) + 1
    support = np.arange(-edge, edge + 1)
    share = stats.dlaplace(1 / scale).pmf(support)
    share[[0, -1]] = stats.dlaplace(1 / scale).cdf(-edge)
    observed = np.bincount(np.clip(drawn, -edge, edge) + edge, minlength=support.size)
    keep = share * drawn.size > 5
    expected = share[keep] / share[keep].sum() * observed[keep].sum()
    assert stats.chisquare(observed[keep], expected).pvalue > 1e-6


def test_bias_is_the_closed_form(classes, means):
    """Within Monte Carlo error for the whole (`away`), and for every class of cells by itself."""
    true, cells = np.unique(COUNTS, return_counts=True)
    parts = classes.partition_by("name", "relation", "epsilon", maintain_order=True)
    rows = means.to_dicts()

    def error(part):
        spread = part["rmse"].to_numpy() ** 2 - part["bias"].to_numpy() ** 2
        return np.sqrt(spread / (30 * cells))

    for row, part in zip(rows, parts, strict=True):
        bias = part["bias"].to_numpy()
        expected = np.zeros(true.size)
        if row["name"] != "ORI":
            expected = class_bias(true, cells, 0.5, row["scale"])
        assert np.abs((bias - expected) / error(part)).max() < 5
        assert row["bias"] == pytest.approx(np.average(np.abs(bias), weights=cells))
        assert row["closed_form"] == pytest.approx(np.average(np.abs(expected), weights=cells))
        # the sum over all cells, each on its expected side, and its variance over 30 replicates
        gap = np.sum(cells * np.where(expected < 0, -1, 1) * (bias - expected))
        assert row["away"] == pytest.approx(gap / np.sqrt(np.sum((cells * error(part)) ** 2)))
        assert abs(row["away"]) < 4
    # the bound is not idle: another prior or another budget would be seen
    for number, wrong in ((1, (0.4, 0.0)), (3, (0.5, rows[3]["scale"] / 1.5))):
        right = class_bias(true, cells, 0.5, rows[number]["scale"])
        assert np.abs((class_bias(true, cells, *wrong) - right) / error(parts[number])).max() > 10


def test_modips_approaches_ms(means):
    ms = means.row(1, named=True)
    for relation in ("add-remove", "replace"):
        for what in ("bias", "rmse"):
            away = (means.filter(relation=relation)[what] - ms[what]).abs()
            assert away[0] > away[1] > away[2]
            assert away[2] < 0.1 * ms[what]


def test_original_tables_are_multinomial(classes, means):
    """ORI: RMSE sqrt(n), empty with e^-n, and the interval of an empty cell covers nothing."""
    part, ori = classes.filter(name="ORI"), means.row(0, named=True)
    assert part["rmse"][:3].to_list() == pytest.approx(np.sqrt([1, 2, 3]), rel=0.03)
    expected = np.average(np.exp(-np.unique(COUNTS)), weights=part["cells"])
    assert ori["empty"] == pytest.approx(expected, rel=0.05)
    lenient = ori["coverage"] + ori["empty"]
    assert ori["coverage_report"] == pytest.approx(lenient, abs=1e-9)
    # M §3.4: the variance of a count and the squared bias of a share
    variance = part["rmse"] ** 2 - part["bias"] ** 2
    report = (variance + (part["bias"] / COUNTS.sum()) ** 2).sqrt()
    assert part["rmse_report"].to_list() == pytest.approx(report.to_list())
    assert (ori["size"], ori["cells"]) == (COUNTS.sum(), COUNTS.size)


def test_replace_doubles_the_scale():
    every = methods(FEW)
    scales = {(method.relation, method.epsilon): method.scale for method in every}
    for epsilon in FEW:
        assert scales["replace", epsilon] == pytest.approx(2 * scales["add-remove", epsilon])
    assert scales["add-remove", 5.0] == pytest.approx(5 / 5.0)
    assert Method("MS").scale == 0


def test_quantiles_over_cells(classes):
    ms = classes.filter(name="MS")
    for what in ("bias", "rmse"):
        per_cell = np.repeat(ms[what].abs().to_numpy(), ms["cells"].to_numpy())
        lower = np.quantile(per_cell, QUANTILES, method="inverted_cdf")
        assert quantiles(ms, what) == pytest.approx(lower)


def test_a_stopped_run_goes_on_to_the_same_figures(tmp_path):
    small = COUNTS[::20]
    whole = run(small, 4, tmp_path / "a.npz", (1.0,))
    run(small, 1, tmp_path / "b.npz", (1.0,))
    again = run(small, 4, tmp_path / "b.npz", (1.0,))
    assert whole.equals(again)


def test_the_population_has_the_size_and_cells_asked_for():
    categories = acs_categories()
    table = population(*invented_tables(categories.sizes), categories, 60_000, 12_000)
    assert table.n == 60_000
    assert table.cells == pytest.approx(12_000, rel=0.05)
    assert (table.counts == 1).mean() > 0.4  # sparse, like the report's


def test_distances_of_pairs_by_hand():
    """Three records in two columns; one cell's record has moved in the synthetic table."""
    categories = us.Categories(("a", "b"), ((0, 1), (0, 1)), (pl.Int16(), pl.Int16()))
    codes = np.array([[0, 0], [1, 1]], dtype=np.int32)
    true = us.CrossTable(categories, codes, np.array([3, 1]))
    shares = [np.array([0.75, 0, 0, 0.25])]
    drawn = [replace(true, counts=np.array(counts)) for counts in ([1, 3], [4, 0])]
    # |.25 - .75| twice / 2 = .5, then .25; the average (2.5, 1.5)/4 is .125 away
    assert distances(drawn, shares, [(0, 1)]) == pytest.approx(
        {"one_file": 0.375, "mean_file": 0.125, "worst": 0.375}
    )


@pytest.mark.usefixtures("stand_in_noise")
def test_marginals_beat_modips_on_pairs_where_records_are_many():
    categories = acs_categories()
    table = population(*invented_tables(categories.sizes), categories, 100_000, 30_000)
    four = margin_of(table, ("MAR", "OCC", "SCHL", "CAGE"))
    ms, modips, marginals = compare_pairs(four)
    assert marginals["one_file"] < modips["one_file"] / 1.4
    assert ms["one_file"] < modips["one_file"]
    assert marginals["mean_file"] < marginals["one_file"] < marginals["worst"]


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from understudy_studies.acs_modips import replicate

real, done = replicate.one_replicate, []

def killing(*arguments):
    if len(done) == 3:
        os.kill(os.getpid(), 9)
    done.append(1)
    return real(*arguments)

replicate.one_replicate = killing
replicate.run(np.repeat([1, 30], [40_000, 2000]), 500, Path(sys.argv[1]), (1.0,))
"""


@pytest.mark.any_noise
@pytest.mark.fixed_seed("another process, whose seeds are as written, begins the run")
def test_a_killed_run_of_500_goes_on_to_the_same_figures(tmp_path):
    state = tmp_path / "killed.npz"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(state)], check=False)
    assert killed.returncode == -9
    with np.load(state) as kept:
        done = int(kept["done"])
    assert done == 3
    counts = np.repeat([1, 30], [40_000, 2000])
    again = run(counts, done + 2, state, (1.0,))
    whole = run(counts, done + 2, tmp_path / "whole.npz", (1.0,))
    assert whole.equals(again)


@pytest.mark.usefixtures("stand_in_noise")
def test_the_page_says_what_was_found(tmp_path):
    small = ModipsDesign(20_000, 4000, (1.0, math.e, math.e**2))
    page = run_study(2, tmp_path, design=small).read_text(encoding="utf-8")
    counts = np.load(tmp_path / "table.npz")["counts"]
    means = over_cells(run(counts, 2, tmp_path / "sums.npz", small.epsilons))
    assert "invented tables" in page
    assert f"{means['empty'][0]:.1%}" in page
    assert "sensitivity 1" in page
    # conclusions; each relation's three epsilons with ORI and MS; two-way tables
    assert page.count("<tr>") == 1 + 6 + 2 * 2 * (1 + 2 + 3) + 1 + 3
    for name in ("RMSE", "Over-coverage", "Prior", "Epsilon", "Sensitivity", "Support"):
        assert f"<li>{name}. " in page
    for relation in ("add-remove", "replace"):
        assert f"Here, {relation}" in page
        row = means.filter(relation=relation).row(0, named=True)
        closed_form, away = f"{row['closed_form']:.3f}", f"{round(row['away'], 1) + 0.0:.1f}"
        assert re.search(rf"<td[^>]*>{closed_form}</td><td[^>]*>{away}</td>", page)
    assert "Marginals of order 2" in page
    assert (tmp_path / "figure-3-2.svg").stat().st_size > 1000
    rows = (tmp_path / "study.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(means)
    with pytest.raises(us.Refused, match="another `seed`"):
        run_study(2, tmp_path, seed=2, design=small)
    with pytest.raises(us.Refused, match="another `epsilons`"):
        run_study(2, tmp_path, design=replace(small, epsilons=(1.0,)))
    with pytest.raises(us.Refused, match="There is no file"):
        run_study(1, tmp_path / "new", pums=[tmp_path / "none.parquet"], design=small)
