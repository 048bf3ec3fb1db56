"""Distributions as curves of fixed size, whatever the number of records.

Densities and ECDFs lie on one grid for the confidential column and every synthetic one; record
bounds become histograms; weights against an outcome become quantiles in classes of equal size.
Design weights are not used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.report.plain import curve, plain
from understudy.survey.codebook import Column
from understudy.utility.summary import present

Vector = NDArray[np.float64]

GRID = 160  # points of a density or an ECDF
BINS = 80  # cells of a violin
CLASSES = 24  # of the outcome, for weights
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_LEVELS = 30


def number_curves(confidential: Vector, synthetic: list[Vector], log: bool) -> dict[str, Any]:
    """Density and ECDF of one numeric column; the grid spans all but the outermost 0.1 %."""
    log = log and min(float(values.min()) for values in (confidential, *synthetic)) > 0
    ours = np.log(confidential) if log else confidential
    theirs = [np.log(values) if log else values for values in synthetic]
    low, high = np.quantile(np.concatenate([ours, *theirs]), [0.001, 0.999])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, GRID + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    bandwidth = _bandwidth(ours)
    return {
        "scale": "log" if log else "linear",
        "grid": curve(np.exp(middle) if log else middle),
        "confidential": _density_and_ecdf(ours, edges, bandwidth),
        "synthetic": [_density_and_ecdf(values, edges, bandwidth) for values in theirs],
    }


def level_shares(
    confidential: pl.Series, synthetic: list[pl.Series], column: Column | None = None
) -> dict[str, Any]:
    """The share of every level, by their labels and in the codebook's order; beyond the 30 most
    frequent ones the rest are taken together."""
    ours, theirs = _shares(confidential), [_shares(column) for column in synthetic]
    together = [ours, *theirs]
    declared = [str(level) for level in (column.levels if column else None) or ()]
    order = {level: rank for rank, level in enumerate(declared)}
    seen = sorted({name for shares in together for name in shares})
    names = sorted(seen, key=lambda name: order.get(name, len(order)))
    kept = sorted(names, key=lambda name: (-ours.get(name, 0.0), name))[:MOST_LEVELS]
    levels = [name for name in names if name in kept]
    rows = [[shares.get(name, 0.0) for name in levels] for shares in together]
    words = {str(k): f"{v} ({k})" for k, v in (column.value_labels if column else {}).items()}
    levels = [words.get(name, name) for name in levels]
    if len(names) > len(levels):
        levels.append(f"({len(names) - len(levels)} other levels)")
        for row in rows:
            row.append(max(0.0, 1.0 - sum(row)))
    return {"levels": levels, "confidential": curve(rows[0]), "synthetic": [*map(curve, rows[1:])]}


def bound_violins(before: Vector, after: Vector, limit: float) -> dict[str, Any]:
    """Histograms of both bounds on one logarithmic grid, with quantiles.

    The grid goes down to a thousandth of the largest bound after, or to the smallest one if that
    is higher. Values under it are counted: a record with weight 0 contributes nothing.
    """
    known = [values[np.isfinite(values)] for values in (before, after)]
    top = max((float(values.max()) for values in known if values.size), default=1.0)
    top = max(top, limit if np.isfinite(limit) else 0.0) or 1.0
    ceiling = float(known[1].max()) if known[1].size and known[1].max() > 0 else top
    positive = np.concatenate([values[values > 0] for values in known])
    smallest = float(positive.min()) if positive.size else top
    floor = max(min(ceiling, limit) * 1e-3, min(smallest * 0.999, ceiling / 2))
    edges = np.linspace(np.log10(floor), np.log10(top) + 1e-9, BINS + 1)
    return {
        "grid": curve(10 ** ((edges[1:] + edges[:-1]) / 2)),
        "before": _violin(before, known[0], edges),
        "after": _violin(after, known[1], edges),
    }


def weights_by_outcome(outcome: Vector, weight: Vector) -> dict[str, Any]:
    """In classes of the outcome of about equal size: its median, and quantiles of the weight."""
    there = np.isfinite(outcome) & np.isfinite(weight)
    outcome, weight = outcome[there], weight[there]
    classes = int(np.clip(len(outcome) // 8, 1, CLASSES))
    order = np.argsort(outcome, kind="stable")
    parts = [part for part in np.array_split(order, classes) if part.size]
    return {
        "outcome": curve([np.median(outcome[part]) for part in parts]),
        "probabilities": list(PROBABILITIES),
        "weight": [curve(np.quantile(weight[part], PROBABILITIES)) for part in parts],
    }


def numbers_of(column: pl.Series) -> Vector:
    """The values of a numeric column that are there."""
    return np.asarray(present(column), dtype=np.float64)


def numbers_in(files: list[pl.DataFrame], name: str) -> list[Vector]:
    """Those of each file that has any: all values of a rare question may be missing in one."""
    return [values for frame in files if (values := numbers_of(frame[name])).size]


def _density_and_ecdf(values: Vector, edges: Vector, bandwidth: float) -> dict[str, Any]:
    step = float(edges[1] - edges[0])
    heights = np.histogram(values, bins=edges)[0] / (len(values) * step)
    reach = min(int(np.ceil(4 * bandwidth / step)), len(heights))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / bandwidth) ** 2)
    # mirrored at both ends, so that no mass leaves the grid
    smooth = np.convolve(
        np.pad(heights, reach, mode="symmetric"), kernel / kernel.sum(), mode="valid"
    )
    middle = (edges[1:] + edges[:-1]) / 2
    below = np.searchsorted(np.sort(values), middle, side="right") / len(values)
    return {"density": curve(smooth), "ecdf": curve(below)}


def _bandwidth(values: Vector) -> float:
    """Silverman's rule; one grid cell of anything where the values do not spread."""
    quarters = np.quantile(values, [0.25, 0.75])
    spread = [float(np.std(values)), float(quarters[1] - quarters[0]) / 1.349]
    positive = [scale for scale in spread if scale > 0]
    return 0.9 * min(positive) * len(values) ** -0.2 if positive else 1e-3


def _violin(values: Vector, known: Vector, edges: Vector) -> dict[str, Any]:
    positive = known[known > 0]
    counts = np.histogram(np.log10(positive), bins=edges)[0] if positive.size else np.zeros(BINS)
    return {
        "share": curve(counts / max(len(values), 1)),
        "under": plain((np.sum(known <= 10 ** edges[0])) / max(len(values), 1)),
        "not_finite": int(len(values) - len(known)),
        "median": plain(float(np.median(known)) if known.size else None),
        "quantile_95": plain(float(np.quantile(known, 0.95)) if known.size else None),
        "largest": plain(float(known.max()) if known.size else None),
    }


def _shares(column: pl.Series) -> dict[str, float]:
    texts = column.cast(pl.String).fill_null("Missing")
    counts = texts.value_counts(name="__records").iter_rows()
    return {str(level): count / max(len(texts), 1) for level, count in counts}
