"""The journal under the ledger: entries that are only ever appended, each chained to the last.

Opening it checks it whole: the database, every hash, the budgets, standings and users that follow
from the entries, and the head kept outside. A journal that is not what it was does not open.

Version 0.1.0 kept a cap for every fingerprint among the budgets. Its ledgers open, and go on from
an entry `version`: each of its fingerprints becomes a population with its cap and what was spent.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from understudy.errors import Refused
from understudy.ledger.amounts import Amount, Budget, Cap, Standing
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
from understudy.ledger.entry_kinds import KINDS, SPENDING, TYING
from understudy.ledger.ties import Ties

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
    "CREATE INDEX IF NOT EXISTS entries_kind ON entries (kind, number)",
    "CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY CHECK (one = 1), "
    "number BIGINT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS budgets (kind TEXT NOT NULL, name TEXT NOT NULL, "
    "allowed BIGINT NOT NULL, spent BIGINT NOT NULL CHECK (spent >= 0 AND spent <= allowed), "
    "PRIMARY KEY (kind, name))",
    "CREATE TABLE IF NOT EXISTS populations (name TEXT PRIMARY KEY, allowed BIGINT NOT NULL, "
    "delta BIGINT NOT NULL, own BIGINT NOT NULL, rho BIGINT NOT NULL, "
    "spent BIGINT NOT NULL CHECK (spent >= 0), spent_rho BIGINT NOT NULL, "
    "spent_delta BIGINT NOT NULL, concentrated INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, role TEXT NOT NULL, "
    "key_id TEXT NOT NULL UNIQUE, key_hash TEXT NOT NULL, active INTEGER NOT NULL)",
)
STANDING = "allowed, delta, own, rho, spent, spent_rho, spent_delta, concentrated"
USER = "name, role, key_id, key_hash, active"
VERSION = 2  # of what entries mean: 2 has populations
COLUMNS = "number, at, kind, holder, dataset, micro, question, refers, body, previous, hash"
PAGE = 5000


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

    def try_write(self) -> None:
        """See that the ledger and its head can be written, without an entry."""
        with self.write() as run:
            run("UPDATE head SET number = number")
        self.head_file.try_write()

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
        name = KINDS[kind].name
        fields = (number, time, name, holder, dataset, micro, question, refers, text, head.hash)
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
        self.database.check()
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
                self.append(run, "open", body={"id": secrets.token_hex(16), "version": VERSION})
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
        with self.database.transaction() as run:
            # Another server may have gone on meanwhile; then its own opening did this check.
            if self._head(run).number == head.number:
                _compare(run, tally)
                if tally.version < VERSION:
                    self._migrate(run, tally)
            return self._head(run)

    def _migrate(self, run: Run, tally: Tally) -> None:
        """From 0.1.0: the caps of fingerprints become populations."""
        run("DELETE FROM budgets WHERE kind = 'dataset'")
        for name, standing in tally.standings.items():
            write_standing(run, name, standing)
        self.append(run, "version", body={"version": VERSION})


def read_standing(run: Run, name: str, lock: str = "") -> Standing | None:
    """A population's cap and spending, by its name in the ledger (its first file)."""
    rows = run(f"SELECT {STANDING} FROM populations WHERE name = ?{lock}", name)
    return _standing(rows[0]) if rows else None


def write_standing(run: Run, name: str, standing: Standing) -> None:
    cap, spent = standing.cap, standing.spent
    run("DELETE FROM populations WHERE name = ?", name)
    run(
        f"INSERT INTO populations (name, {STANDING}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *(name, cap.micro, cap.atto, cap.own, cap.nano),
        *(spent.micro, spent.nano, spent.atto, int(spent.concentrated)),
    )


def _standing(row: tuple[Any, ...]) -> Standing:
    *cap, spent, rho, delta, concentrated = row
    return Standing(Cap(*cap), Amount(spent, rho, delta, bool(concentrated)))


