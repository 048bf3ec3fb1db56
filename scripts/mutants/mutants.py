"""Mutants: every way in which one formula, test or promise of a module could be wrong.

A mutant is the module's syntax tree with one node changed. Nothing is written to disk: the tree
is compiled with the line numbers of the source (`mutated`). Annotations, docstrings, decorators,
texts and what an error says are left alone; that an error is raised is not.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OPERATORS: dict[type[ast.operator], list[type[ast.operator]]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Div],
    ast.Mod: [ast.FloorDiv],
    ast.Pow: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
}
COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
SWAPPED_CALLS = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "argmin": "argmax",
    "argmax": "argmin",
}
SWAPPED_METHODS = SWAPPED_CALLS | {"sum": "mean", "mean": "sum", "cumsum": "cumprod"}
DROPPED_CALLS = {
    *("sqrt", "square", "log", "log1p", "log2", "log10", "exp", "expm1", "gammaln", "cumsum"),
    *("abs", "absolute", "fabs", "floor", "ceil", "round", "sorted", "clip"),
    *("min", "max", "minimum", "maximum"),
}
TALK = {"say", "print", "log", "info", "debug", "warning", "warn", "advance", "update_progress"}
WORDS = {"__repr__", "__str__"}
NOT_FORMULAS = ("annotation", "returns", "decorator_list", "ctx", "type_comment")


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, what it was and what it becomes."""

    file: str  # below src/understudy
    site: int  # the place in the order of `_sites`
    variant: int
    line: int
    reach: tuple[
        int, int
    ]  # the lines of the statement; a test that runs none cannot see the change
    function: str  # "" where the statement runs when the module is imported
    code: str  # the source line
    change: str
    copy: int  # the same change of the same code in the same function, counted from 0

    @property
    def name(self) -> str:
        """Unlike any other mutant's, and the same after edits elsewhere in the file."""
        return "|".join((self.file, self.code, self.change, self.function, str(self.copy)))

    def rank(self, seed: int) -> str:
        """Mutants are sampled by the order of this number."""
        return hashlib.sha256(f"{seed}|{self.name}".encode()).hexdigest()


def mutants(path: Path, file: str) -> list[Mutant]:
    """All mutants of a module, in the order of its source."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    all_of_them: list[Mutant] = []
    copies: Counter[tuple[str, str, str]] = Counter()
    for number, site in enumerate(_sites(ast.parse(source))):
        for variant, (_, change) in enumerate(_variants(site.node)):
            line = getattr(site.node, "lineno", site.reach[0])
            code = lines[line - 1].strip()
            seen = (site.function, code, change)
            where = (number, variant, line, site.reach, site.function)
            all_of_them.append(Mutant(file, *where, code, change, copies[seen]))
            copies[seen] += 1
    return all_of_them


def sample(candidates: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """A seeded sample; an edit elsewhere leaves the rest of it as it was."""
    return sorted(candidates, key=lambda mutant: mutant.rank(seed))[:count]


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """The module's tree with the one change."""
    tree = ast.parse(source)
    site = next(s for number, s in enumerate(_sites(tree)) if number == mutant.site)
    replacement, _ = list(_variants(site.node))[mutant.variant]
    ast.copy_location(replacement, site.node)
    if site.index is None:
        setattr(site.parent, site.field, replacement)
    else:
        getattr(site.parent, site.field)[site.index] = replacement
    return ast.fix_missing_locations(tree)


@dataclass(frozen=True)
class _Site:
    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    function: str
    reach: tuple[int, int]


def _sites(tree: ast.Module) -> Iterator[_Site]:
    """The nodes that may be changed, in one fixed order."""
    yield from _below(tree, "", (1, 1))


