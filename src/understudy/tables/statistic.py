"""What a statistic declares about itself, and how "mean(salary)" becomes one.

    count   total(x)   mean(x)   proportion(x == "level")   ratio(x / y)   quantile(x, 0.5)

For x stands a column, or a formula of columns: mean(log(x)), proportion(age > 64). Each is one
class in one file of `tables/statistics`; a class in a file of the user's own is written
`mine.py:Mine(salary)`. A mistake is shown with a caret under its place. Column names that are not
plain words go between backticks: mean(`net income`), and column("net income") inside of a formula.
A level with both kinds of quotes has a backslash before those that it stands in.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import ibis
import numpy as np

from understudy.declarations import Declared, declared_in, own_class
from understudy.errors import Refused, SyntaxRefused, UnknownName
from understudy.tables.expression import Expression
from understudy.tables.influence.equations.ratio import RatioEquation
from understudy.tables.influence.equations.total import TotalEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.tables.linear import joint_estimates, linear_estimates
from understudy.tables.taylor import DomainEstimates

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import polars as pl
    from numpy.typing import NDArray

    from understudy.survey.survey import Survey
    from understudy.tables.collect import Sums
    from understudy.tables.first_look import Linear
    from understudy.tables.sorted_records import SortedRecords

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>`[^`]+`|[^\W\d][\w.]*)
    | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<sign>==|!=|<=|>=|[-+*<>(),/\[\]{}])
    )""",
    re.VERBOSE,
)
_FILE = re.compile(r"\s*(?P<file>[^()\"']*?\.py):(?=[^\W\d])")


@dataclass(frozen=True)
class Cells:
    """The cells of one table (or of one of its margins) that a statistic is estimated in."""

    survey: Survey
    asked: Sequence[Statistic]  # all statistics of the table
    names: Sequence[str]  # the by-variables
    kept: Sequence[int]  # those of them that this margin has
    levels: pl.DataFrame  # (cells, kept): columns by0, by1, ...
    inside: ir.BooleanValue | None  # the requested domain
    sums: Sums  # of the linear statistics, in one pass
    linear: Sequence[Statistic]  # the statistics that `sums` has, in this order
    domain: NDArray[np.int64]  # the cell of each row of `sums`
    df: float  # the design's degrees of freedom
    level: float  # of confidence
    # estimates that one statistic made for others of its kind, to share a pass
    done: dict[Statistic, DomainEstimates] = field(default_factory=dict)
    # records that were put in order for one margin, for the others
    in_order: dict[str, SortedRecords] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return max(self.levels.height, 1) if self.kept else 1


@dataclass(frozen=True)
class Statistic(Declared, abstract=True):
    """One statistic, with the text that it has in a table. Subclasses are frozen dataclasses,
    with a field for each argument."""

    name: ClassVar[str]  # the word that asks for it
    form: ClassVar[str]  # how it is written
    empty: ClassVar[float]  # its value in a cell without records: 0 for sums, else NaN
    interval: ClassVar[Literal["t", "own"]]  # estimate ± t se, or limits that it brings itself
    intervals: ClassVar[tuple[str, ...]]  # kinds (intervals.py) that it may have, its own first
    averages: ClassVar[bool]  # whether a margin is the average of its cells, by counts
    of_counts: ClassVar[bool]  # about numbers of records, and not about a column of numbers

    text: str

    @classmethod
    @abstractmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        """The fields of the class, read from what follows its name."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs."""

    @abstractmethod
    def estimates(self, cells: Cells) -> DomainEstimates:
        """The estimate and its variance in every cell."""

    def joint(self, cells: Cells) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # noqa: ARG002
        """The estimates of all cells, (cells,), and their covariance, where it has one."""
        raise Refused(
            f"{self.text} has no covariance between cells here; compare counts, totals, means, "
            "proportions or ratios."
        )

    @abstractmethod
    def r_call(self, number: int) -> str:
        """The R survey call over `cell` and `design`; "" where R survey has none."""

    def influence_question(self) -> InfluenceQuestion | None:
        """Its estimating equation, where it has one: then it can be verified by influence."""
        return None

    def r_column(self, number: int) -> str:  # noqa: ARG002
        """An R expression of a column that the call needs first, as `data$share<number>`."""
        return ""

    def spread_out(self, survey: Survey) -> Sequence[Statistic]:  # noqa: ARG002
        """The statistics that a table shows for it: itself, or one for each level."""
        return [self]

    @property
    def adds_up(self) -> bool:
        """Whether the cells of a table add up to its margins."""
        return self.empty == 0

    @property
    def is_own(self) -> bool:
        """Whether it is in a file that readers of a release do not have."""
        return not type(self).__module__.startswith("understudy.")


@dataclass(frozen=True)
class LinearStatistic(Statistic, abstract=True):
    """A sum over records, or a ratio of two: all of them share one pass over the data."""

    interval = "t"

    @abstractmethod
    def linear(self, table: ir.Table) -> Linear:
        """The statistic as sum w a, or sum w a / sum w x."""

    def influence_question(self) -> InfluenceQuestion:
        """A total, or a ratio; a mean is the ratio to 1."""

        def columns(table: ir.Table) -> dict[str, Any]:
            linear = self.linear(table)
            below = ibis.literal(1.0) if isinstance(linear.x, float) else linear.x
            return {"y": linear.a} if below is None else {"y": linear.a, "z": below}

        equation = TotalEquation() if self.adds_up else RatioEquation()
        return InfluenceQuestion(equation, columns, names=(self.text,))

    def estimates(self, cells: Cells) -> DomainEstimates:
        return linear_estimates(cells.sums, cells.linear.index(self), cells.domain, cells.count)

    def joint(self, cells: Cells) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return joint_estimates(cells.sums, cells.linear.index(self), cells.domain, cells.count)


