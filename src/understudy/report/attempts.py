"""Attacks with a control set, for the internal report."""

from __future__ import annotations

from typing import Any

from understudy.report.numbers import fixed, percent
from understudy.report.plain import plain
from understudy.risk.attacks import Attack, Rehearsal
from understudy.survey.codebook import Codebook

CHANCE = 0.025  # that the lower limit of no gain is above 0


def attack_evidence(rehearsal: Rehearsal | None, codebook: Codebook) -> dict[str, Any] | None:
    """Successes and risks of every attack; None where there was no rehearsal."""
    if rehearsal is None:
        return None
    return {
        "records": rehearsal.records,
        "each": [_evidence(each, codebook) for each in rehearsal.attacks],
    }


def attack_facts(attacks: dict[str, Any] | None) -> dict[str, Any] | None:
    """The rows of the table, and the attacks whose interval lies above 0."""
    if attacks is None:
        return None
    rows = [
        (
            each["what"],
            f"{each['successes']:,} of {each['attempts']:,}",
            f"{each['control_successes']:,} of {each['control_attempts']:,}",
            f"{fixed(max(each['risk'], 0.0), 3)} "
            f"({fixed(each['lower'], 3)} to {fixed(each['upper'], 3)})",
        )
        for each in attacks["each"]
    ]
    return {**attacks, "rows": rows}


def attack_sentence(attacks: dict[str, Any] | None) -> str:
    """For the summary: what the attacks gained over the control."""
    if attacks is None:
        return ""
    each = attacks["each"]
    above = [row for row in each if row["lower"] > 0]
    text = (
        f"Attacks with a control set ({attacks['records']:,} records each): {len(above)} of "
        f"{len(each)} succeed more often with records that were used, beyond 95 % limits"
    )
    if not above:
        return f"{text}."
    worst = max(above, key=lambda row: row["risk"])
    return (
        f"{text} ({CHANCE * len(each):.2g} would by chance alone); the largest gain of these is "
        f"{percent(worst['risk'])} ({worst['what']})."
    )


def _evidence(attack: Attack, codebook: Codebook) -> dict[str, Any]:
    label = codebook.label(attack.target) if attack.target else ""
    lower, upper = attack.limits
    document: dict[str, Any] = plain(
        {
            "what": f"{attack.name} of {label}" if label else attack.name,
            "attempts": attack.attempts,
            "successes": attack.successes,
            "control_attempts": attack.control_attempts,
            "control_successes": attack.control_successes,
            "risk": attack.risk,
            "lower": lower,
            "upper": upper,
        }
    )
    return document
