"""Further files of a release: the sample's sampling error, averages within a set, then m sets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.errors import Refused
from understudy.survey.drawn_file import DrawnFile
from understudy.tables.combine import combine
from understudy.tables.noise_sets import within_sets


def drawn(values: list[float], dataset: int, stands_for: float = 1.0, where: str | None = None):
    return DrawnFile.of(us.Survey(pl.DataFrame({"y": values})), dataset, stands_for, where)


def test_by_hand() -> None:
    """Set 1: files 1 (as large as the sample) and 2 (four times as large); set 2: file 3."""
    files = [drawn([0.0, 1.0], 1), drawn([0.0, 1.0], 1, 0.25), drawn([0.0, 1.0], 2)]
    averaged = within_sets(files, np.array([[1.0, np.nan], [2.0, 3.0], [6.0, np.nan]]))
    assert averaged[:, 0] == pytest.approx([(1 * 1.0 + 4 * 2.0) / 5, 6.0])
    assert averaged[0, 1] == 3.0  # over the files that have the cell
    assert np.isnan(averaged[1, 1])


def test_a_table_has_the_sampling_error_of_the_sample() -> None:
    """Ten records for every one of the sample: the mean's variance is ten times the file's."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=400).tolist()
    plain = us.tabulate(us.Survey(pl.DataFrame({"y": values})), ["mean(y)", "total(y)", "count"])
    ten = us.tabulate(drawn(values, 1, 0.1), ["mean(y)", "total(y)", "count"])
    a, b = (dict(zip(t["statistic"], t.iter_rows(named=True), strict=True)) for t in (plain, ten))
    assert b["mean(y)"]["estimate"] == a["mean(y)"]["estimate"]
    assert b["mean(y)"]["se"] == pytest.approx(a["mean(y)"]["se"] * 10**0.5)
    assert b["mean(y)"]["df"] == pytest.approx(39.9)
    # without design weights a sum is that of the sample's 40 records
    assert b["count"]["estimate"] == pytest.approx(40)
    assert b["total(y)"]["estimate"] == pytest.approx(a["total(y)"]["estimate"] / 10)
    assert b["total(y)"]["se"] == pytest.approx(a["total(y)"]["se"] * 10**-0.5)
    coefficients = us.regress(drawn(values, 1, 0.1), "y ~ 1")
    assert coefficients["se"][0] == pytest.approx(b["mean(y)"]["se"], rel=1e-6)
    files = us.Survey(pl.DataFrame({"y": values})), drawn(values, 1, 0.1)
    quantile = [us.tabulate(file, "median(y)")["se"][0] for file in files]
    assert quantile[1] == pytest.approx(quantile[0] * 10**0.5)


def test_files_of_one_set_are_averaged_before_sets_are_combined() -> None:
    sets = [[[1.0, 3.0], [2.0, 4.0]], [[5.0, 9.0], [6.0, 8.0]]]
    files = [drawn(values, j) for j, files in enumerate(sets, 1) for values in files]
    got = us.tabulate(files, "mean(y)", combine="partial").row(0, named=True)
    u = [np.var(values, ddof=1) / 2 for values in (v for files in sets for v in files)]
    wanted = combine([[2.5], [7.0]], [[np.mean(u[:2])], [np.mean(u[2:])]], 1, "partial")
    assert got["estimate"] == pytest.approx(wanted.value[0])
    assert got["se"] ** 2 == pytest.approx(wanted.variance[0])
    fitted = us.regress(files, "y ~ 1", combine="partial").row(0, named=True)
    assert (fitted["estimate"], fitted["se"]) == pytest.approx((got["estimate"], got["se"]))
    each = us.tabulate(files, "mean(y)", combine="none")
    assert each["dataset"].to_list() == [1, 2, 3, 4]


def test_the_variance_is_right_on_average_whatever_is_drawn() -> None:
    """A sample of n, m noise sets, further files of several sizes: E(T) = Var(qbar), by
    simulation. Taking every file for a set of its own, or the files' own sampling error, is far
    off."""
    rng = np.random.default_rng(11)
    n, m, runs, tau = 200, 3, 4000, 0.12
    sizes = [n, 4 * n, 10 * n]  # of the files of every set
    files = [drawn([0.0, 1.0], j, n / size) for j in range(1, m + 1) for size in sizes]
    rows, weights = np.repeat(np.arange(m), 3), np.tile(sizes, m)
    centre = rng.normal(0, n**-0.5, (runs, 1))  # of the sample
    noise = rng.normal(0, tau, (runs, m))[:, rows]
    estimates = centre + noise + rng.normal(size=(runs, 9)) / np.sqrt(weights)
    own = (1 / weights)[None].repeat(runs, 0)  # each file's own sampling variance
    share = np.tile([n / size for size in sizes], m)
    combined = combine(
        within_sets(files, estimates.T), within_sets(files, (own / share).T), n - 1, "partial"
    )
    true = np.var(combined.value)
    assert np.mean(combined.variance) == pytest.approx(true, rel=0.1)
    # a set's noise is shared by its files: nine files are not nine sets
    assert np.mean(combine(estimates.T, (own / share).T, n - 1, "partial").variance) < 0.8 * true
    small = combine(within_sets(files, estimates.T), within_sets(files, own.T), n - 1, "partial")
    assert np.mean(small.variance) < 0.7 * true


def test_refusals() -> None:
    older, all_ = drawn([1.0, 2.0], 1, 0.1, "age > 64"), drawn([1.0, 2.0], 2)
    with pytest.raises(Refused, match="same `where`"):
        us.tabulate([older, all_], "mean(y)", combine="partial")
    with pytest.raises(Refused, match="same `where`"):
        us.regress([older, all_], "y ~ 1", combine="partial")
    with pytest.raises(Refused, match="`count` cannot be estimated"):
        us.tabulate(older, "count")
    assert us.tabulate(older, "mean(y)")["estimate"][0] == 1.5
