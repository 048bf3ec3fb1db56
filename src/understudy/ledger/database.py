"""Two small dialects, one behaviour: the ledger's transactions on SQLite and PostgreSQL.

A transaction here is exclusive among writers from its first statement: BEGIN IMMEDIATE on
SQLite; on PostgreSQL the caller locks rows by `for_update` in a fixed order. Either way a
commit has reached the disk when it returns. Connections belong to one thread of one
process; a forked child opens its own.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from understudy.errors import Refused
from understudy.ledger.chain import BrokenLedger

Run = Callable[..., list[tuple[Any, ...]]]

WAIT_SECONDS = 60
LARGE = 64 * 2**20  # bytes of a file whose structure is not checked whenever it is opened


class CannotWrite(Refused):
    """The transaction was rolled back as a whole."""

    def __init__(self) -> None:
        super().__init__(
            "The ledger cannot be read or written now, and nothing was spent by this; see that its "
            "disk has room and that nobody holds it."
        )


class Database(Protocol):
    for_update: str

    def transaction(self) -> AbstractContextManager[Run]:
        """Gives `run(sql, *values)`, alone among writers; commits unless it raises."""

    def reading(self) -> AbstractContextManager[Run]:
        """The same without a lock, for reading."""

    def check(self, whole: bool) -> None:
        """Refuse a database whose own structure is broken; a large one is looked at `whole` only
        when asked to."""

    def create(self, statements: Sequence[str]) -> None:
        """Make the tables and the triggers that keep entries as they are."""

    def close(self) -> None: ...


class _PerThread:
    """One connection per thread and process; those of ended threads are closed."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._local = threading.local()
        self._opened: list[tuple[int, threading.Thread, Any]] = []
        self._lock = threading.Lock()

    def get(self) -> Any:
        if getattr(self._local, "process", None) != os.getpid():
            self._local.connection = self._connect()
            self._local.process = os.getpid()
            with self._lock:
                self._close_if(lambda thread: not thread.is_alive())
                mine = (os.getpid(), threading.current_thread(), self._local.connection)
                self._opened.append(mine)
        return self._local.connection

    def forget(self) -> None:
        """Drop this thread's connection, so that the next use opens a new one."""
        self._local.process = None

    def close(self) -> None:
        with self._lock:
            self._close_if(lambda _: True)
        self._local = threading.local()

    def _close_if(self, over: Callable[[threading.Thread], bool]) -> None:
        kept = []
        for process, thread, connection in self._opened:
            if process != os.getpid():
                continue  # a parent's connection: not ours to close
            if over(thread):
                connection.close()
            else:
                kept.append((process, thread, connection))
        self._opened = kept


