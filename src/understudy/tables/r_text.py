"""Names and values as R reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any


def r_name(name: str) -> str:
    """A name as R reads it in a formula."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.]*", name) else f"`{name}`"


def r_formula(names: Sequence[str]) -> str:
    return "~" + " + ".join(r_name(name) for name in names)


def r_vector(values: Sequence[Any]) -> str:
    return "c(" + ", ".join(r_value(value) for value in values) + ")"


def r_value(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return r_text(value) if isinstance(value, str) else repr(value)


def r_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
