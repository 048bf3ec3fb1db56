"""How often one caller may ask: a bucket of tokens that fills at a steady rate.

The buckets are shared by all server processes on one ledger; one that is full is forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from understudy.errors import Refused
from understudy.verify.shared_state import SharedState

TABLES = (
    "CREATE TABLE IF NOT EXISTS buckets (caller TEXT PRIMARY KEY, "
    "tokens DOUBLE PRECISION NOT NULL, since DOUBLE PRECISION NOT NULL)",
    "CREATE INDEX IF NOT EXISTS buckets_since ON buckets (since)",
)
FILLS = 60.0  # seconds until an empty bucket is full


class TooMany(Refused):
    """Too many requests; nothing was spent."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, round(seconds + 0.5))
        unit = "second" if self.seconds == 1 else "seconds"
        super().__init__(f"Too many requests; try again in {self.seconds} {unit}.")


class RateLimit:
    """Up to `per_minute` requests in a row, and as many per minute on average."""

    def __init__(
        self,
        shared: SharedState,
        what: str,
        per_minute: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shared, self._what, self._clock = shared, what, clock
        self._most = float(per_minute)
        self._rate = per_minute / FILLS
        shared.create(TABLES)

    def take(self, caller: str) -> None:
        """Take one token, or raise TooMany."""
        now, name = self._clock(), f"{self._what} {caller}"
        lock = self._shared.for_update
        with self._shared.transaction() as run:
            known = run(f"SELECT tokens, since FROM buckets WHERE caller = ?{lock}", name)
            tokens, since = known[0] if known else (self._most, now)
            tokens = min(self._most, tokens + max(0.0, now - since) * self._rate)
            short = tokens < 1
            run(
                "INSERT INTO buckets VALUES (?, ?, ?) ON CONFLICT (caller) DO UPDATE SET "
                "tokens = excluded.tokens, since = excluded.since",
                *(name, tokens if short else tokens - 1, now),
            )
            run("DELETE FROM buckets WHERE since < ?", now - FILLS)
        if short:
            raise TooMany((1 - tokens) / self._rate)
