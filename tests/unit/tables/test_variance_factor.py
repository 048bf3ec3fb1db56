"""Which columns' design effects an estimate from a whole file has."""

from __future__ import annotations

import pytest

from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.tables.variance_factor import variance_factor

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
