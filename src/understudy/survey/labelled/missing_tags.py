"""Stata's .a to .z and SAS's .A to .Z and ._ as numbers that a numeric column can hold.

Stata stores .a to .z of a long integer as 2147483622 to 2147483647, above the largest value
that it allows. We use these numbers in every numeric column, whatever its type, and declare
them as the column's missing codes; SAS's ._ takes the number just below them.
"""

from __future__ import annotations

from string import ascii_lowercase

TAG_CODES: dict[str, int] = {
    "_": 2147483621,
    **{letter: 2147483622 + number for number, letter in enumerate(ascii_lowercase)},
}
CODE_TAGS: dict[float, str] = {code: tag for tag, code in TAG_CODES.items()}


def tag_code(tag: str) -> int:
    """The number that stands for a tag, in Stata's lower or SAS's upper case."""
    return TAG_CODES[tag.lower()]


def is_tag_code(value: object) -> bool:
    """Whether a value is one of these numbers."""
    return isinstance(value, (int, float)) and value in CODE_TAGS
