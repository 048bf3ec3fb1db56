"""Statistics of formulas and conditions are those of a column that holds the same values."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import understudy as us
from understudy.errors import Refused
from understudy.tables.expression import Expression
from understudy.tables.statistic import parse_statistic

FRAME = pl.DataFrame(
    {
        "w": [1.0, 2.0, 3.0, 4.0, 1.5, 2.5, 3.5, 1.0],
        "h": [1, 1, 1, 1, 2, 2, 2, 2],
        "age": [70, 64, None, 65, 12, 90, 33, 64],
        "y": [3.0, 1.0, 2.0, None, 5.0, 2.0, 7.0, 4.0],
        "net income": [1.0, -2.0, 3.0, 4.0, -5.0, 6.0, 7.0, 8.0],
        "sex": ["F", "M", "F", "M", "M", None, "M", "F"],
    }
)
Y, AGE, SEX, NET = pl.col("y"), pl.col("age"), pl.col("sex"), pl.col("net income")
FORMULAS = {
    "log(y)": Y.log(),
    "sqrt(y) + exp(y) * 2": Y.sqrt() + Y.exp() * 2,
    'abs(column("net income")) / y': NET.abs() / Y,
    "1 if age > 64 else 0": pl.when(AGE > 64).then(1.0).otherwise(0.0),
    "min(y, 3)": pl.when(Y < 3).then(Y).when(Y >= 3).then(3.0),
}
CONDITIONS = {
    "age > 64": AGE > 64,
    "64 <= age < 90": (AGE >= 64) & (AGE < 90),
    'sex in ("F", "X")': SEX == "F",
    'sex == "F" or age > 80': (SEX == "F") | (AGE > 80),
    "not (y > 2 and age > 40)": ~((Y > 2) & (AGE > 40)),
}
DESIGN = us.Design("w", "h")


def same(text: str, column: pl.Expr, plain: str) -> None:
    ours = us.tabulate(us.Survey(FRAME, DESIGN), text, by="h", n=True, intervals="t")
    expected = us.tabulate(
        us.Survey(FRAME.with_columns(made=column.cast(pl.Float64)), DESIGN), plain, by="h", n=True
    )
    assert_frame_equal(ours.drop("statistic"), expected.drop("statistic"), rel_tol=1e-12)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("form", ["mean({})", "total({})", "quantile({}, 0.4)"])
def test_formulas(form: str, formula: str) -> None:
    same(form.format(formula), FORMULAS[formula], form.format("made"))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(condition: str) -> None:
    same(f"proportion({condition})", CONDITIONS[condition], "mean(made)")


def test_a_column_is_no_condition_whatever_its_name() -> None:
    assert Expression("net income > 0").is_condition is False
    assert Expression("age > 0", computed=True).is_condition is True
    assert Expression("not age > 0", computed=True).is_condition is True
    assert Expression("age + 1", computed=True).is_condition is False


def test_several_quantiles_are_shown_one_by_one() -> None:
    survey = us.Survey(FRAME, DESIGN)
    table = us.tabulate(survey, "quantile(`net income`, 0.25, 0.5, 0.9)")
    alone = [us.tabulate(survey, f"quantile(`net income`, {p})") for p in (0.25, 0.5, 0.9)]
    assert_frame_equal(table, pl.concat(alone))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mean(age > 64)", "use proportion"),
        ("proportion(age + 3)", "needs a condition"),
        ("mean(log(sex))", "This is text"),
        ("mean(abs(sex))", "This is text"),
        ("mean(round(sex))", "This is text"),
        ("mean(max(sex, 3))", "This is text"),
        ("mean(min(y, 'F'))", "This is text"),
        ("mean(abs(3) + y)", "Expected a column"),
        ("mean(log(wages))", "Unknown column `wages`"),
        ("mean(age y)", "expression cannot be read"),
        ("mean(system(age))", "Expected a column"),
        ("mean(log(`net income`))", "expression cannot be read"),
        ('mean(log(column("net income")))', "infinite"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        us.tabulate(us.Survey(FRAME, DESIGN), text)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r_computes_the_same_values(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "data.csv", null_value="NA")
    texts = [*FORMULAS, *CONDITIONS]
    lines = "\n".join(
        f"out <- cbind(out, as.numeric({Expression(t, True).r_value}))" for t in texts
    )
    program = (
        "data <- read.csv('data.csv', check.names = FALSE)\nout <- NULL\n"
        f"{lines}\nwrite.csv(out, 'out.csv', row.names = FALSE)\n"
    )
    (tmp_path / "run.R").write_text(program)
    subprocess.run(["Rscript", "run.R"], cwd=tmp_path, check=True)
    theirs = pl.read_csv(tmp_path / "out.csv", null_values=["NA"])
    columns = [c.cast(pl.Float64) for c in (FORMULAS | CONDITIONS).values()]
    ours = FRAME.select(c.alias(f"V{k + 1}") for k, c in enumerate(columns))
    assert_frame_equal(theirs.cast(pl.Float64), ours, rel_tol=1e-12)


def test_laplace_tables_want_columns_with_bounds() -> None:
    statistic = parse_statistic("mean(log(y))", FRAME.columns)
    assert statistic.columns == ("y",)
    assert math.isnan(statistic.empty)
