"""Which columns' design effects an estimate from a whole file has."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.stats

from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.misfit import Misfit
from understudy.survey.survey import Survey
from understudy.tables.regress import regress
from understudy.tables.tabulate import tabulate
from understudy.tables.variance_factor import (
    VarianceFactor,
    evenly,
    evenly_in_shares,
    variance_factor,
)

BOOK = Codebook({}, design_effect=2.0, design_effects={"a": 5.0, "y": 3.0})


@pytest.mark.parametrize(
    ("group", "own", "adds_up", "expected"),
    [
        (["a"], ["y"], False, 3.0),  # a mean of y in groups: that of y
        (["a"], ["y"], True, 5.0),  # a total: the largest of both
        (["a"], [], False, 5.0),  # a count
        ([], [], True, 2.0),  # of all records: the common one
        (["y"], ["x"], False, 2.0),  # x has none of its own
    ],
)
def test_an_estimate_has_the_effect_of_what_it_is_about(group, own, adds_up, expected) -> None:
    made = variance_factor(BOOK, Design(), group, own, None, counts=False, adds_up=adds_up)
    assert made.clusters == made.most == expected
    known = variance_factor(BOOK, Design(psu="p"), group, own, None, counts=False, adds_up=adds_up)
    assert known.clusters == 1.0  # the file's own clusters say it


def test_a_group_has_its_share_of_what_clusters_add() -> None:
    """By the formula of the class, with groups that are spread over all clusters."""
    y = np.random.default_rng(1).normal(size=40)
    frame = pl.DataFrame({"a": ["few"] * 10 + ["many"] * 30, "y": y})
    book = Codebook({}, design_effects={"a": 1.0, "y": 3.0}, psu_records=11.0)
    known, alone = (
        tabulate(Survey(frame, codebook=each), "mean(y)", by="a")["se"].to_numpy()
        for each in (book, Codebook({}))
    )
    assert (known / alone) ** 2 == pytest.approx([1 + 2 * 0.25, 1 + 2 * 0.75])


def test_each_group_has_its_part_of_every_figure() -> None:
    share = np.array([0.1, 0.3, 0.6])
    q = (0.1**2 * 0.9 + 0.3**2 * 0.7 + 0.6**2 * 0.4) / 1.0
    even = np.array([min(q / 0.1, 1.0), q / 0.3, q / 0.6])  # a tenth of ten records is one
    assert evenly(share, 10.0) == pytest.approx(even)
    made = VarianceFactor(3.0, 0.25, 0.5, 0.7, 0.9, 1.1).of(share, 10.0)
    clusters = 2 * (share + (1 - share) * 0.25)
    expected = 1 + clusters + 0.5 + share * 0.7 + (1 - share) * 0.9 + even * 1.1
    assert made == pytest.approx(expected)


@pytest.mark.parametrize("levels", [2, 4])
def test_a_share_is_off_by_what_its_cell_is(levels: int) -> None:
    """Cells of a table that are off by the same variance and add up to the groups' true sizes:
    the variance of the share over that of sampling, by simulation."""
    rng = np.random.default_rng(4)
    n, share, part = 10_000.0, np.array([0.7, 0.3]), np.array([0.2, 0.5])
    cells = np.stack([share * part] + [share * (1 - part) / (levels - 1)] * (levels - 1))
    q = np.average(cells * (1 - cells), weights=cells)
    off = rng.normal(size=(50_000, levels, 2))
    off -= off.mean(axis=1, keepdims=True)
    off *= np.sqrt(n * q * levels / (levels - 1))  # each cell has the variance n q
    of_shares = off[:, 0].var(axis=0) / (n * share) ** 2
    sampled = part * (1 - part) / (n * share)
    made = evenly_in_shares(share, part, levels, n)
    assert made == pytest.approx(of_shares / sampled, rel=0.03)
    assert VarianceFactor(split=0.5, levels=levels).of(share, n, part) == pytest.approx(
        1 + 0.5 * made
    )
    # not more records than a cell has; a share of 0 or 1 has no sampling variance to be widened
    few = evenly_in_shares(np.array([0.5, 0.5]), np.array([0.004, 1.0]), 2, 100.0)
    assert few == pytest.approx([0.2**2 / (50 * 0.004 * 0.996), 0.0])


@pytest.mark.parametrize(
    ("group", "own", "adds_up", "expected"),
    [
        (["a", "b"], [], True, VarianceFactor(even=0.5)),
        (["a"], [], True, VarianceFactor(counted=0.5)),  # a margin: public beside the noisy one
        (["a", "c"], [], True, VarianceFactor(counted=1.0)),  # not measured
        (["a"], ["b"], False, VarianceFactor(split=0.5, levels=3)),
        (["a"], ["c"], False, VarianceFactor(counted=1.0)),
        ([], ["b"], False, VarianceFactor(counted=0.5)),
    ],
)
def test_cells_of_measured_tables_are_off_by_as_many_records(group, own, adds_up, expected) -> None:
    b = Column("b", "sensitive", "categorical", levels=("u", "v", "w"))
    known = Misfit((("a", "b"),), (0.5, 1.0, 2.0), (3.0, 4.0, 5.0))
    book = Codebook({"b": b}, misfit=known)
    made = variance_factor(book, Design(), group, own, None, counts=True, adds_up=adds_up)
    assert made == expected


def test_a_misfit_counts_as_a_variance_with_two_degrees_of_freedom() -> None:
    """Satterthwaite by simulation: the sum of s V/nu and f W/2, V and W chi-square of nu and 2, has
    the mean s + f and the variance of a chi-square with the stated degrees. A double exponential
    is normal with an exponential variance, which is such a W: its quartic mean is 6."""
    rng = np.random.default_rng(2)
    share, nu = np.array([0.25, 0.75]), 40.0
    factor = VarianceFactor(1.5, 1.0, 0.0, 0.4, 2.0)
    sampled, fitted = np.full(2, 1.5), share * 0.4 + (1 - share) * 2.0
    draws = sampled * rng.chisquare(nu, (200_000, 1)) / nu
    w = rng.chisquare(2, (200_000, 1)) / 2
    draws = draws + fitted * w
    degrees = factor.degrees(share, 100.0, nu)
    assert draws.mean(axis=0) == pytest.approx(sampled + fitted, rel=0.01)
    assert 2 * draws.mean(axis=0) ** 2 / draws.var(axis=0) == pytest.approx(degrees, rel=0.05)
    heavy = rng.normal(size=(200_000, 1)) * np.sqrt(w)
    assert np.mean(heavy**4) == pytest.approx(6.0, rel=0.05)  # of a double exponential
    assert factor.degrees_of_most(nu) == pytest.approx(3.5**2 / (1.5**2 / nu + 2.0**2 / 2))
    assert VarianceFactor(1.5).degrees(share, 100.0, nu) == pytest.approx([nu, nu])
    assert VarianceFactor().degrees_of_most(7.0) == 7.0


def test_tables_and_regressions_have_these_degrees() -> None:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"a": ["u"] * 20 + ["v"] * 60, "y": rng.normal(5, 1, 80)})
    known = Misfit((("a", "y"),), (0.5, 1.0, 2.0), (3.0, 4.0, 5.0))
    files = [Survey(frame, codebook=Codebook({}, misfit=book)) for book in (known, None)]
    count, plain = (tabulate(f, "count", by="a") for f in files)
    assert count["df"].to_numpy() == pytest.approx([1.5**2 / (1 / 79 + 0.5**2 / 2)] * 2)
    assert plain["df"].to_list() == [79.0, 79.0]
    both = [tabulate(f, "count", by="a", combine="partial") for f in ([files[0]] * 3, files[0:1])]
    assert both[0]["df"].to_numpy() == pytest.approx(count["df"].to_numpy())
    assert both[1]["df"].to_list() == count["df"].to_list()
    slopes = regress(files[0], "y ~ a")
    assert slopes["df"].to_numpy() == pytest.approx([4**2 / (1 / 78 + 3**2 / 2)] * 2)
    # a quantile's own interval is longer by the root of the factor and by the quantiles of t
    middle, other = (tabulate(f, "quantile(y, 0.5)", by="a") for f in files)
    t = scipy.stats.t.ppf(0.975, [middle["df"].to_numpy(), other["df"].to_numpy()])
    root = (middle["se"] / other["se"]).to_numpy()
    for limit in ("lower", "upper"):
        longer = (middle[limit] - middle["estimate"]) / (other[limit] - other["estimate"])
        assert longer.to_numpy() == pytest.approx(root * t[0] / t[1])
