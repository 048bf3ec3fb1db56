"""Where in a recipe each key stands, so that a mistake can name its line."""

from __future__ import annotations

import re
import tomllib

Place = tuple[str, str | None]  # section and key; None: the section's own heading

_HEADING = re.compile(r"^\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*([A-Za-z0-9_\-."']+)\s*=""")
_AT = re.compile(r"^(.*?) \(at (?:line (\d+), column \d+|end of document)\)$", re.DOTALL)


def lines_of(text: str) -> dict[Place, int]:
    """{(section, key): line}, counted from 1; of a key written twice the first.

    [[given]] sections are numbered: given 1, given 2, ...
    """
    lines: dict[Place, int] = {}
    section, repeated = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        heading = _HEADING.match(line)
        if heading:
            section, _, inner = heading[1].partition(".")
            section = _plain(section)
            if line.lstrip().startswith("[["):
                repeated += 1
                section = f"{section} {repeated}"
            lines.setdefault((section, None), number)
            if inner:  # [design.replicates]
                lines.setdefault((section, _plain(inner)), number)
                section = f"{section}.{_plain(inner)}"
            continue
        key = _KEY.match(line)
        if key:
            lines.setdefault((section, _plain(key[1].split(".")[0])), number)
    return lines


def line_of_error(error: tomllib.TOMLDecodeError) -> tuple[int, str]:
    """The line of a mistake in the TOML itself, and what is wrong there."""
    match = _AT.match(str(error))
    if match is None:
        return 1, str(error).rstrip(".")
    return int(match[2] or 1), match[1][:1].lower() + match[1][1:]


def _plain(name: str) -> str:
    return name.strip().strip("\"'")
