"""Domains from text: what they select, and what is refused."""

from __future__ import annotations

import ibis
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import Refused, SyntaxRefused
from understudy.tables.domain import parse_domain

FRAME = pl.DataFrame(
    {
        "age": [10, 40, 70, None],
        "sex": ["F", "M", None, "F"],
        "net income": [1.0, 2.0, 3.0, 4.0],
        "works": [True, False, True, None],
    }
)
TABLE = ibis.memtable(FRAME)


def selected(text: str) -> list[int]:
    inside = TABLE.select(inside=parse_domain(text, TABLE)).to_polars()["inside"]
    return [i for i, value in enumerate(inside) if value]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("age > 30", [1, 2]),
        ("30 < age <= 70", [1, 2]),
        ("age > 30 and sex == 'M'", [1]),
        ("age < 20 or sex == 'M'", [0, 1]),
        ("not (age > 30)", [0]),
        ("sex in ('F', 'M')", [0, 1, 3]),
        ("sex not in ['M']", [0, 3]),
        ("sex is None", [2]),
        ("age is not None", [0, 1, 2]),
        ("column('net income') >= 3", [2, 3]),
        ("age > -5", [0, 1, 2]),
        ("age > -30", [0, 1, 2]),
        ("works == True", [0, 2]),
        ("age == 1000", []),
    ],
)
def test_selects(text: str, rows: list[int]) -> None:
    assert selected(text) == rows


@pytest.mark.parametrize(
    "text",
    [
        "age",
        "age >",
        "age + 1 > 3",
        "ages > 3",
        "sex > 3",
        "age == 'x'",
        "__import__('os').system('true') == 0",
        "age > 3; age < 5",
        "1 < 2",
        "sex in 'FM'",
        "age is 3",
        "(lambda: 1)() == age",
        "column(age) > 1",
        "",
        "age > 1 if True else False",
        "age in (sex,)",
    ],
)
def test_refuses(text: str) -> None:
    with pytest.raises(Refused):
        selected(text)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        condition = parse_domain(text, TABLE)
    except Refused as refusal:
        assert str(refusal)
    else:
        assert condition.type().is_boolean()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("age is 3", "Only None may follow `is`"),
        ("sex in 'FM'", "A list of values must follow `in`"),
        ("age in (1, 'x')", "A number is compared with text"),
        ("sex == 3", "A number is compared with text"),
        ("1 < 2", "names no column"),
        ("age + 1 > 3", "Expected a column or a value"),
        ("age", "This is not a condition"),
    ],
)
def test_a_refusal_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        selected(text)


@pytest.mark.parametrize(
    ("text", "position"), [(" age > > 5", 6), ("(age", 0), ("age @@ 3", 5), ("", 0)]
)
def test_the_caret_stands_under_the_place(text: str, position: int) -> None:
    with pytest.raises(SyntaxRefused) as refusal:
        parse_domain(text, TABLE)
    assert refusal.value.position == position
