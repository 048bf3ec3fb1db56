"""The reference of recipe and commands is what the code says now."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "write_reference.py"))


@pytest.mark.parametrize("name", list(SCRIPT["PAGES"]))
def test_the_page_is_up_to_date(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == SCRIPT["PAGES"][name](), "run `python scripts/write_reference.py`"


def test_every_public_name_is_there_with_its_own_signature() -> None:
    import understudy as us

    for name in us.__all__:
        assert getattr(us, name) is not None
    for name in ("synthesize", "tabulate", "publish", "FBS", "Weighted", "plan", "__version__"):
        assert name in us.__all__
    assert not hasattr(us, "synthesise")


def test_tables_do_not_load_jax() -> None:
    code = "import sys, understudy as us; us.tabulate; us.Survey; print('jax' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
