"""docs/operations.md is followed step by step: the blocks of Backup and Restore, on a ledger."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from command_line import understudy

from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger

GUIDE = Path(__file__).parents[3] / "docs" / "operations.md"


def steps(heading: str) -> list[str]:
    section = GUIDE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return str(block).splitlines()


def follow(heading: str, folder: Path) -> tuple[int, str]:
    """Code and words of the last step; the steps before it must succeed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for step in steps(heading):
        words = shlex.split(step)
        if words[0] == "understudy":
            ran = understudy(*words[1:])
            code, said = ran.returncode, ran.stdout + ran.stderr
        else:
            done = subprocess.run(
                ["bash", "-c", step], cwd=folder, env={**os.environ, "PATH": path}, check=True
            )
            code, said = done.returncode, ""
    return code, said


def test_a_backup_is_restored_as_the_guide_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"x": [1.0, 2.0]}).write_parquet("file.parquet")
    Path("server.toml").write_text(
        'ledger = "ledger.db"\n[datasets.survey]\npath = "file.parquet"\ncap = "3"\n'
    )
    with Ledger("ledger.db") as ledger:
        ledger.add_dataset("ab" * 32, "survey", "3")
        follow("Backup", tmp_path)  # while it is open
    code, said = follow("Restore", tmp_path)
    assert code == 0, said
    assert "survey" in said
    follow("Backup", tmp_path)  # a second time, over the first
    with Ledger("ledger.db") as ledger:
        add_user(ledger, "ann")
    code, said = follow("Restore", tmp_path)
    assert code == 2
    refusal = "The ledger lacks entries that its heads outside list: it is an old copy."
    assert refusal in said
    assert refusal in GUIDE.read_text(encoding="utf-8")
