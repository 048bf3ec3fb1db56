"""The studies are tested like the rest: noise without a seed is accounted for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # pytest runs in importlib mode
pytest_plugins = ("chance", "shared_files", "one_png")


@pytest.fixture(scope="module", autouse=True)
def figures_in_one_form(one_png: None) -> None:
    """Studies draw many; pages need SVG alone."""
