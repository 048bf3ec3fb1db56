"""What a statistic is taken of: a column, a formula (`log(x)`), or a condition (`age > 64`).

Formulas and conditions are in the words of derived columns and of `where` (derived.py,
domain.py). A missing value makes a formula missing; a condition is missing where it cannot be
decided, as `age > 64` without an age.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import ibis.expr.types as ir

from understudy.errors import Refused
from understudy.tables.derived import parse_formula
from understudy.tables.domain import column_name, condition_of, named_columns, syntax_of
from understudy.tables.linear import numeric
from understudy.tables.numbers import as_float
from understudy.tables.r_text import r_name, r_value

_CONDITIONS = (ast.Compare, ast.BoolOp)


@dataclass(frozen=True)
class Expression:
    """A column by its name, or what is computed from columns."""

    text: str
    computed: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        if not self.computed:
            return (self.text,)
        syntax_of(self.text, "expression", "write one such as log(income) or age > 64")
        return tuple(sorted(named_columns(self.text)))

    @property
    def written(self) -> str:
        """As it stands in the text of a statistic."""
        plain = self.computed or self.text.isidentifier()
        return self.text if plain else f"`{self.text}`"

    @property
    def is_condition(self) -> bool:
        if not self.computed:
            return False
        node = syntax_of(self.text)
        while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node = node.operand
        return isinstance(node, _CONDITIONS)

    def numbers(self, statistic: str, table: ir.Table) -> ir.FloatingValue:
        """Its values as float64, for the statistic of this text."""
        if not self.computed:
            return numeric(statistic, self.text, table)
        if self.is_condition:
            raise Refused(f"{statistic} needs numbers; use proportion({self.text}) for a share.")
        value = parse_formula(self.text, table)
        if not isinstance(value, ir.NumericValue):
            raise Refused(f"{statistic} needs numbers computed from columns, such as log(income).")
        return as_float(value)

    def condition(self, table: ir.Table) -> ir.BooleanValue:
        """True, false, or missing."""
        held: ir.BooleanValue = condition_of(syntax_of(self.text), self.text, table)
        return held

    @property
    def r(self) -> str:
        """The same in R, inside of a formula."""
        return f"I({_r(syntax_of(self.text))})" if self.computed else r_name(self.text)

    @property
    def r_value(self) -> str:
        """The same in R, on a data frame called `data`."""
        return f"with(data, {_r(syntax_of(self.text)) if self.computed else r_name(self.text)})"


_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Eq: "==", ast.NotEq: "!=",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.And: "&", ast.Or: "|",
    ast.Not: "!", ast.USub: "-",
}  # fmt: skip
_FUNCTIONS = {"min": "pmin", "max": "pmax"}


def _r(node: ast.expr) -> str:
    """Python's syntax as R's; what this grammar refuses never comes here."""
    name = column_name(node)
    if name is not None:
        return r_name(name)
    if isinstance(node, ast.BinOp):
        return f"({_r(node.left)} {_SIGNS[type(node.op)]} {_r(node.right)})"
    if isinstance(node, ast.BoolOp):
        return "(" + f" {_SIGNS[type(node.op)]} ".join(map(_r, node.values)) + ")"
    if isinstance(node, ast.UnaryOp):
        return f"{_SIGNS[type(node.op)]}({_r(node.operand)})"
    if isinstance(node, ast.IfExp):
        # a condition that cannot be decided is not met, as in derived columns
        return f"ifelse(({_r(node.test)}) %in% TRUE, {_r(node.body)}, {_r(node.orelse)})"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "round":
            return f"floor({_r(node.args[0])} + 0.5)"
        called = _FUNCTIONS.get(node.func.id, node.func.id)
        return f"{called}({', '.join(map(_r, node.args))})"
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return "(" + " & ".join(_r_compared(a, op, b) for a, op, b in pairs) + ")"
    if isinstance(node, ast.Constant):
        return r_value(node.value)
    raise Refused("This expression cannot be written in R.")


def _r_compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
    a = _r(left)
    if isinstance(op, (ast.Is, ast.IsNot)):
        return f"{'' if isinstance(op, ast.Is) else '!'}is.na({a})"
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.List, ast.Tuple, ast.Set)):
        values = ", ".join(map(_r, right.elts))
        inside = f"{'' if isinstance(op, ast.In) else '!'}({a} %in% c({values}))"
        return f"ifelse(is.na({a}), NA, {inside})"
    return f"({a} {_SIGNS[type(op)]} {_r(right)})"
