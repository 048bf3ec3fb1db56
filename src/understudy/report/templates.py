"""The templates of pages and programs: HTML with everything escaped, R and Python as they are."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from understudy.report.numbers import digits, fixed, limits, listed, percent, shown
from understudy.tables.r_text import r_formula, r_name, r_text, r_value, r_vector


def rendered(name: str, **facts: Any) -> str:
    """One template with its facts; a fact that is missing is an error."""
    return environment().get_template(name).render(**facts)


@cache
def environment() -> Environment:
    templates = Environment(
        loader=PackageLoader("understudy.report", "templates"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters.update(
        base64=lambda text: b64encode(text.encode("utf-8")).decode("ascii"),
        code=lambda names: [f"`{name}`" for name in names],
        digits=digits,
        fixed=fixed,
        json=lambda value: json.dumps(value, ensure_ascii=False),
        limits=limits,
        listed=listed,
        percent=percent,
        r_formula=r_formula,
        r_name=r_name,
        r_text=r_text,
        r_value=r_value,
        r_vector=r_vector,
        shown=shown,
        spans=spans,
        thousands=lambda number: f"{number:,}",
    )
    return templates


def spans(text: str) -> list[tuple[str, bool]]:
    """The pieces of a text, and whether each stood between backticks."""
    pieces = re.split(r"`([^`]+)`", text)
    return [(piece, number % 2 == 1) for number, piece in enumerate(pieces) if piece]