def _below(parent: ast.AST, function: str, reach: tuple[int, int]) -> Iterator[_Site]:
    for field, value in ast.iter_fields(parent):
        if field in NOT_FORMULAS or (isinstance(parent, ast.ClassDef) and field != "body"):
            continue
        inside = function
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and field == "body":
            inside = f"{function}.{parent.name}".lstrip(".")
        for position, node in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(node, ast.AST) or _left_alone(node, parent, field):
                continue
            lines = _lines(node) if isinstance(node, ast.stmt) else reach
            index = position if isinstance(value, list) else None
            yield _Site(parent, field, index, node, inside, lines)
            if not isinstance(node, ast.Raise):
                yield from _below(node, inside, lines)


def _lines(statement: ast.AST) -> tuple[int, int]:
    """First and last line; of a compound statement those of its head."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return statement.lineno, max(statement.lineno, body[0].lineno - 1)  # type: ignore[attr-defined]
    return statement.lineno, statement.end_lineno  # type: ignore[attr-defined]


def _left_alone(node: ast.AST, parent: ast.AST, field: str) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert):
        return True
    if isinstance(node, ast.FunctionDef) and node.name in WORDS:
        return True
    if isinstance(node, ast.Expr):
        value = node.value
        return isinstance(value, ast.Constant) or (
            isinstance(value, ast.Call) and _called(value) in TALK
        )
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id in ("Literal", "Annotated")
    if isinstance(node, ast.Assign):
        names = {t.id for t in node.targets if isinstance(t, ast.Name)}
        return "__all__" in names
    return isinstance(parent, ast.Call) and field == "func" and isinstance(node, ast.Name)


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _variants(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """What may stand in place of a node, each with the change in words."""
    for changed in _changed(node):
        yield changed, f"{_short(node)} -> {_short(changed)}"


def _short(node: ast.AST) -> str:
    if isinstance(node, ast.Raise):
        return "raise"
    if isinstance(node, ast.If | ast.While):
        return f"if {ast.unparse(node.test)}"
    return ast.unparse(node)


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp(left, operator, right):
            if not (_is_text(left) or _is_text(right)):
                for other in OPERATORS.get(type(operator), []):
                    yield ast.BinOp(left, other(), right)
        case ast.AugAssign(target, operator, value):
            for other in OPERATORS.get(type(operator), []):
                yield ast.AugAssign(target, other(), value)
        case ast.Compare(left, operators, comparators):
            for position, operator in enumerate(operators):
                for comparison in COMPARISONS[type(operator)]:
                    changed = list(operators)
                    changed[position] = comparison()
                    yield ast.Compare(left, changed, comparators)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            yield operand
        case ast.Constant(value):
            yield from _other_constants(value)
        case ast.Call():
            yield from _other_calls(node)
        case ast.Return(value) if not (value is None or _is_constant(value, None)):
            yield ast.Return(ast.Constant(None))
        case ast.Raise():
            yield ast.Pass()
        case ast.Expr(ast.Call()):
            yield ast.Pass()
        case ast.If(test) | ast.While(test) if isinstance(
            test, ast.Name | ast.Attribute | ast.Call
        ):
            changed_statement = copy.copy(node)
            changed_statement.test = ast.UnaryOp(ast.Not(), test)
            yield changed_statement
        case ast.IfExp(test, body, other_body):
            yield ast.IfExp(test, other_body, body)


def _other_constants(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant({0: 1, 1: 0}.get(value, value + 1))
        if value == 1:
            yield ast.Constant(2)
    elif isinstance(value, float):
        yield ast.Constant(2 * value if value else 1.0)


def _other_calls(call: ast.Call) -> Iterator[ast.AST]:
    name = _called(call)
    method = isinstance(call.func, ast.Attribute)
    other = (SWAPPED_METHODS if method else SWAPPED_CALLS).get(name)
    if other:
        function = (
            ast.Attribute(call.func.value, other, ast.Load())
            if isinstance(call.func, ast.Attribute)
            else ast.Name(other, ast.Load())
        )
        yield ast.Call(function, call.args, call.keywords)
    if name in DROPPED_CALLS:
        if call.args and not isinstance(call.args[0], ast.Starred):
            yield call.args[0]
        elif isinstance(call.func, ast.Attribute) and not call.args:
            yield call.func.value


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_constant(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
