"""Parts of a large file that wait until something is known that all of them need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from understudy.survey.engine import new_scratch_file

IN_MEMORY = 200_000_000  # bytes; parts beyond it wait in the scratch folder


class WaitingFrames:
    """Frames in their order: the first ones in memory, the others on disk."""

    def __init__(self) -> None:
        self._parts: list[pl.DataFrame | Path] = []
        self._bytes = 0

    def put(self, frame: pl.DataFrame) -> None:
        self._bytes += int(frame.estimated_size())
        held = not self._parts or self._bytes <= IN_MEMORY  # one that is alone in any case
        self._parts.append(frame if held else _written(frame))

    def __len__(self) -> int:
        return len(self._parts)

    def taken(self) -> Iterator[pl.DataFrame]:
        """Each frame once; it is gone from here when it has been taken."""
        self._parts.reverse()
        while self._parts:
            part = self._parts.pop()
            if isinstance(part, Path):
                yield pl.read_ipc(part)
                part.unlink()
            else:
                yield part


def _written(frame: pl.DataFrame) -> Path:
    path = new_scratch_file(".arrow")
    frame.write_ipc(path)
    return path
