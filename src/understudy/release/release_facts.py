"""release.json: the file by which a release is known, and the checksums in it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

SCHEMA = "understudy-release-1"
FACTS = "release.json"
CombiningRule = Literal["partial", "full"]  # the combining rule that the synthetic files need


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
