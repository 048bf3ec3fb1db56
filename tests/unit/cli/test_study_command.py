"""`understudy study`: studies are found by entry point, and missing ones named in one sentence."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from typer.testing import CliRunner

from understudy.cli import main, study

MINE = '''
import typer

def mine(size: int = typer.Option(1, help="How large.")) -> None:
    """A study of my own."""
    typer.echo(f"size {size}")
'''


def installed(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(study, "entry_points", lambda **_: EntryPoints(points))


def test_a_study_of_any_distribution_is_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_study.py").write_text(MINE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(monkeypatch, EntryPoint("mine", "my_study:mine", study.GROUP))
    done = CliRunner().invoke(main.app, ["study", "mine", "--size", "3"])
    assert (done.exit_code, done.output.strip()) == (0, "size 3")
    listed = CliRunner().invoke(main.app, ["study", "--help"])
    assert "A study of my own" in listed.output
    unknown = CliRunner().invoke(main.app, ["study", "yours"])
    assert unknown.exit_code == 2


def test_without_studies_one_sentence_says_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["understudy", "study", "censoring"])
    with pytest.raises(SystemExit) as stopped:
        main.run()
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert said == f"understudy: {study.INSTALL}\n"
    assert "pip install understudy-studies" in said
    help_page = CliRunner().invoke(main.app, ["study", "--help"])
    assert help_page.exit_code == 0
    assert "understudy-studies" in help_page.output


@pytest.mark.any_noise
def test_the_command_alone_loads_nothing_heavy() -> None:
    code = "import sys, understudy.cli.study; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
