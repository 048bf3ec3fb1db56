"""Bounded workers: separate processes that a deadline can end (threat 7).

Every partition has its own deadline; a partition that misses it has no estimate, and no
other partition notices. A deadline for the whole query would let one slow record silence
all partitions, which is a sensitivity of M instead of 1.
"""

from __future__ import annotations

import math
import os
import pickle
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from understudy.verify.caller import Caller, CallerLeft
from understudy.verify.partition_fit import LENGTH, NUMBER, Task

Worker = subprocess.Popen[bytes]

LOOK = 0.05  # seconds between two looks whether the caller is still there
STARTING = 60.0  # seconds that a fresh process may take to import and warm up, on a busy machine


class WorkerPool:
    """Up to `count` processes for a question, started when first needed and used again. How many
    questions there are at once is the caller's business."""

    def __init__(self, count: int = 2, deadline: float = 2.0) -> None:
        self.count = count
        self.deadline = deadline
        self._idle: list[Worker] = []
        self._lock = threading.Lock()

    def run(self, tasks: Sequence[Task], caller: Caller | None = None) -> NDArray[np.float64]:
        """One number per task, NaN where there is none; CallerLeft once nobody waits for them."""
        results = np.full(len(tasks), np.nan)
        waiting = list(range(len(tasks)))[::-1]
        with self._busy() as busy:
            while waiting or busy:
                while waiting and len(busy) < self.count:
                    index = waiting.pop()
                    worker = self._take()
                    if _send(worker, tasks[index]):
                        busy[cast(BinaryIO, worker.stdout).fileno()] = worker, index
                    else:
                        _end(worker)
                if not busy:
                    continue
                ready = self._ready(list(busy), caller)
                for file in ready or list(busy):
                    worker, index = busy.pop(file)
                    reply = os.read(file, NUMBER.size) if ready else b""
                    if len(reply) == NUMBER.size:
                        results[index] = NUMBER.unpack(reply)[0]
                        self._idle.append(worker)
                    else:
                        _end(worker)
        return results

    @contextmanager
    def _busy(self) -> Iterator[dict[int, tuple[Worker, int]]]:
        """The processes that compute; none goes on when the question is over."""
        busy: dict[int, tuple[Worker, int]] = {}
        try:
            yield busy
        finally:
            for worker, _ in busy.values():
                _end(worker)

    def _ready(self, files: list[int], caller: Caller | None) -> list[int]:
        """Those that have a number; none where all are stuck."""
        for _ in range(math.ceil(self._guard / LOOK)):
            if caller is not None and caller.gone:
                raise CallerLeft
            ready, _, _ = select.select(files, [], [], LOOK)
            if ready:
                return ready
        return []

    def _take(self) -> Worker:
        with self._lock:
            return self._idle.pop() if self._idle else self._start()

    def close(self) -> None:
        with self._lock:
            while self._idle:
                _end(self._idle.pop())

    @property
    def _guard(self) -> float:
        """Wall seconds without any reply after which a worker must be stuck, not slow."""
        return 10 * self.deadline + STARTING

    def _start(self) -> Worker:
        # One thread per worker: its CPU clock then runs at wall speed, whatever the others do.
        single = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "MKL", "OMP")}
        return subprocess.Popen(
            [sys.executable, "-m", "understudy.verify.partition_fit", repr(self.deadline)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **single},
        )


def _send(worker: Worker, task: Task) -> bool:
    message = pickle.dumps(task, protocol=5)
    try:
        pipe = cast(BinaryIO, worker.stdin)
        pipe.write(LENGTH.pack(len(message)) + message)
        pipe.flush()
    except BrokenPipeError:
        return False
    return True


def _end(worker: Worker) -> None:
    worker.kill()
    worker.wait()
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue
