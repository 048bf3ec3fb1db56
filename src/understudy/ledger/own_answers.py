"""Which answers are a user's own: the numbers of her payments, and since when her key has them."""

from __future__ import annotations

from understudy.ledger.database import Run

ALL = 2**62  # above every number of an entry


def since(run: Run, user: str) -> int:
    """The entry from which on answers belong to the user's key: somebody else made or handed it out
    there (threat 27)."""
    last = "SELECT max(number) FROM entries WHERE holder = ? AND kind IN ('key', 'pick-up')"
    return int(run(last, user)[0][0] or 0)


def own_number(run: Run, user: str, entry: int) -> int:
    own = "SELECT count(*) FROM entries WHERE holder = ? AND kind = 'reserve' AND number <= ?"
    return int(run(own, user, entry)[0][0])


def entry_number(run: Run, user: str, own: int) -> int:
    """The entry of a user's own number; one above all where there are fewer."""
    rows = run(
        "SELECT number FROM entries WHERE holder = ? AND kind = 'reserve' ORDER BY number "
        "LIMIT 1 OFFSET ?",
        *(user, own - 1),
    )
    return int(rows[0][0]) if rows else ALL
