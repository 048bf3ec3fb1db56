"""A claim for a page: its opening, its conditions as a list, and what it does not claim.

The words are those of `str(claim)`, all of them and in their order.
"""

from __future__ import annotations

from typing import Any

from understudy.report.page import Part, Points, Words

_CONDITIONS, _CLOSING = " Conditions: (1) ", " Not claimed: "


def claim_parts(text: str, conditions: list[str] | tuple[str, ...]) -> list[Part]:
    """The paragraph `text` with its conditions taken out into a numbered list."""
    place = text.rfind(_CLOSING)
    opening, closing = text[:place], text[place + 1 :]
    if not conditions:
        return [Words(opening), Words(closing)]
    items = tuple(condition.strip().rstrip(".") + "." for condition in conditions)
    return [
        Words(opening.split(_CONDITIONS)[0]),
        Words("Conditions:"),
        Points(items, numbered=True),
        Words(closing),
    ]


def claim_rows(claim: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The numbers of the claim, name by name."""
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
