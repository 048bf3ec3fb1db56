"""Fixtures for every test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # pytest runs in importlib mode
pytest_plugins = ("chance",)

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real survey files; a test that uses it has a twin on generated data."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of real survey files is not here")
    return SHARED_DATA
