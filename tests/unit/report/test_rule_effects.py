"""What the codebook's rules changed, in words."""

from __future__ import annotations

import numpy as np
import polars as pl

from understudy.report.rule_effects import rule_effects
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.tables.ruled_file import RuledFile, RuleEffects

CODEBOOK = Codebook({"a": Column("a", label="Wages"), "b": Column("b")})
RULES = ("a <= b", "b > 9")


def made(broken: tuple[int, ...], changed: int, moved: dict[tuple[str, ...], float]) -> RuledFile:
    survey = Survey(pl.DataFrame({"a": [0] * 50, "b": [1] * 50}), codebook=CODEBOOK)
    shifts = {names: np.array([50, -50]) * share for names, share in moved.items()}
    rules = dict(zip(RULES, broken, strict=False))
    return RuledFile.of(survey, RuleEffects(rules, changed, shifts, 50))


def test_shares_and_distances_are_means_over_the_files() -> None:
    files = [
        made((3, 1), 4, {("a",): 0.02, ("a", "b"): 0.06}),
        made((2, 0), 2, {("a",): 0.0, ("a", "b"): 0.08}),
    ]
    assert rule_effects(files) == (
        "Every record keeps the codebook's rules; for that 6.0 % of the records were changed after "
        "they had been drawn (broken: `a <= b` by 5.0 % and `b > 9` by 1.0 %). This moved the 2 "
        "measured tables with a column that a rule names by a total variation of 0.040 on average, "
        "most of all Wages by b, by 0.070."
    )


def test_nothing_to_say() -> None:
    assert rule_effects([made((0, 0), 0, {("a",): 0.0})]) == (
        "Every record keeps the codebook's rules, and did so as it was drawn."
    )
    assert rule_effects([made((), 0, {})]) == ""
    assert rule_effects([Survey(pl.DataFrame({"a": [1]}))]) == ""
