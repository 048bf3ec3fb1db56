"""WholeFile: which columns are drawn, which may be kept, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from understudy.errors import Refused
from understudy.models.whole_file import WholeFile
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey

COLUMNS = [
    Column("id", "unit"),
    Column("cluster", "psu", levels=(1, 2)),
    Column("region", "stratum", levels=("n", "s")),
    Column("sex", "public", levels=("f", "m")),
    Column("income", "sensitive", bounds=(0.0, 9.0)),
    Column("w", "weight", bounds=(1.0, 5.0)),
    Column("street", "sensitive", type="text"),
    Column("town", "sensitive", type="text", levels=("x", "y")),
    Column("rich", "sensitive", levels=(0, 1), derived="income > 5"),
]
FRAME = pl.DataFrame(
    {
        "id": [1, 2],
        "cluster": [1, 2],
        "region": ["n", "s"],
        "sex": ["f", "m"],
        "income": [1.0, 8.0],
        "w": [1.5, 2.5],
        "street": ["a", "b"],
        "town": ["x", "y"],
        "rich": [0, 1],
        "unknown": [1, 2],
    }
)
DESIGN = Design(weight="w", strata="region", psu="cluster")
SURVEY = Survey(FRAME, DESIGN, Codebook({column.name: column for column in COLUMNS}))
DRAWN = ("region", "sex", "income", "w", "town")


def test_all_columns_but_identifiers_and_clusters_are_drawn() -> None:
    """A text without levels names people or places; what is derived follows from the others."""
    model = WholeFile().for_survey(SURVEY)
    assert model.columns == DRAWN
    assert model.keep is None
    assert model.sensitive == DRAWN
    assert model.given_columns() == model.kept_positions() == ()
    assert [cells.name for cells in model.cells(SURVEY)] == list(DRAWN)
    assert WholeFile(["income", "cluster"]).for_survey(SURVEY).columns == ("income", "cluster")


def test_kept_columns_are_among_the_columns() -> None:
    model = WholeFile(["income"], keep=["sex", "region"]).for_survey(SURVEY)
    assert model.columns == ("income", "sex", "region")
    assert model.keep == model.given_columns() == ("sex", "region")
    assert model.sensitive == ("income",)
    assert model.kept_positions() == (1, 2)
    assert WholeFile(["sex", "income"], keep=["sex"]).for_survey(SURVEY).columns == (
        "sex",
        "income",
    )


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (WholeFile(["incme"]), "Unknown column `incme`"),
        (WholeFile(["unknown"]), "codebook does not know `unknown`"),
        (WholeFile(["income", "id"]), "`id` identifies units"),
        (WholeFile(["income", "rich"]), "`rich` is computed from other columns"),
        (WholeFile(["income"], keep=["nobody"]), "Unknown column `nobody`"),
        (WholeFile(["income"], keep=["town"]), "`town` is sensitive, not public"),
        (WholeFile(["sex"], keep=["sex"]), "Every column is kept"),
    ],
)
def test_columns_are_checked_against_the_codebook(model: WholeFile, match: str) -> None:
    with pytest.raises(Refused, match=match):
        model.for_survey(SURVEY)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"columns": "income"}, "`columns` must be a list"),
        ({"columns": []}, "`columns` must be a list"),
        ({"keep": ["sex", "region", "sex"]}, "`keep` is named twice"),
        ({"size": 0}, "at least 1"),
        ({"size": True}, "at least 1"),
        ({"size": 2.0}, "at least 1"),
        ({"size": "many"}, "at least 1"),
        ({"size": 3, "keep": ["sex"]}, "Kept columns fix the records"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(Refused, match=match):
        WholeFile(**arguments)


def test_a_size_is_a_number_of_records_or_noisy() -> None:
    sizes: list[Any] = [1, 1000, "noisy", None]
    assert [WholeFile(size=size).size for size in sizes] == sizes


def test_the_published_design_has_the_columns_that_are_there() -> None:
    assert WholeFile().published_design(DESIGN) == Design(
        weight="w", strata="region", lonely_psu="adjust"
    )
    assert WholeFile(["income", "w"]).published_design(DESIGN) == Design(weight="w")
    strata = Design(strata="region", lonely_psu="adjust")
    assert WholeFile(["income", "region"]).published_design(DESIGN) == strata


@pytest.mark.parametrize(("kind", "word"), [("date", "a date"), ("continuous", "a number")])
def test_text_in_the_place_of_numbers_is_refused_in_words(kind: Any, word: str) -> None:
    """A database would stop at the first such record, and quote it."""
    book = Codebook({"seen": Column("seen", "sensitive", kind, bounds=(0.0, 9.0))})
    survey = Survey(pl.DataFrame({"seen": ["1990-01-01", "3rd of May"]}), codebook=book)
    with pytest.raises(Refused, match=f"calls `seen` {word}, and the file holds text"):
        WholeFile().for_survey(survey).cells(survey)
    numbers = Survey(pl.DataFrame({"seen": ["1", "3.5", None]}), codebook=book)
    if kind == "continuous":
        assert WholeFile().for_survey(numbers).cells(numbers)[0].size > 1


def test_a_formal_claim_wants_declared_cells() -> None:
    drafted = Column("income", "sensitive", bounds=(0.0, 9.0), drafted=frozenset({"bounds"}))
    book = Codebook({"sex": COLUMNS[3], "income": drafted})
    survey = Survey(FRAME.select("sex", "income"), codebook=book)
    with pytest.raises(Refused, match=r"rests on `income\.bounds`"):
        WholeFile().for_survey(survey).check_declared(survey)
    WholeFile(["sex"]).for_survey(survey).check_declared(survey)
    with pytest.raises(Refused) as alone:
        WholeFile(["income"]).for_survey(survey).check_declared(survey)
    assert "facts in" not in str(alone.value)
    guessed = replace(COLUMNS[3], drafted=frozenset({"levels"}))
    survey = Survey(survey.frame(), codebook=Codebook({"sex": guessed, "income": drafted}))
    with pytest.raises(Refused, match=r"`sex\.levels` \(the first of 2 facts in 2 columns\)"):
        WholeFile().for_survey(survey).check_declared(survey)
