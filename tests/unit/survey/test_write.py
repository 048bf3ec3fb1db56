"""Survey files out: nothing that a format can hold is lost, and nothing is half written."""

from __future__ import annotations

import datetime as dt
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pyreadstat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column, read_codebook
from understudy.survey.design import Design
from understudy.survey.labelled.missing_tags import tag_code
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey

pytestmark = pytest.mark.usefixtures("converted_here")

FORMATS = ("parquet", "csv", "dta", "sav")
DESIGN = Design(weight="w")


def full_survey() -> Survey:
    """Every kind of column, with nulls, non-ASCII labels and missing codes."""
    frame = pl.DataFrame(
        {
            "w": [1.5, 2.25, 3.0, 4.0],
            "sex": [1, 2, 2, None],
            "income": [100, -9, -8, None],
            "debt": [0.1, -7.5, None, 1e10],
            "name": ["Ångström, é", 'say "x"', None, "007"],
            "digits": ["1", "2", None, "4"],
            "ok": [True, False, None, True],
            "born": [dt.date(2020, 1, 1), None, dt.date(1950, 2, 28), dt.date(1900, 1, 1)],
            "seen": [dt.datetime(2020, 1, 1, 3, 4, 5), None, dt.datetime(1999, 12, 31), None],
            "large": [2**40, 1, 2, None],
            "empty": pl.Series([None] * 4, dtype=pl.Float64),
        }
    )
    codebook = Codebook(
        {
            "w": Column("w", role="weight", label="Gewicht"),
            "sex": Column(
                "sex",
                role="public",
                type="categorical",
                label="Geschlecht – ♀♂ 性別",
                levels=(1, 2),
                value_labels={1: "männlich", 2: "weiblich"},
            ),
            "income": Column(
                "income",
                role="sensitive",
                type="integer",
                label='Einkommen in "€"',
                missing=(-9, -8),
                value_labels={-9: "verweigert", -8: "weiß nicht"},
                bounds=(0.0, 1e6),
                drafted=frozenset({"bounds"}),
            ),
            "debt": Column("debt", type="continuous", missing=(-7.5,)),
        },
        title="Täst\u00a0Erhebung",
    )
    return Survey(frame, DESIGN, codebook)


def what_labels_say(survey: Survey) -> dict[str, Any]:
    """Labels and the labels of missing codes; the codes themselves may be spelled anew."""
    return {
        column.name: (
            column.label,
            {v: t for v, t in column.value_labels.items() if v not in column.missing},
            sorted(column.value_labels.get(code, f"{code:g}") for code in column.missing),
        )
        for column in survey.codebook
        if column.name in ("w", "sex", "income", "debt")
    }


@pytest.fixture(scope="module")
def read_back() -> dict[str, Survey]:
    folder = Path(tempfile.mkdtemp())
    surveys = {}
    for kind in FORMATS:
        write_survey(full_survey(), folder / f"survey.{kind}")
        surveys[kind] = read_survey(folder / f"survey.{kind}", DESIGN)
    return surveys


@pytest.mark.parametrize("kind", FORMATS)
def test_values_and_labels_survive(read_back: dict[str, Survey], kind: str) -> None:
    original, copy = full_survey(), read_back[kind]
    numbers = kind in ("dta", "sav")
    expected = original.frame()
    if numbers:  # neither knows true and false
        expected = expected.with_columns(pl.col("ok").cast(pl.Int64))
    if kind == "dta":  # Stata's whole numbers end at 2147483620
        expected = expected.with_columns(pl.col("large").cast(pl.Float64))
    if kind == "csv":
        expected = expected.with_columns(pl.col("empty").cast(pl.String))
    if kind == "sav":  # a number without values says nothing about its kind
        expected = expected.with_columns(pl.col("empty").cast(pl.Int64))
    assert_frame_equal(copy.frame(), expected, check_exact=True)
    assert what_labels_say(copy) == what_labels_say(original)
    assert copy.codebook.title == original.codebook.title
    if kind == "dta":
        codes = (tag_code("a"), tag_code("b"))
        assert copy.codebook["income"].missing == codes
        assert set(copy.raw.to_polars()["income"].to_list()) == {100, *codes, None}
    else:
        assert copy.codebook["income"].missing == (-9, -8)
        assert copy.raw.to_polars()["income"].to_list() == [100, -9, -8, None]
    if not numbers:
        for column in original.codebook:
            assert copy.codebook[column.name] == column
    else:
        assert copy.codebook["ok"].value_labels == {0: "false", 1: "true"}


@pytest.mark.parametrize("second", FORMATS)
@pytest.mark.parametrize("first", FORMATS)
def test_every_pair_of_formats(
    read_back: dict[str, Survey], tmp_path: Path, first: str, second: str
) -> None:
    path = tmp_path / f"again.{second}"
    write_survey(read_back[first], path)
    again = read_survey(path, DESIGN)
    assert_frame_equal(
        again.frame().with_columns(pl.col("ok").cast(pl.Int64), pl.col("empty").cast(pl.String)),
        read_back[first]
        .frame()
        .with_columns(pl.col("ok").cast(pl.Int64), pl.col("empty").cast(pl.String)),
        check_dtypes=False,
        check_exact=True,
    )
    assert what_labels_say(again) == what_labels_say(full_survey())


