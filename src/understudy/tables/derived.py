"""A column that is computed from others: `wages + rents`, `min(age, 85)`, `1 if hours > 0 else 2`.

The text is read as a Python expression but never evaluated: columns and constants, + - * /, the
functions min, max, abs, round, log, exp and sqrt, and a choice by a condition in the words of
`where`. A missing value makes the result missing, except on the side of a choice that is not taken.
"""

from __future__ import annotations

import ast
import operator
from functools import reduce
from typing import Any

import ibis
import ibis.expr.types as ir

from understudy.errors import SyntaxRefused
from understudy.tables.domain import condition_of, operand_of, syntax_of

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
    if name in ("min", "max") and len(node.args) > 1:
        values = [_value(argument, text, table) for argument in node.args]
        keep = operator.lt if name == "min" else operator.gt
        # null if any is null, unlike SQL's least and greatest
        return reduce(lambda a, b: ibis.ifelse(keep(a, b), a, b + 0 * a), values)
    if name == "abs" and len(node.args) == 1:
        return _value(node.args[0], text, table).abs()
    if name in ("log", "sqrt", "exp") and len(node.args) == 1:
        return _curve(name, _value(node.args[0], text, table), text, node)
    if name == "round" and len(node.args) == 1:
        return (_value(node.args[0], text, table) + 0.5).floor()
    return None


def _curve(name: str, value: Any, text: str, node: ast.Call) -> Any:
    """log, sqrt or exp; infinite where there is none, which whoever adds up refuses."""
    _refuse_text(value, text, node.args[0])
    if not isinstance(value, ir.Value):
        raise SyntaxRefused("Expected a column here:", text, node.col_offset)
    value = value.cast("float64")
    if name == "exp":
        return value.exp()
    inside, curve = (value > 0, value.ln()) if name == "log" else (value >= 0, value.sqrt())
    return ibis.cases((value.isnull(), ibis.null("float64")), (inside, curve), else_=float("-inf"))


def _refuse_text(side: Any, text: str, node: ast.expr) -> None:
    if isinstance(side, str) or (isinstance(side, ir.Value) and side.type().is_string()):
        raise SyntaxRefused("This is text, which cannot be computed with:", text, node.col_offset)
