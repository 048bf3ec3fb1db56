"""A short history of a ledger, counted by hand, and what an administrator can do to it."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from verification_samples import make_query

from understudy.ledger.accounts import add_user, set_active
from understudy.ledger.ledger import Ledger, Reservation

FIRST, SECOND = "ab" * 32, "cd" * 32


def write_history(ledger: Ledger) -> None:
    """Entries 1 to 12: open, two users, a grant, two data sets, three payments, an answer, ..."""
    add_user(ledger, "ann")
    add_user(ledger, "bob", role="steward")
    ledger.grant("ann", "2")
    ledger.add_dataset(FIRST, "survey", "5")
    ledger.add_dataset(SECOND, "census", "1.5")
    paid = ledger.reserve("ann", FIRST, make_query(epsilon="0.25"))
    assert isinstance(paid, Reservation)
    ledger.release(paid, {"count": 3})
    ledger.reserve("ann", FIRST, make_query(epsilon="0.5"))
    ledger.record_spending(FIRST, "1.1", "a release")
    ledger.raise_cap(SECOND, "0.5", by="bob")
    set_active(ledger, "bob", False, by="ann")


def copy_database(source: str, target: str) -> None:
    """A copy in the place of `target`, made as somebody who restores a backup does."""
    if not source.startswith("postgresql"):
        for leftover in Path(target).parent.glob(f"{Path(target).name}-*"):
            leftover.unlink()
        shutil.copy(source, target)
        return
    import psycopg

    original, two = (url.split("@/")[1].split("?")[0] for url in (source, target))
    with psycopg.connect(
        source.replace(f"/{original}?", "/postgres?"), autocommit=True
    ) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {two} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {two} TEMPLATE {original}")
        if two.startswith("ledger"):
            connection.execute(f"DROP DATABASE {original}")


class Unguarded:
    """The database as someone with its password has it: triggers off."""

    def __init__(self, database: str) -> None:
        self.database = database

    def __enter__(self) -> Any:
        if self.database.startswith("postgresql"):
            import psycopg

            self.connection: Any = psycopg.connect(self.database, autocommit=True)
            self.connection.execute("ALTER TABLE entries DISABLE TRIGGER ALL")
        else:
            self.connection = sqlite3.connect(self.database, isolation_level=None)
            for name in ("no_update", "no_delete"):
                self.connection.execute(f"DROP TRIGGER IF EXISTS {name}")

        def run(sql: str) -> list[Any]:
            cursor = self.connection.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

        return run

    def __exit__(self, *_: object) -> None:
        self.connection.close()
