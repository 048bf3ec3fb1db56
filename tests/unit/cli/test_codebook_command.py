"""`understudy codebook` and the design as a text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyreadstat
import pytest
import typer
from typer.testing import CliRunner

from understudy.cli.codebook import _range, codebook
from understudy.cli.options import parse_design
from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column, read_codebook
from understudy.survey.design import Design, Replicates, Stage
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey

app = typer.Typer()
app.command()(codebook)
run = CliRunner()


@pytest.fixture
def survey_file(tmp_path: Path) -> Path:
    path = tmp_path / "survey.csv"
    pl.DataFrame(
        {
            "w": [1.5, 2.5, 3.5, 4.5],
            "h": [1, 1, 2, 2],
            "sex": ["F", "[bold]M", "F", "M"],
            "pay": [10.25, 20.5, 30.0, 40.0],
        }
    ).write_csv(path)
    return path


def test_drafts_writes_and_says_what_next(survey_file: Path) -> None:
    result = run.invoke(app, [str(survey_file), "--design", "weight=w,strata=h"])
    assert result.exit_code == 0, result.output
    target = survey_file.with_name("survey.codebook.toml")
    written = read_codebook(target)
    assert [c.role for c in written] == ["weight", "stratum", "sensitive", "sensitive"]
    assert written["pay"].bounds == (10.25, 40.0)
    assert written["pay"].drafted == {"role", "type", "bounds", "blanks", "rounding"}
    for shown in ("4 records, 4 columns", "sensitive", "10.25 to 40", "F, M, [bold]M", "bounds"):
        assert shown in result.output
    assert str(target.name) in result.output.replace("\n", "")
    assert "check the 13 drafted facts" in result.output.replace("\n", " ")


def test_levels_with_commas_are_told_apart() -> None:
    plain = Column("a", levels=("x", "y", *range(9)))
    assert _range(plain) == "x, y, 0, 1, 2, 3, 4, 5, and 3 more"
    assert _range(Column("b", levels=("New, acute", "Old"))) == "New, acute; Old"


def test_an_existing_codebook_is_not_overwritten(survey_file: Path) -> None:
    target = survey_file.with_name("survey.codebook.toml")
    target.write_text("title = 'by hand'\n[columns.pay]\nlabel = 'Pay'\n")
    result = run.invoke(app, [str(survey_file)])
    assert isinstance(result.exception, Refused)
    assert "--force" in str(result.exception)
    assert "by hand" in target.read_text()
    other = survey_file.with_name("other.toml")
    assert run.invoke(app, [str(survey_file), "--out", str(other)]).exit_code == 0
    assert other.exists()
    assert run.invoke(app, [str(survey_file), "--force"]).exit_code == 0
    assert read_codebook(target)["sex"].type == "categorical"
    assert read_codebook(target).title == ""  # drafted from the file, not from the old one
    nowhere = survey_file.parent / "nowhere" / "x.toml"
    result = run.invoke(app, [str(survey_file), "--out", str(nowhere)])
    assert "no folder" in str(result.exception)


def test_what_the_file_declares_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "survey.sav"
    pyreadstat.write_sav(
        pd.DataFrame({"sex": [1.0, 2.0, 9.0], "x": [0.5, 1.5, 2.5]}),
        str(path),
        column_labels={"sex": "Geschlecht"},
        variable_value_labels={"sex": {1.0: "männlich", 2.0: "weiblich"}},
        missing_ranges={"sex": [9]},
    )
    result = run.invoke(app, [str(path)])
    assert result.exit_code == 0, result.output
    assert "1 männlich, 2 weiblich" in result.output
    written = read_codebook(tmp_path / "survey.codebook.toml")
    assert written["sex"].missing == (9,)
    assert written["sex"].drafted == {"role", "type", "blanks"}
    assert "bounds" in written["x"].drafted


def test_a_codebook_inside_parquet_is_completed(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    inside = Codebook({"b": Column("b", role="public", bounds=(0.0, 9.0))}, title="Inside")
    write_survey(Survey(frame, codebook=inside), tmp_path / "survey.parquet")
    assert run.invoke(app, [str(tmp_path / "survey.parquet")]).exit_code == 0
    written = read_codebook(tmp_path / "survey.codebook.toml")
    assert list(written.columns) == ["a", "b"]
    assert written["b"] == inside["b"]
    assert written.title == "Inside"
    assert written["a"].drafted == {"role", "type", "levels", "blanks"}


def test_a_missing_file_and_a_wrong_design_are_refused(survey_file: Path) -> None:
    nowhere = run.invoke(app, [str(survey_file.parent / "no" / "where.csv")])
    assert isinstance(nowhere.exception, Refused)
    assert "There is no file" in str(nowhere.exception)
    wrong = run.invoke(app, [str(survey_file), "--design", "weight=wt"])
    assert "did you mean `w`" in str(wrong.exception)
    assert not survey_file.with_name("survey.codebook.toml").exists()


@pytest.mark.any_noise
def test_help_needs_no_heavy_library() -> None:
    code = (
        "import sys, understudy.cli.codebook, understudy.cli.options\n"
        "heavy = ('ibis', 'polars', 'duckdb', 'pyarrow', 'pyreadstat', 'pandas', 'rich.table')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "design"),
    [
        ("", Design()),
        ("weight=w", Design(weight="w")),
        (
            " weight = w , strata=h,psu=p,fpc=f,nest=true",
            Design(weight="w", strata="h", psu="p", fpc="f", nest=True),
        ),
        ("weight=w,nest=no,lonely_psu=adjust", Design(weight="w", lonely_psu="adjust")),
        (
            "weight=PWGTP,replicates=PWGTP:sdr",
            Design(weight="PWGTP", replicates=Replicates(prefix="PWGTP", kind="sdr")),
        ),
        (
            "weight=w,replicates=brr_:fay:0.5",
            Design(weight="w", replicates=Replicates(prefix="brr_", kind="fay", fay=0.5)),
        ),
        (
            "weight=w,psu=p,fpc=N,stages=s:M,stages=t:K:g",
            Design("w", psu="p", fpc="N", stages=[Stage("s", "M"), Stage("t", "K", "g")]),
        ),
        (
            "weight=w,calibrated=C(sex) + x,base_weight=d",
            Design(weight="w", calibrated="C(sex) + x", base_weight="d"),
        ),
        ('weight="w, final",strata="a=b"', Design(weight="w, final", strata="a=b")),
    ],
)
def test_a_design_in_words(text: str, design: Design) -> None:
    assert parse_design(text) == design


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("wieght=w", "did you mean `weight`"),
        ("stratum=h", "did you mean `strata`"),
        ("weight", "not of the form key=value"),
        ("weight=", "not of the form key=value"),
        ("weight=w,weight=v", "names `weight` twice"),
        ("weight=w,nest=maybe", "true or false"),
        ("weight=w,lonely_psu=adjsut", "did you mean `adjust`"),
        ("weight=w,replicates=brr_", "PREFIX:kind"),
        ("weight=w,replicates=brr_:fay:half", "Fay's factor"),
        ("weight=w,replicates=brr_:fay", "Fay's factor"),
        ("weight=w,replicates=brr_:bbr", "did you mean `brr`"),
        ("weight=w,replicates=a:b:c:d", "PREFIX:kind"),
        ("replicates=r:brr", "need the full-sample"),
        ("weight=w,strata=w", "three different columns"),
        ('weight="w', "quote is not closed"),
        ("weight=w,psu=p,fpc=N,stages=s", "UNIT:FPC"),
    ],
)
def test_mistakes_in_a_design(text: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_design(text)
    assert says in str(refused.value)


def test_a_codebook_that_exists_can_be_completed(survey_file: Path) -> None:
    target = survey_file.with_name("survey.codebook.toml")
    by_hand = "title = 'by hand'\n\n[columns.pay]  # see the handbook\nlabel = 'Pay'\n"
    target.write_text(by_hand)
    result = run.invoke(app, [str(survey_file), "--merge"])
    assert result.exit_code == 0, result.output
    assert "[columns.pay]  # see the handbook" in target.read_text()
    merged = read_codebook(target)
    assert merged.title == "by hand"
    assert merged["pay"].label == "Pay"
    assert merged["pay"].drafted == frozenset()
    assert merged["sex"].drafted == {"role", "type", "levels", "blanks"}
    again = target.read_text()
    assert run.invoke(app, [str(survey_file), "--merge"]).exit_code == 0
    assert target.read_text() == again
