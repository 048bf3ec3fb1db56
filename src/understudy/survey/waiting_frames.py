"""Parts of a large file that wait on disk until something is known that all of them need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from understudy.survey.engine import new_scratch_file


class WaitingFrames:
    """Frames in their order, in the scratch folder; one that is alone stays in memory."""

    def __init__(self) -> None:
        self._alone: pl.DataFrame | None = None
        self._paths: list[Path] = []

    def put(self, frame: pl.DataFrame) -> None:
        if self._alone is None and not self._paths:
            self._alone = frame
            return
        if self._alone is not None:
            self._write(self._alone)
            self._alone = None
        self._write(frame)

    def __len__(self) -> int:
        return len(self._paths) + (self._alone is not None)

    def taken(self) -> Iterator[pl.DataFrame]:
        """Each frame once; its file is gone when it has been read."""
        if self._alone is not None:
            yield self._alone
        for path in self._paths:
            frame = pl.read_ipc(path)
            path.unlink()
            yield frame

    def _write(self, frame: pl.DataFrame) -> None:
        self._paths.append(new_scratch_file(".arrow"))
        frame.write_ipc(self._paths[-1])
