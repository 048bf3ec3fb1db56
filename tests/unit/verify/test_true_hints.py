"""Threat 22 in true CPU seconds; slow because it reads the clock."""

from __future__ import annotations

import time

import pytest
from verification_samples import make_query

from understudy.survey.codebook import Codebook, Column
from understudy.verify.mistakes import InvalidQuery
from understudy.verify.query import check_query

pytestmark = pytest.mark.slow

MOST_SECONDS = 0.2


def test_20_000_unknown_levels_take_a_fifth_of_a_second_at_most() -> None:
    levels = tuple(f"level {number:04d}" for number in range(500))
    names = ["income", *(f"c{n}" for n in range(20))]
    kinds = [Column("income", "sensitive", "continuous")]
    kinds += [Column(name, "public", "categorical", levels=levels) for name in names[1:]]
    book = Codebook(dict(zip(names, kinds, strict=True)))
    domain = {name: [f"level {k:04d}x" for k in range(1000)] for name in names[1:]}
    query = make_query(domain=domain)
    start = time.process_time()
    with pytest.raises(InvalidQuery):
        check_query(query, book)
    assert time.process_time() - start < MOST_SECONDS
