"""What is said of the runs: medians, spreads, ratios of runs that stood side by side, growth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import median
from typing import Any

from bench.framework.case import OURS


@dataclass(frozen=True)
class Ratio:
    """A peer's seconds over ours: how many times faster we are; below 1 we are slower."""

    middle: float
    low: float
    high: float
    runs: int


def processor(side: Mapping[str, Any]) -> list[float]:
    return [run["cpu"] for run in side["runs"]]


def ratio(sides: Mapping[str, Any], peer: str) -> Ratio | None:
    """From pairs of neighbouring runs; None where the peer was not run."""
    if "runs" not in sides[peer] or not sides[peer]["runs"]:
        return None
    pairs = list(zip(processor(sides[peer]), processor(sides[OURS]), strict=False))
    each = [theirs / ours for theirs, ours in pairs]
    return Ratio(median(each), min(each), max(each), len(each))


def growth(sizes: Sequence[Mapping[str, Any]], side: str = OURS) -> float | None:
    """The slope of log seconds on log records, by least squares; None below three sizes."""
    points = [
        (log(size["n"]), log(median(processor(size["sides"][side]))))
        for size in sizes
        if size["sides"].get(side, {}).get("runs")
    ]
    if len(points) < 3:
        return None
    x_mean, y_mean = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    above = sum((x - x_mean) * (y - y_mean) for x, y in points)
    return above / sum((x - x_mean) ** 2 for x, _ in points)