def _compare(run: Run, tally: Tally) -> None:
    """The tables must hold what follows from the entries."""
    budgets = {(k, n): Budget(a, s) for k, n, a, s in run("SELECT * FROM budgets")}
    rows = run(f"SELECT name, {STANDING} FROM populations")
    standings = {row[0]: _standing(row[1:]) for row in rows}
    expected = dict(tally.budgets)
    if tally.version < VERSION:  # 0.1.0 kept both among the budgets
        for name, standing in tally.standings.items():
            expected["dataset", name] = Budget(standing.cap.micro, standing.spent.micro)
    elif standings != tally.standings:
        raise BrokenLedger("The ledger's budgets do not follow from its entries.")
    if budgets != expected:
        raise BrokenLedger("The ledger's budgets do not follow from its entries.")
    users = {name: UserRow(*rest) for name, *rest in run(f"SELECT {USER} FROM users")}
    if users != tally.users:
        raise BrokenLedger(
            "The ledger's users, roles or keys do not follow from its entries: they were changed "
            "past the ledger."
        )


class UserRow(NamedTuple):
    """What the table of users holds beside the name."""

    role: str
    key_id: str
    key_hash: str
    active: int = 1

    def after(self, entry: Entry) -> UserRow:
        """The account after an entry about it."""
        content = entry.content()
        changed = {name: content[name] for name in ("key_id", "key_hash") if name in content}
        active = {"enable": 1, "disable": 0}.get(entry.kind, self.active)
        return self._replace(active=active, **changed)


class Tally:
    """Budgets, standings and users recomputed from entries, and whether the outside head is among
    them (threat 24)."""

    def __init__(self, outside: Head | None) -> None:
        self.users: dict[str, UserRow] = {}
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.standings: dict[str, Standing] = {}
        self.version = 1
        self.contains_head = False
        self._outside = outside
        self._ties = Ties()

    def follow(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if self._outside == Head(entry.number, entry.hash):
                self.contains_head = True
            if entry.kind in ("open", "version"):
                self.version = entry.content().get("version", self.version)
            if entry.kind == "grant":
                self._add(entry.user, entry.micro, 0)
            if entry.kind == "user" and entry.user:
                content = entry.content()
                self.users[entry.user] = UserRow(
                    content["role"], content["key_id"], content["key_hash"]
                )
            if entry.kind in ("key", "enable", "disable") and entry.user in self.users:
                self.users[entry.user] = self.users[entry.user].after(entry)
            if entry.dataset is not None:
                self._follow_population(entry, entry.dataset)
            yield entry

    def _follow_population(self, entry: Entry, file: str) -> None:
        if entry.kind == "merge":
            kept, gone = self._ties.of(entry.content()["into"]), self._ties.of(file)
            self.standings[kept] = self.standings[kept].merged(self.standings.pop(gone))
        if entry.kind in TYING:
            self._ties.follow(entry.kind, file, entry.content())
        name = self._ties.of(file)
        before = self.standings.get(name, Standing())
        if entry.kind in ("dataset", "cap"):
            self.standings[name] = Standing(cap_after(before.cap, entry), before.spent)
        if entry.kind in SPENDING:
            self.standings[name] = Standing(before.cap, before.spent + amount_of(entry))
            self._add(entry.user, 0, entry.micro)

    def _add(self, name: str | None, allowed: int, spent: int) -> None:
        if name is None:
            return
        old = self.budgets.get(("user", name), Budget())
        self.budgets["user", name] = Budget(old.allowed + allowed, old.spent + spent)


def cap_after(cap: Cap, entry: Entry) -> Cap:
    """The cap after an entry that states or raises it."""
    content = entry.content()
    return Cap(
        cap.micro + entry.micro,
        content.get("delta", cap.atto),
        content.get("own_delta", cap.own),
        content.get("rho", cap.nano),
    )


def amount_of(entry: Entry) -> Amount:
    """What an entry spends; those of 0.1.0 are pure epsilons."""
    content = entry.content()
    pure = Amount.pure(entry.micro)
    return Amount(
        entry.micro,
        content.get("rho", pure.nano),
        content.get("delta", 0),
        content.get("concentrated", False),
    )
