"""What is wrong with a question, in our words: which field, and what would be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from pydantic import BaseModel, ConfigDict

from understudy.errors import Refused, UnknownName

_KINDS = ("str", "constrained-str", "int", "float", "bool")  # pydantic's names of a level's kinds
_WANTED = {  # by pydantic's name of the mistake
    "float_type": "must be a number, such as 2",
    "int_type": "must be a whole number, such as 2",
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "tuple_type": 'must be a list, such as ["region"]',
    "model_type": 'must be written with its parts, such as {"value": 2}',
}
LISTED = 5  # mistakes that are told at once; each may hold a hint, which takes time (threat 22)
_DOMAIN = 'must name columns and their levels, such as {"region": ["North"]}'


class QuestionMistake(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    field: str
    message: str


class InvalidQuery(Refused):
    """The first mistakes of a query; nothing was spent."""

    def __init__(self, mistakes: Iterable[QuestionMistake]) -> None:
        first = {(m.field, m.message): m for m in islice(mistakes, LISTED)}
        self.mistakes = tuple(first.values())
        super().__init__(" ".join(mistake.message for mistake in self.mistakes))


def say(field: str, message: str) -> QuestionMistake:
    return QuestionMistake(field=field, message=message)


def field_of(error: Any) -> str:
    """Which field one of pydantic's errors is about."""
    return ".".join(str(part) for part in error["loc"] if part not in _KINDS) or "query"


def in_our_words(
    error: Any, fields_at: Callable[[Sequence[int | str]], Iterable[str]]
) -> QuestionMistake:
    """One of pydantic's errors; `fields_at` names the fields at a location."""
    location, kind, field = error["loc"], error["type"], field_of(error)
    if kind == "extra_forbidden":
        return say(field, str(UnknownName("field", str(location[-1]), fields_at(location))))
    if kind == "missing":
        return say(field, f"`{field}` is missing.")
    if kind == "value_error":
        return say(field, str(error["ctx"]["error"]))
    if any(part in _KINDS for part in location):
        return say(field, f"`{field}` must be text, a number, or true or false.")
    if kind == "tuple_type" and field in ("domain", "versus"):
        return say(field, f"`{field}` {_DOMAIN}.")
    if kind in _WANTED:
        return say(field, f"`{field}` {_WANTED[kind]}.")
    message = error["msg"].rstrip(".")
    if message.startswith("Input should be"):
        return say(field, f"`{field}` must be{message.removeprefix('Input should be')}.")
    return say(field, f"`{field}`: {message[0].lower()}{message[1:]}.")
