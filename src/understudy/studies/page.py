"""A study's page: one HTML file with everything inside, to be read on paper, screen or phone.

A page is a title, a summary in plain words, and parts in order. It computes nothing: parts come
with their words, numbers and pictures.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from re import sub


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of short paragraphs."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """An SVG file, what it shows to somebody who cannot see it, and a caption."""

    path: Path
    alt: str
    caption: str


@dataclass(frozen=True)
class Grid:
    """A table of texts; the first column names the row. `file` is where the numbers lie."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    file: str = ""


@dataclass(frozen=True)
class Fold:
    """Parts behind a line that opens on request."""

    title: str
    parts: tuple[Part, ...]


Part = Heading | Words | Points | Picture | Grid | Fold

STYLE = """
:root{color-scheme:light dark;--ink:#1c1c1c;--soft:#5b5b5b;--line:#d8d8d8;--paper:#fff;
--shade:#f5f5f3;--link:#00558b}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--soft:#a8a8a8;--line:#3c3c3c;
--paper:#161616;--shade:#202020;--link:#7cc0f0}
img{filter:invert(.914) hue-rotate(180deg)}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:17px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:46rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0 1rem}
h2{font-size:1.25rem;line-height:1.3;margin:2.5rem 0 .5rem}
p,li{overflow-wrap:anywhere}li{margin:.4rem 0}a{color:var(--link)}
.summary{background:var(--shade);padding:.25rem 1rem;border-left:4px solid var(--line)}
figure{margin:1.5rem 0}img{display:block;width:100%;max-width:36rem;height:auto}
figcaption{color:var(--soft);font-size:.9rem;line-height:1.4;margin:.5rem 0}
.wide{overflow-x:auto}code{font-size:.92em}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap;
vertical-align:top}
tbody th{text-align:left;font-weight:400;position:sticky;left:0;background:var(--paper)}
thead th{font-weight:600}thead th:first-child{text-align:left}
details{margin:1.5rem 0;border-top:1px solid var(--line)}
summary{cursor:pointer;padding:.6rem 0;font-weight:600}
footer{margin-top:3rem;color:var(--soft);font-size:.85rem;border-top:1px solid var(--line)}
"""


def write_page(
    path: Path, title: str, summary: Sequence[str], parts: Sequence[Part], footer: str
) -> Path:
    """One self-contained page; `summary` says first, and plainly, what came out."""
    lead = "".join(f"<p>{_text(text)}</p>" for text in summary)
    body = "\n".join(_part(part) for part in parts)
    path.write_text(
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n"
        f'<body><main><h1>{escape(title)}</h1>\n<section class="summary">{lead}</section>\n'
        f"{body}\n<footer><p>{_text(footer)}</p></footer></main></body></html>\n",
        encoding="utf-8",
    )
    return path


def _part(part: Part) -> str:
    match part:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Words(text):
            return f"<p>{_text(text)}</p>"
        case Points(items):
            return "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"
        case Picture(path, alt, caption):
            data = b64encode(path.read_bytes()).decode("ascii")
            return (
                f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}">'
                f"<figcaption>{_text(caption)}</figcaption></figure>"
            )
        case Grid():
            return _grid(part)
        case Fold(title, parts):
            inside = "\n".join(_part(one) for one in parts)
            return f"<details><summary>{escape(title)}</summary>\n{inside}</details>"


def _grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in grid.header)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in grid.rows
    )
    file = f' <a href="{escape(grid.file)}">{escape(grid.file)}</a>' if grid.file else ""
    return (
        f"<figure><figcaption>{_text(grid.caption)}{file}</figcaption>"
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(grid.caption)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></figure>"
    )


def _text(text: str) -> str:
    """Escaped, with `code` in backticks."""
    return sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