def test_others_read_what_we_wrote(tmp_path: Path) -> None:
    for kind in FORMATS:
        write_survey(full_survey(), tmp_path / f"survey.{kind}")
    assert pl.read_parquet(tmp_path / "survey.parquet")["income"].to_list() == [100, -9, -8, None]
    metadata = pq.read_schema(tmp_path / "survey.parquet").metadata
    assert "verweigert" in metadata[b"understudy.codebook"].decode()
    assert (
        pl.read_csv(tmp_path / "survey.csv")["name"].to_list()
        == full_survey().frame(["name"])["name"].to_list()
    )
    with pd.io.stata.StataReader(tmp_path / "survey.dta") as reader:
        stata = reader.read(convert_categoricals=False)
        assert reader.variable_labels()["sex"] == "Geschlecht – ♀♂ 性別"
        assert reader.data_label == "Täst\u00a0Erhebung"
        labels = reader.value_labels()
    assert stata["sex"].tolist()[:3] == [1, 2, 2]
    assert stata["born"][0] == pd.Timestamp(2020, 1, 1)
    assert any("verweigert" in texts.values() for texts in labels.values())
    frame, _ = pyreadstat.read_sav(str(tmp_path / "survey.sav"))
    assert frame["income"].isna().tolist() == [False, True, True, True]
    _, meta = pyreadstat.read_sav(str(tmp_path / "survey.sav"), user_missing=True)
    assert meta.missing_ranges["income"] == [{"lo": -9.0, "hi": -9.0}, {"lo": -8.0, "hi": -8.0}]


def test_the_codebook_of_a_csv_lies_beside_it(tmp_path: Path) -> None:
    write_survey(full_survey(), tmp_path / "survey.csv")
    beside = read_codebook(tmp_path / "survey.codebook.toml")
    assert beside["income"] == full_survey().codebook["income"]
    assert beside["digits"].levels == ("1", "2", "4")  # so that they are read as texts again
    write_survey(full_survey(), tmp_path / "survey.csv")  # its own codebook may be replaced
    (tmp_path / "other.codebook.toml").write_text("title = 'by hand'\n")
    with pytest.raises(Refused, match=r"codebook `other\.codebook\.toml` of another file"):
        write_survey(full_survey(), tmp_path / "other.csv")
    assert (tmp_path / "other.codebook.toml").read_text() == "title = 'by hand'\n"
    assert not (tmp_path / "other.csv").exists()


# ------------------------------------------------------------------------ whole or not at all


