"""A page: one HTML file with everything inside, to be read on paper, screen or phone.

A page is a title, a summary in plain words, and parts in order. It computes nothing: parts come
with their words, numbers and pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.report.templates import rendered

__public__ = ("Fold", "Grid", "Heading", "Part", "Picture", "Points", "Words", "write_page")


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of short paragraphs; `numbered` where other words refer to their numbers."""

    items: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True)
class Picture:
    """An SVG file, what it shows to somebody who cannot see it, and a caption."""

    path: Path
    alt: str
    caption: str

    @property
    def svg(self) -> str:
        return self.path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Drawing:
    """The same, with the SVG itself."""

    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Code:
    """A program to copy, and what it is."""

    title: str
    text: str


@dataclass(frozen=True)
class Grid:
    """A table of texts; the first column names the row. `file` is where the numbers are; `words`
    says that the cells hold words, not numbers."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    file: str = ""
    words: bool = False


@dataclass(frozen=True)
class Fold:
    """Parts behind a line that opens on request."""

    title: str
    parts: tuple[Part, ...]

    @property
    def named(self) -> list[tuple[str, Part]]:
        """The parts with the names of their kinds."""
        return [(type(part).__name__, part) for part in self.parts]


Part = Heading | Words | Points | Picture | Drawing | Code | Grid | Fold


def write_page(
    path: Path, title: str, summary: Sequence[str], parts: Sequence[Part], footer: str
) -> Path:
    """One self-contained page; `summary` says first, and plainly, what came out."""
    path.write_text(page_text(title, summary, parts, footer), encoding="utf-8")
    return path


def page_text(
    title: str, summary: Sequence[str], parts: Sequence[Part], footer: str, mark: str = ""
) -> str:
    """The page itself; `mark` says on top who may see it."""
    return rendered(
        "page.html.j2",
        title=title,
        summary=summary,
        parts=Fold("", tuple(parts)).named,
        footer=footer,
        mark=mark,
    )
