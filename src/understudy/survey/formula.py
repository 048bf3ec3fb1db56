"""The columns that a formula needs, read off its text before any data is touched."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from understudy.errors import Refused

if TYPE_CHECKING:
    from formulaic.parser.types import Factor

_QUOTED = re.compile(r"`([^`]+)`")


def formula_columns(text: str) -> list[str]:
    """Every column of a formula, in alphabetical order.

    Formulaic names the columns itself, except those inside of its stateful transforms (scale, poly,
    bs) and those whose name has a dot.
    """
    from formulaic import Formula  # with pandas: loaded where there is a formula
    from formulaic.errors import FormulaicError
    from formulaic.parser.types import Factor

    try:
        formula = Formula(text)
    except (FormulaicError, SyntaxError, ValueError, TypeError) as error:
        if "`.` operator" in str(error):
            raise Refused(f"Name the columns in `{text}`; `.` does not stand for them.") from None
        first = str(error).splitlines()[0] if str(error) else "it is not understood"
        raise Refused(f"The formula `{text}` cannot be read: {first.rstrip('.')}.") from None
    names: set[str] = set()
    for factor in _factors(formula):
        if factor.eval_method is Factor.EvalMethod.LOOKUP:
            names.add(factor.expr)
        elif factor.eval_method is Factor.EvalMethod.PYTHON:
            names |= _names(factor.expr)
    return sorted(names)


def _factors(part: object) -> Iterator[Factor]:
    """Of all sides of a formula; a side that is a list of several stands behind a `|`."""
    from formulaic import Formula
    from formulaic.parser.types import Term

    if isinstance(part, Term):
        yield from part.factors
    elif isinstance(part, Formula) and hasattr(part, "_structure"):
        for side in part._structure.values():
            yield from _factors(side)
    elif isinstance(part, (Formula, list, tuple)):
        for inner in part:
            yield from _factors(inner)


def _names(expression: str) -> set[str]:
    """Names in an expression that are values: neither functions nor parts of a module."""
    quoted = _QUOTED.findall(expression)
    for number, name in enumerate(quoted):
        expression = expression.replace(f"`{name}`", f"__quoted{number}")
    tree = ast.parse(expression, mode="eval")
    called = {
        id(node)
        for part in ast.walk(tree)
        if isinstance(part, (ast.Call, ast.Attribute))
        for node in ast.walk(part.func if isinstance(part, ast.Call) else part)
    }
    return {
        quoted[int(node.id[8:])] if node.id.startswith("__quoted") else node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and id(node) not in called
    }
