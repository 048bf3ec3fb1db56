"""The hash chain of ledger entries, and its head kept outside the database.

Every entry's hash covers the entry and the hash before it, so no past entry can be changed
alone. A whole database can still be replaced by an older copy of itself, which would give
spent epsilon back (threat 3). So the head is also written to a file of its own, after the
commit and before anyone acts on the entry: a database that does not contain the file's head
is an old copy, and the ledger refuses to open.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import Refused

START = "0" * 64

_LINE = re.compile(r"(\d+) ([0-9a-f]{64})")


class BrokenLedger(Refused):
    """The ledger is not what it was; nothing may be answered from it."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `micro` is what it spends or grants, in millionths."""

    number: int
    at: str
    kind: str
    user: str | None
    dataset: str | None
    micro: int
    query: str | None
    refers: int | None
    body: str  # canonical JSON
    previous: str
    hash: str

    def content(self) -> dict[str, Any]:
        value = json.loads(self.body)
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class Head:
    number: int
    hash: str


def entry_hash(
    number: int,
    at: str,
    kind: str,
    user: str | None,
    dataset: str | None,
    micro: int,
    query: str | None,
    refers: int | None,
    body: str,
    previous: str,
) -> str:
    fields = [number, at, kind, user, dataset, micro, query, refers, body, previous]
    return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()


def check_chain(entries: Iterable[Entry]) -> Head:
    """Recompute every hash; the head, or BrokenLedger naming the first wrong entry."""
    head = Head(0, START)
    for e in entries:
        fields = (e.number, e.at, e.kind, e.user, e.dataset, e.micro, e.query, e.refers, e.body)
        expected = entry_hash(*fields, e.previous)
        if e.number != head.number + 1 or e.previous != head.hash or e.hash != expected:
            raise BrokenLedger(
                f"Ledger entry {head.number + 1} is missing or was changed; restore the ledger "
                "from a complete copy before serving."
            )
        head = Head(e.number, e.hash)
    return head


class HeadFile:
    """An append-only file of heads. The last whole line counts; a torn line is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Head | None:
        try:
            with self.path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                size = file.tell()
                file.seek(max(0, size - 512))
                tail = file.read().decode("ascii", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(
                f"The ledger's head file `{self.path.name}` cannot be read: {error.strerror}."
            ) from None
        for line in reversed(tail.split("\n")[:-1]):
            if match := _LINE.fullmatch(line):
                return Head(int(match[1]), match[2])
        if size:
            raise BrokenLedger(
                f"The ledger's head file `{self.path.name}` holds no head; restore it."
            )
        return None

    def advance(self, head: Head) -> None:
        """Make the head durable, unless a later one already is."""
        try:
            self._advance(head)
        except OSError as error:
            raise BrokenLedger(
                f"The ledger's head file `{self.path.name}` cannot be written ({error.strerror}); "
                "what was asked for is on record, and nothing is answered."
            ) from None

    def try_write(self) -> None:
        """See that a head could be written: a file beside this one, as long as a line."""
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.try")
        file = os.open(beside, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            _write_whole(file, b"0" * 128)
        finally:
            os.close(file)
            beside.unlink()

    def _advance(self, head: Head) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file).st_size
            known = self.read() if size else None
            if known is not None and known.number >= head.number:
                if known.number == head.number and known.hash != head.hash:
                    raise BrokenLedger(
                        f"Two ledgers write to the head file `{self.path.name}`; give each its own."
                    )
                return
            torn = size and os.pread(file, 1, size - 1) != b"\n"
            line = (b"\n" if torn else b"") + f"{head.number} {head.hash}\n".encode()
            _write_whole(file, line)
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
