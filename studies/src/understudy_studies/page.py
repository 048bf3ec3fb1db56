"""A study's page from its template: Markdown with Jinja's fields, in the order it is read.

`# Title`, the summary, `## headings` with paragraphs and lists, and after a line `---` the
footer. `::: Title` opens a fold and `:::` closes it. A field that is a part of a page (a grid, a
picture, or several of them) stands in a paragraph by itself. The template holds the words;
numbers, rows and facts come as fields, and the filter `to` writes a number by a format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from re import fullmatch, sub
from typing import Any

import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

import understudy as us

Cell = str | Callable[[dict[str, Any]], str]

FOLD = ":::"


def render_page(template: Path, path: Path, context: Mapping[str, Any], note: str = "") -> Path:
    """Write the page of the template's words and the context's numbers, grids and pictures.

    A `note` stands above all else.
    """
    parts = _Parts()
    text = rendered(template, context, parts)
    body, _, footer = text.rpartition("\n---\n")
    title, *blocks = parts.blocks(body)
    if not isinstance(title, us.Heading):
        raise ValueError("a page begins with its title")
    start = next(k for k, block in enumerate(blocks) if isinstance(block, us.Heading))
    summary = [block.text for block in blocks[:start] if isinstance(block, us.Words)]
    summary = [note, *summary] if note else summary
    return us.write_page(path, title.text, summary, blocks[start:], " ".join(footer.split()))


def rendered(template: Path, context: Mapping[str, Any], parts: _Parts | None = None) -> str:
    """The template's text with its fields; those that are parts of a page are kept in `parts`."""
    parts = parts or _Parts()
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        finalize=parts.field,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # the page escapes its texts
    )
    environment.filters |= {"to": format, "word_grid": parts.word_grid}
    return environment.get_template(template.name).render(**context)


def grid(
    caption: str, table: pl.DataFrame, columns: Sequence[str | tuple[str, Cell]], file: str = ""
) -> us.Grid:
    """A row for each row of the table. A column is its title, and a format over the names of the
    table's columns or a function of the row; or the name of a column alone."""
    shown = [(each, f"{{{each}}}") if isinstance(each, str) else each for each in columns]
    rows = tuple(
        tuple(cell.format(**row) if isinstance(cell, str) else cell(row) for _, cell in shown)
        for row in table.iter_rows(named=True)
    )
    return us.Grid(caption, tuple(title for title, _ in shown), rows, file)


def number(value: Any, digits: int = 4, thousands: float = 1000) -> str:
    """Significant digits, commas in large numbers, a dash for none."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= thousands else f"{value:.{digits}g}"
    return str(value)


@dataclass
class _Parts:
    """Parts of the page that came as fields, by the number that stands for them in the text."""

    kept: list[tuple[us.Part, ...]] = field(default_factory=list)

    def field(self, value: Any) -> Any:
        several = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        if several and not all(isinstance(part, us.Part) for part in several):
            return value
        self.kept.append(several)
        return f"@{len(self.kept) - 1}@"

    def word_grid(self, text: str, caption: str, header: Sequence[str]) -> us.Grid:
        """A table whose cells are the points of a text, row by row."""
        (points,) = self.blocks(text)
        width, cells = len(header), points.items if isinstance(points, us.Points) else ()
        rows = tuple(cells[first : first + width] for first in range(0, len(cells), width))
        return us.Grid(caption, tuple(header), rows, words=True)

    def blocks(self, text: str) -> list[us.Part]:
        """Headings, paragraphs, lists, folds and fields of a text, in order."""
        stack: list[list[us.Part]] = [[]]
        titles: list[str] = []
        tokens = MarkdownIt("zero").enable(["heading", "list"]).parse(text)
        for node in SyntaxTreeNode(tokens).children:
            inside = [each.content for each in node.walk() if each.type == "inline"]
            points = tuple(sub(r"[ \n]+", " ", content) for content in inside)
            if node.type == "bullet_list":
                stack[-1].append(us.Points(points))
                continue
            (words,) = points
            if node.type == "heading":
                stack[-1].append(us.Heading(words))
            elif number := fullmatch(r"@(\d+)@", words):
                stack[-1] += self.kept[int(number[1])]
            elif words == FOLD:
                folded = tuple(stack.pop())
                stack[-1].append(us.Fold(titles.pop(), folded))
            elif words.startswith(FOLD):
                titles.append(words.removeprefix(FOLD).strip())
                stack.append([])
            else:
                stack[-1].append(us.Words(words))
        if titles:
            raise ValueError(f"the fold `{titles[-1]}` is not closed")
        return stack[0]
