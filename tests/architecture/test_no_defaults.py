"""A kind says nothing on behalf of its classes: a fact has no value before a class states it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from parsed_source import nodes_of

SOURCE = Path(__file__).resolve().parents[2] / "src" / "understudy"


def neutral_facts(texts: Iterable[str]) -> set[str]:
    """Facts of kinds and families (`abstract=True`) that nobody is asked for: a ClassVar with a
    value, or a property that returns a constant. A family may state what its kind demands."""
    kinds = [node for text in texts for node in nodes_of(text) if _is_kind(node)]
    demanded = {name for kind in kinds for name, stated in _facts(kind) if not stated}
    return {
        f"{kind.name}.{name}"
        for kind in kinds
        for name, stated in _facts(kind)
        if stated and name not in demanded
    }


def _is_kind(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(key.arg == "abstract" for key in node.keywords)


def _facts(kind: ast.AST) -> Iterator[tuple[str, bool]]:
    """The facts that a class body names, and whether it states them."""
    for statement in getattr(kind, "body", ()):
        if isinstance(statement, ast.AnnAssign) and "ClassVar" in ast.unparse(statement.annotation):
            yield ast.unparse(statement.target), statement.value is not None
        elif isinstance(statement, ast.FunctionDef):
            decorators = [ast.unparse(each) for each in statement.decorator_list]
            if "property" in decorators and ("abstractmethod" in decorators):
                yield statement.name, False
            elif "property" in decorators and _is_constant(statement):
                yield statement.name, True


def _is_constant(function: ast.FunctionDef) -> bool:
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    parts = [node for value in returned if value for node in ast.walk(value)]
    return bool(returned) and not any(isinstance(node, ast.Name) for node in parts)


def test_no_kind_has_a_neutral_value_for_a_fact() -> None:
    assert not neutral_facts(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))


@pytest.mark.parametrize(
    "fact",
    [
        "    several: ClassVar[bool] = False",
        "    @property\n    def several(self):\n        return ('t',)",
        "    @property\n    def several(self):\n        '''Whether.'''\n        return False",
    ],
)
def test_a_neutral_value_is_seen(fact: str) -> None:
    kind = f"class Kind(Declared, abstract=True):\n{fact}\n"
    assert neutral_facts([kind]) == {"Kind.several"}


def test_families_state_what_is_demanded_and_facts_follow_from_others() -> None:
    kind = "class Kind(Declared, abstract=True):\n    several: ClassVar[bool]"
    family = "class Few(Kind, abstract=True):\n    several: ClassVar[bool] = False"
    derived = "\n    @property\n    def adds_up(self):\n        return self.empty == 0"
    assert not neutral_facts([kind + derived, family])
