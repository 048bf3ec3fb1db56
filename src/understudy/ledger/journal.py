"""The journal under the ledger: entries that are only ever appended, each chained to the last.

Opening it checks it whole: every hash, the budgets that follow from the entries, and the
head kept outside. A journal that is not what it was does not open.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from understudy.errors import Refused
from understudy.ledger.chain import (
    START,
    BrokenLedger,
    Entry,
    Head,
    HeadFile,
    check_chain,
    entry_hash,
)
from understudy.ledger.database import Run, SqliteDatabase, open_database

Holder = Literal["user", "dataset"]
Clock = Callable[[], datetime]

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS entries (number BIGINT PRIMARY KEY, at TEXT NOT NULL, "
    "kind TEXT NOT NULL, holder TEXT, dataset TEXT, micro BIGINT NOT NULL CHECK (micro >= 0), "
    "question TEXT, refers BIGINT, body TEXT NOT NULL, previous TEXT NOT NULL, "
    "hash TEXT NOT NULL UNIQUE)",
    "CREATE INDEX IF NOT EXISTS entries_question ON entries (question, holder)",
    "CREATE INDEX IF NOT EXISTS entries_holder ON entries (holder, kind)",
    "CREATE INDEX IF NOT EXISTS entries_refers ON entries (refers)",
    "CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY CHECK (one = 1), "
    "number BIGINT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS budgets (kind TEXT NOT NULL, name TEXT NOT NULL, "
    "allowed BIGINT NOT NULL, spent BIGINT NOT NULL CHECK (spent >= 0 AND spent <= allowed), "
    "PRIMARY KEY (kind, name))",
    "CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, role TEXT NOT NULL, "
    "key_id TEXT NOT NULL UNIQUE, key_hash TEXT NOT NULL, active INTEGER NOT NULL)",
)
COLUMNS = "number, at, kind, holder, dataset, micro, question, refers, body, previous, hash"
PAGE = 5000


@dataclass(frozen=True)
class Budget:
    """Micro-epsilon allowed and spent, of a user or of a data set."""

    allowed: int = 0
    spent: int = 0

    @property
    def left(self) -> int:
        return self.allowed - self.spent


class Journal:
    """A database and the file of its chain's head."""

    def __init__(self, location: str | Path, head: str | Path | None, clock: Clock | None) -> None:
        self.database = open_database(location)
        if isinstance(self.database, SqliteDatabase):
            path = self.database.path
            head = head or path.with_name(path.name + ".head")
        if head is None:
            raise Refused("A PostgreSQL ledger needs `head`, a file outside the database.")
        self.head_file = HeadFile(Path(head))
        self.clock: Clock = clock or (lambda: datetime.now(UTC))
        self._seen = Head(0, START)
        try:
            self._open()
        except BaseException:
            self.database.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Run]:
        """One exclusive transaction; when it is done, the head is durable outside as well."""
        with self.database.transaction() as run:
            head = self._head(run)
            if head.number < self._seen.number:
                raise BrokenLedger("The ledger is older than it was a moment ago; stop serving.")
            yield run
            head = self._head(run)
        self.head_file.advance(head)
        if head.number > self._seen.number:
            self._seen = head

    def append(
        self,
        run: Run,
        kind: str,
        *,
        at: datetime | None = None,
        holder: str | None = None,
        dataset: str | None = None,
        micro: int = 0,
        question: str | None = None,
        refers: int | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> int:
        """Append an entry inside a transaction of `write`; its number."""
        head = self._head(run)
        number = head.number + 1
        text = json.dumps(body or {}, sort_keys=True, separators=(",", ":"), allow_nan=False)
        time = (at or self.clock()).isoformat()
        fields = (number, time, kind, holder, dataset, micro, question, refers, text, head.hash)
        digest = entry_hash(*fields)
        marks = ", ".join("?" * 11)
        run(f"INSERT INTO entries ({COLUMNS}) VALUES ({marks})", *fields, digest)
        run("UPDATE head SET number = ?, hash = ?", number, digest)
        return number

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """All entries in order, a page at a time."""
        select = f"SELECT {COLUMNS} FROM entries WHERE number > ? ORDER BY number LIMIT {PAGE}"
        while True:
            with self.database.reading() as run:
                rows = run(select, after)
            for row in rows:
                yield Entry(*row)
            if len(rows) < PAGE:
                return
            after = int(rows[-1][0])

    def _head(self, run: Run) -> Head:
        """The head, with its row locked: the first lock of every writer."""
        number, digest = run(f"SELECT number, hash FROM head{self.database.for_update}")[0]
        return Head(number, digest)

    def _open(self) -> None:
        known = self.head_file.read()
        self.database.create(SCHEMA)
        with self.database.transaction() as run:
            run("INSERT INTO head VALUES (1, 0, ?) ON CONFLICT DO NOTHING", START)
            fresh = self._head(run).number == 0
            if fresh and known is not None:
                raise BrokenLedger(
                    "The ledger is empty, but its head file lists entries; restore the ledger, or "
                    "name a new head file for a new ledger."
                )
            if fresh:
                self.append(run, "open", body={"id": secrets.token_hex(16)})
        # The file is written after the database. Read before it, it can only be behind.
        known = self.head_file.read()
        head = self._check(known)
        self.head_file.advance(head)
        self._seen = head

    def _check(self, outside: Head | None) -> Head:
        tally = Tally(outside)
        head = check_chain(tally.follow(self.entries()))
        if outside is None and head.number > 1:
            raise BrokenLedger(
                f"The ledger's head file `{self.head_file.path.name}` is missing; without it an "
                "old copy of the ledger cannot be told from the ledger."
            )
        if outside is not None and not tally.contains_head:
            raise BrokenLedger(
                "The ledger lacks entries that its head file lists: it is an old copy. Restore "
                "the latest one; what it lacks was spent."
            )
        with self.database.reading() as run:
            stated = {(k, n): Budget(a, s) for k, n, a, s in run("SELECT * FROM budgets")}
            last = run("SELECT max(number) FROM entries")[0][0]
        # Another server may have gone on meanwhile; then its own opening did this check.
        if last == head.number and stated != tally.budgets:
            raise BrokenLedger("The ledger's budgets do not follow from its entries.")
        return head


class Tally:
    """Budgets recomputed from entries, and whether the outside head is among them."""

    def __init__(self, outside: Head | None) -> None:
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.contains_head = False
        self._outside = outside

    def follow(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if self._outside == Head(entry.number, entry.hash):
                self.contains_head = True
            if entry.kind == "grant":
                self._add("user", entry.user, entry.micro, 0)
            if entry.kind in ("dataset", "cap"):
                self._add("dataset", entry.dataset, entry.micro, 0)
            if entry.kind in ("reserve", "spend"):
                self._add("dataset", entry.dataset, 0, entry.micro)
                self._add("user", entry.user, 0, entry.micro)
            yield entry

    def _add(self, kind: Holder, name: str | None, allowed: int, spent: int) -> None:
        if name is None:
            return
        old = self.budgets.get((kind, name), Budget())
        self.budgets[kind, name] = Budget(old.allowed + allowed, old.spent + spent)
