"""The language of statistics, and where it says that something is wrong."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from skeletons import skeleton
from understudy.errors import Refused, SyntaxRefused
from understudy.ledger.ledger import Ledger
from understudy.tables.expression import Expression
from understudy.tables.r_text import r_value
from understudy.tables.statistic import (
    LinearStatistic,
    Statistic,
    parse_statistic,
    statistics,
)
from understudy.tables.statistics import proportion
from understudy.tables.statistics.count import Count
from understudy.tables.statistics.mean import Mean
from understudy.tables.statistics.proportion import Proportion
from understudy.tables.statistics.quantile import Quantile
from understudy.tables.statistics.ratio import Ratio
from understudy.tables.statistics.total import Total

COLUMNS = ["salary", "hours", "net income", "api.stu", "sex"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count", Count("count")),
        (" total( salary ) ", Total("total( salary )", Expression("salary"))),
        ("mean(`net income`)", Mean("mean(`net income`)", Expression("net income"))),
        (
            "ratio(api.stu / hours)",
            Ratio("ratio(api.stu / hours)", "api.stu", "hours"),
        ),
        (
            'proportion(sex == "F")',
            Proportion('proportion(sex == "F")', Expression("sex"), "F"),
        ),
        ("proportion(sex == 2)", Proportion("proportion(sex == 2)", Expression("sex"), 2.0)),
        ("proportion(sex==-1)", Proportion("proportion(sex==-1)", Expression("sex"), -1.0)),
        (
            "quantile(salary, .25)",
            Quantile("quantile(salary, .25)", Expression("salary"), 0.25),
        ),
    ],
)
def test_reads(text: str, expected: Statistic) -> None:
    assert parse_statistic(text, COLUMNS) == expected


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("mean salary)", 5),
        ("mean(salary", 11),
        ("mean(salary))", 12),
        ("ratio(salary * hours)", 13),
        ("quantile(salary, 1.5)", 17),
        ("quantile(salary)", 15),
        ("proportion(sex = 1)", 15),
        ("mean(%)", 5),
    ],
)
def test_caret_stands_under_the_place(text: str, position: int) -> None:
    with pytest.raises(SyntaxRefused) as refusal:
        parse_statistic(text, COLUMNS)
    lines = str(refusal.value).splitlines()
    assert lines[1] == f"  {text}"
    assert lines[2].index("^") == position + 2


def test_nearest_names() -> None:
    with pytest.raises(Refused, match="did you mean `salary`"):
        parse_statistic("mean(salry)", COLUMNS)
    with pytest.raises(Refused, match=r"did you mean `mean\(x\)`"):
        parse_statistic("meen(salary)", COLUMNS)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parsed = parse_statistic(text, COLUMNS)
    except Refused as refusal:
        assert str(refusal)
    else:
        assert parsed.text == text.strip()


def test_every_statistic_says_all_about_itself() -> None:
    assert {"count", "total", "mean", "proportion", "ratio", "quantile"} <= set(statistics())
    for name, known in statistics().items():
        assert known.form.startswith(name)
        parsed = parse_statistic(known.form.replace('"level"', "1"), ["x", "y"])
        assert (parsed.name, parsed.is_own) == (name, False)
    with pytest.raises(TypeError, match=r"Half does not declare .*columns.*empty.*form"):

        class Half(LinearStatistic):
            name = "half"


RECIPE = """\
[data]
path = "people.csv"
codebook = "codebook.toml"

[synthesis]
model = "Multinomial"
sensitive = ["area", "sex"]
datasets = 2

[privacy]
mechanism = "Marginals"
epsilon = 2

[tables]
statistics = ["count", "mine.py:Above(sex, 1)", "proportion(sex == 2)"]
by = ["area"]

[ledger]
place = "ledger.db"
cap = "10"
"""
CODEBOOK = """\
[columns.area]
role = "sensitive"
type = "categorical"
levels = ["north", "south"]

