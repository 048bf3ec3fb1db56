"""Find the scale c at which a fitted bound meets its target, with few fits (C §4.4; methods §3).

The bound is a maximum over posterior draws, so it depends on the random numbers. Within a stream
they are fixed; then log bound against log c is smooth enough for a secant, apart from jumps where
an extreme draw comes or goes. Where the target lies in a jump, another stream is taken. Each trial
starts from the previous one's draws, and nothing is compiled again: only record weights change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, isfinite, log
from typing import Generic, TypeVar

from understudy.errors import Refused

FitT = TypeVar("FitT")

SMALLEST, LARGEST = 1e-4, 1e4  # of c: beyond these the weights are all but 0, or all 1


@dataclass(frozen=True)
class Calibrated(Generic[FitT]):
    """The scale that was found, the bound there (never above the target), and its fit."""

    scale: float
    bound: float
    fit: FitT
    fits: int


def calibrate(
    fit_at: Callable[[float, FitT | None, int], tuple[float, FitT]],
    target: float,
    tolerance: float = 0.02,
    most_fits: int = 10,
    streams: int = 3,
) -> Calibrated[FitT]:
    """Bring the bound to within `tolerance` below `target`.

    `fit_at(c, previous, stream)` fits at scale c, started from the previous fit, with the random
    numbers of a stream, and returns its bound. The bound that is returned is at most `target`. If
    no c reaches the tolerance (all weights at 1 already, or a jump in every stream), it is the
    largest bound found below the target. A stream takes at most `most_fits`.
    """
    aim = log(target * (1 - tolerance / 2))
    best: Calibrated[FitT] | None = None
    at, previous, fits = 0.0, None, 0
    for stream in range(streams):
        tried: list[tuple[float, float]] = []  # (log c, log bound)
        for _ in range(most_fits):
            bound, previous = fit_at(exp(at), previous, stream)
            fits += 1
            tried.append((at, log(bound) if bound > 0 else -700.0))
            if bound <= target and (best is None or bound > best.bound):
                best = Calibrated(exp(at), bound, previous, fits)
            if best is not None and (best.bound >= target * (1 - tolerance) or _stuck(tried)):
                return replace(best, fits=fits)
            at = _next(tried, aim)
        if best is None:
            break
    if best is None:
        raise Refused(
            "No scale of the record weights brings the bound down to its target; ask for a larger "
            "epsilon, or use `Censored`, which enforces any epsilon."
        )
    return replace(best, fits=fits)


def _next(tried: list[tuple[float, float]], aim: float) -> float:
    """Secant step on (log c, log bound), kept inside the bracket when there is one."""
    (at, bound) = tried[-1]
    slope = 1.0  # a bound is proportional to c as long as the posterior stays put
    if len(tried) > 1:
        (other, other_bound) = min(tried[:-1], key=lambda point: abs(point[1] - aim))
        rise = (bound - other_bound) / (at - other) if at != other else 1.0
        slope = min(max(rise, 0.2), 3.0) if isfinite(rise) else 1.0
    step = at + (aim - bound) / slope
    below = [point[0] for point in tried if point[1] <= aim]
    above = [point[0] for point in tried if point[1] > aim]
    if below and above and max(below) < min(above) and not max(below) < step < min(above):
        step = (max(below) + min(above)) / 2
    return min(max(step, log(SMALLEST)), log(LARGEST))


def _stuck(tried: list[tuple[float, float]]) -> bool:
    """Whether a larger c no longer raises the bound: the weights are all at 1."""
    if len(tried) < 2:
        return False
    (before, old), (after, new) = tried[-2:]
    return after > before + 0.5 and abs(new - old) < 1e-3
