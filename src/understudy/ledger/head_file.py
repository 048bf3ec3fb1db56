"""Heads in a file, best on another disk than the database and its backups."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from understudy.errors import Refused
from understudy.ledger.chain import BrokenLedger, Head
from understudy.ledger.head_place import is_ahead, parse_head, unwritable


class HeadFile:
    """An append-only file of heads. The last whole line counts; a torn line is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name

    def read(self) -> Head | None:
        try:
            with self.path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                size = file.tell()
                file.seek(max(0, size - 1024))
                tail = file.read().decode("ascii", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(
                f"The ledger's head file `{self.name}` cannot be read: {error.strerror}."
            ) from None
        for line in reversed(tail.split("\n")[:-1]):
            if (head := parse_head(line)) is not None:
                return head
        if size:
            raise BrokenLedger(f"The ledger's head file `{self.name}` holds no head; restore it.")
        return None

    def all(self) -> Iterator[Head]:
        """Every whole line, oldest first."""
        with self.path.open(encoding="ascii", errors="replace") as file:
            for line in file:
                if line.endswith("\n") and (head := parse_head(line[:-1])) is not None:
                    yield head

    def close(self) -> None:
        """Nothing is held open."""

    def advance(self, head: Head) -> None:
        try:
            self._advance(head)
        except OSError as error:
            raise unwritable(self.name, error.strerror) from None

    def try_write(self) -> None:
        """See that a head could be written: a file beside this one, as long as a line."""
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.try")
        file = os.open(beside, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            _write_whole(file, b"0" * 256)
        finally:
            os.close(file)
            beside.unlink()

    def _advance(self, head: Head) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file).st_size
            if is_ahead(self.name, self.read() if size else None, head):
                return
            torn = size and os.pread(file, 1, size - 1) != b"\n"
            _write_whole(file, (b"\n" if torn else b"") + f"{head.line}\n".encode())
            if not size:
                _sync_folder(self.path.parent)
        finally:
            os.close(file)


def _write_whole(file: int, line: bytes) -> None:
    """Onto the disk, or an error: a full disk takes a part without a word."""
    if os.write(file, line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
