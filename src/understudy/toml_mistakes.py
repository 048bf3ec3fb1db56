"""TOML that a person wrote: read as text, and every mistake in it named at once by its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import Refused

Location = tuple[str, ...]  # the keys from the outermost table inwards

_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADING = re.compile(rf"^\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(rf"^\s*({_DOTTED})\s*=")
_AT = re.compile(r"^(.*?) \(at (?:line (\d+), column \d+|end of document)\)$", re.DOTALL)


@dataclass(frozen=True)
class Mistake:
    line: int
    message: str


class TomlRefused(Refused):
    """All mistakes of a file, one per line."""

    def __init__(self, name: str, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = list(mistakes)
        lines = sorted({(m.line, f"{name}:{m.line}: {m.message}") for m in self.mistakes})
        super().__init__("\n".join(text for _, text in lines))


def read_toml_text(path: Path, what: str) -> str:
    """The text of a file that a person edited; `what` it is, for the refusal."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise Refused(f"There is no {what} at `{path}`; check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise Refused(f"The {what} `{path.name}` cannot be read: {reason}.") from None


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The values in a text; a mistake in the TOML itself is refused with its line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, reason = 1, str(error).rstrip(".")
        position = _AT.match(reason)
        if position is not None:
            line = int(position[2] or len(text.splitlines()) or 1)
            reason = position[1][:1].lower() + position[1][1:]
        message = f"This is not valid TOML: {reason}."
    except (ValueError, RecursionError):  # a number of thousands of digits, endless brackets
        line, message = 1, "This is not valid TOML; write plain keys and values."
    raise TomlRefused(name, [Mistake(line, message)])


def lines_of(text: str) -> dict[Location, int]:
    """{location: line}, counted from 1; of a key written twice the first.

    Tables in a list, such as [[given]], are numbered: given 1, given 2, ...
    """
    lines: dict[Location, int] = {}
    table: Location = ()
    listed = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if heading := _HEADING.match(line):
            table = _location(heading[2])
            if heading[1] == "[[":
                listed += 1
                table = (*table[:-1], f"{table[-1]} {listed}")
            location = table
        elif key := _KEY.match(line):
            location = (*table, *_location(key[1]))
        else:
            continue
        for depth in range(1, len(location) + 1):
            lines.setdefault(location[:depth], number)
    return lines


def line_at(lines: Mapping[Location, int], location: Location) -> int:
    """The line of a key, or else of the innermost table around it that has a line."""
    depths = range(len(location), 0, -1)
    return next((lines[location[:d]] for d in depths if location[:d] in lines), 1)


def _location(dotted: str) -> Location:
    """The names of a dotted key, without their quotes."""
    names: list[str] = []
    try:
        inner: Any = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:  # a line of a longer text that looks like a key
        return (dotted,)
    while isinstance(inner, dict):
        name, inner = next(iter(inner.items()))
        names.append(name)
    return tuple(names)
