"""Regular text in bulk against DuckDB, which decides: the same values, types and refusals."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.errors import Refused
from understudy.survey import regular_text
from understudy.survey.read import read_survey
from understudy.survey.regular_text import RegularText

WHOLE = ["0", "1", "-3", "12", "9223372036854775807", "-9223372036854775808", "-0"]
DECIMAL = ["0.5", "-0.25", "1.", ".5", "-.5", "3e4", "1e-05", "2E3", "123456789.125", "0e1"]
STRANGE = [
    "", "NA", "NaN", "nan", "inf", "-inf", "1e400", "007", "-01", "+5", " 5", "5 ", " ", "0x1F",
    "0b1", "1_000", "9223372036854775808", "1,5", "true", "FALSE", "T", "2020-01-05", "2020-13-01",
    "2020-01-05 10:00", "-", ".", "e5", "a b", "ü", "x'y", "#c", "\\", "1e", "--1", "0 1", "٣",
]  # fmt: skip
QUOTED = ['""', '"NA"', '"1"', '"007"', '"a,b"', '"say ""no"""', '"two\nlines"', '"0.5"', '""""']
BROKEN = ['a"b', '"a"b', '"open', "1,2", "\0", "\r"]  # a parser may take or refuse these


@st.composite
def csv_files(draw: st.DrawFn) -> bytes:
    delimiter = draw(st.sampled_from(",,,;\t|"))
    width = draw(st.integers(1, 4))
    kinds = [WHOLE, DECIMAL, WHOLE + DECIMAL, WHOLE + DECIMAL + STRANGE, STRANGE + QUOTED]
    if draw(st.integers(0, 3)) == 0:
        kinds += [STRANGE + QUOTED + BROKEN]
    columns = [st.sampled_from(draw(st.sampled_from(kinds))) for _ in range(width)]
    records = draw(st.lists(st.tuples(*columns), min_size=1, max_size=8))
    lines = [delimiter.join("abcd"[:width]), *(delimiter.join(record) for record in records)]
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    text = end.join(lines) + draw(st.sampled_from([end, end, "", end + end, "\n"]))
    mark = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return mark + text.encode() + draw(st.sampled_from([b"", b"", b"", b"\xff"]))


def outcome(path: Path) -> object:
    try:
        table = read_survey(path).raw
    except Refused as refused:
        return str(refused)
    frame = table.to_polars()
    return frame.schema, [[repr(value) for value in row] for row in frame.iter_rows()]


def same_as_duckdb(path: Path, written: bytes) -> None:
    path.write_bytes(written)
    with pytest.MonkeyPatch.context() as patch:
        # few records decide what a column is tried as, so that later ones refute it
        patch.setattr("understudy.survey.text_records.FIRST_RECORDS", 2)
        in_bulk = outcome(path)
        patch.setattr(regular_text, "MOST_BYTES", 0)
        assert in_bulk == outcome(path)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=csv_files())
def test_as_duckdb_reads_it(tmp_path: Path, written: bytes) -> None:
    same_as_duckdb(tmp_path / "survey.csv", written)


@pytest.mark.slow
@settings(max_examples=3000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=csv_files())
def test_as_duckdb_reads_many(tmp_path: Path, written: bytes) -> None:
    same_as_duckdb(tmp_path / "survey.csv", written)


@pytest.mark.parametrize(
    ("text", "regular"),
    [
        ("a,b\n1,2\n", True),
        ("a,b\r\n1,2\r\n", True),
        ('a,b\n"1,5","say ""no"""\n', True),
        ("a,b\n1,2\r\n", False),
        ('a,b\n1,x"y\n', False),
        ('a,b\n1,"x"y\n', False),
        ('a,b\n1,"x\n', False),
        ("a,b\n1,\0\n", False),
    ],
)
def test_what_is_regular(tmp_path: Path, text: str, regular: bool) -> None:
    path = tmp_path / "survey.csv"
    path.write_bytes(text.encode())
    assert (RegularText.of(path, 2, ",") is not None) == regular


def test_plain_columns_are_numbers_at_once_and_others_texts(tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    path.write_text("a,b,c,d\n1,0.5,007,1\n-2,3e4,12,x\n")
    text = RegularText.of(path, 4, ",")
    assert text is not None
    asked = {0: pa.int64(), 1: pa.float64(), 2: pa.int64(), 3: pa.int64()}
    table = text.columns(asked, ("",))
    assert table is not None
    assert table.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.string()]
    assert table.column(2).to_pylist() == ["007", "12"]
