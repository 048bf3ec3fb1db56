"""What a release costs in the ledger, recorded before any record is fitted.

A ledger adds epsilons, so they must speak of one relation. The number of records of a release is
public, hence `replace`: a claim under `blank` or `add-remove` counts twice its epsilon (a
replacement is two such steps; docs/proofs/censoring.md, step 5).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from understudy.claim import Claim
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger, OverBudget
from understudy.release.prepare import Prepared


def price(mechanism: Any) -> Decimal:
    """epsilon under `replace`, over all data sets."""
    relation = getattr(mechanism, "relation", None)
    if relation is None:
        relation = "replace" if type(mechanism).__name__ == "PerturbedHistogram" else "blank"
    return Decimal(repr(float(mechanism.epsilon))) * (1 if relation == "replace" else 2)


def total_price(prepared: Prepared) -> Decimal:
    """The price of a release with all its parts."""
    return price(prepared.mechanism) + sum(
        (price(one.mechanism) for one in prepared.given), Decimal(0)
    )


def spend(prepared: Prepared, nonce: str) -> None:
    """Record the price once; a resumed run finds it there. Refused when the cap would be passed.

    `nonce` tells releases of one recipe apart that are made with other random numbers.
    """
    recipe = prepared.recipe
    if recipe.ledger is None:
        return
    cost = f"{total_price(prepared):f}"
    with Ledger(recipe.ledger, recipe.ledger_head) as ledger:
        ledger.add_dataset(prepared.fingerprint, prepared.title, recipe.ledger_cap, "release")
        try:
            ledger.record_spending(
                prepared.fingerprint,
                cost,
                f"release `{prepared.title}`, epsilon under replace",
                f"{prepared.identity}:{nonce}",
            )
        except OverBudget as refusal:
            raise Refused(
                f"{refusal} The release was not made; raise the cap on record, or ask for less."
            ) from None


def check_price(prepared: Prepared, claim: Claim) -> None:
    """The claim may not cost more than was recorded for it."""
    if prepared.recipe.ledger is None or claim.epsilon is None:
        return
    relations = 1 if claim.relation == "replace" else 2
    stated = Decimal(repr(claim.epsilon_replace or relations * claim.epsilon))
    if stated > total_price(prepared) * (1 + Decimal("1e-9")):
        raise Refused(
            "The claim turned out larger than what the ledger holds for it; nothing is published."
        )
