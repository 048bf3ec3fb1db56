"""Where server processes on one ledger keep what they must know of each other.

A file beside an SQLite ledger, or tables in a PostgreSQL one. Nothing in it is worth waiting for a
disk: after a crash everybody starts anew. Budgets and answers are the ledger's alone.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence

from understudy.ledger.database import Database, SqliteDatabase, open_database
from understudy.ledger.ledger import Ledger

HOST = socket.gethostname()


class SharedState:
    """The database of these tables, and this process among those that use it."""

    def __init__(self, ledger: Ledger) -> None:
        database = ledger.journal.database
        if isinstance(database, SqliteDatabase):
            location = str(database.path.with_name(database.path.name + ".shared"))
        else:
            location = database.location
        self.database: Database = open_database(location, durable=False)
        self.server = f"{HOST} {os.getpid()} {secrets.token_hex(8)}"

    def create(self, statements: Sequence[str]) -> None:
        with self.database.transaction() as run:
            if self.database.for_update:  # two servers that start at once must not both create
                run("SELECT pg_advisory_xact_lock(7163843)")
            for statement in statements:
                run(statement)

    def close(self) -> None:
        self.database.close()


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
