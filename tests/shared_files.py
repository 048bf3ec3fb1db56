"""The folder of real survey files, for tests of the package and of the studies."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real survey files; a test that uses it has a twin on generated data."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of real survey files is not here")
    return SHARED_DATA
