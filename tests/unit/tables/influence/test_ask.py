"""From formulas to questions: levels are the declared ones, or those of the synthetic files."""

from __future__ import annotations

import polars as pl

from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.tables.influence.ask import questions_of

FRAME = pl.DataFrame({"y": [1.0, 2.0, 4.0, 3.0], "g": ["b", "a", "b", "a"]})


def test_a_text_has_a_coefficient_for_each_level_but_the_first() -> None:
    declared = Codebook({"g": Column("g", "public", levels=("c", "b", "a"))})
    (question,) = questions_of("y ~ g", [Survey(FRAME, codebook=declared)])
    assert question.names == ("Intercept", "g[T.b]", "g[T.a]")
    (question,) = questions_of("y ~ g", [Survey(FRAME)])
    assert question.names == ("Intercept", "g[T.b]")


def test_cells_are_those_that_all_files_have_in_their_order() -> None:
    levels = list("hcabfgde")
    first, second = (
        Survey(pl.DataFrame({"y": range(9), "g": [*levels, extra]})) for extra in ("i", None)
    )
    cells = [question.cell for question in questions_of("mean(y)", [first, second], by="g")]
    assert cells == [(level,) for level in "abcdefgh"]
