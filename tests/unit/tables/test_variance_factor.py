"""Which columns' design effects an estimate from a whole file has."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.tables.tabulate import tabulate
from understudy.tables.variance_factor import VarianceFactor, evenly, variance_factor

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
