"""A domain, from text: `age > 65 and region in ("N", "S")` becomes an Ibis condition.

The text is read as a Python expression but never evaluated: only comparisons of a column
with constants, `in`, `and`, `or`, `not` and `is None` are understood. Write
column("net income") for names that are not plain words.
"""

from __future__ import annotations

import ast
import operator
from functools import reduce
from typing import Any

import ibis.expr.types as ir

from understudy.errors import Refused, SyntaxRefused, UnknownName
from understudy.survey.survey import refuse_unusable

_COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_KNOWN = 'compare a column with a value (age > 65, sex == "F", region in ("N", "S"))'


def parse_domain(text: str, table: ir.Table) -> ir.BooleanValue:
    """The condition as an expression over `table`; a missing value is never inside."""
    return condition_of(syntax_of(text), text.strip(), table).fill_null(False)


def parse_broken(text: str, table: ir.Table) -> ir.BooleanValue:
    """Where a record breaks the condition; a missing value breaks none."""
    return (~condition_of(syntax_of(text), text.strip(), table)).fill_null(False)


def syntax_of(text: str, what: str = "condition", known: str = _KNOWN) -> ast.expr:
    """The text as Python's syntax, which is never evaluated."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        offset = max((getattr(error, "offset", 1) or 1) - 1, 0)
        raise SyntaxRefused(f"The {what} cannot be read; {known}:", text.strip(), offset) from None


def named_columns(text: str) -> set[str]:
    """The columns that a condition or a formula names."""
    nodes = list(ast.walk(syntax_of(text)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    names = [column_name(node) for node in nodes if id(node) not in called]
    return {name for name in names if name is not None}


def column_name(node: ast.AST) -> str | None:
    """The column that a part of the text names: age, or column("net income")."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "column":
        argument = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return argument.value
    return None


def condition_of(node: ast.expr, text: str, table: ir.Table) -> Any:
    if isinstance(node, ast.BoolOp):
        parts = [condition_of(value, text, table) for value in node.values]
        return reduce(operator.and_ if isinstance(node.op, ast.And) else operator.or_, parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ~condition_of(node.operand, text, table)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return reduce(operator.and_, (_compare(a, op, b, text, table) for a, op, b in pairs))
    raise SyntaxRefused(f"This is not a condition; {_KNOWN}:", text, node.col_offset)


def _compare(left: ast.expr, op: ast.cmpop, right: ast.expr, text: str, table: ir.Table) -> Any:
    a = operand_of(left, text, table)
    if isinstance(op, (ast.Is, ast.IsNot)) and isinstance(a, ir.Value):
        if isinstance(right, ast.Constant) and right.value is None:
            return a.isnull() if isinstance(op, ast.Is) else a.notnull()
        raise SyntaxRefused("Only None may follow `is`:", text, right.col_offset)
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(a, ir.Value):
        if not isinstance(right, (ast.List, ast.Tuple, ast.Set)):
            raise SyntaxRefused("A list of values must follow `in`:", text, right.col_offset)
        values = [operand_of(item, text, table) for item in right.elts]
        for value, item in zip(values, right.elts, strict=True):
            _comparable(a, value, text, item)
        inside = a.isin(values)
        return inside if isinstance(op, ast.In) else ~inside
    if type(op) not in _COMPARE:
        raise SyntaxRefused(f"This comparison is not known; {_KNOWN}:", text, right.col_offset)
    b = operand_of(right, text, table)
    if not isinstance(a, ir.Value) and not isinstance(b, ir.Value):
        raise SyntaxRefused(f"This comparison names no column; {_KNOWN}:", text, left.col_offset)
    _comparable(a, b, text, right)
    return _COMPARE[type(op)](a, b)


def operand_of(node: ast.expr, text: str, table: ir.Table) -> Any:
    if (name := column_name(node)) is not None:
        return _column(name, table)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = operand_of(node.operand, text, table)
        if isinstance(value, (int, float)):
            return -value
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, bool)):
        return node.value
    raise SyntaxRefused("Expected a column or a value here:", text, node.col_offset)


def _column(name: str, table: ir.Table) -> ir.Value:
    if name not in table.columns:
        raise UnknownName("column", name, table.columns)
    refuse_unusable(table, [name])
    return table[name]


def _comparable(a: Any, b: Any, text: str, node: ast.expr) -> None:
    """A column of text against a number would be a database error; say it here instead."""
    kinds = {_kind(side) for side in (a, b)}
    if len(kinds) == 1 or kinds == {"time", "text"}:  # a date is written as a text
        return
    problem = "A number is compared with text here; put text in quotes and write numbers without:"
    if "time" in kinds:
        problem = 'A date is compared with a number here; write it as a text, such as "2024-01-31":'
    raise SyntaxRefused(problem, text, node.col_offset)


def _kind(side: Any) -> str:
    if isinstance(side, ir.Value):
        dtype = side.type()
        if dtype.is_string():
            return "text"
        return "number" if dtype.is_numeric() or dtype.is_boolean() else "time"
    return "text" if isinstance(side, str) else "number"


def as_condition(where: Any, table: ir.Table) -> ir.BooleanValue | None:
    """`where` as the user gave it: None, text, or a function of the table."""
    if where is None:
        return None
    if isinstance(where, str):
        return parse_domain(where, table)
    if callable(where):
        return where(table).fill_null(False)
    raise Refused('`where` must be a string such as "age > 65", or a function of the Ibis table.')
