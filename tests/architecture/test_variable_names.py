"""Variables are named for what they hold: not `found`, `one`, `place`, `told`, `given`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EMPTY = {"found", "one", "place", "told", "given"}
# words that users write: [ledger] place and Ledger(place), [[given]] and given=[Given(...)]
OF_USERS = {"place": ("ledger/ledger.py", "release/recipe_sections.py"), "given": ("release/",)}


def empty_names(text: str) -> Iterator[tuple[int, str]]:
    """(line, name) where such a name is given to a variable, a parameter, a field or a function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Name, ast.Attribute)) and not isinstance(node.ctx, ast.Store):
            continue
        name = (
            getattr(node, "id", None)
            or getattr(node, "attr", None)
            or getattr(node, "arg", None)
            or getattr(node, "name", None)
        )
        if name in EMPTY and not isinstance(node, (ast.keyword, ast.alias)):
            yield node.lineno, name  # type: ignore[attr-defined]


def test_names_say_what_they_hold() -> None:
    empty = []
    for folder in ("src", "studies", "scripts", "bench", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            where = str(path.relative_to(ROOT))
            for line, name in empty_names(path.read_text(encoding="utf-8")):
                if not any(allowed in where for allowed in OF_USERS.get(name, ())):
                    empty.append(f"{where}:{line} {name}")
    assert not empty


def test_an_empty_name_is_seen() -> None:
    text = "def told(one, *, place=1):\n    given: int = 1\n    for found in x: f(one=found)\n"
    names = [name for _, name in empty_names(text)]
    assert sorted(names) == ["found", "given", "one", "place", "told"]
