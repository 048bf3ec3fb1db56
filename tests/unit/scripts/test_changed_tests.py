"""Which tests `make check` runs for which changed files."""

from __future__ import annotations

import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "changed-tests"


@pytest.fixture(scope="module")
def script() -> Any:
    loader = SourceFileLoader("changed_tests", str(SCRIPT))
    spec = spec_from_loader("changed_tests", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


TESTS = {
    "tests/unit/tables/test_taylor.py": "import numpy",
    "tests/unit/tables/test_taylor_edges.py": "",
    "tests/unit/tables/test_ratio.py": "from understudy.tables import taylor",
    "tests/unit/survey/test_read.py": "from understudy.survey.read import read",
    "tests/unit/survey/test_taylor.py": "",
    "studies/tests/test_censoring.py": "import understudy_studies.censoring",
}


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        (["docs/recipe.md"], []),
        (["tests/unit/survey/test_read.py"], ["tests/unit/survey/test_read.py"]),
        (
            ["src/understudy/tables/taylor.py"],
            [  # mirrors first, then importers
                "tests/unit/tables/test_taylor.py",
                "tests/unit/tables/test_taylor_edges.py",
                "tests/unit/tables/test_ratio.py",
            ],
        ),
        (["src/understudy/survey/read.py"], ["tests/unit/survey/test_read.py"]),
        (
            ["tests/unit/survey/conftest.py"],
            ["tests/unit/survey/test_read.py", "tests/unit/survey/test_taylor.py"],
        ),
        (["studies/src/understudy_studies/censoring.py"], ["studies/tests/test_censoring.py"]),
        (  # a changed test is the most direct one
            ["src/understudy/survey/read.py", "tests/unit/tables/test_ratio.py"],
            ["tests/unit/tables/test_ratio.py", "tests/unit/survey/test_read.py"],
        ),
    ],
)
def test_changed_files_find_their_tests(script: Any, changed: list[str], chosen: list[str]) -> None:
    assert script.tests_of(changed, TESTS) == chosen


def test_changes_are_those_since_the_branch_left_main(script: Any, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    def write(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)

    git("init", "--initial-branch=main")
    for name in ("old.py", "gone.py", "edited.py"):
        write(name, "1")
    git("add", ".")
    git("commit", "-m", "first")
    git("switch", "-c", "work")
    write("committed.py", "2")
    (tmp_path / "gone.py").unlink()
    git("add", ".")
    git("commit", "-m", "second")
    write("edited.py", "2")
    write("untracked.py", "2")
    git("switch", "main")
    write("on_main.py", "3")
    git("add", "on_main.py")
    git("commit", "-m", "third")
    git("switch", "work")
    assert script.changed_files(tmp_path) == ["committed.py", "edited.py", "untracked.py"]


def test_nothing_starts_after_the_deadline(script: Any) -> None:
    script.Deadline(3600.0).pytest_runtest_setup()
    with pytest.raises(pytest.skip.Exception, match="left to `make test`"):
        script.Deadline(-1.0).pytest_runtest_setup()
