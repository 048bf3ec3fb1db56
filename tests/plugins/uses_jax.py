"""Which tests use JAX, found by what they import: `pytest --jax` runs these alone.

A test module uses JAX when it, a conftest.py above it or a module of this project that it
imports, directly or through others, names JAX, NumPyro or BlackJAX in an import statement, also
inside a function. A public name (`us.FBS`) counts as an import of its home, and a test module that
starts processes or executes text counts as a user, since nobody knows what these load.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "src", ROOT / "studies" / "src")
JAX = {"jax", "jaxlib", "numpyro", "blackjax"}
ANYTHING = {"subprocess", "multiprocessing", "exec"}  # a command, or a tutorial


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
        if roots & JAX or (file == path and roots & ANYTHING):
            return True
        todo += [module for name in names if (module := module_file(name, path.parent))]
    return False


@cache
def imported(file: Path) -> frozenset[str]:
    """Dotted names of import statements and of homes of public names; `exec` where it is used."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Name) and node.id == "exec":
            names.add("exec")
    if "understudy" in names:
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        used |= {name.removeprefix("understudy.") for name in names}
        names |= {f"understudy.{home}" for name, home in homes().items() if name in used}
    return frozenset(names)


@cache
def homes() -> dict[str, str]:
    """Public names of the package and the modules they live in, from its stub."""
    stub = ast.parse((SOURCES[0] / "understudy/__init__.pyi").read_text("utf-8"))
    names = {
        alias.asname or alias.name: node.module.removeprefix("understudy.")
        for node in ast.walk(stub)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert "synthesize" in names, "the package keeps its public names elsewhere: read them there"
    return names


@cache
def module_file(name: str, beside: Path) -> Path | None:
    """The project's file of a dotted name; None for another library's, or a name in a module."""
    for source in (*SOURCES, beside):
        stem = source / Path(*name.split("."))
        for file in (stem.with_suffix(".py"), stem / "__init__.py"):
            if file.is_file():
                return file
    return None
