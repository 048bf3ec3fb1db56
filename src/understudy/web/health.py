"""Whether the server could answer: a write reaches the ledger's disk and its head's (threat 30).

Anybody may ask, so the disk is asked once in a while and others get what it said last.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from understudy.ledger.ledger import Ledger

SECONDS = 5.0


class Health:
    """The ledger's health, as of a few seconds ago."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._last: tuple[float, bool] | None = None

    def ok(self) -> bool:
        with self._lock:
            now = self._clock()
            if self._last is None or now - self._last[0] >= SECONDS:
                self._last = now, self._writes()
            return self._last[1]

    def _writes(self) -> bool:
        try:
            self._ledger.journal.try_write()
        except Exception:  # whatever it was, a supervisor needs to know that, and nobody else
            return False
        return True
