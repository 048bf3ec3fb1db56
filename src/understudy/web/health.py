"""Whether the server could answer: a write reaches the ledger's disk and its head's, and replies do
not fail one after the other (threat 30).

Anybody may ask, so the disk is asked once in a while and others get what it said last.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from understudy.ledger.ledger import Ledger

SECONDS = 5.0  # between two tries of the disk
RECENT = 300.0  # seconds in which failures count
MANY = 10  # failures of that time with which a server is not well


class Health:
    """The ledger's health, as of a few seconds ago, and how many replies failed lately."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._last: tuple[float, bool] | None = None
        self._failed: deque[float] = deque(maxlen=1000)

    def note_failure(self) -> None:
        self._failed.append(self._clock())

    def failures(self) -> int:
        """Replies that failed in the last minutes."""
        since = self._clock() - RECENT
        return sum(at > since for at in tuple(self._failed))

    def ok(self) -> bool:
        return self.writes() and self.failures() < MANY

    def writes(self) -> bool:
        """Whether the ledger takes a write. While somebody tries, which may take long where a disk
        or a witness does not answer, others hear what it was before and hold no thread."""
        if not self._lock.acquire(blocking=self._last is None):
            return self._last is not None and self._last[1]
        try:
            now = self._clock()
            if self._last is None or now - self._last[0] >= SECONDS:
                self._last = now, self._try()
            return self._last[1]
        finally:
            self._lock.release()

    def _try(self) -> bool:
        try:
            self._ledger.journal.try_write()
        except Exception:  # whatever it was, a supervisor needs to know that, and nobody else
            return False
        return True
