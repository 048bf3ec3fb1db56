"""Who waits for a place and who has one, over all server processes on one ledger (threat 21).

Places go by the order of asking. A row ends with its turn, with the process that it belongs to, or
with its time, whichever comes first.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from understudy.errors import Refused
from understudy.verify.shared_state import SharedState, is_dead

TABLES = (
    "CREATE TABLE IF NOT EXISTS tickets (one INTEGER PRIMARY KEY, last BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS turns (ticket BIGINT PRIMARY KEY, kind TEXT NOT NULL, "
    "server TEXT NOT NULL, holder TEXT NOT NULL, entered INTEGER NOT NULL, "
    "until DOUBLE PRECISION NOT NULL)",
    "INSERT INTO tickets VALUES (1, 0) ON CONFLICT DO NOTHING",
)
WAITING = 60.0  # seconds that a row counts without a word from its server
BEYOND = 60.0  # the end of a slot, for a machine that is late


class TooManyWaiting(Refused):
    """The user has as many questions under way as one may have; nothing was spent."""

    def __init__(self) -> None:
        super().__init__(
            "Your other questions are under way; ask this one when one of them is answered. "
            "Nothing was spent."
        )


class Turns:
    """The line of questions."""

    def __init__(self, shared: SharedState, clock: Callable[[], float] = time.time) -> None:
        self._shared = shared
        self._clock = clock
        shared.create(TABLES)
        with shared.transaction() as run:
            for (server,) in run("SELECT DISTINCT server FROM turns"):
                if is_dead(server):
                    run("DELETE FROM turns WHERE server = ?", server)

    def queue(self, kind: str, holder: str, most: int) -> int:
        """A ticket for a holder with fewer than `most`, of all kinds."""
        now, server = self._clock(), self._shared.server
        with self._shared.transaction() as run:
            run("UPDATE tickets SET last = last + 1")  # the lock of everybody who queues
            run("DELETE FROM turns WHERE until < ?", now)
            if run("SELECT COUNT(*) FROM turns WHERE holder = ?", holder)[0][0] >= most:
                raise TooManyWaiting
            ticket = int(run("SELECT last FROM tickets")[0][0])
            row = ticket, kind, server, holder, now + WAITING
            run("INSERT INTO turns VALUES (?, ?, ?, ?, 0, ?)", *row)
        return ticket

    def enter(self, kind: str, ticket: int, places: int, seconds: float) -> bool:
        """Take one of the places for so many seconds, if the tickets before leave one."""
        now, server = self._clock(), self._shared.server
        before = "SELECT COUNT(*) FROM turns WHERE kind = ? AND ticket < ? AND until >= ?"
        with self._shared.transaction() as run:
            waiting = "UPDATE turns SET until = ? WHERE server = ? AND entered = 0"
            run(waiting, now + WAITING, server)
            if run(before, kind, ticket, now)[0][0] >= places:
                return False
            until = now + 2 * seconds + BEYOND
            run("UPDATE turns SET entered = 1, until = ? WHERE ticket = ?", until, ticket)
        return True

    def leave(self, ticket: int) -> None:
        with self._shared.transaction() as run:
            run("DELETE FROM turns WHERE ticket = ?", ticket)

    def count(self) -> int:
        """Questions that wait or are computed, of all servers."""
        with self._shared.reading() as run:
            return int(run("SELECT COUNT(*) FROM turns WHERE until >= ?", self._clock())[0][0])

    def under_way(self) -> Callable[[], bool]:
        """Whether any of those who wait or compute now still does, whenever it is asked."""
        with self._shared.reading() as run:
            last = run("SELECT last FROM tickets")[0][0]

        def still() -> bool:
            known = "SELECT 1 FROM turns WHERE ticket <= ? AND until >= ? LIMIT 1"
            with self._shared.reading() as run:
                return bool(run(known, last, self._clock()))

        return still
