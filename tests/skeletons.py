"""The skeletons of CONTRIBUTING.md, as the files that they are."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"


def skeletons() -> dict[str, str]:
    """{class: its file} of every block of code in the guide."""
    blocks = re.findall(
        r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return {re.findall(r"^class (\w+)", block, re.MULTILINE)[0]: block for block in blocks}


def skeleton(name: str) -> str:
    return skeletons()[name]
