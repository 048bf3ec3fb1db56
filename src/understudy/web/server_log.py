"""The server's log: few lines a minute, no frames, and a file that does not grow without end.

Whoever can make the server write a line could fill its disk, on which the ledger may lie
(threat 20). What an exception holds may be a record, so only what we say of it is written
(threat 17).
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

from understudy.web.security_log import JsonLines

LOGGERS = ("understudy.verify", "uvicorn.error", "asyncio")
LINES = 60  # a minute, of what went wrong and of who was turned away
ACTS = 600  # a minute, of what people did who were let in
LINE = "%(asctime)s %(levelname)s %(message)s"
BYTES, FILES = 1_000_000, 4  # of the file, and of those before it that are kept
SECURITY_BYTES = 10_000_000  # days, though somebody be turned away all the time


class FewLines(logging.Filter):
    """Lets so many records through in a minute, without exceptions' frames. Acts are counted apart:
    whoever is turned away a thousand times hides nothing that others do."""

    def __init__(self, lines: int = LINES, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._lines = lines
        self._clock = clock
        self._minute = -1
        self._written: Counter[bool] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        minute = int(self._clock() // 60)
        if minute != self._minute:
            self._minute, self._written = minute, Counter()
        act = record.levelno < logging.WARNING
        most = ACTS if act else self._lines
        self._written[act] += 1
        if self._written[act] == most:
            record.msg, record.args = "Further messages of this minute are left out.", ()
        return self._written[act] <= most


@contextmanager
def server_log(file: Path | None, security: Path | None = None) -> Iterator[None]:
    """Bound what the server's loggers write, into files if there are any."""
    with (
        _bounded(LOGGERS, file, BYTES, logging.Formatter(LINE), logging.NOTSET),
        _bounded(("understudy.security",), security, SECURITY_BYTES, JsonLines(), logging.INFO),
    ):
        yield


@contextmanager
def _bounded(
    names: tuple[str, ...], file: Path | None, size: int, form: logging.Formatter, level: int
) -> Iterator[None]:
    few, loggers = FewLines(), [logging.getLogger(name) for name in names]
    handlers = []
    if file is not None:
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
        handler = RotatingFileHandler(file, maxBytes=size, backupCount=FILES, encoding="utf-8")
        handler.setFormatter(form)
        handlers.append(handler)
    for logger in loggers:
        logger.addFilter(few)
        for handler in handlers:
            logger.addHandler(handler)
            logger.setLevel(level)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(few)
            for handler in handlers:
                logger.removeHandler(handler)
                logger.setLevel(logging.NOTSET)
        for handler in handlers:
            handler.close()
