"""The modules of this folder and of the unit tests, for its tests."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE.parent / "unit", HERE):
    sys.path.insert(0, str(folder))  # pytest runs in importlib mode
