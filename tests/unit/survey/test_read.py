"""Survey files in. The files are written by others (polars, DuckDB, pyreadstat, ReadStat)."""

from __future__ import annotations

import datetime as dt
import random
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from sas_files import Tag, write_sas

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column
from understudy.survey.codebook_text import write_codebook
from understudy.survey.design import Design, Replicates
from understudy.survey.file_format import format_of
from understudy.survey.labelled import format as labelled_files
from understudy.survey.labelled.convert import convert
from understudy.survey.labelled.missing_tags import tag_code
from understudy.survey.read import distinct_names, read_survey

SECRET = "Confidentia"  # a record's value that no message may repeat


def csv_file(folder: Path, text: str | bytes, name: str = "survey.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---------------------------------------------------------------------------- CSV: what is read


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,x\n2,y\n", [(1, "x"), (2, "y")]),
        ("a,b\n1,x\n2,y", [(1, "x"), (2, "y")]),  # no final newline
        ("\ufeffa,b\n1,x\n", [(1, "x")]),  # byte order mark
        ("a;b\n1;x\n", [(1, "x")]),
        ("a\tb\n1\tx\n", [(1, "x")]),
        ("a|b\r\n1|x\r\n", [(1, "x")]),
        ("a;b\n1,5;x\n2,25;y\n", [(1.5, "x"), (2.25, "y")]),  # decimal comma
        ('a,b\n1,"x, y"\n', [(1, "x, y")]),
        ('a,b\n1,"say ""x"""\n', [(1, 'say "x"')]),
        ('a,b\n1,"x\ny"\n', [(1, "x\ny")]),
        ("a, b\n1, 2\n", [(1, 2)]),
        ("a,b\n#1,x\n#2,y\n", [("#1", "x"), ("#2", "y")]),  # not a comment
        ("a,b\n,x\n3,\n", [(None, "x"), (3, None)]),
        ('a,b\nNA,x\n3,"NA"\n', [(None, "x"), (3, "NA")]),  # as R writes missing and the text
        ('"a","b"\n"1","x"\n"","y"\n', [(1, "x"), (None, "y")]),  # everything quoted
        ("a,b\n001,00\n002,01\n", [("001", "00"), ("002", "01")]),  # ids keep their zeros
        ("a,b\n-01,0.5\n+02,0\n", [("-01", 0.5), ("+02", 0.0)]),
        (
            "a,b\n12345678901234567890,1\n12345678901234567891,2\n",  # beyond 64 bits
            [("12345678901234567890", 1), ("12345678901234567891", 2)],
        ),
        ("a,b\n9007199254740993,1e3\n", [(9007199254740993, 1000.0)]),
        ("a,b\nF,Yes\nF,No\n", [("F", "Yes"), ("F", "No")]),  # not false, not true
        ("a,b\nTRUE,true\nFALSE,\n", [(True, True), (False, None)]),
        ("a,b\nT,1_000\nF,2\n", [("T", "1_000"), ("F", "2")]),
        ("a,b\n1,inf\n2,3\n", [(1, "inf"), (2, "3")]),
        (
            "a,b\n2020-02-29,2020-02-29 10:30:00\n1850-01-01,\n",
            [(dt.date(2020, 2, 29), dt.datetime(2020, 2, 29, 10, 30)), (dt.date(1850, 1, 1), None)],
        ),
        ("a,b\n2020-02-30,01/02/2020\n", [("2020-02-30", "01/02/2020")]),
        ("a\n1\n\n3\n", [(1,), (None,), (3,)]),
        ("größe,β\n1,é\n", [(1, "é")]),
    ],
)
def test_csv_values(tmp_path: Path, text: str, rows: list[tuple[Any, ...]]) -> None:
    frame = read_survey(csv_file(tmp_path, text)).frame()
    assert frame.rows() == rows
    for read, expected in zip(frame.rows()[0], rows[0], strict=True):
        assert type(read) is type(expected) or expected is None


def test_a_later_record_decides_the_type_of_the_whole_column(tmp_path: Path) -> None:
    many = "".join(f"{i},{i},{i}\n" for i in range(30_000))
    path = csv_file(tmp_path, f"a,b,c\n{many}1,2.5,{SECRET}\n")
    frame = read_survey(path).frame()
    assert frame.dtypes == [pl.Int64, pl.Float64, pl.String]
    assert frame["c"][29_999] == "29999"


