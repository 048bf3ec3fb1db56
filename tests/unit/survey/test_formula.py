"""Columns of a formula, and formulas with names and transforms that formulaic does not list."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.survey.formula import formula_columns

FRAME = pl.DataFrame(
    {
        "y": [1.0, 2.0, 4.0, 4.5, 7.0, 6.0],
        "x": [1.0, 2.0, 2.0, 5.0, 3.0, 4.0],
        "a.b": [0.0, 1.0, 0.0, 2.0, 2.0, 1.0],
        "g": list("uvuvuv"),
    }
)
SURVEY = us.Survey(FRAME)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("y ~ x", ["x", "y"]),
        ("log(y) ~ scale(x) + poly(z, 2)", ["x", "y", "z"]),
        ("y ~ bs(x, df=3):g", ["g", "x", "y"]),
        ("y ~ `a.b` + c.d", ["a.b", "c.d", "y"]),
        ("log(`net income`) ~ np.log(x)", ["net income", "x"]),
        ("y ~ C(g, contr.treatment(base='u')) + C(h, contr.sum)", ["g", "h", "y"]),
        ("y ~ {x + 1} | g", ["g", "x", "y"]),
        ("y ~ 1", ["y"]),
    ],
)
def test_columns_of_a_formula(text: str, columns: list[str]) -> None:
    assert formula_columns(text) == columns


def test_standardised_predictors_and_dotted_names() -> None:
    scaled = us.regress(SURVEY, "y ~ scale(x)")["estimate"].to_numpy()
    plain = us.regress(SURVEY, "y ~ x")["estimate"].to_numpy()
    assert scaled[1] == pytest.approx(plain[1] * FRAME["x"].std(), rel=1e-12)
    assert scaled[0] == pytest.approx(FRAME["y"].mean(), rel=1e-12)
    dotted = us.regress(SURVEY, "y ~ `a.b`")["estimate"].to_numpy()
    assert dotted == pytest.approx(np.polyfit(FRAME["a.b"], FRAME["y"], 1)[::-1], rel=1e-9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("y ~ x | g", "has no meaning in"),
        ("y ~ .", "Name the columns"),
        ("y ~ x + (", "cannot be read"),
        ("y ~ b.c", "Unknown column in the formula `b.c`"),
    ],
)
def test_formulas_are_refused_in_words(text: str, says: str) -> None:
    with pytest.raises(us.Refused, match=says):
        us.regress(SURVEY, text)
