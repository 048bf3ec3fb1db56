"""Which tests use JAX, found by what they import: `pytest --jax` runs these alone.

A test module uses JAX when it, a fixture folder above it (conftest.py) or a module of this
project that it imports, directly or through others, names JAX, NumPyro or BlackJAX in an import
statement, also inside a function. Public names (`us.FBS`) and commands count by the modules that
the package or the command loads for them; a module that starts another process counts as a user.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "src", ROOT / "studies" / "src")
JAX = {"jax", "jaxlib", "numpyro", "blackjax"}
PROCESSES = {"subprocess", "multiprocessing"}  # `understudy release` in a process of its own


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--jax", action="store_true", help="run only the tests that use JAX")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--jax"):
        return
    used = {path: uses_jax(path) for path in {item.path for item in items}}
    config.hook.pytest_deselected(items=[item for item in items if not used[item.path]])
    items[:] = [item for item in items if used[item.path]]


def uses_jax(path: Path) -> bool:
    """Whether a test module reaches JAX by its imports."""
    folders = [folder / "conftest.py" for folder in path.parents if ROOT in folder.parents]
    todo = [path, *(conftest for conftest in folders if conftest.is_file())]
    seen: set[Path] = set()
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        names = imported(file)
        roots = {name.split(".")[0] for name in names}
        if roots & JAX or (file == path and roots & PROCESSES):
            return True
        todo += [module for name in names if (module := module_file(name, path.parent))]
    return False


@cache
def imported(file: Path) -> frozenset[str]:
    """Dotted names in import statements, and in strings that name a module of the package (a
    package that loads its public names on demand holds them so)."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


@cache
def module_file(name: str, beside: Path) -> Path | None:
    """The project's file of a dotted name; None for another library's, or a name in a module."""
    for source in (*SOURCES, beside):
        stem = source / Path(*name.split("."))
        for file in (stem.with_suffix(".py"), stem / "__init__.py"):
            if file.is_file():
                return file
    return None
