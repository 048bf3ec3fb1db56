"""A claim for a page: its opening, its conditions as a list, and what it does not claim.

The words are those of `str(claim)`, all of them and in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_CONDITIONS, _CLOSING = " Conditions: (1) ", " Not claimed: "


@dataclass(frozen=True)
class ClaimParts:
    """The paragraphs of a claim, and its numbers name by name."""

    opening: str
    conditions: tuple[str, ...]
    closing: str
    rows: tuple[tuple[str, ...], ...]


def claim_parts(text: str, conditions: Sequence[str], claim: dict[str, Any]) -> ClaimParts:
    """The paragraph `text` with its conditions taken out, and the numbers of the claim's JSON."""
    end = text.rfind(_CLOSING)
    opening, closing = text[:end], text[end + 1 :]
    if conditions:
        opening = opening.split(_CONDITIONS)[0]
    items = tuple(condition.strip().rstrip(".") + "." for condition in conditions)
    return ClaimParts(opening, items, closing, _rows(claim))


def _rows(claim: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    names = {
        "kind": "kind",
        "epsilon": "epsilon",
        "delta": "delta",
        "relation": "relation",
        "epsilon_replace": "epsilon under replace",
        "mechanism": "mechanism",
    }
    if claim["kind"] == "risk":  # delta and relation belong to an epsilon
        names = {name: names[name] for name in ("kind", "mechanism")}
    return tuple(
        (words, _shown(claim[name]))
        for name, words in names.items()
        if claim[name] not in (None, "")
    )


def _shown(value: Any) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
