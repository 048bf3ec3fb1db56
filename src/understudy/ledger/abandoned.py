"""Questions that a server left unanswered when it died (threat 23)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from understudy.ledger.ledger import AlreadyAnswered, Ledger, Reservation


def unanswered(ledger: Ledger) -> list[Reservation]:
    """What was paid for and has neither an answer nor a failure yet."""
    with ledger.journal.database.reading() as run:
        rows = run(
            "SELECT r.number, r.at, r.holder, r.dataset, r.micro FROM entries r WHERE "
            "r.kind = 'reserve' AND NOT EXISTS (SELECT 1 FROM entries a WHERE a.refers = r.number)"
        )
    return [Reservation(number, datetime.fromisoformat(at), *rest) for number, at, *rest in rows]


def fail_abandoned(ledger: Ledger, abandoned: Iterable[Reservation]) -> None:
    """Fail what nobody computes any more; their epsilon stays spent."""
    for reservation in abandoned:
        with suppress(AlreadyAnswered):  # meanwhile
            ledger.fail(reservation)
