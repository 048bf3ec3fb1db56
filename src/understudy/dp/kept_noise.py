"""Noise that outlives a kill: what a mechanism drew is on the disk before anyone uses it.

Noise from OpenDP has no seed, so a run that is killed and started again would draw it anew, and
the mean of sixty such draws tells far more than the one that was paid for (threat 32). Within
`keeping(file)` every noisy answer is written to the file, which only its owner can read, and
brought to the disk before it is returned. A later run with the same file gets the same answers in
the same order, as long as it asks the same questions; `OtherQuestion` where it does not. Draws
that run side by side have no order: each gets a file of its own (`kept_apart`).

The file holds for each answer the digest of its question, its size, the answer, and a digest over
all of these. The last answer may be torn by the kill: it was never used, and is drawn anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused

Counts = NDArray[np.int64]

DIGEST = 32
HEAD = DIGEST + 8


class OtherQuestion(Refused):
    """The noise in the file answers another question; it must not be mixed with this one's."""

    def __init__(self) -> None:
        super().__init__(
            "The noise that an earlier run drew belongs to other counts; it cannot be used again."
        )


class _Keeper:
    """The file of one run, read up to `_next` and then written."""

    def __init__(self, path: Path) -> None:
        self.path, self.branchings = path, 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.fchmod(self._file, 0o600)
        self._next = 0

    def answer(self, question: bytes, draw: Callable[[], Counts]) -> Counts:
        known = self._read()
        if known is not None:
            asked, answer = known
            if asked != question:
                raise OtherQuestion
            self._next += HEAD + answer.nbytes + DIGEST
            return answer
        answer = np.ascontiguousarray(draw(), dtype=np.int64)
        record = question + answer.nbytes.to_bytes(8, "big") + answer.tobytes()
        record += hashlib.sha256(record).digest()
        os.ftruncate(self._file, self._next)
        written = 0
        while written < len(record):
            written += os.pwrite(self._file, record[written:], self._next + written)
        os.fsync(self._file)
        self._next += len(record)
        return answer

    def close(self) -> None:
        os.close(self._file)

    def _read(self) -> tuple[bytes, Counts] | None:
        head = os.pread(self._file, HEAD, self._next)
        size = int.from_bytes(head[DIGEST:], "big") if len(head) == HEAD else -1
        if size < 0 or self._next + HEAD + size + DIGEST > os.fstat(self._file).st_size:
            return None
        body = os.pread(self._file, size + DIGEST, self._next + HEAD)
        if hashlib.sha256(head + body[:size]).digest() != body[size:]:
            return None
        return head[:DIGEST], np.frombuffer(body[:size], dtype=np.int64).copy()


_KEEPER: ContextVar[_Keeper | None] = ContextVar("keeper", default=None)


@contextmanager
def keeping(path: Path) -> Iterator[None]:
    """Keep in `path` all noise that is drawn within, or take it from there."""
    keeper = _Keeper(path)
    before = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(before)
        keeper.close()


def forget(path: Path) -> None:
    """Delete the file, and those of draws side by side; what they held must not be used again."""
    for file in (path, *path.parent.glob(f"{path.name}-*")):
        file.unlink(missing_ok=True)


def kept_apart(count: int) -> list[AbstractContextManager[None]]:
    """For each of `count` threads, within which it keeps its noise in a file of its own."""
    keeper = _KEEPER.get()
    if keeper is None:
        return [nullcontext() for _ in range(count)]
    keeper.branchings += 1
    names = (f"{keeper.path.name}-{keeper.branchings}-{number}" for number in range(count))
    return [keeping(keeper.path.with_name(name)) for name in names]


def kept(what: str, counts: Counts, draw: Callable[[], Counts]) -> Counts:
    """The whole numbers that `draw` gives, kept where a file was opened for them.

    `what` names the mechanism with its scale; with `counts`, what the noise is added to, it is the
    question that a kept answer must belong to.
    """
    keeper = _KEEPER.get()
    if keeper is None:
        return draw()
    question = hashlib.sha256(what.encode() + b"\0" + np.ascontiguousarray(counts).tobytes())
    return keeper.answer(question.digest(), draw)
