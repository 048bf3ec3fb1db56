"""The server's log: few lines a minute, no frames, and a file that does not grow without end.

Whoever can make the server write a line could fill its disk, on which the ledger may lie
(threat 20). What an exception holds may be a record, so only what we say of it is written
(threat 17).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

LOGGERS = ("understudy.verify", "uvicorn.error", "asyncio")
LINES = 60  # a minute, of all loggers
BYTES, FILES = 1_000_000, 4  # of the file, and of those before it that are kept


class FewLines(logging.Filter):
    """Lets so many records through in a minute, without exceptions' frames."""

    def __init__(self, lines: int = LINES, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._lines = lines
        self._clock = clock
        self._minute = -1
        self._written = 0

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        minute = int(self._clock() // 60)
        if minute != self._minute:
            self._minute, self._written = minute, 0
        self._written += 1
        if self._written == self._lines:
            record.msg, record.args = "Further messages of this minute are left out.", ()
        return self._written <= self._lines


@contextmanager
def server_log(file: Path | None) -> Iterator[None]:
    """Bound what the server's loggers write, into a file if there is one."""
    few = FewLines()
    handler = None
    if file is not None:
        handler = RotatingFileHandler(file, maxBytes=BYTES, backupCount=FILES, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(few)
        if handler is not None:
            logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(few)
            if handler is not None:
                logger.removeHandler(handler)
        if handler is not None:
            handler.close()
