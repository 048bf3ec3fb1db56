"""Units: their codes, and at most so many of their records in a table of counts."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.tables.units import limited, records_per_unit, unit_codes, unit_of

BOOK = Codebook(
    {
        "home": Column("home", "unit", "integer"),
        "age": Column("age", "sensitive", "integer"),
        "sex": Column("sex", "sensitive", "categorical", levels=("f", "m")),
    },
    records_per_unit=2,
)
COUNTED = ["age", "sex"]


def survey_of(rows: list[tuple[int, int | None, str | None]], book: Codebook = BOOK) -> Survey:
    schema = {"home": pl.Int64, "age": pl.Int64, "sex": pl.String}
    return Survey(pl.DataFrame(rows, schema, orient="row"), codebook=book)


def counted(survey: Survey) -> list[tuple]:
    rows = limited(survey.table, unit_of(survey), COUNTED).to_polars().rows()
    return sorted(rows, key=repr)


def test_records_of_a_unit_beyond_the_limit_are_left_out():
    rows = [(1, age, "f") for age in range(9)] + [(2, 4, "m"), (3, 5, "m"), (3, 5, "m")]
    left = counted(survey_of(rows))
    assert len(left) == 5
    assert (4, "m") in left
    assert left.count((5, "m")) == 2
    assert sum(row in left for row in [(age, "f") for age in range(9)]) == 2


record = st.tuples(
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(0, 2)),
    st.one_of(st.none(), st.sampled_from("fm")),
)


@settings(max_examples=30)
@given(st.lists(record, min_size=1, max_size=12), st.lists(record, max_size=4), st.randoms())
def test_one_unit_changes_at_most_the_limit_of_records_and_order_changes_none(rows, new, random):
    others = [row for row in rows if row[0] != 1] or [(2, 1, "f")]
    first_unit = [row for row in rows if row[0] == 1]
    other = [(1, *row[1:]) for row in new]
    with_one, with_other = others + first_unit, others + other
    random.shuffle(with_one)
    alone = counted(survey_of(others))
    for file, unit in ((with_one, first_unit), (with_other, other)):
        left = counted(survey_of(file))
        for row in alone:  # what the other units count does not depend on this one
            left.remove(row)
        assert len(left) == min(len(unit), 2)
    assert counted(survey_of(with_one)) == counted(survey_of(others + first_unit))


OTHER_TYPES = {
    "a decimal among whole numbers": {"age": pl.Float64},
    "a text among ids": {"home": pl.String},
    "ids as decimals": {"home": pl.Float64},
    "decimals of a fixed width": {"age": pl.Decimal(10, 2)},
}


@pytest.mark.parametrize("types", OTHER_TYPES.values(), ids=list(OTHER_TYPES))
def test_how_a_column_is_stored_chooses_no_records(types):
    """The value of one record decides that for all others."""
    rows = [(home, (7 * home + k * k) % 90, "fm"[k % 2]) for home in range(40) for k in range(6)]
    plain = survey_of(rows)
    other = Survey(plain.raw.to_polars().cast(types), codebook=BOOK)
    numbers = [[(float(age), sex) for age, sex in counted(file)] for file in (plain, other)]
    assert sorted(numbers[0]) == sorted(numbers[1])


def test_a_time_of_day_chooses_no_records():
    days = [datetime.date(1990, 1, 1) + datetime.timedelta(37 * k) for k in range(120)]
    left = []
    for kind in (pl.Date, pl.Datetime):
        frame = pl.DataFrame({"home": [k // 6 for k in range(120)], "day": days})
        survey = Survey(frame.cast({"day": kind}), codebook=BOOK.only(["home"]))
        chosen = limited(survey.table, unit_of(survey), ["day"]).to_polars()
        left.append(sorted(chosen["day"].cast(pl.Date)))
    assert left[0] == left[1]


def test_the_choice_favours_no_value_of_any_column():
    homes = [(home, age, "f") for home in range(400) for age in (1, 2, 3)]
    kept = [age for age, _ in counted(survey_of(homes))]
    # each age is kept in 2/3 of 400 homes, sd 9.4: five of them
    assert all(abs(kept.count(age) - 266.7) < 47 for age in (1, 2, 3))


def test_codes_number_the_units():
    codes = unit_codes(survey_of([(7, 1, "f"), (2, 1, "m"), (7, 2, None)]))
    assert codes is not None
    assert codes.tolist() == [1, 0, 1]
    assert codes.dtype == np.int32


def test_without_a_unit_each_record_is_one():
    book = BOOK.only(["age", "sex"])
    plain = Codebook(book.columns)
    survey = Survey(pl.DataFrame({"age": [1], "sex": ["f"]}), codebook=plain)
    assert unit_of(survey) is None
    assert unit_codes(survey) is None
    assert records_per_unit(survey) == 1
    drafted = BOOK.with_column(
        Column("home", "unit", "integer", drafted=frozenset({"role", "type"}))
    )
    assert unit_of(survey_of([(1, 1, "f")], drafted)) is None


def test_what_a_unit_needs_is_refused_in_words():
    with pytest.raises(Refused, match="missing for some records"):
        unit_codes(Survey(pl.DataFrame({"home": [1, None], "age": [1, 2], "sex": ["f", "m"]}),
                          codebook=BOOK))  # fmt: skip
    narrowed = Survey(pl.DataFrame({"age": [1], "sex": ["f"]}), codebook=BOOK.only(COUNTED))
    with pytest.raises(Refused, match="do not have that column"):
        unit_of(narrowed)
    unlimited = Codebook(BOOK.columns)
    with pytest.raises(Refused, match="declare `records_per_unit`"):
        records_per_unit(survey_of([(1, 1, "f")], unlimited))
    assert records_per_unit(survey_of([(1, 1, "f")])) == 2
