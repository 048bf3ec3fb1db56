"""`understudy ...` without a new process: the same entry point, exit code and streams.

A process of its own costs its imports, and compiles again what the tests have compiled already.
That the installed command is this entry point, and what it loads, is tested in processes
(test_main.py, test_release_command.py).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from understudy.cli.main import run


@dataclass(frozen=True)
class Ran:
    returncode: int
    stdout: str
    stderr: str


def understudy(*words: str, typed: str = "", **variables: str) -> Ran:
    """What the command says for these words, this standard input and environment."""
    code: object = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        CliRunner().isolation(input=typed, env=variables) as (out, err, _),
    ):
        patch.setattr(sys, "argv", ["understudy", *words])
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        said, complained = out.getvalue().decode(), err.getvalue().decode()
    assert isinstance(code, int), code
    return Ran(code, said, complained)
