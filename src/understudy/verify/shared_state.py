"""Where server processes on one ledger keep what they must know of each other.

A file beside an SQLite ledger, or tables in a PostgreSQL one. Nothing in it is worth waiting for a
disk: after a crash everybody starts anew. Budgets and answers are the ledger's alone.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from understudy.ledger.database import Database, Run, SqliteDatabase
from understudy.ledger.ledger import Ledger

HOST = socket.gethostname()


class SharedState:
    """The database of these tables, and this process among those that use it.

    In PostgreSQL they use the ledger's own connections: there are only so many.
    """

    def __init__(self, ledger: Ledger) -> None:
        database = ledger.journal.database
        self._own = None
        if isinstance(database, SqliteDatabase):
            file = database.path.with_name(database.path.name + ".shared")
            self._own = database = SqliteDatabase(file, durable=False)
        self._database: Database = database
        self.server = f"{HOST} {os.getpid()} {secrets.token_hex(8)}"

    @property
    def for_update(self) -> str:
        return self._database.for_update

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """As the ledger's, but nobody waits for the disk."""
        with self._database.transaction() as run:
            if self._own is None:
                run("SET LOCAL synchronous_commit TO off")
            yield run

    def reading(self) -> AbstractContextManager[Run]:
        return self._database.reading()

    def create(self, statements: Sequence[str]) -> None:
        with self.transaction() as run:
            if self._own is None:  # two servers that start at once must not both create
                run("SELECT pg_advisory_xact_lock(7163843)")
            for statement in statements:
                run(statement)

    def close(self) -> None:
        if self._own is not None:
            self._own.close()


def is_dead(server: str) -> bool:
    """Whether a server of this machine has ended; of others nothing is known."""
    host, process, _ = server.rsplit(" ", 2)
    if host != HOST:
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
