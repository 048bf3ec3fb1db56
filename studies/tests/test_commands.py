"""`understudy study NAME`: every study is an entry point with help, and refuses in one sentence."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

STUDIES = sorted(entry_points(group="understudy.studies").names)


def app(name: str) -> typer.Typer:
    alone = typer.Typer()
    alone.command(name)(entry_points(group="understudy.studies")[name].load())
    return alone


def test_the_five_studies_are_installed() -> None:
    expected = ["acs-modips", "censoring", "private-tables", "risk-weights", "verification"]
    assert expected == STUDIES


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_shows_an_example_and_explains_its_options(name: str) -> None:
    command = get_command(app(name))
    assert "Example: understudy study " + name in (command.help or "")
    for parameter in command.params:
        if parameter.name not in ("help", "install_completion", "show_completion"):
            assert parameter.help, f"`{name}`: {parameter.name} has no help"  # type: ignore[attr-defined]
    names = {parameter.name for parameter in command.params}
    assert {"out", "seed", "replicates", "quick", "no_application"} <= names


@pytest.mark.parametrize("name", STUDIES)
def test_options_reach_the_study(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    module = import_module(f"understudy_studies.{name.replace('-', '_')}.run")
    monkeypatch.setattr(module, "run_study", lambda *words, **more: asked.append((words, more)))
    words = ["--replicates", "7", "--seed", "5", "--quick", "--out", str(tmp_path)]
    done = CliRunner().invoke(app(name), words)
    assert done.exit_code == 0, done.output
    assert asked[0][0] == (7, tmp_path, 5)
    assert asked[0][1]["quick"] is True
    assert "study.html" in done.output.replace("\n", "")


@pytest.mark.parametrize("name", STUDIES)
def test_a_folder_of_another_study_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"study": "another"}', encoding="utf-8")
    done = CliRunner().invoke(app(name), ["--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "another folder" in done.output.replace("\n", " ")


@pytest.mark.any_noise
def test_the_commands_alone_load_nothing_heavy() -> None:
    code = "import sys, understudy_studies.commands; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
