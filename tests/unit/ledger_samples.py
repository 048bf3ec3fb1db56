"""A short history of a ledger, in which every kind of entry can be counted by hand."""

from __future__ import annotations

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
