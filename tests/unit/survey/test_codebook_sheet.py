"""Codebooks as spreadsheets, from archives' documents and from labels of other files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import understudy as us
from understudy.cli.main import app
from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column, read_codebook
from understudy.survey.codebook_import import described
from understudy.survey.codebook_sheet import ENDINGS, _cell, _fact, read_sheet, write_sheet
from understudy.survey.ddi import read_ddi
from understudy.survey.read import read_survey

BOOK = Codebook(
    {
        "sex": Column(
            "sex", "public", "categorical", "Sex; at birth", (1, 2), {1: "Male", 2: "Female = F"}
        ),
        "code": Column("code", "public", "categorical", levels=("1", "01", "a;b", 'q"', "true")),
        "pay": Column(
            "pay", "sensitive", "continuous", bounds=(0.0, 1e6), missing=(-9,),
            grid=(0.0, 5.5, 10.0), special=(0.0,),
            blanks=False, rounding=0.5, applies_when="age >= 15", skip=-8,
            drafted=frozenset({"bounds", "grid"}),
        ),
        "born": Column("born", "public", "date", bounds=(0.0, 400.0)),
        "=1+1": Column("=1+1", "sensitive", "text", derived=""),
    }
)  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_sheet_comes_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"book{ending}"
    write_sheet(BOOK, path)
    assert read_sheet(path) == BOOK


@given(
    st.lists(st.one_of(st.integers(), st.booleans(), st.floats(-1e9, 1e9), st.text()), min_size=1)
)
def test_any_values_in_one_cell(values: list[object]) -> None:
    assert _fact("levels", _cell(values)) == values


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("column,role\nx,public\n", "heading `name`"),
        ("name,role\nx,pubic\n", "did you mean `public`"),
        ("name,role\nx,public\nx,public\n", "book.csv:3"),
        ("name,value_labels\nx,1 Yes\n", "1 = Yes"),
        ("name,bounds\nx,5; 1\n", "low before high"),
        ("name,rolle\nx,public\n", "did you mean `role`"),
    ],
)
def test_mistakes_are_named_by_their_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "book.csv").write_text(text)
    with pytest.raises(Refused) as refused:
        read_sheet(tmp_path / "book.csv")
    assert says in str(refused.value)


def test_a_sheet_of_other_software(tmp_path: Path) -> None:
    """Semicolons between the cells, numbers and dates that the software has recognised."""
    (tmp_path / "book.csv").write_text('name;levels\nsex;"1; 2"\n')
    assert read_sheet(tmp_path / "book.csv")["sex"].levels == (1, 2)
    import openpyxl

    book = openpyxl.Workbook()
    for row in (["name", "type", "missing", "blanks"], ["x", "integer", 9.0, True]):
        book.active.append(row)
    book.save(tmp_path / "book.xlsx")
    column = read_sheet(tmp_path / "book.xlsx")["x"]
    assert (column.missing, column.blanks) == ((9,), True)
    (tmp_path / "book.xlsx").write_bytes(b"nothing")
    with pytest.raises(Refused, match="cannot be read as an Excel file"):
        read_sheet(tmp_path / "book.xlsx")


def test_out_edited_and_in_by_command(tmp_path: Path) -> None:
    pl.DataFrame({f"x{k}": [1, 2, 3] for k in range(80)}).write_csv(tmp_path / "wide.csv")
    run = CliRunner()
    sheet = tmp_path / "wide.xlsx"
    done = run.invoke(app, ["codebook", str(tmp_path / "wide.csv"), "--out", str(sheet)])
    assert done.exit_code == 0, done.output
    drafted = read_sheet(sheet)
    assert len(drafted.columns) == 80
    columns = {
        n: Column(n, "public", "integer", "A number", bounds=(0, 9)) for n in drafted.columns
    }
    write_sheet(Codebook(columns), sheet)
    done = run.invoke(app, ["codebook", str(tmp_path / "wide.csv"), "--from", str(sheet)])
    assert done.exit_code == 0, done.output
    assert read_codebook(tmp_path / "wide.codebook.toml") == Codebook(columns)


DDI = """<?xml version="1.0"?>
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var ID="SEX" name="SEX" intrvl="discrete" dcml="0"><location StartPos="1" EndPos="2" width="2"/>
 <labl>Sex</labl><catgry><catValu>01</catValu><labl>Male</labl></catgry>
 <catgry missing="Y"><catValu>09</catValu><labl>Not stated</labl></catgry>
 <varFormat type="numeric"/></var>
<var ID="V2" name="PAY" dcml="2"><location StartPos="3" EndPos="7"/><labl>Weekly
 pay</labl><invalrng><item VALUE="99999"/></invalrng><varFormat type="numeric"/></var>
<var ID="V3" name="AREA"><location StartPos="8" EndPos="9"/><varFormat type="character"/></var>
</dataDscr></codeBook>"""


def test_a_document_of_an_archive(tmp_path: Path) -> None:
    (tmp_path / "people.xml").write_text(DDI)
    book = read_ddi(tmp_path / "people.xml")
    assert book["SEX"].value_labels == {1: "Male", 9: "Not stated"}
    assert (book["SEX"].missing, book["PAY"].label) == ((9,), "Weekly pay")
    (tmp_path / "people.dat").write_text("0101050N1\n09  25001\n")
    survey = read_survey(tmp_path / "people.dat")
    frame = survey.raw.to_polars()
    assert frame["SEX"].to_list() == [1, 9]
    assert frame["PAY"].to_list() == [10.5, 2.5]
    assert frame["AREA"].to_list() == ["N1", "01"]
    assert survey.codebook["SEX"].value_labels == {1: "Male", 9: "Not stated"}
    assert survey.frame()["SEX"].to_list() == [1, None]  # as the document beside the file says
    whole = described(survey, Codebook(), tmp_path / "people.xml")
    assert whole["SEX"].value_labels == {1: "Male", 9: "Not stated"}
    assert "missing" not in whole["SEX"].drafted
    (tmp_path / "people.xml").write_text("<codeBook/>")
    with pytest.raises(Refused, match="no variables"):
        read_ddi(tmp_path / "people.xml")
    (tmp_path / "people.xml").write_text("<codeBook>")
    with pytest.raises(Refused, match="XML"):
        read_ddi(tmp_path / "people.xml")


@pytest.mark.usefixtures("converted_here")
@pytest.mark.parametrize("ending", [".dta", ".sav"])
def test_labels_of_another_file(tmp_path: Path, ending: str) -> None:
    book = Codebook(
        {"sex": Column("sex", "public", "categorical", "Sex", (1, 2), {1: "M", 2: "F"})}
    )
    us.write_survey(us.Survey(pl.DataFrame({"sex": [1, 2]}), None, book), tmp_path / f"old{ending}")
    (tmp_path / "new.csv").write_text("SEX,pay\n1,3\n2,4\n1,5\n")
    whole = described(read_survey(tmp_path / "new.csv"), Codebook(), tmp_path / f"old{ending}")
    assert (whole["SEX"].label, whole["SEX"].value_labels) == ("Sex", {1: "M", 2: "F"})
    (tmp_path / "other.csv").write_text("a\n1\n")
    with pytest.raises(Refused, match="no column of the file"):
        described(read_survey(tmp_path / "other.csv"), Codebook(), tmp_path / f"old{ending}")
