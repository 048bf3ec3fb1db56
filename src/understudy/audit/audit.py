"""Audit of the promise: empirical lower bounds on epsilon for every formal mechanism.

Each mechanism is run many times on neighbouring databases that are as bad for it as we know.
The lower bound (Clopper-Pearson, alpha = 1e-6) must stay at or below the claim. It must also
reach 0.9 of it, or the audit is asleep: an audit that cannot see the true epsilon would not see
a larger one either. Planted mutants show that it is awake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from understudy.audit.epsilon_bound import (
    Counts,
    choose_event,
    epsilon_lower_bound,
    exact_epsilon,
)
from understudy.audit.problems import MECHANISMS, MUTANTS, AuditRelation, grid_neighbours
from understudy.claim import checked_epsilon
from understudy.dp.histogram import SENSITIVITY, histogram_counts, histogram_edges
from understudy.dp.noise import exact_scale, integer_laplace
from understudy.errors import Refused, UnknownName

Verdict = Literal["holds", "broken", "asleep"]

ALPHA = 1e-6
AWAKE = 0.9
GRID_TRIALS = 3_000_000
HISTOGRAM_TRIALS = 200_000  # OpenDP's exact sampler takes about 13 microseconds per count


@dataclass(frozen=True)
class AuditResult:
    """What was claimed and what was found, for one mechanism under one relation.

    `exact` is the largest privacy loss on these databases, computed without simulation.
    """

    mechanism: str
    relation: AuditRelation
    claimed: float
    lower_bound: float
    exact: float
    trials: int
    verdict: Verdict
    mutant: str | None = None


def audit(
    mechanism: str,
    epsilon: float = 1.0,
    trials: int | None = None,
    mutant: str | None = None,
    seed: int = 1,
) -> list[AuditResult]:
    """One result per relation for one of `MECHANISMS`, with a mutant planted or none.

    `epsilon` is what the mechanism is asked for: relation `blank` for the posterior mechanisms,
    `replace` for the histogram. `seed` is for the draws on the grid; OpenDP's noise has none.
    """
    if mechanism not in MUTANTS:
        raise UnknownName("mechanism to audit", mechanism, MECHANISMS)
    if mutant is not None and mutant not in MUTANTS[mechanism]:
        raise UnknownName(f"mutant of {mechanism}", mutant, MUTANTS[mechanism])
    if checked_epsilon(epsilon) > 4:
        raise Refused(
            "The audit runs up to epsilon 4; above it the deciding events are too rare to be met "
            "in simulations, and the mechanism is the same at every epsilon."
        )
    trials = trials or (HISTOGRAM_TRIALS if mechanism == "perturbed-histogram" else GRID_TRIALS)
    if trials < 100:
        raise Refused("An audit needs at least 100 trials on each database.")
    rng = np.random.default_rng(seed)
    results = []
    for relation in get_args(AuditRelation):
        if mechanism == "perturbed-histogram":
            figures = _audit_histogram(epsilon, relation, trials, mutant)
        else:
            figures = _audit_grid(mechanism, epsilon, relation, trials, mutant, rng)
        verdict = judge(*figures)
        results.append(AuditResult(mechanism, relation, *figures, trials, verdict, mutant))
    return results


def judge(claimed: float, lower_bound: float, exact: float) -> Verdict:
    """broken: more privacy is lost than claimed; asleep: the bound is below 0.9 of the claim."""
    rounding = 1e-9  # of the grid's log-sum-exp; the simulations get no such slack
    if lower_bound > claimed or exact > claimed * (1 + rounding):
        return "broken"
    return "holds" if lower_bound >= AWAKE * claimed else "asleep"


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


def _audit_grid(
    mechanism: str,
    epsilon: float,
    relation: AuditRelation,
    trials: int,
    mutant: str | None,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """(claimed, lower bound, exact); the largest over the pairs of databases, which share alpha."""
    pairs = grid_neighbours(mechanism, epsilon, relation, mutant)
    claim = pairs[0].claim()
    claimed = claim.epsilon if relation == "blank" else claim.epsilon_replace
    shown, exact = 0.0, 0.0
    for pair in pairs:
        first, second = pair.log_posteriors()
        drawn = [_draw(log_p, trials, rng) for log_p in (first, second)]
        shown = max(shown, _shown(drawn[0], drawn[1], first.size, ALPHA / len(pairs)))
        exact = max(exact, exact_epsilon(first, second))
    return float(claimed or 0.0), shown, exact


def _audit_histogram(
    epsilon: float, relation: AuditRelation, trials: int, mutant: str | None
) -> tuple[float, float, float]:
    """The record moves from the first bin to the second, or is blanked; events on noisy counts."""
    # blanking concerns one bin only, so one bin is enough there
    bins = 2 if relation == "replace" else 1
    edges = histogram_edges((0.0, 1.0), bins, 20)
    values = np.repeat([0.25, 0.75], 10)
    other = np.append(values[1:], 0.75) if relation == "replace" else values[1:]
    first, second = histogram_counts(values, edges), histogram_counts(other, edges)
    sensitivity = 1 if mutant == "scale-halved" else SENSITIVITY
    repeats = 2 if mutant == "two-draws" else 1
    drawn = []
    for counts in (first, second):
        noisy = integer_laplace(np.tile(counts, trials * repeats), sensitivity, epsilon)
        # The ratio is constant outside the two counts, so outputs further out may be lumped.
        steps = np.clip(noisy.reshape(trials, -1) - np.tile(first, repeats), -2, 2) + 2
        drawn.append(steps @ 5 ** np.arange(bins * repeats))
    cells = 5 ** (bins * repeats)
    distance = int(np.abs(first - second).sum())
    exact = repeats * distance / exact_scale(sensitivity, epsilon)
    # scale 2/epsilon against a distance of 2 (replace) or 1 (blank): docs/proofs
    claimed = epsilon if relation == "replace" else epsilon / 2
    return claimed, _shown(drawn[0], drawn[1], cells, ALPHA), exact


def _draw(log_probability: NDArray[np.float64], trials: int, rng: np.random.Generator) -> Counts:
    """`trials` independent draws of a cell, by inversion of the distribution function."""
    distribution = np.cumsum(np.exp(log_probability))
    cells = np.searchsorted(distribution / distribution[-1], rng.random(trials), side="right")
    return cells.astype(np.int64)


def _shown(first: Counts, second: Counts, cells: int, alpha: float) -> float:
    """The event is chosen on the first tenth of the trials and judged on the rest."""
    cut = first.size // 10
    early = [np.bincount(drawn[:cut], minlength=cells) for drawn in (first, second)]
    late = [np.bincount(drawn[cut:], minlength=cells) for drawn in (first, second)]
    event = choose_event(early[0], early[1], alpha)
    return epsilon_lower_bound(late[0], late[1], event, alpha)
