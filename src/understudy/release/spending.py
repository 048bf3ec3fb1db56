"""What a release costs in the ledger, recorded before any record is fitted."""

from __future__ import annotations

from decimal import Decimal

from understudy.claim import Claim
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger, OverBudget
from understudy.release.inside import Inside


def total_price(inside: Inside) -> Decimal:
    """Epsilon under `replace` of a release with all its parts; refused where one states none."""
    total = Decimal(0)
    for mechanism in inside.mechanisms:
        price = mechanism.price()
        if price is None:
            raise Refused(
                f"A ledger counts epsilon, and {type(mechanism).__name__} states none beforehand; "
                "give `epsilon`, or leave out [ledger]."
            )
        total += price
    return total


def spend(inside: Inside, nonce: str) -> None:
    """Record the price once; a resumed run finds it there. Refused when the cap would be passed.

    `nonce` tells releases of one recipe apart that are made with other random numbers.
    """
    recipe = inside.recipe
    if recipe.ledger is None or recipe.ledger_place is None:
        return
    cost = f"{total_price(inside):f}"
    with Ledger(recipe.ledger_place, recipe.ledger_head) as ledger:
        ledger.add_dataset(inside.fingerprint, inside.title, recipe.ledger.cap, "release")
        try:
            ledger.record_spending(
                inside.fingerprint,
                cost,
                f"release `{inside.title}`, epsilon under replace",
                f"{inside.identity}:{nonce}",
            )
        except OverBudget as refusal:
            raise Refused(
                f"{refusal} The release was not made; raise the cap on record, or ask for less."
            ) from None


def check_price(inside: Inside, claim: Claim) -> None:
    """The claim may not cost more than was recorded for it."""
    if inside.recipe.ledger is None or claim.epsilon is None:
        return
    relations = 1 if claim.relation == "replace" else 2
    stated = Decimal(repr(claim.epsilon_replace or relations * claim.epsilon))
    if stated > total_price(inside) * (1 + Decimal("1e-9")):
        raise Refused(
            "The claim turned out larger than what the ledger holds for it; nothing is published."
        )
