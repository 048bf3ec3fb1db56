"""A column that is computed from others: `wages + rents`, `min(age, 85)`, `1 if hours > 0 else 2`.

The text is read as a Python expression but never evaluated: columns and constants, + - * /, the
functions min, max, abs, round, log, exp and sqrt, and a choice by a condition in the words of
`where`. A missing value makes the result missing, except on the side of a choice that is not taken.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection
from functools import reduce
from typing import Any

import ibis
import ibis.expr.types as ir

from understudy.errors import SyntaxRefused
from understudy.survey.codebook import Codebook
from understudy.tables.domain import condition_of, named_columns, operand_of, syntax_of

_ARITHMETIC: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_KNOWN = (
    "write columns and numbers with + - * /, min, max, abs, round, log, exp, sqrt (wages + rents)"
)


def parse_formula(text: str, table: ir.Table) -> Any:
    """The formula as an expression over `table`."""
    return _value(syntax_of(text, "formula", _KNOWN), text.strip(), table)


def computed_columns(codebook: Codebook, columns: Collection[str]) -> tuple[str, ...]:
    """The derived columns whose formulas these columns, and other derived ones, suffice for."""
    left = {column.name: named_columns(column.derived) for column in codebook if column.derived}
    while short := [name for name, named in left.items() if named - {*columns, *left}]:
        for name in short:
            del left[name]
    return tuple(left)


def _value(node: ast.expr, text: str, table: ir.Table) -> Any:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _value(node.left, text, table), _value(node.right, text, table)
        for side, part in ((left, node.left), (right, node.right)):
            _refuse_text(side, text, part)
        return _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.IfExp):
        condition = condition_of(node.test, text, table).fill_null(False)
        return ibis.ifelse(
            condition, _value(node.body, text, table), _value(node.orelse, text, table)
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        called = _call(node, node.func.id, text, table)
        if called is not None:
            return called
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare)):
        raise SyntaxRefused(f"This is not a formula; {_KNOWN}:", text, node.col_offset)
    return operand_of(node, text, table)


def _call(node: ast.Call, name: str, text: str, table: ir.Table) -> Any:
    several = name in ("min", "max") and len(node.args) > 1
    if not several and not (name in _OF_ONE and len(node.args) == 1):
        return None
    values = [_value(argument, text, table) for argument in node.args]
    for value, argument in zip(values, node.args, strict=True):
        _refuse_text(value, text, argument)
    if several:
        keep = operator.lt if name == "min" else operator.gt
        # null if any is null, unlike SQL's least and greatest
        return reduce(lambda a, b: ibis.ifelse(keep(a, b), a, b + 0 * a), values)
    if not isinstance(values[0], ir.Value):
        raise SyntaxRefused("Expected a column here:", text, node.col_offset)
    return _OF_ONE[name](values[0])


def _log(value: Any) -> Any:
    return _where(value > 0, value.cast("float64").ln(), value)


def _sqrt(value: Any) -> Any:
    return _where(value >= 0, value.cast("float64").sqrt(), value)


def _where(exists: Any, curve: Any, value: Any) -> Any:
    """Infinite where there is none, which whoever adds up refuses."""
    return ibis.cases((value.isnull(), ibis.null("float64")), (exists, curve), else_=float("-inf"))


_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "abs": lambda value: value.abs(),
    "round": lambda value: (value + 0.5).floor(),
    "exp": lambda value: value.cast("float64").exp(),
    "log": _log,
    "sqrt": _sqrt,
}


def _refuse_text(side: Any, text: str, node: ast.expr) -> None:
    if isinstance(side, str) or (isinstance(side, ir.Value) and side.type().is_string()):
        raise SyntaxRefused("This is text, which cannot be computed with:", text, node.col_offset)
