"""`understudy study`: one command per study, with help, and refusals in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from understudy.cli.study import study
from understudy.studies import censoring

COMMANDS = get_command(study).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_study_shows_an_example_and_explains_its_options(name: str) -> None:
    command = COMMANDS[name]
    assert "Example: understudy study " + name in (command.help or "")
    for parameter in command.params:
        if parameter.name != "help":
            assert parameter.help, f"`{name}`: {parameter.name} has no help"
    assert {"out", "seed"} <= {parameter.name for parameter in command.params}


def test_options_reach_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run_study(*arguments: Any) -> Path:
        asked.extend(arguments)
        return tmp_path / "study.html"

    monkeypatch.setattr(censoring, "run_study", run_study)
    words = ["censoring", "--replicates", "7", "--seed", "5", "--out", str(tmp_path)]
    done = CliRunner().invoke(study, words)
    assert done.exit_code == 0, done.output
    assert asked == [7, tmp_path, 5]
    assert "study.html" in done.output


def test_a_folder_of_another_study_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"study": "another"}', encoding="utf-8")
    done = CliRunner().invoke(study, ["censoring", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "another folder" in done.output


def test_the_command_alone_loads_nothing_heavy() -> None:
    code = "import sys, understudy.cli.study; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