[columns.sex]
role = "sensitive"
type = "categorical"
levels = [1, 2]
"""


def people(folder: Path) -> pl.DataFrame:
    (folder / "mine.py").write_text(skeleton("Above"), encoding="utf-8")
    frame = pl.DataFrame(
        {
            "area": ["north", "south", "south"] * 40,
            "sex": [1, 2, 2, 1, 1] * 24,
            "w": [1.0, 2.0, 3.5, 1.5] * 30,
        }
    )
    frame.drop("w").write_csv(folder / "people.csv")
    (folder / "codebook.toml").write_text(CODEBOOK, encoding="utf-8")
    return frame


def test_a_statistic_of_ones_own_in_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey = us.Survey(people(tmp_path), us.Design(weight="w", strata="area"))
    monkeypatch.chdir(tmp_path)
    asked = ["mine.py:Above(sex, 1)", "proportion(sex == 2)"]
    table = us.tabulate(survey, asked, by="area", margins=True)
    ours = table.filter(pl.col("statistic") == "Above(sex, 1)").drop("statistic")
    theirs = table.filter(pl.col("statistic") == "proportion(sex == 2)").drop("statistic")
    assert ours.height == 3
    assert ours.equals(theirs)
    with pytest.raises(Refused, match=r"Unknown statistic in `mine.py` `Abov`"):
        us.tabulate(survey, "mine.py:Abov(sex, 1)")
    with pytest.raises(SyntaxRefused, match=r"`,` here \(the form is Above\(x, 1\)\)"):
        us.tabulate(survey, "mine.py:Above(sex)")
    with pytest.raises(Refused, match=r"There is no file `other.py` with the statistic"):
        us.tabulate(survey, "other.py:Above(sex, 1)")


@pytest.mark.any_noise
def test_a_statistic_of_ones_own_in_a_release(tmp_path: Path) -> None:
    people(tmp_path)
    (tmp_path / "release.toml").write_text(RECIPE, encoding="utf-8")
    out = us.publish(tmp_path / "release.toml", say=lambda _: None, progress=False)
    table = pl.read_csv(out / "tables.csv")
    ours = table.filter(pl.col("statistic") == "Above(sex, 1)").drop("statistic")
    theirs = table.filter(pl.col("statistic") == "proportion(sex == 2)").drop("statistic")
    assert ours.height >= 1
    assert ours.equals(theirs)
    page = (out / "public.html").read_text(encoding="utf-8")
    assert "svyby(~I(sex &gt; 1.0), cell, design, svymean, na.rm = TRUE)" in page
    assert "mine.py" not in page
    assert "Above(sex, 1)" in (out / "report.html").read_text(encoding="utf-8")
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert [entry.micro for entry in ledger.entries() if entry.kind == "spend"] == [4_000_000]
    again = us.tabulate(us.open_release(out), ["count"], by=["area"])
    assert again.height >= 1


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "TRUE"), (False, "FALSE"), (2, "2"), (0.5, "0.5"), ('a "b"', r'"a \"b\""')],
)
def test_values_as_r_reads_them(value: object, text: str) -> None:
    assert r_value(value) == text


def test_a_share_is_compared_in_r_by_its_level() -> None:
    share = parse_statistic('proportion(`net income` == "low")', COLUMNS)
    assert share.r_column(1) == 'as.numeric(data[["net income"]] == "low")'


def test_levels_of_a_share_are_those_that_occur_where_none_are_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proportion, "MOST", 3)
    survey = us.Survey(pl.DataFrame({"x": ["c", "a", None, "b"]}), codebook=us.Codebook())
    shares = us.tabulate(survey, "proportion(x)")
    assert shares["statistic"].to_list() == [f'proportion(x == "{level}")' for level in "abc"]
    assert shares["estimate"].to_list() == pytest.approx([1 / 3] * 3)
    more = us.Survey(pl.DataFrame({"x": list("abcd")}), codebook=us.Codebook())
    with pytest.raises(Refused, match="`x` has more than 3 levels; name those that you want"):
        us.tabulate(more, "proportion(x)")
