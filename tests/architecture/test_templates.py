"""Pages, pictures and programs stand in templates: no HTML, SVG or R in the strings of the code.

The R text of a statistic or of a file format is a fact of its class, and stays there.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from parsed_source import nodes_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "understudy"
FACTS = ("statistics", "formats")
FILES = [
    path
    for folder in (SOURCE, ROOT / "studies" / "src")
    for path in sorted(folder.rglob("*.py"))
    if path.parent.name not in FACTS
]
TAGS = (
    "a|b|body|br|circle|code|dd|desc|details|div|dl|dt|em|figcaption|figure|form|g|h[1-6]|head|html|"
    "i|img|input|li|line|ol|p|path|polygon|polyline|pre|rect|script|section|span|strong|style|"
    "summary|svg|table|tbody|td|text|th|thead|title|tr|ul"
)
MARKUP = re.compile(
    rf"(?<!\?P)</?(?:{TAGS})(?:\s[^<]*)?/?>|<(?:{TAGS})\s|<!doctype|\bsvy[a-z]+\(|<- ",
    re.IGNORECASE,
)


def test_no_markup_and_no_r_in_strings() -> None:
    assert len(FILES) > 300
    marked = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        for node in nodes_of(path.read_text(encoding="utf-8"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if MARKUP.search(node.value)
    ]
    assert not marked


def test_templates_are_part_of_the_package() -> None:
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kept = settings["tool"]["setuptools"]["package-data"]["understudy"]
    templates = [
        path for room in ("report", "web") for path in (SOURCE / room / "templates").iterdir()
    ]
    assert len(templates) > 20
    for path in templates:
        assert f"**/*{path.suffix}" in kept, path.name


def test_markup_is_seen() -> None:
    for text in ('<p class="x">', "</td>", "<br/>", "<svg ", "fit <- svyglm(", "<!DOCTYPE html>"):
        assert MARKUP.search(text), text
    for text in ("us_<id>_<secret>", "(?P<name>[a-z]+)", "a < b > c", "`<number>`"):
        assert not MARKUP.search(text), text
