"""What to estimate, from text: "mean(salary)" becomes a typed Statistic.

    count   total(x)   mean(x)   proportion(x == "level")   ratio(x / y)   quantile(x, 0.5)

A mistake is shown with a caret under its place. Column names that are not plain words go
between backticks: mean(`net income`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from understudy.errors import SyntaxRefused, UnknownName

Kind = Literal["count", "total", "mean", "proportion", "ratio", "quantile"]

FORMS = {
    "count": "count",
    "total": "total(x)",
    "mean": "mean(x)",
    "proportion": 'proportion(x == "level")',
    "ratio": "ratio(x / y)",
    "quantile": "quantile(x, 0.5)",
}

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>`[^`]+`|[^\W\d][\w.]*)
    | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    | (?P<text>"[^"]*"|'[^']*')
    | (?P<sign>==|[(),/])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Statistic:
    """One statistic, with the text that the user wrote for it."""

    text: str
    kind: Kind
    x: str | None = None
    y: str | None = None
    level: str | float | bool | None = None
    probability: float | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in (self.x, self.y) if name is not None)


def parse_statistic(text: str, columns: Sequence[str]) -> Statistic:
    """The typed statistic; its columns are checked against `columns`."""
    reader = _Reader(text)
    kind = reader.take("name", "the name of a statistic")
    if kind not in get_args(Kind):
        raise UnknownName("statistic", kind, FORMS.values())
    fields: dict[str, str | float | bool] = {}
    if kind != "count":
        reader.sign("(", kind)
        fields["x"] = reader.column(columns)
        if kind == "proportion":
            reader.sign("==", kind)
            fields["level"] = reader.value()
        elif kind == "ratio":
            reader.sign("/", kind)
            fields["y"] = reader.column(columns)
        elif kind == "quantile":
            reader.sign(",", kind)
            fields["probability"] = reader.probability()
        reader.sign(")", kind)
    reader.end()
    return Statistic(text=text.strip(), kind=kind, **fields)  # type: ignore[arg-type]


class _Reader:
    """Tokens of the text, each with its place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None:
                place = position + len(text[position:]) - len(text[position:].lstrip())
                raise SyntaxRefused("This character has no meaning in a statistic:", text, place)
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()
        self.next = 0

    def peek(self) -> tuple[str, str, int]:
        if self.next < len(self.tokens):
            return self.tokens[self.next]
        return "end", "", len(self.text.rstrip())

    def take(self, kind: str, expected: str) -> str:
        found, token, place = self.peek()
        if found != kind:
            raise SyntaxRefused(f"Here should stand {expected}:", self.text, place)
        self.next += 1
        return token.strip("`") if kind == "name" else token

    def sign(self, sign: str, kind: str) -> None:
        if self.peek()[1] != sign:
            raise SyntaxRefused(
                f"Here should stand `{sign}` (the form is {FORMS[kind]}):",
                self.text,
                self.peek()[2],
            )
        self.next += 1

    def column(self, columns: Sequence[str]) -> str:
        name = self.take("name", "the name of a column")
        if name not in columns:
            raise UnknownName("column", name, columns)
        return name

    def value(self) -> str | float | bool:
        kind, token, place = self.peek()
        self.next += 1
        if kind == "text":
            return token[1:-1]
        if kind == "number":
            return float(token)
        if token in ("true", "false", "True", "False"):
            return token.lower() == "true"
        raise SyntaxRefused('Here should stand a level, as "text" or a number:', self.text, place)

    def probability(self) -> float:
        place = self.peek()[2]
        value = float(self.take("number", "a probability between 0 and 1"))
        if not 0 < value < 1:
            raise SyntaxRefused("A quantile's probability lies between 0 and 1:", self.text, place)
        return value

    def end(self) -> None:
        if self.peek()[0] != "end":
            raise SyntaxRefused("Nothing may follow here:", self.text, self.peek()[2])
