"""Heads in a table of a PostgreSQL, best one that the ledger's administrator does not administer.

Its role needs no more than INSERT and SELECT on the table; then not even the ledger's host can
take a head back.
"""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

from understudy.errors import Refused
from understudy.ledger.chain import BrokenLedger, Head
from understudy.ledger.database import PostgresDatabase, Run
from understudy.ledger.head_place import is_ahead, parse_head, unwritable

TABLE = (
    "CREATE TABLE IF NOT EXISTS understudy_heads (number BIGINT PRIMARY KEY, line TEXT NOT NULL, "
    "at TIMESTAMPTZ NOT NULL DEFAULT now())"
)


class HeadTable:
    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(url)
        self.name = urlsplit(url).path.lstrip("/") or "postgresql"

    def read(self) -> Head | None:
        with suppress(self._database.errors), self._database.transaction() as run:
            run(TABLE)  # a role that may only insert finds it made
        try:
            with self._database.transaction() as run:
                return _last(run)
        except self._database.errors:
            raise Refused(f"The heads at `{self.name}` cannot be read; see that it runs.") from None

    def close(self) -> None:
        self._database.close()

    def advance(self, head: Head) -> None:
        try:
            with self._database.transaction() as run:
                if not is_ahead(self.name, _last(run), head):
                    insert = "INSERT INTO understudy_heads VALUES (?, ?) ON CONFLICT DO NOTHING"
                    run(insert, head.number, head.line)
        except BrokenLedger:
            raise
        except (self._database.errors, Refused) as error:
            raise unwritable(self.name, type(error).__name__) from None


def _last(run: Run) -> Head | None:
    rows = run("SELECT line FROM understudy_heads ORDER BY number DESC LIMIT 1")
    return parse_head(rows[0][0]) if rows else None
