"""Files as agencies ship them: packed, partitioned, in fixed columns, with SAS catalogues."""

from __future__ import annotations

import gzip
import zipfile
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from sas_files import write_catalogue, write_sas

import understudy as us
from understudy.errors import Refused
from understudy.survey.read import read_survey

pytestmark = pytest.mark.usefixtures("converted_here")

TEXT = "id,sex,pay\n007,1,10.5\n012,2,\n"
FRAME = pl.DataFrame({"id": ["007", "012"], "sex": [1, 2], "pay": [10.5, None]})


def packed(folder: Path, kind: str, text: str = TEXT) -> Path:
    path = folder / f"people.csv.{kind}"
    if kind == "gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("read me.txt", "nothing")
            archive.writestr("data/people.csv", text)
    return path


@pytest.mark.parametrize("kind", ["gz", "zip"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_packed_csv(tmp_path: Path, kind: str, in_memory: bool) -> None:
    survey = read_survey(packed(tmp_path, kind), in_memory=in_memory)
    assert survey.frame().equals(FRAME)


def test_packed_files_that_are_not_one_csv(tmp_path: Path) -> None:
    path = packed(tmp_path, "zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.csv", TEXT)
    with pytest.raises(Refused, match="holds 2 CSV files"):
        read_survey(path)
    for kind in ("gz", "zip"):
        path.with_suffix(f".{kind}").write_bytes(packed(tmp_path, kind).read_bytes()[:40])
        with pytest.raises(Refused, match="damaged"):
            read_survey(path.with_suffix(f".{kind}"))
    (tmp_path / "people.tar.gz").write_bytes(gzip.compress(b"x"))
    with pytest.raises(Refused, match=r"does not end in \.csv\.gz"):
        read_survey(tmp_path / "people.tar.gz")


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_partitioned_folder(tmp_path: Path, in_memory: bool) -> None:
    folder = tmp_path / "people"
    for year in (2022, 2023):
        (folder / f"year={year}").mkdir(parents=True)
        FRAME.with_columns(pay=pl.lit(float(year))).write_parquet(
            folder / f"year={year}" / "part-0.parquet"
        )
    (folder / "_metadata.parquet").write_bytes(b"")
    survey = read_survey(folder, in_memory=in_memory)
    assert survey.n == 4
    table = us.tabulate(survey, "mean(pay)", by="year")
    assert table.select("year", "estimate").rows() == [(2022, 2022.0), (2023, 2023.0)]


def test_columns_made_of_folders_have_the_types_that_their_names_are_written_in(
    tmp_path: Path,
) -> None:
    folders = (
        "code=01/year=2022/day=2022-01-31/text=a b/odd=1",
        "code=02/year=-3/day=2023-05-01/text=__HIVE_DEFAULT_PARTITION__/odd=x",
        "code=02/year=__HIVE_DEFAULT_PARTITION__/day=2023-05-01/text=x%3Ay/odd=3",
    )
    for number, name in enumerate(folders):
        (tmp_path / "people" / name).mkdir(parents=True)
        pl.DataFrame({"id": [number]}).write_parquet(tmp_path / "people" / name / "0.parquet")
    for hidden in ("_temporary", ".crc"):
        (tmp_path / "people" / hidden).mkdir()
        FRAME.write_parquet(tmp_path / "people" / hidden / "0.parquet")
    frame = read_survey(tmp_path / "people").frame().sort("id")
    assert frame.to_dict(as_series=False) == {
        "id": [0, 1, 2],
        "code": ["01", "02", "02"],
        "day": [date(2022, 1, 31), date(2023, 5, 1), date(2023, 5, 1)],
        "odd": ["1", "x", "3"],
        "text": ["a b", None, "x:y"],
        "year": [2022, -3, None],
    }


def fixed(folder: Path, layout: str, text: str) -> Path:
    path = folder / "people.dat"
    path.write_text(text, encoding="utf-8")
    (folder / "people.layout.csv").write_text(layout, encoding="utf-8")
    return path


LINES = "0071  1050Ä\n0122   -25\n0992      é\n"


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize(
    "layout",
    [
        "name,start,end,decimals,label\nid,1,3,,\nsex,4,4,,Sex\npay,5,10,2,Pay\nmark,11,11,,\n",
        "Name,Start,Width,Decimals,Label\nid,1,3,,\nsex,4,1,,Sex\npay,5,6,2,Pay\nmark,11,1,,\n",
    ],
)
def test_fixed_width(tmp_path: Path, layout: str, in_memory: bool) -> None:
    survey = read_survey(fixed(tmp_path, layout, LINES), in_memory=in_memory)
    expected = pl.DataFrame(
        {
            "id": ["007", "012", "099"],
            "sex": [1, 2, 2],
            "pay": [10.5, -0.25, None],
            "mark": ["Ä", None, "é"],
        }
    )
    assert survey.frame().equals(expected)
    assert (survey.codebook["sex"].label, survey.codebook["pay"].label) == ("Sex", "Pay")


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        ("name,start\nid,1\n", "Line 2 .* needs a name and whole numbers"),
        ("name,start,end\nid,3,1\n", "an end that is not before it"),
        ("name,start,end\nid,0,1\n", "a start of 1 or more"),
        ("name,start,end\nid,1,2\nid,2,3\n", "`id` twice"),
        ("name,start,end\n", "names no columns"),
        ("name,start,width,decimals\nid,1,2,3\n", "no more decimals than digits"),
    ],
)
def test_mistakes_in_a_layout(tmp_path: Path, layout: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        read_survey(fixed(tmp_path, layout, LINES))


def test_fixed_width_without_a_layout_or_as_other_text(tmp_path: Path) -> None:
    (tmp_path / "people.dat").write_text(LINES)
    with pytest.raises(Refused, match=r"people\.layout\.csv"):
        read_survey(tmp_path / "people.dat")
    path = fixed(tmp_path, "name,start,end\nid,1,3\n", LINES)
    path.write_bytes(LINES.encode("latin-1"))
    with pytest.raises(Refused, match="UTF-8"):
        read_survey(path)


@pytest.mark.parametrize("name", ["people.sas7bcat", "formats.sas7bcat"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_value_labels_of_a_sas_catalogue(tmp_path: Path, name: str, in_memory: bool) -> None:
    path = tmp_path / "people.sas7bdat"
    write_sas(path, {"sex": [1.0, 2.0, 1.0], "pay": [1.5, 2.5, 3.0]}, formats={"sex": "SEXF"})
    assert not read_survey(path).codebook["sex"].value_labels
    write_catalogue(tmp_path / name, {"SEXF": {1.0: "Male", 2.0: "Female"}})
    survey = read_survey(path, in_memory=in_memory)
    assert survey.codebook["sex"].value_labels == {1: "Male", 2: "Female"}
    assert not survey.codebook["pay"].value_labels


def test_a_damaged_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "people.sas7bdat"
    write_sas(path, {"sex": [1.0, 2.0]})
    path.with_suffix(".sas7bcat").write_bytes(b"nothing")
    with pytest.raises(Refused, match="damaged"):
        read_survey(path)
