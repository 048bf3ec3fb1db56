"""The perturbed histogram (C §2.3): counts in fixed bins, noise, then draws from the bins.

Proof: docs/proofs/perturbed-histogram.md. The noise has scale 2/epsilon, so the release is
- epsilon-private under `replace`: the record moves from one bin to another, L1 distance 2;
- epsilon/2-private under `blank`: the record leaves its bin, L1 distance 1.
Bounds and bins are public: they are declared, or follow from the public number of records.
Everything after the noisy counts (clip, normalise, draw) is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.dp.noise import Counts, integer_laplace
from understudy.errors import Refused

SENSITIVITY = 2  # replacing one record takes 1 from one bin and gives 1 to another

Vector = NDArray[np.float64]
Bins = Literal["sqrt", "log"] | int


@dataclass(frozen=True)
class HistogramDraw:
    """A private histogram: public `edges` (bins + 1,) and released `probabilities` (bins,)."""

    edges: Vector
    probabilities: Vector

    def sample(self, n: int, rng: np.random.Generator) -> Vector:
        """n synthetic values: a bin by its probability, then uniform inside it (C §2.3)."""
        if n < 0:
            raise Refused("The number of synthetic values must not be negative.")
        chosen = rng.choice(self.probabilities.size, size=n, p=self.probabilities)
        low, high = self.edges[chosen], self.edges[chosen + 1]
        return np.minimum(low + rng.random(n) * (high - low), high)


def perturbed_histogram(
    values: ArrayLike,
    bounds: tuple[float, float] | None,
    bins: Bins,
    epsilon: float,
    records_per_unit: int = 1,
) -> HistogramDraw:
    """One private histogram of `values` at `epsilon` (relation `replace`; C §2.3), for any one
    unit, which has at most `records_per_unit` of the values.

    `bins` is "sqrt" or "log" of the number of records, rounded down, or a number. `bounds` are
    declared, never taken from the values. Values outside them or missing are refused.
    """
    edges = histogram_edges(bounds, bins, np.size(np.asarray(values)))
    sensitivity = SENSITIVITY * records_per_unit
    noisy = integer_laplace(histogram_counts(values, edges), sensitivity, epsilon)
    return HistogramDraw(edges, probabilities(noisy))


def histogram_edges(bounds: tuple[float, float] | None, bins: Bins, n: int) -> Vector:
    """Equal bins between declared bounds; their number depends on the public n alone."""
    if bounds is None:
        raise Refused(
            "A perturbed histogram needs declared bounds; give them in the codebook or as "
            "`bounds=(low, high)`, from what is public about the variable."
        )
    low, high = (float(bound) for bound in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise Refused("The declared bounds must be two finite numbers, the lower one first.")
    edges = np.linspace(low, high, bin_count(bins, n) + 1)
    if not (np.diff(edges) > 0).all():
        raise Refused("The declared bounds are too close together for so many bins; ask for fewer.")
    return edges


def bin_count(bins: Bins, n: int) -> int:
    """sqrt(n) or ln(n) rounded down, at least 1, or the given number (C §2.3)."""
    if n < 1:
        raise Refused("A histogram needs at least one record.")
    if bins == "sqrt":
        return math.isqrt(n)
    if bins == "log":
        return max(1, int(math.log(n)))
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool) and bins >= 1:
        return int(bins)
    raise Refused("`bins` must be 'sqrt', 'log' or a whole number of at least 1.")


def histogram_counts(values: ArrayLike, edges: Vector) -> Counts:
    """Records per bin; bins are closed on the left, the last one on both sides."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise Refused("A perturbed histogram takes one variable: a one-dimensional array.")
    if np.isnan(array).any():
        raise Refused("The variable has missing values; drop or impute them before the histogram.")
    if ((array < edges[0]) | (array > edges[-1])).any():
        raise Refused(
            "Some values lie outside the declared bounds; declare wider bounds, or clip the "
            "variable to them first and say so."
        )
    return np.histogram(array, edges)[0].astype(np.int64)


def probabilities(noisy_counts: Counts) -> Vector:
    """max(D_j, 0) / sum_s max(D_s, 0) (C §2.3); uniform when no count is left above 0.

    Uniform is what the public facts alone say, so the all-zero case gives nothing away.
    """
    positive = np.maximum(noisy_counts, 0).astype(np.float64)
    total = positive.sum()
    if total == 0:
        return np.full(positive.size, 1.0 / positive.size)
    return np.asarray(positive / total, dtype=np.float64)
