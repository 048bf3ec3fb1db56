"""A lower bound on epsilon from simulations on two neighbouring databases.

If P_a(S) > e^epsilon P_b(S) for any set S of outputs, the mechanism is not epsilon-private.
Outputs are counted in cells; S is a union of cells that is chosen on one part of the
simulations and judged on the other, so that choosing it cannot flatter the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from understudy.errors import Refused

Counts = NDArray[np.int64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Event:
    """A set of output cells, and whether it is likelier on the first database or the second."""

    cells: NDArray[np.bool_]
    likelier_on_first: bool


def clopper_pearson(successes: ArrayLike, trials: int, alpha: float) -> tuple[Vector, Vector]:
    """Exact one-sided limits of a probability, lower and upper, each wrong with chance alpha."""
    k = np.asarray(successes, dtype=np.float64)
    inner_low, inner_high = (
        np.maximum(k, 1),
        np.minimum(k, trials - 1),
    )  # the ends are settled below
    lower = stats.beta.ppf(alpha, inner_low, trials - inner_low + 1)
    upper = stats.beta.isf(alpha, inner_high + 1, trials - inner_high)
    return np.where(k > 0, lower, 0.0), np.where(k < trials, upper, 1.0)


def shown_loss(
    first: Counts, second: Counts, cells: int, alpha: float, delta: float = 0.0
) -> float:
    """The bound from the cells that came out on each database, trial by trial: the event is chosen
    on the first tenth of the trials and judged on the rest."""
    cut, _ = parts_of(first.size)
    counts = [
        np.stack([np.bincount(part, minlength=cells) for part in (drawn[:cut], drawn[cut:])])
        for drawn in (first, second)
    ]
    return shown_by_counts(counts[0], counts[1], alpha, delta)


def parts_of(trials: int) -> tuple[int, int]:
    """How many of the trials choose the event, and how many judge it."""
    return trials // 10, trials - trials // 10


def shown_by_counts(first: Counts, second: Counts, alpha: float, delta: float = 0.0) -> float:
    """The same from counts by cell (2, cells) of the trials that choose and those that judge."""
    event = choose_event(first[0], second[0], alpha)
    return epsilon_lower_bound(first[1], second[1], event, alpha, delta)


def epsilon_lower_bound(
    on_first: Counts, on_second: Counts, event: Event, alpha: float, delta: float = 0.0
) -> float:
    """log((P_a(S) - delta) / P_b(S)) with both probabilities at their limits, alpha/2 each.

    `on_first` and `on_second` are counts of outputs by cell on the two databases. The result
    exceeds the true epsilon with chance at most alpha. It is 0 when nothing is shown.
    """
    likely, unlikely = _ordered(on_first, on_second, event.likelier_on_first)
    shown = _log_ratio(
        likely[event.cells].sum(),
        unlikely[event.cells].sum(),
        likely.sum(),
        unlikely.sum(),
        alpha,
        delta,
    )
    return max(0.0, float(shown))


def choose_event(on_first: Counts, on_second: Counts, alpha: float) -> Event:
    """The likelihood-ratio set with the best bound on these simulations (Neyman-Pearson).

    Cells are ordered by their observed ratio, smoothed by half a count; every set of the k
    highest cells is tried, in both directions.
    """
    if on_first.ndim != 1 or on_first.shape != on_second.shape:
        raise Refused("Outputs on both databases must be counted in the same cells.")
    best, chosen = -np.inf, Event(np.zeros(on_first.size, dtype=bool), True)
    for likelier_on_first in (True, False):
        likely, unlikely = _ordered(on_first, on_second, likelier_on_first)
        order = np.argsort((unlikely + 0.5) / (likely + 0.5), kind="stable")
        shown = _log_ratio(
            np.cumsum(likely[order]),
            np.cumsum(unlikely[order]),
            likely.sum(),
            unlikely.sum(),
            alpha,
        )
        k = int(np.argmax(shown))
        if shown[k] > best:
            cells = np.zeros(on_first.size, dtype=bool)
            cells[order[: k + 1]] = True
            best, chosen = float(shown[k]), Event(cells, likelier_on_first)
    return chosen


def exact_epsilon(log_first: Vector, log_second: Vector) -> float:
    """max over cells of |log P_a - log P_b|: the privacy loss itself, where it is computable."""
    return float(np.max(np.abs(log_first - log_second)))


def _ordered(on_first: Counts, on_second: Counts, as_given: bool) -> tuple[Counts, Counts]:
    return (on_first, on_second) if as_given else (on_second, on_first)


def _log_ratio(
    k_likely: ArrayLike,
    k_unlikely: ArrayLike,
    n_likely: int,
    n_unlikely: int,
    alpha: float,
    delta: float = 0.0,
) -> Vector:
    low = clopper_pearson(k_likely, int(n_likely), alpha / 2)[0]
    high = clopper_pearson(k_unlikely, int(n_unlikely), alpha / 2)[1]
    with np.errstate(divide="ignore"):  # log 0 = -inf: an event that never happened shows nothing
        return np.asarray(np.log(np.maximum(low - delta, 0)) - np.log(high), dtype=np.float64)
