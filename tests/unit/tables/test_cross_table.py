"""The sparse cross-tabulation against polars' own counts, and the codebook's edit rules."""

from __future__ import annotations

import ibis
import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused, SyntaxRefused
from understudy.survey.codebook import Codebook, Column, read_codebook
from understudy.survey.codebook_text import write_codebook
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.tables import cross_table
from understudy.tables.cross_table import (
    categories_of,
    cross_tabulate,
    full_domain,
    possible_cells,
    without_impossible,
)


def codebook(**levels) -> Codebook:
    rules = levels.pop("impossible", ())
    missing = levels.pop("missing", {})
    columns = {
        name: Column(
            name, role="sensitive", type="categorical", levels=each, missing=missing.get(name, ())
        )
        for name, each in levels.items()
    }
    return Codebook(columns, impossible=rules)


@pytest.fixture
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "age": rng.integers(1, 5, 500).astype(np.int8),
            "sex": rng.choice(["f", "m"], 500),
            "own": rng.random(500) < 0.2,
            "code": rng.choice([1.0, 2.0, 9.0], 500),
        }
    )


@pytest.fixture
def book() -> Codebook:
    return codebook(age=(1, 2, 3, 4, 5), sex=("m", "f"), own=(False, True), code=(1, 2, 9))


def test_counts_are_those_of_a_plain_group_by(frame, book):
    survey = Survey(frame, codebook=book)
    table = cross_tabulate(survey, categories_of(survey, frame.columns))
    plain = frame.group_by(frame.columns).len().sort(frame.columns)
    assert table.cells == plain.height
    assert table.n == 500
    decoded = table.categories.frame(table.codes).with_columns(len=pl.Series(table.counts))
    assert decoded.sort(frame.columns).rows() == plain.rows()


def test_records_come_back_with_the_types_of_their_levels(frame, book):
    survey = Survey(frame, codebook=book)
    table = cross_tabulate(survey, categories_of(survey, ["sex", "age", "own", "code"]))
    back = table.records()
    declared = {"sex": pl.String, "age": pl.Int64, "own": pl.Boolean, "code": pl.Int64}
    assert back.schema == declared
    assert back.sort(pl.all()).equals(frame.select(back.columns).cast(declared).sort(pl.all()))


def test_memory_follows_the_occupied_cells():
    """Twenty columns of ten levels: 10^20 cells in the product, four records in the file."""
    names = [f"v{k}" for k in range(20)]
    frame = pl.DataFrame({name: [0, 3, 3, 9] for name in names})
    survey = Survey(frame, codebook=codebook(**dict.fromkeys(names, tuple(range(10)))))
    table = cross_tabulate(survey, categories_of(survey, names))
    assert table.categories.product == 10**20
    assert table.counts.tolist() == [1, 2, 1]


def test_cells_beyond_32_bits_are_told_apart():
    """Twelve small columns whose product is 10^12; levels start anywhere, some are texts."""
    rng = np.random.default_rng(2)
    columns = {f"v{k}": (rng.integers(0, 10, 300) + k).astype(np.int8) for k in range(11)}
    columns["t"] = rng.choice(list("abcdefghij"), 300)
    frame = pl.DataFrame(columns)
    levels = {f"v{k}": tuple(range(k, k + 10)) for k in range(11)} | {"t": tuple("jihgfedcba")}
    survey = Survey(frame, codebook=codebook(**levels))
    table = cross_tabulate(survey, categories_of(survey, frame.columns))
    assert table.records().sort(pl.all()).equals(frame.sort(pl.all()))
    places = table.categories.places(table.codes)
    assert (np.diff(places) > 0).all()


@pytest.mark.parametrize("start", [-3, 0, 1, 1990, 2_000_000_000])
def test_runs_of_numbers_may_start_anywhere(start):
    """Ten columns of 60 levels: 6e17 cells, close to what 64 bits hold; years do not overflow."""
    rng = np.random.default_rng(start + 9)
    drawn = rng.integers(start, start + 60, (300, 10))
    drawn[:3] = start + np.array([[0], [59], [59]])
    names = [f"c{j}" for j in range(10)]
    frame = pl.DataFrame(drawn, schema=names, orient="row")
    levels = tuple(range(start, start + 60))
    survey = Survey(frame, codebook=codebook(**dict.fromkeys(names, levels)))
    table = cross_tabulate(survey, categories_of(survey, names))
    cells, counts = np.unique(drawn - start, axis=0, return_counts=True)
    assert np.array_equal(table.codes, cells)
    assert np.array_equal(table.counts, counts)


def test_the_full_domain_has_every_possible_cell_once(frame, book):
    ruled = Codebook(
        book.columns, impossible=('age == 5 and sex == "f"', "code == 9 and own == True")
    )
    survey = Survey(frame.filter((pl.col("code") != 9) | ~pl.col("own")), codebook=ruled)
    table = cross_tabulate(survey, categories_of(survey, frame.columns))
    domain = full_domain(table, survey)
    # 5*2*2*3 cells less 6 (age 5, f) less 10 (code 9, own) plus 1 that both rules name
    assert domain.cells == 60 - 6 - 10 + 1
    assert len(np.unique(domain.codes, axis=0)) == domain.cells
    assert domain.n == table.n
    assert domain.records().sort(pl.all()).equals(table.records().sort(pl.all()))
    values = domain.categories.frame(domain.codes)
    assert values.filter((pl.col("age") == 5) & (pl.col("sex") == "f")).height == 0


