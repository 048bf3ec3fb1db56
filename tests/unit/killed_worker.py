"""The death of one of Spark's workers, once, with all that it kept."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any


def killing_once(mark: Path) -> Callable[[], None]:
    """A function that kills the executor of the task that first calls it, and then nobody; the mark
    is a file that is there from then on."""
    path = str(mark)

    def kill() -> None:  # a function in a function goes to the workers whole
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        with open(f"/proc/{os.getppid()}/stat") as daemon:  # the executor is its parent
            os.kill(int(daemon.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
        raise RuntimeError("killed")

    return kill


def executors(session: Any) -> set[str]:
    """The addresses of the processes that hold and count records."""
    known = session.sparkContext._jsc.sc().getExecutorMemoryStatus().keySet().mkString(" ")
    return set(known.split())