@pytest.mark.parametrize(
    ("usual", "late", "type_"),
    [
        ("1", "007", pl.String),
        ("1", " -01", pl.String),
        ("1", "1_000", pl.String),
        ("1", "1e3", pl.Float64),
        ("1", "1.", pl.Float64),
        ("1", "99999999999999999999", pl.String),
        ("1", "+5", pl.Int64),
        ("1", "true", pl.String),
        ("1.5", "007.5", pl.String),
        ("1.5", "1_0", pl.String),
        ("1.5", "inf", pl.String),
        ("1.5", "1e999", pl.String),
        ("1.5", "NA", pl.Float64),
        ("true", "t", pl.String),
        ("true", "1", pl.String),
        ("true", "False", pl.Boolean),
        ("2020-01-01", "2020-1-2", pl.String),
        ("2020-01-01", "2020-01-01 10:00", pl.String),
        ("2020-01-01", "infinity", pl.String),
        ("2020-01-01 10:00", "2020-01-01", pl.String),
        ("2020-01-01 10:00", "2020-01-01 10:00:00+02", pl.String),
        ("2020-01-01 10:00", "2020-01-01T10:00:00.25", pl.Datetime("us")),
    ],
)
def test_the_first_records_do_not_decide_alone(
    tmp_path: Path, usual: str, late: str, type_: pl.DataType
) -> None:
    path = csv_file(tmp_path, "x,y\n" + f"{usual},1\n" * 600 + f"{late},1\n")
    column = read_survey(path).frame()["x"]
    assert column.dtype == type_
    if type_ == pl.String:
        assert column[-1] == late


def test_a_record_that_breaks_a_declared_number_is_named_by_its_place(tmp_path: Path) -> None:
    many = "".join(f"{i}.5\n" for i in range(3000))
    path = csv_file(tmp_path, f"income\n{many}{SECRET}\n7.5\n")
    codebook = Codebook({"income": Column("income", type="continuous")})
    with pytest.raises(Refused, match=r"`income` .* record 3,001 does not") as refused:
        read_survey(path, codebook=codebook)
    assert SECRET not in str(refused.value)
    with pytest.raises(Refused, match="not numeric"):
        read_survey(path, Design(weight="income"))


def test_declared_text_codes_of_numbers_are_missing(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "x,y\n1,5\n.,6\nrefused,-9\n")
    codebook = Codebook(
        {
            "x": Column("x", type="integer", missing=(".", "refused"), value_labels={".": "none"}),
            "y": Column("y", type="integer", missing=(-9,)),
        }
    )
    survey = read_survey(path, codebook=codebook)
    assert survey.frame().rows() == [(1, 5), (None, 6), (None, None)]
    assert survey.codebook["x"].missing == ()
    assert survey.codebook["y"].missing == (-9,)


def test_the_codebook_decides_between_texts_and_numbers(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "x,y,z\n1,1,1\n2,2,2\n")
    codebook = Codebook(
        {
            "x": Column("x", type="text"),
            "y": Column("y", type="categorical", levels=("1", "2")),
            "z": Column("z", type="continuous"),
        }
    )
    assert read_survey(path, codebook=codebook).frame().rows() == [("1", "1", 1.0), ("2", "2", 2.0)]


def test_the_codebook_beside_a_csv_is_found_and_a_given_one_wins(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "x\n1\n-9\n")
    beside = Codebook({"x": Column("x", type="integer", label="beside", missing=(-9,))})
    write_codebook(beside, tmp_path / "survey.codebook.toml")
    assert read_survey(path).codebook == beside
    assert read_survey(path).frame().rows() == [(1,), (None,)]
    other = Codebook({"x": Column("x", type="integer", label="given")})
    assert read_survey(path, codebook=other).codebook["x"].label == "given"
    assert read_survey(path, codebook=other).frame().rows() == [(1,), (-9,)]
    write_codebook(other, tmp_path / "other.toml")
    assert read_survey(path, codebook=tmp_path / "other.toml").codebook == other


# ------------------------------------------------------------------------- CSV: what is refused


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf  \n", "is empty"),
        (b"a,b\n", "has no records"),
        (f"a,b\n1,{SECRET}\n1,{SECRET},3\n".encode(), "line 3 has a different number of fields"),
        (f"a,b\n1,{SECRET}\n{SECRET}\n".encode(), "line 3 has a different number of fields"),
        (f'a,b\n1,"{SECRET}\n2,y\n'.encode(), "quote that is not closed"),
        (f"a,b\n1,caf\xe9 {SECRET}\n".encode("latin-1"), "iconv -f LATIN1 -t UTF-8"),
        ("größe,b\n1,2\n".encode("latin-1"), "iconv -f LATIN1 -t UTF-8"),
        ("a,b\n1,x\n".encode("utf-16"), "not UTF-8"),
        (b"a,b\n1,\x00\n", "not a text file"),
        (b"a,b,a\n1,2,3\n", "Columns 1 and 3"),
        (b"1,5,7\n2,3,4\n", "must hold the column names"),
        (b"\n\na,b\n1,2\n", "must hold the column names"),
        (f"a,b\r\n1,{SECRET}\n3,4\r\n".encode(), "line endings"),
        (b"PK\x03\x04" + bytes(range(256)), "not a text file"),
    ],
)
def test_csv_refusals_are_one_sentence_without_values(
    tmp_path: Path, content: bytes, says: str
) -> None:
    with pytest.raises(Refused) as refused:
        read_survey(csv_file(tmp_path, content))
    message = str(refused.value)
    assert says in message
    assert SECRET not in message
    assert "\n" not in message
    assert refused.value.__cause__ is None


def test_a_cut_csv_is_refused_or_read_to_its_end(tmp_path: Path) -> None:
    whole = "".join(f"{i},{SECRET}{i},{i / 7}\n" for i in range(200))
    for cut in (3, 50, 1111, len(whole) - 2):
        path = csv_file(tmp_path, "id,name,value\n" + whole[:cut])
        try:
            assert read_survey(path).n <= 200
        except Refused as refused:
            assert SECRET not in str(refused)


# ------------------------------------------------------------------------------ any kind of file


def test_what_is_no_survey_file(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"There is no file .*nowhere\.csv"):
        read_survey(tmp_path / "nowhere.csv")
    with pytest.raises(Refused, match="is a folder"):
        read_survey(tmp_path)
    with pytest.raises(Refused, match="is a folder"):
        read_survey(tmp_path, format="csv")
    with pytest.raises(Refused, match=r"Unknown file type `\.xlsx`"):
        read_survey(csv_file(tmp_path, "x", "survey.xlsx"))
    with pytest.raises(Refused, match=r"did you mean `\.parquet`"):
        read_survey(csv_file(tmp_path, "x", "survey.parqet"))
    with pytest.raises(Refused, match="Unknown file type `survey`"):
        read_survey(csv_file(tmp_path, "x", "survey"))
    with pytest.raises(Refused, match="no codebook at"):
        read_survey(csv_file(tmp_path, "a\n1\n"), codebook=tmp_path / "nowhere.toml")