def test_a_rule_about_other_columns_says_nothing(frame, book):
    survey = Survey(
        frame, codebook=Codebook(book.columns, impossible=("code == 9 and own == True",))
    )
    categories = categories_of(survey, ["age", "own"])
    codes = categories.all_codes()
    kept = possible_cells(categories, codes, survey.codebook.impossible, survey.codebook.columns)
    assert kept.all()


@pytest.mark.parametrize(
    ("rule", "error", "text"),
    [
        ("age == 5 and agee == 1", Refused, "did you mean `age`"),
        ("age ==", SyntaxRefused, "cannot be read"),
        ("age < 3", Refused, "impossible"),
    ],
)
def test_wrong_rules_and_records_that_break_them(frame, book, rule, error, text):
    survey = Survey(frame, codebook=Codebook(book.columns, impossible=(rule,)))
    table = cross_tabulate(survey, categories_of(survey, ["age", "sex"]))
    with pytest.raises(error, match=text):
        without_impossible(table, survey)


def test_missing_values_are_refused_or_a_level():
    frame = pl.DataFrame({"a": [1, 2, None, 9], "b": [1.0, None, 1.0, 1.0]})
    book = codebook(a=(1, 2), b=(1,), missing={"a": (9,)})
    survey = Survey(frame, codebook=book)
    with pytest.raises(Refused, match="column `a` has missing values".capitalize()):
        cross_tabulate(survey, categories_of(survey, ["a"]))
    table = cross_tabulate(survey, categories_of(survey, ["a", "b"], "level"))
    assert table.categories.levels == ((1, 2, 9, None), (1, None))
    assert table.n == 4
    assert set(table.records().rows()) == {(1, 1.0), (2, None), (None, 1.0), (9, 1.0)}


def test_columns_that_are_no_categories_are_refused(monkeypatch):
    monkeypatch.setattr(cross_table, "MANY_LEVELS", 5)
    frame = pl.DataFrame({"x": [0.5, 1.5], "t": ["a", "b"], "id": [1, 2]})
    book = Codebook(
        {
            "x": Column("x"),
            "t": Column("t", type="text", drafted=frozenset({"type"})),
            "id": Column("id", type="categorical", levels=tuple(range(6))),
        }
    )
    survey = Survey(frame, codebook=book)
    for name, text in (
        ("x", "numeric and has no levels; bin it"),
        ("t", "no levels in the codebook"),
        ("id", "`id` has 6 levels, and all columns together make 6 cells; group its levels"),
        ("y", "Unknown column `y`"),
    ):
        with pytest.raises(Refused, match=text):
            categories_of(survey, [name])
    with pytest.raises(Refused, match="way to treat missing"):
        categories_of(survey, ["t"], "guess")


def test_any_ibis_table_is_counted_where_it_is(frame, book, tmp_path):
    path = tmp_path / "records.parquet"
    frame.write_parquet(path)
    survey = Survey(ibis.duckdb.connect().read_parquet(path), codebook=book)
    table = cross_tabulate(survey, categories_of(survey, ["sex", "age"]))
    plain = frame.group_by("sex", "age").len().sort("sex", "age")
    assert sorted(table.counts.tolist()) == sorted(plain["len"].to_list())


def test_rules_are_written_and_read_with_the_codebook(tmp_path, book):
    ruled = Codebook(
        book.columns, impossible=("age == 5 and sex == 'f'", 'sex == "m" and own == True')
    )
    write_codebook(ruled, tmp_path / "codebook.toml")
    assert read_codebook(tmp_path / "codebook.toml") == ruled
    (tmp_path / "wrong.toml").write_text("impossible = [3]\n", encoding="utf-8")
    with pytest.raises(Refused, match="list of conditions"):
        read_codebook(tmp_path / "wrong.toml")


def test_rules_reach_a_survey_that_is_read_from_a_file(tmp_path, frame, book):
    frame.write_parquet(tmp_path / "records.parquet")
    ruled = Codebook(book.columns, impossible=("age == 5 and own == True",))
    write_codebook(ruled, tmp_path / "codebook.toml")
    survey = read_survey(tmp_path / "records.parquet", codebook=tmp_path / "codebook.toml")
    assert survey.codebook.impossible == ruled.impossible


def test_thousands_of_levels_are_checked_without_a_query_that_names_them():
    """Long lists of levels: the same refusals, missing codes and nulls as with short ones."""
    levels = tuple(f"L{number}" for number in range(20_000))
    book = codebook(a=levels, missing={"a": ("none",)})
    fine = pl.DataFrame({"a": ["L3", None, "none", *levels[::2]]})
    assert Survey(fine, codebook=book).n == 10_003
    with pytest.raises(Refused, match="values of `a` are not among"):
        Survey(pl.DataFrame({"a": ["L3", "M3"]}), codebook=book)
    with pytest.raises(Refused, match=r"has 20,001 levels, and all columns together make 20,001"):
        categories_of(Survey(fine, codebook=codebook(a=(*levels, "none"))), ["a"])
