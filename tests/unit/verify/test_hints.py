"""Threat 22: what a refused question costs is bounded, however many mistakes it holds.

Seconds are in `test_true_hints.py`; here hints and letters are counted.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import pytest
from verification_samples import make_query

from understudy.errors import COMPARED, UnknownName
from understudy.survey.codebook import Codebook, Column
from understudy.verify import catalogue
from understudy.verify.catalogue import read_query
from understudy.verify.mistakes import LISTED, InvalidQuery, field_of
from understudy.verify.query import check_query

LEVELS = tuple(f"level {number:04d}" for number in range(500))
WIDE = Codebook(
    {
        column.name: column
        for column in (
            Column("income", "sensitive", "continuous"),
            *(Column(f"c{n}", "public", "categorical", levels=LEVELS) for n in range(20)),
        )
    }
)
UNKNOWN = {f"c{n}": [f"level {k:04d}x" for k in range(1000)] for n in range(20)}


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One element for every known name that a hint was compared with."""
    compared: list[str] = []
    real = SequenceMatcher.real_quick_ratio

    def counted(matcher: SequenceMatcher[str]) -> float:
        compared.append(str(matcher.a))
        return real(matcher)

    monkeypatch.setattr(SequenceMatcher, "real_quick_ratio", counted)
    return compared


def test_20_000_unknown_levels_get_a_few_hints(comparisons: list[str]) -> None:
    with pytest.raises(InvalidQuery) as refusal:
        check_query(make_query(domain=UNKNOWN), WIDE)
    assert len(refusal.value.mistakes) == LISTED
    assert "did you mean `level 0000`?" in str(refusal.value)
    assert 0 < len(comparisons) <= LISTED * COMPARED


def test_20_000_known_levels_are_looked_up_and_not_searched_for() -> None:
    """No level is compared with all others: the equality of none is asked."""
    asked: list[str] = []

    class Spoken(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            asked.append(str(self))
            return str(self) == str(other)

    book = Codebook(
        {
            "income": WIDE["income"],
            "c0": Column("c0", "public", "categorical", levels=tuple(map(Spoken, LEVELS))),
        }
    )
    check_query(make_query(domain={"c0": [*LEVELS, *LEVELS]}), book)
    assert len(asked) <= 4 * len(LEVELS)


@pytest.mark.parametrize(
    "changes",
    [
        {f"x{number}": 1 for number in range(20_000)},
        {"domain": [{"column": "c0", "levels": [None] * 1000}] * 20},
        {"domain": [{"column": "c0", "levels": [None] * 50_000}]},
        {"domain": [{"x": 1}] * 20_000},
        {"domain": [{f"x{number}": 1 for number in range(20_000)}]},
        {"tolerance": {f"x{number}": 1 for number in range(20_000)}},
        {"estimator": "linear", "predictors": [1] * 50_000},
    ],
    ids=["fields", "levels", "long levels", "domain", "condition", "tolerance", "predictors"],
)
def test_a_large_body_of_mistakes_gets_a_small_reply(
    changes: dict[str, Any], comparisons: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[Any] = []
    monkeypatch.setattr(catalogue, "field_of", lambda e: (looked_at.append(e), field_of(e))[1])
    base = make_query().model_dump(mode="json", exclude={"noise", "measure", "partitioning"})
    with pytest.raises(InvalidQuery) as refusal:
        read_query({name: value for name, value in base.items() if value} | changes)
    assert len(str(refusal.value)) < 2000
    assert len(comparisons) <= LISTED * COMPARED
    assert len(looked_at) <= 20  # pydantic does not list what nobody reads


def test_of_many_names_those_that_begin_alike_are_compared(comparisons: list[str]) -> None:
    many = [f"{letter}{number}" for letter in "abcdefgh" for number in range(100)]
    assert "did you mean `c42`?" in str(UnknownName("level", "c421", many))
    assert set(comparisons) == {f"c{number}" for number in range(100)}