@pytest.mark.parametrize("suffix", ["parquet", "dta", "sav", "zsav", "sas7bdat", "xpt"])
def test_an_empty_or_foreign_file_is_refused(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(Refused, match="is empty"):
        read_survey(csv_file(tmp_path, b"", f"survey.{suffix}"))
    with pytest.raises(Refused, match=r"cannot be read|not a SAS transport file"):
        read_survey(csv_file(tmp_path, f"id,name\n1,{SECRET}\n", f"survey.{suffix}"))


def example_frame(rows: int = 300) -> pd.DataFrame:
    chance = random.Random(1)
    return pd.DataFrame(
        {
            "code": [chance.randrange(5) for _ in range(rows)],
            "value": [chance.gauss(0, 1) for _ in range(rows)],
            "name": [chance.choice(["aa", "bbb", SECRET]) for _ in range(rows)],
        }
    )


def write_any(path: Path) -> None:
    frame = example_frame()
    match path.suffix:
        case ".dta":
            pyreadstat.write_dta(frame, str(path))
        case ".sav":
            pyreadstat.write_sav(frame, str(path), row_compress=True)
        case ".zsav":
            pyreadstat.write_sav(frame, str(path), compress=True)
        case ".parquet":
            pl.from_pandas(frame).write_parquet(path)
        case _:
            write_sas(path, {name: list(frame[name]) for name in frame})


@pytest.mark.parametrize("suffix", ["dta", "sav", "zsav", "sas7bdat", "xpt"])
def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"survey.{suffix}"
    write_any(path)
    whole = path.read_bytes()
    assert convert(format_of(path), path, tmp_path / "out.parquet")["rows"] == 300
    step = len(whole) // 23
    # Stata's last bytes are closing tags; an SPSS or transport file may end in padding.
    for cut in range(step, len(whole) - 200, step):
        path.write_bytes(whole[:cut])
        with pytest.raises(Refused) as refused:
            convert(format_of(path), path, tmp_path / "out.parquet")
        assert SECRET not in str(refused.value)
    with pytest.raises(Refused, match=f"survey.{suffix}"):
        read_survey(path)


def test_a_cut_or_damaged_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "survey.parquet"
    write_any(path)
    whole = path.read_bytes()
    for cut in range(0, len(whole), max(1, len(whole) // 17)):
        path.write_bytes(whole[:cut])
        with pytest.raises(Refused, match=r"`survey\.parquet`"):
            read_survey(path)
    chance = random.Random(2)
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(20):
            damaged[chance.randrange(4, len(whole) - 8)] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            assert len(read_survey(path).columns) > 0
        except Refused as refused:
            assert SECRET not in str(refused)


def test_a_parser_that_crashes_does_not_take_us_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "survey.sav"
    write_any(path)
    crash = tmp_path / "crash"
    crash.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crash.chmod(0o755)
    monkeypatch.setattr(labelled_files.sys, "executable", str(crash))
    with pytest.raises(Refused, match="damaged, or too large"):
        read_survey(path)
    crash.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(Refused, match="does not start"):
        read_survey(path)


# -------------------------------------------------------------------------------------- Parquet


def test_parquet_stays_on_disk(tmp_path: Path) -> None:
    """Reading and counting 3 million rows adds less memory than one of their columns needs
    twice over; as a frame they would be 120 MB."""
    path = tmp_path / "large.parquet"
    duckdb.sql(
        "COPY (SELECT i AS id, random() AS x, random() AS y, random() AS z, 1 + random() AS w "
        f"FROM range(3000000) r(i)) TO '{path}' (FORMAT parquet)"
    )
    code = (
        "import resource, sys\n"
        "from understudy.survey.read import read_survey\n"
        "from understudy.survey.design import Design\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "survey = read_survey(sys.argv[1], Design(weight='w'))\n"
        "assert survey.n == 3000000\n"
        "print((peak() - before) // 1024)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 60


def test_a_missing_code_is_no_weight(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "w,x\n1.5,1\n999,2\n")
    codebook = Codebook({"w": Column("w", role="weight", missing=(999,))})
    with pytest.raises(Refused, match="weight `w` is missing"):
        read_survey(path, Design(weight="w"), codebook)


def test_names_that_a_query_engine_would_expand(tmp_path: Path) -> None:
    folder = tmp_path / "year=2020"
    folder.mkdir()
    for name in ("a[1]*?.parquet", "it's.parquet", "x.parquet"):
        pl.DataFrame({"a": [1]}).write_parquet(folder / name)
        assert read_survey(folder / name).frame().to_dict(as_series=False) == {"a": [1]}
        csv_name = name.replace("parquet", "csv")
        pl.DataFrame({"a": [1]}).write_csv(folder / csv_name)
        assert read_survey(folder / csv_name).frame().columns == ["a"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_that_differ_only_in_case(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"survey.{suffix}"
    frame = pl.DataFrame({"nh": [5, 5], "Nh": [15, 16], "w": [1.0, 2.0]})
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    assert read_survey(path).frame().columns == ["nh", "Nh_1", "w"]
    survey = read_survey(path, Design(weight="w", fpc="Nh"))
    assert survey.frame().to_dict(as_series=False) == {
        "nh_1": [5, 5],
        "Nh": [15, 16],
        "w": [1.0, 2.0],
    }
    with pytest.raises(Refused, match="differ only in upper and lower"):
        read_survey(path, Design(weight="nh", fpc="Nh"))


def test_distinct_names_never_collide() -> None:
    names = ["a", "A", "a_1", "A_1", "b"]
    new = distinct_names(names, {"A"})
    assert len({name.lower() for name in new}) == 5
    assert new[1] == "A"
    assert new[4] == "b"
    assert distinct_names(["x", "y"], ()) == ["x", "y"]


def test_a_codebook_inside_parquet_is_read_and_a_broken_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "survey.parquet"
    table = pa.table({"x": [1, 2, -9]})
    toml = '[columns.x]\nrole = "public"\ntype = "integer"\nlabel = "Ä"\nmissing = [-9]\n'
    pq.write_table(table.replace_schema_metadata({"understudy.codebook": toml}), path)
    survey = read_survey(path)
    assert survey.codebook["x"].label == "Ä"
    assert survey.frame()["x"].to_list() == [1, 2, None]
    pq.write_table(table.replace_schema_metadata({"understudy.codebook": "[columns"}), path)
    with pytest.raises(Refused, match=r"codebook inside `survey\.parquet`"):
        read_survey(path)


def test_the_file_must_have_the_columns_of_design_and_codebook(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "weight,x\n1,2\n")
    with pytest.raises(Refused, match="did you mean `weight`"):
        read_survey(path, Design(weight="wieght"))
    with pytest.raises(Refused, match="`income`"):
        read_survey(path, codebook=Codebook({"income": Column("income")}))


# --------------------------------------------------------------------------- Stata, SPSS and SAS


def test_stata_labels_tags_and_dates(tmp_path: Path) -> None:
    path = tmp_path / "survey.dta"
    frame = pd.DataFrame(
        {
            "sex": pd.Series([1, 2, "a", None], dtype=object),
            "pay": pd.Series([1.5, "b", "z", 2.0], dtype=object),
            "born": [dt.date(1950, 2, 28), None, dt.date(2020, 1, 1), dt.date(1900, 1, 1)],
            "seen": [dt.datetime(2020, 1, 1, 3, 4, 5), None, None, dt.datetime(1959, 12, 31)],
            "name": ["Ångström", "", "b", "c"],
        }
    )
    pyreadstat.write_dta(
        frame,
        str(path),
        file_label="Überblick",
        column_labels={"sex": "Geschlecht ♀"},
        variable_value_labels={"sex": {1: "männlich", 2: "weiblich", "a": "verweigert"}},
        missing_user_values={"sex": ["a"], "pay": ["b", "z"]},
    )
    survey = read_survey(path)
    assert survey.raw.to_polars().rows() == [
        (1, 1.5, dt.date(1950, 2, 28), dt.datetime(2020, 1, 1, 3, 4, 5), "Ångström"),
        (2, tag_code("b"), None, None, None),
        (tag_code("a"), tag_code("z"), dt.date(2020, 1, 1), None, "b"),
        (None, 2.0, dt.date(1900, 1, 1), dt.datetime(1959, 12, 31), "c"),
    ]
    assert survey.frame()["sex"].to_list() == [1, 2, None, None]
    assert survey.frame()["pay"].to_list() == [1.5, None, None, 2.0]
    codebook = survey.codebook
    assert codebook.title == "Überblick"
    assert codebook["sex"].label == "Geschlecht ♀"
    assert codebook["sex"].value_labels == {
        1: "männlich",
        2: "weiblich",
        tag_code("a"): "verweigert",
    }
    assert codebook["sex"].levels == (1, 2)
    assert codebook["sex"].declared("levels")
    assert codebook["sex"].missing == (tag_code("a"),)
    assert codebook["pay"].missing == (tag_code("b"), tag_code("z"))
    assert codebook["pay"].bounds == (1.5, 2.0)
    # Stata itself stores .a of a long as this number.
    assert tag_code("a") == 2147483622
    assert tag_code("Z") == 2147483647


def test_spss_labels_and_missing_ranges(tmp_path: Path) -> None:
    path = tmp_path / "survey.sav"
    frame = pd.DataFrame(
        {
            "sex": [1.0, 2.0, 9.0, None],
            "age": [30.0, 98.0, 99.0, -1.0],
            "debt": [0.5, -3.0, -7.5, 4.0],
            "state": ["NY", "XX", "CA", ""],
            "born": [dt.date(1950, 2, 28), None, dt.date(2020, 1, 1), dt.date(1582, 10, 15)],
        }
    )
    pyreadstat.write_sav(
        frame,
        str(path),
        file_label="Überblick",
        column_labels={"sex": "Geschlecht ♀"},
        variable_value_labels={"sex": {1.0: "männlich", 2.0: "weiblich"}, "state": {"NY": "York"}},
        missing_ranges={
            "sex": [9],
            "age": [{"lo": 97, "hi": 99}, -1],
            "debt": [{"lo": float("-inf"), "hi": -0.001}],
            "state": ["XX"],
        },
    )
    survey = read_survey(path)
    assert survey.frame().rows() == [
        (1, 30, 0.5, "NY", dt.date(1950, 2, 28)),
        (2, None, None, None, None),
        (None, None, None, "CA", dt.date(2020, 1, 1)),
        (None, None, 4.0, None, dt.date(1582, 10, 15)),
    ]
    assert survey.frame().dtypes[:3] == [pl.Int64, pl.Int64, pl.Float64]
    assert survey.raw.to_polars()["age"].to_list() == [30, 98, 99, -1]
    assert survey.codebook["age"].missing == (97, 98, 99, -1)
    assert survey.codebook["debt"].missing == (-7.5, -3)
    assert survey.codebook["state"].missing == ("XX",)
    assert survey.codebook["state"].value_labels == {"NY": "York"}
    assert survey.codebook["sex"].value_labels == {1: "männlich", 2: "weiblich"}
    assert survey.codebook["sex"].drafted == {"role", "type", "blanks"}


@pytest.mark.parametrize("suffix", ["sas7bdat", "xpt"])
def test_sas_special_missing_labels_and_dates(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"survey.{suffix}"
    write_sas(
        path,
        {
            "x": [1.0, 2.0, Tag("A"), None, Tag("Z"), Tag("_")],
            "y": [0.5, 1.5, 2.5, None, Tag("B"), 4.0],
            "s": ["aa", "b", "c", "", "e", "A"],
            "d": [21915.0, None, 0.0, -1.0, Tag("C"), 3.0],
        },
        labels={"x": "Answer"},
        formats={"d": "DATE9"},
    )
    survey = read_survey(path)
    raw = survey.raw.to_polars()
    assert raw["x"].to_list() == [1, 2, tag_code("A"), None, tag_code("Z"), tag_code("_")]
    assert raw["y"].to_list() == [0.5, 1.5, 2.5, None, tag_code("B"), 4.0]
    assert raw["s"].to_list() == ["aa", "b", "c", None, "e", "A"]
    assert raw["d"].to_list() == [
        dt.date(2020, 1, 1),
        None,
        dt.date(1960, 1, 1),
        dt.date(1959, 12, 31),
        None,
        dt.date(1960, 1, 4),
    ]
    assert survey.frame()["x"].to_list() == [1, 2, None, None, None, None]
    assert survey.codebook["x"].missing == tuple(map(tag_code, "_AZ"))
    assert survey.codebook["x"].label == "Answer"


def test_dates_agree_with_pyreadstat_own_conversion(tmp_path: Path) -> None:
    days = [dt.date(1900, 1, 1), dt.date(1959, 12, 31), dt.date(1972, 2, 29), dt.date(2099, 12, 31)]
    moments = [dt.datetime(d.year, d.month, d.day, 23, 59, 59) for d in days]
    frame = pd.DataFrame({"d": days, "m": moments})
    for suffix, write, read in (
        ("dta", pyreadstat.write_dta, pyreadstat.read_dta),
        ("sav", pyreadstat.write_sav, pyreadstat.read_sav),
        ("xpt", pyreadstat.write_xport, pyreadstat.read_xport),
    ):
        path = tmp_path / f"survey.{suffix}"
        write(frame, str(path))
        convert(format_of(path), path, tmp_path / "out.parquet")
        ours = pl.read_parquet(tmp_path / "out.parquet")
        theirs, _ = read(str(path))
        assert ours["c0"].to_list() == days == list(theirs["d"])
        assert ours["c1"].to_list() == moments == [m.to_pydatetime() for m in theirs["m"]]


def test_chunks_join_to_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "survey.dta"
    write_any(path)
    convert(format_of(path), path, tmp_path / "whole.parquet")
    monkeypatch.setattr("understudy.survey.labelled.convert.CELLS", 3 * 7)
    facts = convert(format_of(path), path, tmp_path / "parts.parquet")
    assert facts["rows"] == 300
    assert pl.read_parquet(tmp_path / "parts.parquet").equals(
        pl.read_parquet(tmp_path / "whole.parquet")
    )


def test_numbers_where_the_tags_live_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "survey.dta"
    frame = pd.DataFrame({"x": pd.Series([2147483622.0, "a"], dtype=object)})
    pyreadstat.write_dta(frame, str(path), missing_user_values={"x": ["a"]})
    with pytest.raises(Refused, match="stand for the tags"):
        convert(format_of(path), path, tmp_path / "out.parquet")


def test_a_given_codebook_wins_over_the_file_fact_by_fact(tmp_path: Path) -> None:
    path = tmp_path / "survey.dta"
    frame = pd.DataFrame(
        {"x": pd.Series([1, 2, "a"], dtype=object), "y": [1, 2, 3], "z": [1.5, 2.5, 3.5]}
    )
    pyreadstat.write_dta(
        frame,
        str(path),
        column_labels={"x": "file x", "y": "file y"},
        variable_value_labels={"x": {1: "file one"}, "y": {1: "a", 2: "b", 3: "c"}},
        missing_user_values={"x": ["a"]},
    )
    declared = Codebook(
        {"x": Column("x", role="public", type="integer", label="given", missing=(2,))}
    )
    codebook = read_survey(path, codebook=declared).codebook
    assert codebook["x"].label == "given"
    assert codebook["x"].value_labels == {1: "file one"}
    assert codebook["x"].missing == (2, tag_code("a"))  # a tag is never a value
    assert codebook["x"].declared("role")
    assert codebook["y"].label == "file y"
    assert codebook["y"].levels == (1, 2, 3)
    assert codebook["y"].drafted == {"role", "type", "blanks"}
    assert list(codebook.columns) == ["x", "y", "z"]


def test_the_scratch_folder_is_private_and_goes_with_the_process(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "a\n1\n")
    code = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[2]\n"
        "from understudy.survey.read import read_survey\n"
        "from understudy.survey.engine import scratch\n"
        "read_survey(sys.argv[1]); folder = scratch()\n"
        "print(oct(folder.stat().st_mode), len(list(folder.glob('*.parquet'))), folder)\n"
        "if sys.argv[3] == 'killed':\n"
        "    import os; sys.stdout.flush(); os.kill(os.getpid(), 9)"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()

    def run(end: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", code, str(path), str(temporary), end],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.split()

    left_behind = Path(run("killed")[2])
    assert list(temporary.iterdir()) == [left_behind]
    mode, files, folder = run("ends")
    assert stat.S_IMODE(int(mode, 8)) == 0o700
    assert files == "1"
    assert folder != str(left_behind)
    assert list(temporary.iterdir()) == []  # neither its own nor the other


# ------------------------------------------------------------------------------------ real files


def test_real_files(shared_data: Path) -> None:
    survey = read_survey(
        shared_data / "apistrat.csv", Design(weight="pw", strata="stype", fpc="fpc")
    )
    assert survey.n == 200
    frame = survey.frame(["cds", "stype", "pw", "sch.wide", "api00"])
    assert frame["cds"].str.len_chars().unique().to_list() == [14]  # ids with leading zeros
    # The oracle of the data's index: mean api00 662.29.
    assert (frame["api00"] * frame["pw"]).sum() / frame["pw"].sum() == pytest.approx(
        662.2874, abs=1e-4
    )
    nested = read_survey(
        shared_data / "survey_fpc.csv",
        Design(weight="weight", strata="stratid", psu="psuid", fpc="Nh", nest=True),
    )
    assert nested.columns == ("stratid", "psuid", "weight", "nh_1", "Nh", "x")
    hawaii = read_survey(
        shared_data / "acs2018_person_hi.parquet",
        Design(weight="PWGTP", replicates=Replicates(prefix="PWGTP", kind="sdr")),
    )
    assert hawaii.n == 14400
    young = hawaii.raw.filter(hawaii.raw["AGEP"] <= 4)
    assert young["PWGTP"].sum().execute() == 86452  # the Census Bureau's total
