"""A message that the log hears once a minute at most, with how often it was due."""

from __future__ import annotations

import logging
import math

SECONDS = 60.0


class Seldom:
    """Counts; `text` has a place for the count."""

    def __init__(self, log: logging.Logger, text: str) -> None:
        self.count = 0
        self._log = log
        self._text = text
        self._said_at = -math.inf

    def note(self, now: float) -> None:
        self.count += 1
        if now - self._said_at >= SECONDS:
            self._said_at = now
            self._log.warning(self._text, self.count)