class SqliteDatabase:
    """A file. WAL lets readers go on; synchronous=FULL makes a commit survive a power cut, where
    that is wanted."""

    for_update = ""

    def __init__(self, path: Path, durable: bool = True) -> None:
        self.path = path
        self._synchronous = "FULL" if durable else "OFF"
        self._connections = _PerThread(self._connect)

    def _connect(self) -> sqlite3.Connection:
        try:
            # a file is its owner's alone: with a record's digest, guesses at it can be tried
            file = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
            known = os.fstat(file)
            if known.st_mode & 0o007 and known.st_uid == os.geteuid():  # a group may be meant
                os.fchmod(file, 0o600)
            os.close(file)
            connection = sqlite3.connect(
                self.path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={self._synchronous}")
        except (OSError, sqlite3.Error):
            raise Refused(
                f"The ledger `{self.path.name}` cannot be opened; check the path, the permissions, "
                "and that it is an SQLite file."
            ) from None
        return connection

    def transaction(self) -> AbstractContextManager[Run]:
        return self._begin("BEGIN IMMEDIATE")

    def reading(self) -> AbstractContextManager[Run]:
        return self._begin("BEGIN")

    @contextmanager
    def _begin(self, statement: str) -> Iterator[Run]:
        connection = self._connections.get()

        def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = connection.execute(sql, values).fetchall()
            return rows

        try:
            connection.execute(statement)
            yield run
            connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if type(error) is sqlite3.DatabaseError:  # none of its kinds: the file is malformed
                raise self._damaged() from None
            if isinstance(error, sqlite3.OperationalError) and _undone(error):
                raise CannotWrite from None
            raise

    def _damaged(self) -> BrokenLedger:
        return BrokenLedger(
            f"The ledger's file `{self.path.name}` is damaged; restore the latest copy. What it "
            "lacks was spent."
        )

    def check(self, whole: bool) -> None:
        with self.reading() as run:
            if not whole and self.path.stat().st_size > LARGE:
                return
            if run("PRAGMA integrity_check(1)") != [("ok",)]:
                raise self._damaged()

    def create(self, statements: Sequence[str]) -> None:
        with self.transaction() as run:
            for statement in statements:
                run(statement)
            for change in ("UPDATE", "DELETE"):
                run(
                    f"CREATE TRIGGER IF NOT EXISTS no_{change.lower()} BEFORE {change} ON entries "
                    "BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END"
                )

    def close(self) -> None:
        self._connections.close()


def _undone(error: sqlite3.OperationalError) -> bool:
    """Whether it is certain that nothing was written: a full, locked or closed file."""
    return error.sqlite_errorcode & 0xFF in (
        sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    )  # fmt: skip


class PostgresDatabase:
    """A server, by URL. synchronous_commit stays on whatever the role's setting says."""

    for_update = " FOR UPDATE"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise Refused(
                "A PostgreSQL ledger needs the `postgres` extra: install understudy[postgres]."
            ) from None
        self._psycopg = psycopg
        self.errors = psycopg.Error
        self._url = url
        self._connections = _PerThread(self._connect)

    def _connect(self) -> Any:
        try:
            connection = self._psycopg.connect(
                self._url, autocommit=True, connect_timeout=WAIT_SECONDS
            )
            connection.execute("SET synchronous_commit TO on")
        except self._psycopg.Error:
            # The driver's message can hold the password of the URL.
            raise Refused(
                "The PostgreSQL ledger cannot be reached; check the URL and that it is running."
            ) from None
        return connection

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        connection = self._connections.get()
        if connection.closed:
            self._connections.forget()
            connection = self._connections.get()

        def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            cursor = connection.execute(sql.replace("?", "%s"), values or None)
            rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
            return rows

        with connection.transaction():
            yield run

    def reading(self) -> AbstractContextManager[Run]:
        return self.transaction()

    def check(self, whole: bool) -> None:
        """PostgreSQL keeps checksums of its own."""

    def create(self, statements: Sequence[str]) -> None:
        with self.transaction() as run:
            # Two servers that start at once must not both create.
            run("SELECT pg_advisory_xact_lock(7163842)")
            for statement in statements:
                run(statement)
            run(
                "CREATE OR REPLACE FUNCTION understudy_append_only() RETURNS trigger AS "
                "'BEGIN RAISE EXCEPTION ''entries are append-only''; END' LANGUAGE plpgsql"
            )
            run(
                "CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
                "ON entries FOR EACH STATEMENT EXECUTE FUNCTION understudy_append_only()"
            )

    def close(self) -> None:
        self._connections.close()


def open_database(location: str | Path) -> Database:
    """SQLite for a path (or sqlite:///path), PostgreSQL for a postgresql:// URL."""
    text = str(location)
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresDatabase(text)
    if text.startswith("sqlite:///"):
        return SqliteDatabase(Path(text.removeprefix("sqlite:///")))
    if "://" in text:
        kind = text.split("://", 1)[0]
        raise Refused(f"A ledger is a file or a postgresql:// URL, not `{kind}://`.")
    return SqliteDatabase(Path(text))
