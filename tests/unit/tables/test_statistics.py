"""The language of statistics, and where it says that something is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import Refused, SyntaxRefused
from understudy.tables.statistics import Statistic, parse_statistic

COLUMNS = ["salary", "hours", "net income", "api.stu", "sex"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count", Statistic("count", "count")),
        (" total( salary ) ", Statistic("total( salary )", "total", "salary")),
        ("mean(`net income`)", Statistic("mean(`net income`)", "mean", "net income")),
        (
            "ratio(api.stu / hours)",
            Statistic("ratio(api.stu / hours)", "ratio", "api.stu", "hours"),
        ),
        (
            'proportion(sex == "F")',
            Statistic('proportion(sex == "F")', "proportion", "sex", level="F"),
        ),
        ("proportion(sex == 2)", Statistic("proportion(sex == 2)", "proportion", "sex", level=2.0)),
        ("proportion(sex==-1)", Statistic("proportion(sex==-1)", "proportion", "sex", level=-1.0)),
        (
            "quantile(salary, .25)",
            Statistic("quantile(salary, .25)", "quantile", "salary", probability=0.25),
        ),
    ],
)
def test_reads(text: str, expected: Statistic) -> None:
    assert parse_statistic(text, COLUMNS) == expected


@pytest.mark.parametrize(
    ("text", "place"),
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
def test_caret_stands_under_the_place(text: str, place: int) -> None:
    with pytest.raises(SyntaxRefused) as refusal:
        parse_statistic(text, COLUMNS)
    lines = str(refusal.value).splitlines()
    assert lines[1] == f"  {text}"
    assert lines[2].index("^") == place + 2


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
