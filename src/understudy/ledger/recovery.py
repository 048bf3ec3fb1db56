"""Going on after entries were lost with a disk: what they may have spent is written off.

Nobody knows what the lost entries said, so all that is left of every population counts as spent.
Two stewards sign with their keys; a cap can then be raised as at any other time, on record. A file
that the ledger does not know may have been paid for in lost entries: it has no cap before the
steward says what it is (`populations.admit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from understudy.errors import Refused
from understudy.ledger.accounts import holder_of
from understudy.ledger.amounts import Amount, Standing
from understudy.ledger.chain import Head
from understudy.ledger.database import Run
from understudy.ledger.head_place import HeadPlace
from understudy.ledger.journal import Journal, read_standing, write_standing
from understudy.ledger.ledger import Ledger
from understudy.ledger.populations import check_reason, populations


def recover(location: tuple[Any, ...], keys: Sequence[str], reason: str) -> int:
    """Write off what the ledger at `location` lacks; how many entries were lost."""
    check_reason(reason)
    lost: list[int] = []

    def write_off(journal: Journal, run: Run, missing: Mapping[HeadPlace, Head | None]) -> None:
        signed = [holder_of(run, key) for key in keys]
        stewards = {user.name for user in signed if user.role == "steward"}
        if len(stewards) < 2:
            raise Refused("Lost entries are written off by two stewards, each with their own key.")
        after = journal.head(run).number
        number = max([after, *(head.number for head in missing.values() if head)])
        body = {"after": after, "by": sorted(stewards), "lost": number, "reason": reason}
        entry = journal.append(run, "recover", body=body, lost=number)
        for key in populations(run):
            standing = read_standing(run, key, journal.database.for_update) or Standing()
            amount = standing.rest
            if amount == Amount():
                continue
            facts = {"rho": amount.nano, "delta": amount.atto, "concentrated": False}
            journal.append(
                run, "write-off", dataset=key, micro=amount.micro, refers=entry, body=facts
            )
            write_standing(run, key, Standing(standing.cap, standing.spent + amount))
        lost.append(number - after)

    Ledger(*location, lacking=write_off).close()
    if not lost:
        raise Refused("The ledger has every entry that its heads outside list; nothing is lost.")
    return lost[0]
