"""The studies are tested like the rest: noise without a seed is accounted for."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # pytest runs in importlib mode
pytest_plugins = ("chance", "shared_files")
