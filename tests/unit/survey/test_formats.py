"""Every format says all about itself; a format in a file of the user's own is as good."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import understudy as us
from skeletons import skeleton
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.survey.file_format import (
    Format,
    endings_read,
    endings_written,
    format_of,
    formats,
    listed,
    released_formats,
)

CODEBOOK = """\
[columns.area]
role = "sensitive"
type = "categorical"
levels = ["north", "south"]

[columns.sex]
role = "sensitive"
type = "categorical"
levels = [1, 2]
"""
RECIPE = """\
[data]
path = "people.data"
format = "mine.py:Lines"
codebook = "codebook.toml"

[synthesis]
model = "Multinomial"
sensitive = ["area", "sex"]
datasets = 2

[privacy]
mechanism = "Marginals"
epsilon = 2

[output]
formats = ["mine.py:Lines"]

[ledger]
place = "ledger.db"
cap = "10"
"""


def test_endings_belong_to_one_format_each() -> None:
    assert len(set(endings_read())) == len(endings_read())
    assert set(endings_written()) <= set(endings_read())
    for known in formats():
        assert set(known.written) <= set(known.endings)
        for ending in known.endings:
            assert format_of(Path(f"survey{ending.upper()}")) is known
    assert {"CSV", "Parquet", "SAS", "SPSS", "Stata"} <= {known.name for known in formats()}
    assert listed([".a", ".b", ".c"]) == "a, b or c"
    assert listed([".a"]) == "a"


def test_a_format_that_leaves_out_a_fact_is_an_error() -> None:
    with pytest.raises(
        TypeError, match=r"does not declare carries, folders, name, open .*, r_package"
    ):

        class Half(Format):
            endings = (".half",)
            written = ()
            r_reads = ""

            def write(self, *_: object) -> None: ...


@pytest.mark.any_noise
def test_the_help_names_every_ending_and_loads_no_database() -> None:
    code = (
        "import sys; from understudy.cli.main import app; import typer.main;"
        "group = typer.main.get_command(app);"
        "print(group.commands['tabulate'].params[0].help, 'ibis' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "Survey",
        "file",
        *f"({listed(endings_read())}).".split(),
        "False",
    ]


def write_own(folder: Path) -> Path:
    (folder / "mine.py").write_text(skeleton("Lines"), encoding="utf-8")
    rows = [{"area": ["north", "south"][k % 2], "sex": 1 + (k % 3 == 0)} for k in range(60)]
    text = "\n".join(json.dumps(row) for row in rows)
    (folder / "people.data").write_text(text + "\n", encoding="utf-8")
    return folder / "people.data"


def test_read_and_write_in_a_format_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_own(tmp_path)
    monkeypatch.chdir(tmp_path)
    survey = us.read_survey(path, format="mine.py:Lines")
    assert survey.n == 60
    us.write_survey(survey, "again.jsonl", format="mine.py:Lines")
    assert pl.read_ndjson("again.jsonl").equals(pl.read_ndjson(path))
    assert (tmp_path / "again.codebook.toml").exists()  # the format carries none
    with pytest.raises(Refused, match=r"Unknown file type `\.data`"):
        us.read_survey(path)
    with pytest.raises(Refused, match=r"Unknown file format in `mine.py` `Line`"):
        us.read_survey(path, format="mine.py:Line")
    with pytest.raises(Refused, match=r"Unknown file type `dtta`; did you mean `\.dta`"):
        us.read_survey(path, format="dtta")


@pytest.mark.any_noise
def test_a_release_in_a_format_of_ones_own(tmp_path: Path) -> None:
    write_own(tmp_path)
    (tmp_path / "codebook.toml").write_text(CODEBOOK, encoding="utf-8")
    (tmp_path / "release.toml").write_text(RECIPE, encoding="utf-8")
    out = us.publish(tmp_path / "release.toml", say=lambda _: None, progress=False)
    for number in (1, 2):
        plain = pl.read_parquet(out / f"synthetic/{number}.parquet")
        assert pl.read_ndjson(out / f"synthetic/{number}.jsonl").equals(plain)
    assert us.open_release(out).datasets[0].n == 60
    facts = json.loads((out / "release.json").read_text(encoding="utf-8"))
    assert facts["formats"] == ["parquet", "jsonl"]
    page = (out / "public.html").read_text(encoding="utf-8")
    assert "jsonlite::stream_in" in page
    assert "R, with the package survey and jsonlite" in page
    assert str(tmp_path) not in page
    assert "Multinomial(area, sex)" in (out / "report.html").read_text(encoding="utf-8")
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert [entry.micro for entry in ledger.entries() if entry.kind == "spend"] == [4_000_000]
    wrong = RECIPE.replace('formats = ["mine.py:Lines"]', 'formats = ["sas7bdat"]')
    (tmp_path / "wrong.toml").write_text(wrong, encoding="utf-8")
    with pytest.raises(Refused, match="Unknown format `sas7bdat`"):
        us.publish(tmp_path / "wrong.toml", say=lambda _: None, progress=False)


def test_a_format_that_is_only_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"Unknown file type to write `sas7bdat`"):
        released_formats(["sas7bdat"], tmp_path)
