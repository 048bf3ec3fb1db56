"""The command line as a person meets it: help, exit codes, one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from command_line import understudy
from typer.main import get_command

from understudy.cli.main import app

pytestmark = pytest.mark.any_noise

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture
def survey_file(tmp_path: Path) -> Path:
    path = tmp_path / "survey.csv"
    pl.DataFrame(
        {
            "w": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5],
            "h": [1, 1, 1, 2, 2, 2],
            "sex": ["F", "M"] * 3,
            "pay": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
        }
    ).write_csv(path)
    return path


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(name: str) -> None:
    command = COMMANDS[name]
    text = command.help or ""
    if hasattr(command, "commands"):
        assert text
        return
    assert "Example:" in text, f"`{name}` shows no example"
    for parameter in command.params:
        if parameter.name != "help":
            assert getattr(parameter, "help", None), f"`{name}`: {parameter.name} has no help"


def test_help_loads_nothing_heavy() -> None:
    """Half a second on a quiet machine: the commands' own files and what prints help, no more."""
    code = (
        "import sys, understudy.cli.main as m\n"
        "try: m.app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    packages = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names
    heavy = "jax", "numpyro", "numpy", "polars", "ibis", "duckdb", "matplotlib", "scipy", "fastapi"
    assert not packages & {*heavy, "pandas", "pydantic", "opendp", "pyarrow", "arviz"}
    ours = {name.split(".")[1] for name in loaded if name.startswith("understudy.")}
    assert ours <= {"cli", "declarations", "errors", "survey", "toml_mistakes"}
    assert len(loaded) < 500  # 335 at the time of writing; NumPy alone has 150


def test_tabulate_never_loads_jax(survey_file: Path) -> None:
    code = (
        "import sys\nfrom understudy.cli.main import app\n"
        f"try: app(['tabulate', {str(survey_file)!r}, '--design', 'weight=w,strata=h', "
        "'-s', 'count'])\n"
        "except SystemExit: pass\n"
        "sys.exit('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "count" in done.stdout


def test_tabulate_prints_and_writes(survey_file: Path) -> None:
    out = survey_file.parent / "table.csv"
    done = understudy(
        "tabulate", str(survey_file), "--design", "weight=w,strata=h", "--by", "sex",
        "--statistic", "count", "--statistic", "mean(pay)", "--margins", "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mean(pay)" in done.stdout
    table = pl.read_csv(out)
    assert table.filter(sex="All", statistic="count")["estimate"][0] == 24


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--design", "weight=wt", "-s", "count"], "did you mean `w`"),
        (["--design", "wieght=w", "-s", "count"], "did you mean `weight`"),
        (["--design", "weight=sex", "-s", "count"], "not numeric"),
        (["-s", "mean(pay"], "^"),
        (["-s", "count", "--by", "sx"], "did you mean `sex`"),
        (["-s", "count", "--where", "pay >"], "^"),
        (["-s", "count", "--out", "nowhere/table.csv"], "no folder"),
        (["-s", "count", "--out", "table.xls"], ".csv or .parquet"),
        (["-s", "count", "--level", "2"], "between 0 and 1"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_2(
    survey_file: Path, words: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(survey_file.parent)
    done = understudy("tabulate", str(survey_file), *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(survey_file.parent.glob("table*"))


def test_a_missing_file_is_a_sentence() -> None:
    done = understudy("tabulate", "nowhere.parquet", "-s", "count")
    assert done.returncode == 2
    assert "nowhere.parquet" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("outside_here")
def test_demo_makes_its_files(tmp_path: Path) -> None:
    done = understudy("demo", "--out", str(tmp_path / "demo"))
    assert done.returncode == 0, done.stderr
    claimed = "formal privacy claim for one `person` with all its records with epsilon = 3 "
    assert claimed in done.stdout
    assert "within your tolerance" in done.stdout  # the server's answer
    assert "One ledger holds epsilon 28.6" in done.stdout  # 2 x 3 + 2 x 10.8 + 1
    made = tmp_path / "demo" / "formal"
    assert (made / "report.html").is_file()
    assert (made / "public.html").is_file()
    assert (tmp_path / "demo" / "asymptotic" / "public.zip").is_file()
    table = pl.read_csv(made / "tables.csv")
    assert table.height == 54
    whole = table.filter(field="All", gender="All", statistic="count")
    assert whole["estimate"][0] == pytest.approx(100_000)
    confidential = pl.read_parquet(tmp_path / "demo" / "internal" / "confidential.parquet")
    synthetic = pl.read_parquet(made / "synthetic" / "1.parquet")
    assert synthetic.columns == [name for name in confidential.columns if name != "person"]
    assert not set(synthetic["salary"]) & set(confidential["salary"])
