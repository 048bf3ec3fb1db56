"""Pages and programs stand in templates: no HTML and no R in the strings of the report's code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPORT = Path(__file__).resolve().parents[2] / "src" / "understudy" / "report"
MARKUP = re.compile(r"</?[a-z][a-z0-9]*[ >/]|<!doctype|\bsvy[a-z]+\(|<- ", re.IGNORECASE)


@pytest.mark.parametrize("path", sorted(REPORT.glob("*.py")), ids=lambda path: path.name)
def test_no_html_and_no_r_in_strings(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not MARKUP.search(node.value), f"{path.name}:{node.lineno}"


def test_templates_are_part_of_the_package() -> None:
    import tomllib

    settings = tomllib.loads((REPORT.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    kept = settings["tool"]["setuptools"]["package-data"]["understudy"]
    for path in (REPORT / "templates").iterdir():
        assert f"**/*{path.suffix}" in kept, path.name
