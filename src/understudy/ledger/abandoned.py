"""Questions that a server left unanswered when it died (threat 23)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from understudy.ledger.ledger import AlreadyAnswered, Ledger, Reservation


def fail_abandoned(ledger: Ledger, busy: Callable[[], bool] = lambda: False) -> int:
    """Fail what a server left unanswered; how many. Their epsilon stays spent.

    For the server that starts. `busy` says whether another one is at work on the same ledger: then
    nothing is failed, for it may be what that one computes.
    """
    with ledger.journal.database.reading() as run:
        rows = run(
            "SELECT r.number, r.at, r.holder, r.dataset, r.micro FROM entries r WHERE "
            "r.kind = 'reserve' AND NOT EXISTS (SELECT 1 FROM entries a WHERE a.refers = r.number)"
        )
    if busy():  # asked after they were read: whoever computes one of them is busy still
        return 0
    for number, at, *others in rows:
        with suppress(AlreadyAnswered):  # meanwhile
            ledger.fail(Reservation(number, datetime.fromisoformat(at), *others))
    return len(rows)
