"""The door to a ledger for whoever spends from Python: `account=`, or a claim that says otherwise.

A recipe with [ledger] and the server pay by themselves. `synthesize`, `synthesize_mixed`,
`influence`, `corrected_table` and `laplace_table` take an account (`LedgerAccount`), which is
charged before anything is drawn. What was made without one says so in its claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from understudy.claim import Claim
from understudy.dp.accounting import Cost
from understudy.errors import Refused

UNHEARD = (
    "It was not charged to any ledger: whoever publishes it must add its figure to all else that "
    "was spent on the same records"
)


class PayingAccount(Protocol):
    """Where a guarantee is paid for; the sentence that `spend` returns goes into the claim."""

    def spend(self, survey: Any, costs: Sequence[Cost], what: str) -> str: ...


def charged(
    account: PayingAccount | None, survey: Any, costs: Sequence[Cost | None], unit: str, what: str
) -> str:
    """Charge what a release costs the unit, before anything is drawn; the sentence for its claim.

    A cost of None is that of a mechanism that states no guarantee beforehand: there is nothing to
    count, and an account is refused.
    """
    known = [replace(cost, unit=unit) for cost in costs if cost is not None]
    if len(known) < len(costs):
        if account is not None:
            raise Refused(
                f"An account counts guarantees, and {what} states none beforehand; use a mechanism "
                "with an epsilon of its own, or leave out `account`."
            )
        return UNHEARD
    return UNHEARD if account is None else account.spend(survey, known, what)


def said_of_account(claim: Claim, sentence: str) -> Claim:
    """The claim with the sentence about its payment, where it promises something at all."""
    if not sentence or claim.kind not in ("formal", "asymptotic"):
        return claim
    return replace(claim, conditions=(*claim.conditions, sentence))
