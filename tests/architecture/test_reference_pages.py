"""The reference of recipe and commands is what the code says now."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "write_reference.py"))


@pytest.mark.parametrize("name", ["recipe.md", "commands.md"])
def test_the_page_is_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == SCRIPT["PAGES"][name](), "run `python scripts/write_reference.py`"
