"""The journal under the ledger: entries that are only ever appended, each chained to the last.

Opening it checks it: the database, the hashes, the budgets, standings and users that follow from
the entries, and the heads kept outside. A journal that is not what it was does not open. Payments
and answers before the last checkpoint are not read again, so that opening takes as long for a
million entries as for a thousand; `understudy ledger verify` reads them all.

Version 0.1.0 kept a cap for every fingerprint among the budgets. Its ledgers open, and go on from
an entry `version`: each of its fingerprints becomes a population with its cap and what was spent.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from understudy.errors import Refused
from understudy.ledger.amounts import Amount, Budget, Cap, Standing
from understudy.ledger.chain import START, BrokenLedger, Entry, Head, canonical, changed
from understudy.ledger.database import Run, SqliteDatabase, open_database
from understudy.ledger.entry_kinds import GOVERNING, KINDS
from understudy.ledger.head_file import HeadFile
from understudy.ledger.head_place import HeadPlace, head_place
from understudy.ledger.signing import HeadKey, check_signature
from understudy.ledger.tally import Tally, UserRow

Holder = Literal["user", "dataset"]
Clock = Callable[[], datetime]
Lacking = Callable[["Journal", Run, Mapping[HeadPlace, Head | None]], None]

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS entries (number BIGINT PRIMARY KEY, at TEXT NOT NULL, "
    "kind TEXT NOT NULL, holder TEXT, dataset TEXT, micro BIGINT NOT NULL CHECK (micro >= 0), "
    "question TEXT, refers BIGINT, body TEXT NOT NULL, previous TEXT NOT NULL, "
    "hash TEXT NOT NULL UNIQUE)",
    "CREATE INDEX IF NOT EXISTS entries_question ON entries (question, holder)",
    "DROP INDEX IF EXISTS entries_holder",
    "CREATE INDEX IF NOT EXISTS entries_own ON entries (holder, kind, number)",
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
CHECKPOINT = 1000  # entries from one to the next


class Journal:
    """A database, the places of its chain's heads, and the key that signs them.

    `lacking` writes off what heads outside list and the chain does not have, which is refused
    without it; `begin` lets new places and a new key begin; `whole` reads everything again.
    """

    def __init__(
        self,
        location: str | Path,
        head: str | Path | None,
        clock: Clock | None = None,
        witnesses: Sequence[str | Path] = (),
        head_key: str | Path | None = None,
        lacking: Lacking | None = None,
        begin: bool = False,
        whole: bool = False,
    ) -> None:
        self.database = open_database(location)
        if isinstance(self.database, SqliteDatabase):
            path = self.database.path
            head = head or path.with_name(path.name + ".head")
        if head is None:
            raise Refused("A PostgreSQL ledger needs `head`, a file outside the database.")
        self.head_file = HeadFile(Path(head))
        self.places = (self.head_file, *map(head_place, witnesses))
        self.key = None if head_key is None else HeadKey(self._outside(Path(head_key)))
        self.clock: Clock = clock or (lambda: datetime.now(UTC))
        self.tally = Tally()
        self._seen = Head(0, START)
        try:
            self._open(lacking, begin, whole)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Run]:
        """One exclusive transaction; when it is done, the head is durable outside as well."""
        with self.database.transaction() as run:
            head = self.head(run)
            if head.number < self._seen.number:
                raise BrokenLedger("The ledger is older than it was a moment ago; stop serving.")
            yield run
            head = self.head(run)
            tally = self.tally
            if head.number - tally.checkpoint >= CHECKPOINT:
                tally = copy.deepcopy(tally)
                self._check(run, tally)
                head = tally.head
        self.tally = tally
        self._advance(head)

    def close(self) -> None:
        self.database.close()
        for heads in self.places:
            heads.close()

    def try_write(self) -> None:
        """See that the ledger and its head can be written, without an entry, and that witnesses
        answer."""
        with self.write() as run:
            run("UPDATE head SET number = number")
        self.head_file.try_write()
        for heads in self.places[1:]:
            heads.read()

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
        lost: int = 0,
    ) -> int:
        """Append an entry inside a transaction of `write`; its number, above those of `lost`
        entries."""
        head = self.head(run)
        number = max(head.number, lost) + 1
        content = dict(body or {})
        if KINDS[kind].private:
            content["salt"] = secrets.token_hex(16)
        time = (at or self.clock()).isoformat()
        name, text = KINDS[kind].name, canonical(content)
        fields = (number, time, name, holder, dataset, micro, question, refers, text, head.hash)
        digest = Entry(*fields).digest()
        marks = ", ".join("?" * 11)
        run(f"INSERT INTO entries ({COLUMNS}) VALUES ({marks})", *fields, digest)
        run("UPDATE head SET number = ?, hash = ?", number, digest)
        return number

    def entries(self, after: int = 0, run: Run | None = None) -> Iterator[Entry]:
        """All entries in order, a page at a time; with `run` in its transaction."""
        select = f"SELECT {COLUMNS} FROM entries WHERE number > ? ORDER BY number LIMIT {PAGE}"
        while True:
            if run is not None:
                rows = run(select, after)
            else:
                with self.database.reading() as reading:
                    rows = reading(select, after)
            for row in rows:
                yield Entry(*row)
            if len(rows) < PAGE:
                return
            after = int(rows[-1][0])

    def head(self, run: Run) -> Head:
        """The head, with its row locked: the first lock of every writer."""
        number, digest = run(f"SELECT number, hash FROM head{self.database.for_update}")[0]
        return Head(number, digest)

    def _open(self, lacking: Lacking | None, begin: bool, whole: bool) -> None:
        known = self.head_file.read()
        self.database.check(whole)
        self.database.create(SCHEMA)
        with self.database.transaction() as run:
            run("INSERT INTO head VALUES (1, 0, ?) ON CONFLICT DO NOTHING", START)
            fresh = self.head(run).number == 0
            if fresh and known is not None:
                raise BrokenLedger(
                    "The ledger is empty, but its head file lists entries; restore the ledger, or "
                    "name a new head file for a new ledger."
                )
            if fresh:
                body = {"id": secrets.token_hex(16), "seals": True, "version": VERSION}
                self.append(run, "open", body=body)
                if self.key is not None:
                    self.append(run, "signer", body={"public": self.key.public})
        # Heads are written after the database. Read before it, they can only be behind.
        outside = {kept: kept.read() for kept in self.places}
        heads = [head for head in outside.values() if head is not None]
        before = 0 if whole else min((head.number for head in heads), default=0)
        with self.database.reading() as run:
            tally = self._from_checkpoint(run, before)
        for entry in self.entries(tally.head.number):  # most of them, without holding up others
            tally.follow(entry)
        with self.database.transaction() as run:
            self._follow(run, tally)
            for head in heads:
                check_signature(head, tally.signer_at(head.number))
            missing = {p: h for p, h in outside.items() if not _has(run, tally, h)}
            opened = 2 if 2 in tally.signers else 1
            vouched = begin and len(missing) < len(outside)
            new = vouched or tally.head.number <= opened  # the power failed before the first head
            gap = bool(missing) and not (new and not any(missing.values()))
            if gap and lacking is None:
                raise _old_copy(missing)
            if whole:
                self._check_heads(run, tally)
            self._check(run, tally)
            self._check_signer(run, tally, begin)
            if gap and lacking is not None:
                lacking(self, run, missing)
            self._follow(run, tally)
            head = self.head(run)
        self.tally = tally
        self._advance(head)

    def _from_checkpoint(self, run: Run, before: int) -> Tally:
        """A tally as the last checkpoint has it that the heads outside vouch for."""
        select = f"SELECT {COLUMNS} FROM entries WHERE kind = 'checkpoint' AND number <= ? "
        rows = run(select + "ORDER BY number DESC LIMIT 1", before)
        if not rows:
            return Tally()
        checkpoint = Entry(*rows[0])
        marks = ", ".join("?" * len(GOVERNING))
        select = f"SELECT {COLUMNS} FROM entries WHERE kind IN ({marks}) AND number < ? "
        governing = run(select + "ORDER BY number", *GOVERNING, checkpoint.number)
        return Tally.at(checkpoint, (Entry(*row) for row in governing))

    def _follow(self, run: Run, tally: Tally) -> None:
        for entry in self.entries(tally.head.number, run):
            tally.follow(entry)
        if self.head(run) != tally.head:
            raise BrokenLedger("The ledger's head does not follow from its entries.")

    def _check(self, run: Run, tally: Tally) -> None:
        """Follow the entries that are new, and compare; a checkpoint where one is due."""
        self._follow(run, tally)
        compare(run, tally)
        if tally.version < VERSION or not tally.sealed:
            self._migrate(run, tally)
        if tally.head.number - tally.checkpoint >= CHECKPOINT:
            self._follow(run, tally)
            self.append(run, "checkpoint", body=tally.as_checkpoint())
        self._follow(run, tally)

    def _check_signer(self, run: Run, tally: Tally, begin: bool) -> None:
        """A ledger whose heads are signed is written with its key only."""
        if self.key is None and tally.signer:
            raise Refused("The heads of this ledger are signed; name the key as `head_key`.")
        if self.key is not None and self.key.public != tally.signer:
            if not begin:
                raise Refused(
                    "The heads of this ledger are not signed with this `head_key`; begin with it "
                    "by `understudy ledger sign`."
                )
            self.append(run, "signer", body={"public": self.key.public})

    def _check_heads(self, run: Run, tally: Tally) -> None:
        """Every line of the head file, not the last one alone."""
        for head in self.head_file.all():
            if not _has(run, tally, head):
                raise changed(head.number)
            check_signature(head, tally.signer_at(head.number))

    def _advance(self, head: Head) -> None:
        if head.number <= self._seen.number:
            return  # nothing was written, or another thread was later and its head is durable
        signed = head if self.key is None else self.key.sign(head)
        for heads in self.places:
            heads.advance(signed)
        if head.number > self._seen.number:
            self._seen = head

    def _outside(self, key: Path) -> Path:
        """A key that lies beside what it protects is copied and stolen with it."""
        folders = [self.head_file.path.resolve().parent]
        if isinstance(self.database, SqliteDatabase):
            folders.append(self.database.path.resolve().parent)
        if key.resolve().parent in folders:
            raise Refused(
                f"The key of heads `{key.name}` lies in the folder of the ledger or of its heads; "
                "keep it on another disk or host."
            )
        return key

    def _migrate(self, run: Run, tally: Tally) -> None:
        """From 0.1.0: the caps of fingerprints become populations. From now on entries seal what
        belongs to analysts."""
        if tally.version < VERSION:
            run("DELETE FROM budgets WHERE kind = 'dataset'")
            for name, standing in tally.standings.items():
                write_standing(run, name, standing)
        self.append(run, "version", body={"seals": True, "version": VERSION})


def _old_copy(heads: Mapping[HeadPlace, Head | None]) -> BrokenLedger:
    """About places whose head the ledger lacks, or which have none."""
    if any(heads.values()):
        return BrokenLedger(
            "The ledger lacks entries that its heads outside list: it is an old copy. Restore the "
            "latest one; what it lacks was spent. Where there is none, two stewards can write that "
            "off (`understudy ledger recover`)."
        )
    names = ", ".join(f"`{keeper.name}`" for keeper in heads)
    return BrokenLedger(
        f"The ledger's heads at {names} are missing; without them an old copy of the ledger cannot "
        "be told from the ledger. A place that is new begins with `understudy ledger sign`."
    )


def _has(run: Run, tally: Tally, head: Head | None) -> bool:
    if head is None:
        return False
    written_off = any(head.number in numbers for numbers in tally.lost)
    rows = run("SELECT hash FROM entries WHERE number = ?", head.number)
    return written_off or rows == [(head.hash,)]


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


def allow(run: Run, holder: str, user: str, micro: int, spent: int = 0) -> None:
    """Add to a user's budget for all data sets (`user`), or for those of a population (its key)."""
    run(
        "INSERT INTO budgets VALUES (?, ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET "
        "allowed = budgets.allowed + excluded.allowed, spent = budgets.spent + excluded.spent",
        *(holder, user, micro, spent),
    )


def _standing(row: tuple[Any, ...]) -> Standing:
    *cap, spent, rho, delta, concentrated = row
    return Standing(Cap(*cap), Amount(spent, rho, delta, bool(concentrated)))


def compare(run: Run, tally: Tally) -> None:
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
