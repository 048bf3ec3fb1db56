"""Audit of the promise: empirical lower bounds on epsilon for every formal mechanism.

Each mechanism is run many times on neighbouring databases that are as bad for it as we know.
The lower bound (Clopper-Pearson, alpha = 1e-6) must stay at or below the claim. It must also
reach 0.9 of it, or the audit is asleep: an audit that cannot see the true epsilon would not see
a larger one either. Planted mutants show that it is awake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from understudy.audit.attack import AuditRelation, Losses, Simulation, attack_named
from understudy.claim import checked_epsilon
from understudy.errors import Refused, UnknownName

Verdict = Literal["holds", "broken", "asleep"]

AWAKE = 0.9


@dataclass(frozen=True)
class AuditResult:
    """What was claimed and what was found, for one mechanism under one relation."""

    mechanism: str
    relation: AuditRelation
    claimed: float
    lower_bound: float
    exact: float
    trials: int
    verdict: Verdict
    mutant: str | None = None


def audit(
    name: str,
    epsilon: float = 1.0,
    trials: int | None = None,
    mutant: str | None = None,
    seed: int = 1,
    relations: Sequence[AuditRelation] | None = None,
) -> list[AuditResult]:
    """One result per relation for one attack, with a mutant planted or none.

    `epsilon` is what the mechanism is asked for: relation `blank` for the posterior mechanisms,
    that of the claim for the others. `seed` is for the draws on the grid.
    """
    attack = attack_named(name)
    if mutant is not None and mutant not in attack.mutants:
        raise UnknownName(f"mutant of {name}", mutant, attack.mutants)
    for relation in relations or ():
        if relation not in attack.relations:
            raise UnknownName(f"relation of {name}", relation, attack.relations)
    if checked_epsilon(epsilon) > 4:
        raise Refused(
            "The audit runs up to epsilon 4; above it the deciding events are too rare to be met "
            "in simulations, and the mechanism is the same at every epsilon."
        )
    trials = trials or attack.trials
    if trials < 100:
        raise Refused("An audit needs at least 100 trials on each database.")
    rng = np.random.default_rng(seed)
    results = []
    for relation in relations or attack.relations:
        losses = attack.losses(Simulation(relation, epsilon, trials, mutant, rng))
        results.append(AuditResult(name, relation, *losses, trials, judge(losses), mutant))
    return results


def judge(losses: Losses) -> Verdict:
    """broken: more privacy is lost than claimed; asleep: the bound is below 0.9 of the claim."""
    rounding = 1e-9  # of the grid's log-sum-exp; the simulations get no such slack
    if losses.lower_bound > losses.claimed or losses.exact > losses.claimed * (1 + rounding):
        return "broken"
    return "holds" if losses.lower_bound >= AWAKE * losses.claimed else "asleep"


def audit_table(results: Sequence[AuditResult]) -> str:
    """The results as lines of text."""
    head = ("mechanism", "relation", "mutant", "claimed", "shown", "exact", "trials", "verdict")
    rows = [head] + [
        (
            result.mechanism,
            result.relation,
            result.mutant or "-",
            f"{result.claimed:.4g}",
            f"{result.lower_bound:.4f}",
            f"{result.exact:.4f}",
            f"{result.trials:,}",
            result.verdict,
        )
        for result in results
    ]
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if 3 <= k <= 6 else text.ljust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
