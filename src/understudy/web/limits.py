"""How often one caller may ask: a bucket of tokens that fills at a steady rate."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from understudy.errors import Refused

REMEMBERED = 10_000  # callers; the one that was quiet longest is forgotten


class TooMany(Refused):
    """Too many requests; nothing was spent."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, round(seconds + 0.5))
        unit = "second" if self.seconds == 1 else "seconds"
        super().__init__(f"Too many requests; try again in {self.seconds} {unit}.")


class RateLimit:
    """Up to `per_minute` requests in a row, and as many per minute on average."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._rate = per_minute / 60
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Take one token, or raise TooMany."""
        now = time.monotonic()
        with self._lock:
            tokens, since = self._buckets.pop(caller, (self._most, now))
            tokens = min(self._most, tokens + (now - since) * self._rate)
            short = tokens < 1
            self._buckets[caller] = (tokens if short else tokens - 1, now)
            if len(self._buckets) > REMEMBERED:
                self._buckets.popitem(last=False)
        if short:
            raise TooMany((1 - tokens) / self._rate)
