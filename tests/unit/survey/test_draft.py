"""Drafted codebooks: the safe side, every guess marked, nothing of the records beyond it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import ibis
import numpy as np
import polars as pl
import pytest

from understudy.survey.codebook import Codebook, Column, parse_codebook
from understudy.survey.codebook_text import codebook_to_toml
from understudy.survey.design import Design, Replicates
from understudy.survey.draft import BLOCK, draft_codebook
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey

N = 2000


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    chance = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "person_id": chance.permutation(N),
            "key": [f"k{i:05d}" for i in range(N)],
            "w": chance.uniform(1, 9, N),
            "h": chance.integers(1, 5, N),
            "p": chance.integers(1, 80, N),
            "big_n": np.full(N, 1000),
            "rep1": chance.uniform(1, 9, N),
            "rep2": chance.uniform(1, 9, N),
            "income": chance.lognormal(10, 1, N),
            "age": chance.integers(18, 99, N),
            "rank": chance.permutation(N) + 10,  # distinct, but not the name of an id
            "region": chance.choice(["north", "süd", "east"], N),
            "town": [f"town {i % 900}" for i in range(N)],
            "answer": [f"words {i // 2}" for i in range(N)],
            "ok": chance.integers(0, 2, N).astype(bool),
            "born": [dt.date(1950, 1, 1) + dt.timedelta(days=i) for i in range(N)],
            "children": pl.Series([None, *(i % 6 for i in range(N - 1))], dtype=pl.Int64),
            "constant": np.full(N, 2.5),
            "nothing": pl.Series([None] * N, dtype=pl.String),
            "strange": [float("nan"), float("inf"), -3.0, *chance.uniform(0, 1, N - 3)],
        }
    )


DESIGN = Design(
    weight="w",
    strata="h",
    psu="p",
    fpc="big_n",
    replicates=Replicates(prefix="rep", kind="bootstrap"),
)


@pytest.fixture(scope="module")
def drafted(frame: pl.DataFrame) -> Codebook:
    return draft_codebook(ibis.memtable(frame), DESIGN)


@pytest.mark.parametrize(
    ("name", "role", "type_", "drafted_facts"),
    [
        ("person_id", "unit", "integer", {"role", "type"}),
        ("key", "unit", "text", {"role", "type"}),
        ("w", "weight", "continuous", {"type", "bounds"}),
        ("h", "stratum", "categorical", {"type", "levels"}),
        ("p", "psu", "categorical", {"type", "levels"}),
        ("big_n", "fpc", "integer", {"type"}),
        ("rep1", "replicate", "continuous", {"type", "bounds"}),
        ("income", "sensitive", "continuous", {"role", "type", "bounds", "blanks", "grid"}),
        ("age", "sensitive", "integer", {"role", "type", "bounds", "blanks"}),
        ("rank", "sensitive", "integer", {"role", "type", "bounds", "blanks"}),
        ("region", "sensitive", "categorical", {"role", "type", "levels", "blanks"}),
        ("town", "sensitive", "categorical", {"role", "type", "levels", "blanks"}),
        ("answer", "sensitive", "categorical", {"role", "type", "levels", "blanks"}),
        ("ok", "sensitive", "categorical", {"role", "type", "levels", "blanks"}),
        ("born", "sensitive", "date", {"role", "type", "bounds", "blanks"}),
        ("children", "sensitive", "categorical", {"role", "type", "levels", "blanks"}),
        ("constant", "sensitive", "continuous", {"role", "type", "blanks"}),
        ("nothing", "sensitive", "text", {"role", "type", "blanks"}),
        ("strange", "sensitive", "continuous", {"role", "type", "bounds", "blanks"}),
    ],
)
def test_roles_types_and_marks(
    drafted: Codebook, name: str, role: str, type_: str, drafted_facts: set[str]
) -> None:
    column = drafted[name]
    assert (column.role, column.type) == (role, type_)
    assert column.drafted == drafted_facts
    assert not any(column.declared(fact) for fact in drafted_facts)


def test_levels_and_bounds_are_those_of_the_data(drafted: Codebook, frame: pl.DataFrame) -> None:
    assert drafted["region"].levels == ("east", "north", "süd")
    assert drafted["children"].levels == (0, 1, 2, 3, 4, 5)
    assert drafted["ok"].levels == (False, True)
    assert drafted["h"].levels == (1, 2, 3, 4)
    assert len(drafted["town"].levels or ()) == 900
    assert len(drafted["answer"].levels or ()) == 1000
    low, high = drafted["income"].bounds or (0, 0)
    assert (low, high) == (frame["income"].min(), frame["income"].max())
    assert (drafted["strange"].bounds or (0, 0))[0] == -3.0
    assert (drafted["strange"].bounds or (0, 0))[1] < 1
    for column in drafted:
        assert column.transform is None
        assert not column.missing


def test_ids_and_words_are_never_listed(drafted: Codebook) -> None:
    for name in ("person_id", "key"):
        assert drafted[name].levels is None
        assert drafted[name].bounds is None
    text = codebook_to_toml(drafted)
    assert "k00001" not in text
    words = pl.DataFrame({"answer": [f"my story {i}" for i in range(1200)] * 2})
    assert draft_codebook(ibis.memtable(words), Design())["answer"].levels is None
    rare = pl.DataFrame({"name": [f"Jane {i}" for i in range(150)] + ["Jane 0"] * 50})
    assert draft_codebook(ibis.memtable(rare), Design())["name"].type == "text"
    assert "Jane" not in codebook_to_toml(draft_codebook(ibis.memtable(rare), Design()))


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("id", True),
        ("ID", True),
        ("caseid", True),
        ("resp_id", True),
        ("personId", True),
        ("hh_no", True),
        ("SEQN", True),
        ("serialno", True),
        ("x", False),
        ("paid", False),
        ("video", False),
        ("number_of_children", False),
    ],
)
def test_names_of_ids(name: str, unit: bool) -> None:
    table = ibis.memtable(pl.DataFrame({name: range(100)}))
    assert (draft_codebook(table, Design())[name].role == "unit") == unit


def test_whole_numbers_that_all_differ_without_room_for_it_are_an_identifier() -> None:
    """5,000 of 90,000 numbers all differ with a chance of exp(-139) unless they are numbers of the
    records; of a thousand millions, nearly always."""
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "sampl": rng.permutation(90_000)[:5000],
            "wealth": rng.choice(10**9, 5000, replace=False),
            "pay": rng.integers(0, 90_000, 5000),
        }
    )
    codebook = draft_codebook(ibis.memtable(frame), Design())
    assert [codebook[name].role for name in frame.columns] == ["unit", "sensitive", "sensitive"]


def test_facts_that_came_with_the_file_are_kept_and_not_drafted() -> None:
    table = ibis.memtable(
        pl.DataFrame(
            {
                "sex": [1, 2, 9, 2],
                "opinion": [1, 2, 3, 7],
                "state": [float(i) for i in (36, 6, 48, 6)],
                "income": [10.5, -9.0, 99.5, -9.0],
            }
        )
    )
    labels = Codebook(
        {
            "sex": Column(
                "sex", label="Sex", value_labels={1: "m", 2: "f", 3: "x", 9: "?"}, missing=(9,)
            ),
            "opinion": Column("opinion", value_labels={1: "low", 7: "high"}),
            "state": Column("state", value_labels={6: "CA", 36: "NY", 48: "TX"}),
            "income": Column("income", label="Pay", missing=(-9,)),
        },
        title="A title",
    )
    codebook = draft_codebook(table, Design(), labels)
    assert codebook.title == "A title"
    assert codebook["sex"].levels == (1, 2, 3)  # declared by the labels, also what is not seen
    assert codebook["sex"].drafted == {"role", "type", "blanks"}
    assert codebook["sex"].missing == (9,)
    assert codebook["opinion"].levels == (1, 2, 3, 7)
    assert "levels" in codebook["opinion"].drafted
    assert codebook["state"].type == "categorical"
    assert codebook["state"].declared("levels")
    assert codebook["income"].bounds == (10.5, 99.5)
    assert codebook["income"].label == "Pay"
    assert Survey(table, codebook=codebook).frame()["sex"].to_list() == [1, 2, None, 2]


def test_a_draft_fits_its_own_survey_and_its_toml(drafted: Codebook, frame: pl.DataFrame) -> None:
    survey = Survey(frame, DESIGN, drafted)
    assert survey.n == N
    assert parse_codebook(codebook_to_toml(drafted)) == drafted
    assert Survey(frame, DESIGN).codebook == drafted


def test_large_whole_numbers_stay_inside_their_bounds() -> None:
    values = [2**53 + 1, -(2**53) - 1, *range(40)]
    bounds = draft_codebook(ibis.memtable(pl.DataFrame({"x": values})), Design())["x"].bounds
    assert bounds is not None
    assert bounds[0] <= -(2**53) - 1
    assert bounds[1] >= 2**53 + 1


def test_columns_of_several_queries() -> None:
    """Two whole blocks of columns and a part of a third; the real file below has five blocks."""
    chance = np.random.default_rng(3)
    wide = pl.DataFrame(
        {
            f"v{i}": chance.integers(0, 4, 50) if i % 2 else chance.normal(size=50)
            for i in range(2 * BLOCK + 10)
        }
    )
    codebook = draft_codebook(ibis.memtable(wide), Design())
    assert list(codebook.columns) == wide.columns
    for number in range(0, wide.width, 2):
        numbers, codes = f"v{number}", f"v{number + 1}"
        assert codebook[codes].type == "categorical"
        assert codebook[codes].levels == tuple(sorted(set(wide[codes])))
        assert codebook[numbers].bounds == (wide[numbers].min(), wide[numbers].max())


def test_unusual_columns() -> None:
    frame = pl.DataFrame({"list": [[1], [2]], "time": [dt.time(1), dt.time(2)], "none": [None] * 2})
    codebook = draft_codebook(ibis.memtable(frame), Design())
    assert {column.type for column in codebook} == {"text"}


def test_real_file(shared_data: Path) -> None:
    survey = read_survey(
        shared_data / "acs2018_person_hi.parquet",
        Design(weight="PWGTP", replicates=Replicates(prefix="PWGTP", kind="sdr")),
    )
    codebook = survey.codebook
    assert len(codebook.columns) == len(survey.columns) == 286
    assert codebook["PWGTP"].role == "weight"
    assert [c.role for c in codebook].count("replicate") == 80
    assert codebook["SEX"].levels == (1, 2)
    ages = pl.read_parquet(shared_data / "acs2018_person_hi.parquet", columns=["AGEP"])["AGEP"]
    assert codebook["AGEP"].bounds == (ages.min(), ages.max())


def test_numbers_are_drafted_by_their_shape() -> None:
    """Codes stored as decimals are categories, 9999998 is a missing code and not a maximum, piles
    at 0 and at the topcode are special values, heaps suggest a rounding."""
    chance = np.random.default_rng(3)
    amounts = np.minimum(np.round(chance.lognormal(10, 1.2, N), -2), 150_000)
    amounts[chance.random(N) < 0.3] = 0
    amounts[:40] = 9_999_998
    amounts[40:60] = 9_999_999
    heaped = np.where(np.arange(N) % 10 < 9, 1000, 100) * chance.integers(1, 300, N)
    hours = chance.integers(1, 61, N)
    hours[:100] = -8
    frame = pl.DataFrame(
        {
            "code": chance.integers(1, 5, N).astype(float),
            "wages": amounts,
            "heaped": heaped,
            "hours": hours,
            "losses": np.round(chance.normal(0, 500, N)),
            "share": chance.random(N),
            "tenths": np.round(chance.normal(0, 30, N), 1),
            "single": np.append(np.round(chance.uniform(50, 120, N - 1), 1), 120.7)
            .astype(np.float32)
            .astype(float),
            "huge": chance.random(N) * 1e21,
            "ninety": chance.integers(0, 100, N),
            "seen": [dt.datetime(2001, 5, 3, 12) + dt.timedelta(days=i) for i in range(N)],
        }
    )
    book = draft_codebook(ibis.memtable(frame), Design())
    assert book["code"].levels == (1, 2, 3, 4)
    wages = book["wages"]
    assert (wages.type, wages.missing) == ("integer", (9_999_998, 9_999_999))
    assert wages.bounds == (0, 150_000)
    assert wages.special == (0, 150_000)
    assert wages.rounding == 100
    assert book["heaped"].rounding == 100  # nine in ten on thousands: the tenth must not move
    assert {"missing", "special", "rounding"} <= wages.drafted
    assert book["hours"].missing == (-8,)
    assert book["hours"].bounds == (1, 60)
    assert book["losses"].missing == ()  # many negative numbers are a scale
    assert book["share"].rounding is None
    assert book["tenths"].rounding == 0.1
    # 120.7 is 120.69999695 in single precision; bounds hold all values
    assert (book["single"].rounding, book["single"].bounds[1]) == (0.1, 120.7)
    assert book["single"].bounds[0] * 10 == pytest.approx(round(book["single"].bounds[0] * 10))
    assert book["single"].bounds[0] <= frame["single"].min() < book["single"].bounds[0] + 0.2
    assert (book["tenths"].type, book["huge"].type) == ("continuous", "integer")
    assert book["ninety"].missing == ()  # 99 beside 98 is a number
    assert book["ninety"].special == ()
    assert book["seen"].bounds == (11323.0, 13513.0)  # 2001-01-01 to 2006-12-31
    assert {column.blanks for column in book} == {False}


def test_a_count_with_gaps_above_is_a_number_and_a_list_of_codes_is_not() -> None:
    """Cigarettes a day: 0 to 20, then 25, 30, 40. Months have no gap, codes have early ones."""
    cigarettes = [*range(21), 25, 30, 40] * 5
    months, kinship = [*range(1, 13)] * 10, [1, 2, 5, *range(10, 19)] * 10
    frame = pl.DataFrame({"smoked": cigarettes, "month": months, "kin": kinship})
    drafted = Survey(frame).codebook
    assert (drafted["smoked"].type, drafted["smoked"].bounds) == ("integer", (0.0, 40.0))
    assert [drafted[name].type for name in ("month", "kin")] == ["categorical"] * 2