@dataclass(frozen=True)
class ColumnStatistic(LinearStatistic, abstract=True):
    """A sum or a ratio of one column or formula, written `name(x)`."""

    x: Expression

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        return {"x": reader.only_expression()}

    @property
    def columns(self) -> tuple[str, ...]:
        return self.x.columns


@cache
def statistics() -> dict[str, type[Statistic]]:
    """The statistics of the package by the word that asks for them."""
    classes = declared_in("understudy.tables.statistics", Statistic).values()
    return {statistic.name: statistic for statistic in classes}


def parse_statistic(
    text: str | Statistic, columns: Sequence[str], folder: Path | None = None
) -> Statistic:
    """The typed statistic; its columns are checked against `columns`.

    The file of a statistic of the user's own is a path from `folder`, and not part of its text.
    """
    if isinstance(text, Statistic):
        for name in text.columns:
            if name not in columns:
                raise UnknownName("column", name, columns)
        return text
    file = _FILE.match(text)
    if file is not None:
        text = text[file.end() :]
    reader = Reader(text.strip() if file else text, columns)
    word = reader.take("name", "the name of a statistic")
    if file is not None:
        chosen = own_class(f"{file['file']}:{word}", Statistic, "statistic", folder)
    elif word in statistics():
        chosen = statistics()[word]
    else:
        raise UnknownName(
            "statistic", word, [statistic.form for statistic in statistics().values()]
        )
    reader.form = chosen.form
    fields = chosen.arguments(reader)
    reader.end()
    return chosen(text.strip(), **fields)


def parse_statistics(
    texts: str | Statistic | Sequence[str | Statistic], columns: Sequence[str]
) -> list[Statistic]:
    """Several statistics, or one; none twice."""
    each = [texts] if isinstance(texts, (str, Statistic)) else list(texts)
    if not each:
        raise Refused('Name at least one statistic, such as "count" or "mean(y)".')
    parsed = [parse_statistic(text, columns) for text in each]
    if len({statistic.text for statistic in parsed}) < len(parsed):
        raise Refused("A statistic is named twice; name each once.")
    return parsed


class Reader:
    """Tokens of the text, each with its place."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self.text = text
        self.columns = columns
        self.form = ""  # of the statistic that is being read
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None:
                start = position + len(text[position:]) - len(text[position:].lstrip())
                raise SyntaxRefused("This character has no meaning in a statistic:", text, start)
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()
        self.next = 0

    def peek(self) -> tuple[str, str, int]:
        if self.next < len(self.tokens):
            return self.tokens[self.next]
        return "end", "", len(self.text.rstrip())

    def take(self, kind: str, expected: str) -> str:
        actual, token, start = self.peek()
        if actual != kind:
            raise SyntaxRefused(f"Expected {expected} here:", self.text, start)
        self.next += 1
        return token.strip("`") if kind == "name" else token

    def sign(self, sign: str) -> None:
        if self.peek()[1] != sign:
            raise SyntaxRefused(
                f"Expected `{sign}` here (the form is {self.form}):",
                self.text,
                self.peek()[2],
            )
        self.next += 1

    def column(self) -> str:
        name = self.take("name", "the name of a column")
        if name not in self.columns:
            raise UnknownName("column", name, self.columns)
        return name

    def expression(self) -> Expression:
        """A column, or a formula or condition up to the comma or bracket that ends it."""
        first, depth, start = self.next, 0, self.peek()[2]
        while not (depth == 0 and self.peek()[1] in (",", ")")) and self.peek()[0] != "end":
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.peek()[1], 0)
            self.next += 1
        if self.next - first <= 1:
            self.next = first
            return Expression(self.column())
        expression = Expression(self.text[start : self.peek()[2]].strip(), computed=True)
        for name in expression.columns:
            if name not in self.columns:
                raise UnknownName("column", name, self.columns)
        return expression

    def only_expression(self) -> Expression:
        """A column or a formula between brackets."""
        self.sign("(")
        expression = self.expression()
        self.sign(")")
        return expression

    def value(self) -> str | float | bool:
        kind, token, start = self.peek()
        self.next += 1
        if kind == "text":
            return re.sub(r"""\\(["'\\])""", r"\1", token[1:-1])
        if kind == "number":
            return float(token)
        if token in ("true", "false", "True", "False"):
            return token.lower() == "true"
        raise SyntaxRefused('Expected a level here, as "text" or a number:', self.text, start)

    def probability(self) -> float:
        start = self.peek()[2]
        value = float(self.take("number", "a probability between 0 and 1"))
        if not 0 < value < 1:
            raise SyntaxRefused("A quantile's probability is between 0 and 1:", self.text, start)
        return value

    def end(self) -> None:
        if self.peek()[0] != "end":
            raise SyntaxRefused("Nothing may follow here:", self.text, self.peek()[2])
