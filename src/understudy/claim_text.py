"""A claim as one paragraph that a lawyer can read.

The order is always the same: what is protected, against what, by which number, under which
conditions, and what is not claimed. Every sentence follows from the claim's fields alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.claim import Claim

_AGAINST = {
    "blank": "the same database in which these values are blanked, so that {unit} contributes "
    "nothing",
    "replace": "the same database with any other values in their place",
    "add-remove": "the same database without {unit}",
}


def claim_text(claim: Claim) -> str:
    """The paragraph for `str(claim)`."""
    opening = {"formal": _formal, "asymptotic": _asymptotic, "local": _local, "risk": _risk}
    sentences = [opening[claim.kind](claim), *_conditions(claim), *_not_claimed(claim)]
    return " ".join(sentences)


def _formal(claim: Claim) -> str:
    return (
        f"{_release(claim)} carries a formal privacy claim for {_unit(claim)} with "
        f"{_numbers(claim)}. "
        f"{_protected(claim)} {_meaning(claim)} This holds for every possible database and "
        "whatever else a reader knows or computes later from what was published."
    )


def _asymptotic(claim: Claim) -> str:
    return (
        f"{_release(claim)} carries an asymptotic privacy claim for {_unit(claim)} with "
        f"{_numbers(claim)}. "
        f"{_protected(claim)} The number was computed on this database; it is proved to approach "
        "a bound for every database as the number of records grows. Where that bound holds: "
        f"{_lower_first(_meaning(claim))}"
    )


def _local(claim: Claim) -> str:
    return (
        f"{_release(claim)} carries a local figure for {_unit(claim)}, {_numbers(claim)}, for "
        f"comparison only. {_protected(claim)} The protection was fitted to what was observed in "
        "this database, not to what could occur in any database, so the figure is not a guarantee; "
        "the conditions say what holds."
    )


def _risk(claim: Claim) -> str:
    return (
        f"{_release(claim)} carries no epsilon. The confidential values were replaced by draws "
        "from a model; how well that protects a record is measured as identification risk, and "
        "the measurements belong to the internal report."
    )


def _release(claim: Claim) -> str:
    return f"This release ({claim.mechanism})" if claim.mechanism else "This release"


def _numbers(claim: Claim) -> str:
    text = f"epsilon = {_figure(claim.epsilon)}"
    if claim.delta:
        text += f" and delta = {_figure(claim.delta)}"
    text += f" under the relation `{claim.relation}`"
    if claim.epsilon_replace is not None:
        text += f", and epsilon = {_figure(claim.epsilon_replace)} under the relation `replace`"
    return text


def _protected(claim: Claim) -> str:
    if claim.relation == "add-remove":
        values = " with all its values" if claim.unit == "record" else ""
        what = f"What is protected is the presence of any {_unit(claim)}{values}"
    else:
        what = f"What is protected are the confidential values of any {_unit(claim)}"
    unit = "the record" if claim.unit == "record" else f"the `{claim.unit}`"
    against = _AGAINST[claim.relation].format(unit=unit)
    text = f"{what}: the database is compared with {against}"
    if claim.epsilon_replace is not None:
        text += (
            f" (relation `{claim.relation}`), and with {_AGAINST['replace']} (relation `replace`)"
        )
    return text + "."


def _unit(claim: Claim) -> str:
    if claim.unit == "record":
        return "one record"
    return f"one `{claim.unit}` with all its records"


def _meaning(claim: Claim) -> str:
    factor = f"a factor of at most {_factor(claim.epsilon)}"
    if claim.epsilon_replace is not None:
        factor += f" (under `replace`, {_factor(claim.epsilon_replace)})"
    if claim.delta:
        factor += f" and, beyond the factor, by at most {_figure(claim.delta)}"
    return (
        f"Between two such databases the probability of any published result differs by {factor}, "
        "in either direction."
    )


def _conditions(claim: Claim) -> list[str]:
    if not claim.conditions:
        return ["The claim has no further conditions."]
    listed = " ".join(
        f"({number}) {condition.strip().rstrip('.')}."
        for number, condition in enumerate(claim.conditions, start=1)
    )
    return [f"Conditions: {listed}"]


def _not_claimed(claim: Claim) -> list[str]:
    sentences = []
    if claim.kind == "risk":
        sentences.append("Not claimed: any bound on what could be learned about a record.")
    elif claim.kind == "formal":
        sentences.append("Not claimed: anything beyond this number and these conditions.")
    elif claim.kind == "asymptotic":
        sentences.append("Not claimed: that the number holds for every database of this size.")
    else:
        sentences.append("Not claimed: that the number holds for any other database.")
    if claim.relation != "add-remove":
        sentences.append("The public columns and the number of records are not hidden.")
    if claim.kind != "risk":
        if claim.unit == "record":
            sentences.append(
                "The figure is for one record; a person or household with k records needs k times "
                "as much."
            )
        sentences.append(
            "Any other release from the same database adds its own epsilon to this one."
        )
        sentences.append(
            "If the data holder decided to publish after looking at the confidential values, that "
            "decision is not covered."
        )
    sentences.append(
        "What is true of the population may still be learned from the release, and may be "
        "applied to anyone."
    )
    return sentences


def _factor(epsilon: float | None) -> str:
    if epsilon is None or epsilon > 700:
        return f"e^{_figure(epsilon)}"
    return f"{_figure_rounded_up(math.exp(epsilon))}"


def _figure(number: float | None) -> str:
    """The shortest decimal that gives the number back; `3` rather than `3.0`."""
    text = repr(number)
    return text.removesuffix(".0")


def _figure_rounded_up(number: float) -> str:
    """Three digits, rounded up, because the text says `at most`."""
    digits = 2 - math.floor(math.log10(number))
    if digits <= 0:
        unit = 10 ** (-digits)
        return f"{math.ceil(number / unit) * unit:,}"
    return f"{math.ceil(number * 10**digits) / 10**digits:g}"


def _lower_first(text: str) -> str:
    return text[0].lower() + text[1:]
