"""The ledger: who spent how much epsilon on which data, append-only and exact.

Spend first, compute later. `reserve` checks the user's budget and the data set's cap and
writes the entry in one transaction, before any record is read; `release` stores the answer
beside it. Nothing is ever refunded: a reservation without an answer stays spent, because a
crash between noise and reply must not make an answer free (threats 1, 2). The same question
of the same user gets the stored answer, free (threat 13). One ledger serves verifications,
releases and tables: the cap belongs to the data's fingerprint (threat 15).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from understudy.errors import Refused, UnknownName
from understudy.ledger.chain import BrokenLedger, Entry
from understudy.ledger.database import Run
from understudy.ledger.epsilon import parse_epsilon, show_epsilon
from understudy.ledger.journal import Budget, Clock, Holder, Journal

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class OverBudget(Refused):
    """The request costs more than is left; nothing was spent."""


class StillAnswering(Refused):
    """The same question is being answered; ask again when its reply is due."""


@dataclass(frozen=True)
class Reservation:
    """Epsilon that is spent; only its holder may look at the data."""

    number: int
    at: datetime
    user: str
    dataset: str
    micro: int


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that was paid for. `number` and `at` are its reservation's: when the
    computation ended is nobody's business."""

    number: int
    at: datetime
    question: Mapping[str, Any]
    body: Mapping[str, Any]


class Question(Protocol):
    """What can be paid for: a price, and a text that is the same for the same question."""

    @property
    def micro(self) -> int: ...
    def digest(self) -> str: ...
    def canonical(self) -> str: ...


class Ledger:
    """Open a ledger, checking it whole.

    `place` is a file (SQLite) or a postgresql:// URL. `head` is the file outside the
    database that keeps the chain's head; best on another disk than the database and its
    backups. For SQLite it defaults to the database's name with `.head`.
    """

    def __init__(
        self, place: str | Path, head: str | Path | None = None, *, clock: Clock | None = None
    ) -> None:
        self.journal = Journal(place, head, clock)

    def reserve(
        self, user: str, dataset: str, query: Question, hold_seconds: float = 0.0
    ) -> Reservation | StoredAnswer:
        """Spend the query's epsilon, or return the answer that was already paid for.

        `hold_seconds` is the reply slot. Until it has passed, the same question is refused
        and its answer is shown to nobody, whenever the computation ended, so that the time
        of the release cannot be probed by asking again (threat 7).
        """
        with self.journal.write() as run:
            now = self.journal.clock()
            stored = _stored(run, now, user, dataset, query.digest())
            if stored is not None:
                return stored
            self._spend(run, query.micro, dataset, user)
            number = self.journal.append(
                run,
                "reserve",
                at=now,
                holder=user,
                dataset=dataset,
                micro=query.micro,
                question=query.digest(),
                body={"hold_seconds": hold_seconds, "query": json.loads(query.canonical())},
            )
        return Reservation(number, now, user, dataset, query.micro)

    def release(self, reservation: Reservation, answer: Mapping[str, Any]) -> None:
        """Store the answer of a reservation, once."""
        self._finish(reservation, "release", answer)

    def fail(self, reservation: Reservation) -> None:
        """Note that no answer came; the epsilon stays spent, and no reason is kept."""
        self._finish(reservation, "fail", {})

    def record_spending(
        self, dataset: str, epsilon: str, what: str, reference: str | None = None
    ) -> int:
        """Spend on the data set outside a verification (a release, a table); the entry.

        The same `reference` is charged once, so that a resumed command does not pay twice.
        """
        micro = parse_epsilon(epsilon)
        with self.journal.write() as run:
            known = run(
                "SELECT number, micro, dataset FROM entries WHERE kind = 'spend' AND question = ?",
                reference,
            )
            if known and known[0][1:] == (micro, dataset):
                return int(known[0][0])
            if known:
                raise Refused(
                    f"The reference `{reference}` is in the ledger with a different amount or data "
                    "set; choose a new one."
                )
            self._spend(run, micro, dataset, None)
            return self.journal.append(
                run, "spend", dataset=dataset, micro=micro, question=reference, body={"what": what}
            )

    def grant(self, user: str, epsilon: str, by: str = "") -> None:
        """Give a user more epsilon: an entry like any other; there is no reset."""
        micro = parse_epsilon(epsilon)
        with self.journal.write() as run:
            if not run("SELECT 1 FROM users WHERE name = ?", user):
                raise UnknownName("user", user, (n for (n,) in run("SELECT name FROM users")))
            self.journal.append(run, "grant", holder=user, micro=micro, body={"by": by})
            _allow(run, "user", user, micro)

    def add_dataset(self, dataset: str, name: str, epsilon: str, by: str = "") -> None:
        """Make a data set known by its fingerprint, with its cap. Known data keep their cap:
        the same records under a new name share it."""
        if not _FINGERPRINT.fullmatch(dataset):
            raise Refused("A data set is known by its fingerprint, 64 hexadecimal digits.")
        micro = parse_epsilon(epsilon)
        with self.journal.write() as run:
            earlier = run(
                "SELECT body FROM entries WHERE kind = 'dataset' AND dataset = ?", dataset
            )
            if any(json.loads(body)["name"] == name for (body,) in earlier):
                return
            added = 0 if earlier else micro
            body = {"by": by, "name": name}
            self.journal.append(run, "dataset", dataset=dataset, micro=added, body=body)
            _allow(run, "dataset", dataset, added)

    def raise_cap(self, dataset: str, epsilon: str, by: str = "") -> None:
        """Allow more epsilon on a data set: a policy decision that stays on record."""
        micro = parse_epsilon(epsilon)
        with self.journal.write() as run:
            if not run("SELECT 1 FROM budgets WHERE kind = 'dataset' AND name = ?", dataset):
                raise Refused("This data set is not in the ledger; add it first.")
            self.journal.append(run, "cap", dataset=dataset, micro=micro, body={"by": by})
            _allow(run, "dataset", dataset, micro)

    def budget(self, kind: Holder, name: str) -> Budget:
        with self.journal.database.reading() as run:
            return _budget(run, kind, name)

    def stored(self, user: str, dataset: str, query: Question) -> StoredAnswer | None:
        """The answer that this user already has to the question; None if there is none."""
        with self.journal.database.reading() as run:
            return _stored(run, self.journal.clock(), user, dataset, query.digest())

    def answers(self, user: str) -> list[StoredAnswer]:
        """A user's own answers whose reply is due, oldest first; nobody else's."""
        with self.journal.database.reading() as run:
            rows = run(_ANSWERS + " ORDER BY r.number", user)
        now = self.journal.clock()
        return [_stored_answer(row) for row in rows if row[3] is not None and _due(row) <= now]

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """All entries in order, for the steward."""
        return self.journal.entries(after)

    def close(self) -> None:
        self.journal.database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spend(self, run: Run, micro: int, dataset: str, user: str | None) -> None:
        """Check and charge the data set's cap, then the user's budget: always in this order."""
        holders: list[tuple[Holder, str | None]] = [("dataset", dataset), ("user", user)]
        for kind, name in holders:
            if name is None:
                continue
            left = _budget(run, kind, name, self.journal.database.for_update).left
            if left < micro:
                whose = "of your budget" if kind == "user" else "for this data set"
                needed, rest = show_epsilon(micro), show_epsilon(left)
                raise OverBudget(f"This needs epsilon {needed}, {rest} is left {whose}.")
            run(
                "UPDATE budgets SET spent = spent + ? WHERE kind = ? AND name = ?",
                micro,
                kind,
                name,
            )

    def _finish(self, reservation: Reservation, kind: str, body: Mapping[str, Any]) -> None:
        number = reservation.number
        with self.journal.write() as run:
            if not run("SELECT 1 FROM entries WHERE number = ? AND kind = 'reserve'", number):
                raise BrokenLedger("The reservation is not in the ledger; nothing is released.")
            if run("SELECT 1 FROM entries WHERE refers = ?", number):
                raise Refused("This reservation has been answered already.")
            holder, dataset = reservation.user, reservation.dataset
            self.journal.append(run, kind, holder=holder, dataset=dataset, refers=number, body=body)