@pytest.mark.parametrize("kind", FORMATS)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"survey.{kind}"
    write_survey(full_survey(), path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_batch", full_disk)
    monkeypatch.setattr("pyarrow.csv.CSVWriter", full_disk)
    monkeypatch.setattr("pyreadstat.write_dta", full_disk)
    monkeypatch.setattr("pyreadstat.write_sav", full_disk)
    with pytest.raises(Refused, match=f"`survey.{kind}` cannot be written: No space left"):
        write_survey(full_survey(), path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_where_a_file_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="There is no folder"):
        write_survey(full_survey(), tmp_path / "nowhere" / "survey.parquet")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(Refused, match="is a folder"):
        write_survey(full_survey(), tmp_path / "folder.csv")
    with pytest.raises(Refused, match=r"Unknown file type to write `\.sas7bdat`"):
        write_survey(full_survey(), tmp_path / "survey.sas7bdat")


def test_a_survey_can_be_written_over_the_file_it_is_read_from(tmp_path: Path) -> None:
    path = tmp_path / "survey.parquet"
    write_survey(full_survey(), path)
    write_survey(read_survey(path, DESIGN), path)
    assert read_survey(path, DESIGN).frame().equals(full_survey().frame())


# ----------------------------------------------------------------- what a format cannot hold


def one_column(values: list[Any], **facts: Any) -> Survey:
    frame = pl.DataFrame({facts.pop("name", "x"): values}, strict=False)
    name = frame.columns[0]
    return Survey(frame, codebook=Codebook({name: Column(name, **facts)}))


@pytest.mark.parametrize(
    ("kind", "survey", "says"),
    [
        ("dta", one_column([1], name="a" * 33), "longer than the 32 characters"),
        ("sav", one_column([1], name="ä" * 33), "longer than the 64 bytes"),
        ("dta", one_column([1], name="sch.wide"), "`sch.wide` cannot be a column name in Stata"),
        ("dta", one_column([1], name="double"), "cannot be a column name in Stata"),
        ("sav", one_column([1], name="with"), "cannot be a column name in SPSS"),
        ("sav", one_column([1], name="2nd"), "cannot be a column name in SPSS"),
        ("sav", one_column([1], name="a."), "cannot be a column name in SPSS"),
        ("dta", one_column([1], label="ä" * 81), "longer than the 80 characters"),
        ("sav", one_column([1], label="ä" * 129), "longer than the 256 bytes"),
        ("sav", one_column([1], value_labels={1: "ä" * 61}), "longer than the 120 bytes"),
        (
            "dta",
            one_column(["a"], value_labels={"a": "A"}),
            "Stata has no missing codes or value labels",
        ),
        ("dta", one_column(["a"], missing=("a",)), "Stata has no missing codes or value labels"),
        ("dta", one_column([1.5], value_labels={1.5: "A"}), "not whole"),
        ("dta", one_column([1], missing=tuple(range(-27, 0))), "more than 26 missing codes"),
        (
            "sav",
            one_column([-9, 0, -5], missing=(-9, -7, -5, -3), levels=(0, -4, -8)),
            "between them",
        ),
        ("sav", one_column(["a"], missing=("a", "b", "c", "d")), "at most three"),
        ("sav", one_column(["a" * 9], missing=("a" * 9,)), "up to 8 bytes"),
        ("dta", one_column(["a" * 2046]), "longer than 2045 bytes"),
        ("sav", one_column(["a" * 32768]), "longer than 32767 bytes"),
        ("sav", one_column([2**53 + 1]), "more than 15 digits"),
        ("dta", one_column([2**53 + 1]), "more than 15 digits"),
        ("dta", one_column([float("inf")]), "infinite"),
        ("dta", one_column([dt.time(10, 30)]), "of a type that Stata does not have"),
        ("sav", one_column([[1, 2]]), "of a type that SPSS does not have"),
        ("csv", one_column([[1, 2]]), "cannot be written to CSV"),
        ("dta", one_column([1], missing=("x",)), "text codes"),
    ],
)
def test_refused_by_name(tmp_path: Path, kind: str, survey: Survey, says: str) -> None:
    with pytest.raises(Refused) as refused:
        write_survey(survey, tmp_path / f"survey.{kind}")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / f"survey.{kind}").exists()


def test_more_than_three_spss_codes_go_into_a_range(tmp_path: Path) -> None:
    path = tmp_path / "survey.sav"
    write_survey(one_column([5, 96, 97, 98, 99, -1], missing=(96, 97, 98, 99, -1)), path)
    _, meta = pyreadstat.read_sav(str(path), user_missing=True)
    assert meta.missing_ranges["x"] == [{"lo": 96.0, "hi": 99.0}, {"lo": -1.0, "hi": -1.0}]


def test_unlabelled_codes_keep_their_number_as_a_label_in_stata(tmp_path: Path) -> None:
    path = tmp_path / "survey.dta"
    write_survey(one_column([1, -9, tag_code("q")], missing=(-9, tag_code("q"))), path)
    frame, meta = pyreadstat.read_dta(str(path), user_missing=True)
    assert frame["x"].tolist() == [1, "a", "q"]
    assert meta.variable_value_labels["x"] == {"a": "-9"}


def test_decimals_and_unusual_floats(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": [Decimal("1.25"), None], "y": [float("nan"), 0.1]})
    for kind in ("dta", "sav"):
        write_survey(Survey(frame), tmp_path / f"survey.{kind}")
        copy = read_survey(tmp_path / f"survey.{kind}").frame()
        assert copy.rows() == [(1.25, None), (None, 0.1)]


def test_any_ibis_table_can_be_written(tmp_path: Path) -> None:
    other = ibis.duckdb.connect()
    table = other.create_table("t", pl.DataFrame({"x": [1, 2, 3]}))
    write_survey(Survey(table.filter(table["x"] > 1)), tmp_path / "survey.parquet")
    assert pl.read_parquet(tmp_path / "survey.parquet")["x"].to_list() == [2, 3]


# A text file with NUL in it is refused, so there is none here.
WRITABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(st.one_of(st.none(), WRITABLE), min_size=1, max_size=5),
    numbers=st.lists(
        st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
        min_size=5,
        max_size=5,
    ),
    whole=st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=5, max_size=5),
)
def test_csv_round_trip(
    texts: list[str | None], numbers: list[float | None], whole: list[int | None]
) -> None:
    n = len(texts)
    frame = pl.DataFrame(
        {"t": texts, "x": numbers[:n], "i": whole[:n], "k": range(n)},
        schema={"t": pl.String, "x": pl.Float64, "i": pl.Int64, "k": pl.Int64},
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "survey.csv"
        write_survey(Survey(frame), path)
        copy = read_survey(path).frame()
    assert copy["t"].to_list() == [text or None for text in texts]  # an empty text is missing
    assert copy["x"].cast(pl.Float64).to_list() == numbers[:n]
    assert copy["i"].cast(pl.Int64).to_list() == whole[:n]
