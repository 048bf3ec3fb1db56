"""A page: one HTML file with everything inside, to be read on paper, screen or phone.

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
    """A table of texts; the first column names the row. `file` is where the numbers lie; `words`
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


Part = Heading | Words | Points | Picture | Drawing | Code | Grid | Fold

LONG_NAME = 26  # letters that a row's name may have on one line
_LONG = ' class="long"'

STYLE = """
:root{color-scheme:light dark;--ink:#1c1c1c;--soft:#5b5b5b;--line:#d8d8d8;--paper:#fff;
--shade:#f5f5f3;--link:#00558b;--mark:#8a1c00}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--soft:#a8a8a8;--line:#3c3c3c;
--paper:#161616;--shade:#202020;--link:#7cc0f0;--mark:#ffb199}
img{filter:invert(.914) hue-rotate(180deg)}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:17px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:46rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0 1rem}
h2{font-size:1.25rem;line-height:1.3;margin:2.5rem 0 .5rem}
h1,h2,p,li{overflow-wrap:anywhere}li{margin:.4rem 0}a{color:var(--link)}
.mark{color:var(--mark);border:2px solid;padding:.4rem .8rem;margin:0 0 1rem;font-weight:600}
.summary{background:var(--shade);padding:.25rem 1rem;border-left:4px solid var(--line)}
figure{margin:1.5rem 0}img{display:block;width:100%;max-width:36rem;height:auto}
figcaption,caption{color:var(--soft);font-size:.9rem;line-height:1.4}
figcaption{margin:.5rem 0}caption{text-align:left}
caption span{display:inline-block;position:sticky;left:0;max-width:min(44rem,calc(100vw - 2rem));
margin:.5rem 0;overflow-wrap:anywhere}
.wide{overflow-x:auto}code{font-size:.92em}
pre{overflow-x:auto;background:var(--shade);padding:.8rem 1rem;margin:.5rem 0;line-height:1.45;
font-size:.85rem}pre code{font-size:1em}
table{border-collapse:collapse;font-size:.88rem;min-width:min(100%,28rem);
font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap;
vertical-align:top}
tbody th{text-align:left;font-weight:400;position:sticky;left:0;background:var(--paper)}
thead th{font-weight:600}thead th:first-child{text-align:left}
.words td,.words thead th,tbody .long{text-align:left;white-space:normal}
tbody .long{min-width:9rem;overflow-wrap:anywhere}
details{margin:1.5rem 0;border-top:1px solid var(--line)}
summary{cursor:pointer;padding:.6rem 0;font-weight:600}
footer{margin-top:3rem;color:var(--soft);font-size:.85rem;border-top:1px solid var(--line)}
@media(min-width:72rem){.wide{margin-right:-11rem}}
@media print{:root{color-scheme:light;--ink:#000;--soft:#333;--line:#999;--paper:#fff;
--shade:#fff;--link:#000;--mark:#000}
@page{margin:18mm 15mm}body{font-size:10.5pt}main{max-width:none;padding:0}
img{filter:none;max-width:13cm}figure.picture,tr,pre{break-inside:avoid}h2{break-after:avoid}
thead{display:table-header-group}.wide{overflow:visible}table{font-size:8pt}
th,td{padding:.15rem .3rem}td,thead th{white-space:normal}tbody th,caption span{position:static}
pre{white-space:pre-wrap;border:1px solid var(--line)}}
"""


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
    lead = "".join(f"<p>{_text(text)}</p>" for text in summary)
    body = "\n".join(_part(part) for part in parts)
    marked = f'<p class="mark">{escape(mark)}</p>\n' if mark else ""
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n"
        f"<body><main>{marked}<h1>{escape(title)}</h1>\n"
        f'<section class="summary">{lead}</section>\n'
        f"{body}\n<footer><p>{_text(footer)}</p></footer></main></body></html>\n"
    )


def _part(part: Part) -> str:
    match part:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Words(text):
            return f"<p>{_text(text)}</p>"
        case Points(items, numbered):
            kind = "ol" if numbered else "ul"
            return f"<{kind}>" + "".join(f"<li>{_text(one)}</li>" for one in items) + f"</{kind}>"
        case Picture(path, alt, caption):
            return _image(path.read_bytes(), alt, caption)
        case Drawing(svg, alt, caption):
            return _image(svg.encode("utf-8"), alt, caption)
        case Code(title, text):
            return (
                f"<figure><figcaption>{_text(title)}</figcaption>"
                f'<pre tabindex="0"><code>{escape(text)}</code></pre></figure>'
            )
        case Grid():
            return _grid(part)
        case Fold(title, parts):
            inside = "\n".join(_part(one) for one in parts)
            return f"<details><summary>{escape(title)}</summary>\n{inside}</details>"


def _image(svg: bytes, alt: str, caption: str) -> str:
    data = b64encode(svg).decode("ascii")
    return (
        f'<figure class="picture"><img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}">'
        f"<figcaption>{_text(caption)}</figcaption></figure>"
    )


def _grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in grid.header)
    rows = "".join(
        f'<tr><th scope="row"{_LONG if len(row[0]) > LONG_NAME else ""}>{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in grid.rows
    )
    file = f' <a href="{escape(grid.file)}">{escape(grid.file)}</a>' if grid.file else ""
    kind = ' class="words"' if grid.words else ""
    return (
        f'<figure><div class="wide" role="region" tabindex="0" '
        f'aria-label="{escape(grid.caption.replace("`", ""))}"><table{kind}>'
        f"<caption><span>{_text(grid.caption)}{file}</span></caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></figure>"
    )


def _text(text: str) -> str:
    """Escaped, with `code` in backticks."""
    return sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