_ANSWERS = (
    "SELECT r.number, r.at, r.body, a.body FROM entries r LEFT JOIN entries a ON "
    "a.refers = r.number AND a.kind = 'release' WHERE r.kind = 'reserve' AND r.holder = ?"
)


def _stored(run: Run, now: datetime, user: str, dataset: str, question: str) -> StoredAnswer | None:
    select = _ANSWERS + " AND r.dataset = ? AND r.question = ? ORDER BY r.number"
    for row in run(select, user, dataset, question):
        if now < _due(row):
            wait = (_due(row) - now).total_seconds()
            raise StillAnswering(
                f"This question is being answered; ask again in {wait:.1f} seconds, for free."
            )
        if row[3] is not None:
            return _stored_answer(row)
    return None


def _stored_answer(row: tuple[Any, ...]) -> StoredAnswer:
    number, at, body, answer = row
    question = json.loads(body)["query"]
    return StoredAnswer(number, datetime.fromisoformat(at), question, json.loads(answer))


def _due(row: tuple[Any, ...]) -> datetime:
    seconds = json.loads(row[2])["hold_seconds"]
    return datetime.fromisoformat(row[1]) + timedelta(seconds=seconds)


def _allow(run: Run, kind: Holder, name: str, micro: int) -> None:
    run(
        "INSERT INTO budgets VALUES (?, ?, ?, 0) ON CONFLICT (kind, name) "
        "DO UPDATE SET allowed = budgets.allowed + excluded.allowed",
        *(kind, name, micro),
    )


def _budget(run: Run, kind: Holder, name: str, lock: str = "") -> Budget:
    rows = run(f"SELECT allowed, spent FROM budgets WHERE kind = ? AND name = ?{lock}", kind, name)
    return Budget(*rows[0]) if rows else Budget()
