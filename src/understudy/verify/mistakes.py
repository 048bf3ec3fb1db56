"""What is wrong with a question, in our words: which field, and what would be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from understudy.errors import Refused, UnknownName

_KINDS = ("str", "constrained-str", "int", "float", "bool")  # pydantic's names of a level's kinds
_WANTED = {  # by pydantic's name of the mistake
    "float_type": "must be a number, such as 2",
    "int_type": "must be a whole number, such as 2",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "tuple_type": 'must be a list, such as ["region"]',
    "model_type": 'must be written with its parts, such as {"value": 2}',
}
_DOMAIN = 'must name columns and their levels, such as {"region": ["North"]}'


class QuestionMistake(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    field: str
    message: str


class InvalidQuery(Refused):
    """All mistakes of a query at once; nothing was spent."""

    def __init__(self, mistakes: list[QuestionMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(" ".join(mistake.message for mistake in mistakes))


def say(field: str, message: str) -> QuestionMistake:
    return QuestionMistake(field=field, message=message)


def in_our_words(
    found: Any, fields_at: Callable[[Sequence[int | str]], Iterable[str]]
) -> QuestionMistake:
    """One of pydantic's errors; `fields_at` names the fields that a place has."""
    where, kind = found["loc"], found["type"]
    place = ".".join(str(part) for part in where if part not in _KINDS) or "query"
    if kind == "extra_forbidden":
        return say(place, str(UnknownName("field", str(where[-1]), fields_at(where))))
    if kind == "missing":
        return say(place, f"`{place}` is missing.")
    if kind == "value_error":
        return say(place, str(found["ctx"]["error"]))
    if any(part in _KINDS for part in where):
        return say(place, f"`{place}` must be a text, a number, or true or false.")
    if kind == "tuple_type" and place in ("domain", "versus"):
        return say(place, f"`{place}` {_DOMAIN}.")
    if kind in _WANTED:
        return say(place, f"`{place}` {_WANTED[kind]}.")
    message = found["msg"].rstrip(".")
    if message.startswith("Input should be"):
        return say(place, f"`{place}` must be{message.removeprefix('Input should be')}.")
    return say(place, f"`{place}`: {message[0].lower()}{message[1:]}.")
