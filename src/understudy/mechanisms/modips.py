"""MODIPS (M §2.2.3): sanitise the table of counts, then synthesize from it.

    n*_k = n_k + noise,  negative ones to 0,  rescaled to N          (once for each data set)

Proof: docs/proofs/modips.md. One record is in one cell, so the L1 sensitivity of the counts is 1
when a record is added or removed and 2 when it is replaced. m data sets share epsilon evenly.
What differs is which cells get noise, the `support`:

- "observed": the occupied ones (the report's assumption 3). Which cells are occupied is then
  seen as it is, so the figure is not a guarantee unless that is public.
- "public": all cells that the codebook allows.
- "threshold": the occupied ones, and those that stay below a threshold are dropped: (epsilon,
  delta).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.claim import Claim, ClaimKind, checked_epsilon, several
from understudy.dp.noise import Counts, exact_scale, integer_laplace
from understudy.errors import Refused, UnknownName
from understudy.mechanisms.contract import HandsOut, Mechanism, ReleasedRows
from understudy.mechanisms.outputs.cell_draws import CellCounts, noted
from understudy.mechanisms.row_counts import RowCounts
from understudy.mechanisms.whole_file.file_counts import FileCounts
from understudy.tables.cross_table import Categories, CrossTable

__public__ = ("expected_bias as modips_bias",)

Vector = NDArray[np.float64]
Support = Literal["observed", "public", "threshold"]
CountRelation = Literal["add-remove", "replace"]

SENSITIVITY = {"add-remove": 1, "replace": 2}
MOST_CELLS = 10_000_000  # of a full domain; OpenDP's noise takes about 10 microseconds each

OBSERVED_CELLS = (
    "Which combinations of levels occur is taken from the file and shown as it is: combinations "
    "that no record has stay empty. The figure holds only if that is public; a record that is "
    "alone in its cell is not protected"
)
PUBLIC_CELLS = "The levels of the columns and the impossible combinations come from public facts"
PUBLIC_SIZE = "The number of records in the file is public and is not covered"


@dataclass(frozen=True)
class Modips(Mechanism):
    """MODIPS with total `epsilon` over all data sets (M §2.2.3); `delta` is for "threshold".

    `relation` "add-remove" is the report's (sensitivity 1); "replace" doubles the noise.
    """

    seeded = False
    fits = 0
    synthesizes = "rows"

    epsilon: Annotated[float, "Privacy budget of the whole release, over all data sets."]
    support: Annotated[Support, "observed, public or threshold."] = "observed"
    relation: Annotated[CountRelation, "add-remove or replace."] = "add-remove"
    delta: Annotated[float, "For support = threshold."] = 0.0

    @property
    def hands_out(self) -> HandsOut:
        """Counts of the cells that occur show which ones do; records show fewer of them."""
        return "rows" if self.support == "observed" else "draws"

    @property
    def claims(self) -> ClaimKind:
        """Which cells are occupied is seen as it is under `observed`: no guarantee."""
        return "local" if self.support == "observed" else "formal"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_relation(self.relation)
        if self.support not in get_args(Support):
            raise UnknownName("support", str(self.support), get_args(Support))
        delta = self.delta
        if isinstance(delta, bool) or not isinstance(delta, (int, float)):
            raise Refused("`delta` must be a number.")
        if self.support == "threshold" and not 0 < delta < 1:
            raise Refused('support="threshold" needs a `delta` between 0 and 1, such as 1e-8.')
        if self.support != "threshold" and delta != 0:
            raise Refused('`delta` belongs to support="threshold"; leave it out.')

    @property
    def sensitivity(self) -> int:
        return SENSITIVITY[self.relation]

    def scale(self, datasets: int, per_unit: int = 1) -> float:
        """Of the noise in each of m data sets: sensitivity * m / epsilon, rounded up; `per_unit`
        times as much where a unit has up to so many of the counted records."""
        return exact_scale(self.sensitivity * per_unit * datasets, self.epsilon)

    def noisy(self, counts: Counts, datasets: int, per_unit: int = 1) -> Counts:
        """One data set's counts with OpenDP's noise at epsilon/m; below the threshold, 0.

        This is all that touches the records. `counts` are those of the support's cells.
        """
        noisy = integer_laplace(counts, self.sensitivity * per_unit * datasets, self.epsilon)
        if self.support == "threshold":
            noisy[noisy < self.threshold(datasets, per_unit)] = 0
        return noisy

    def threshold(self, datasets: int, per_unit: int = 1) -> int:
        """The least noisy count that is shown: a cell of one record reaches it with chance delta/m.

        P(c + Z >= t) = a^(t-c)/(1+a), a = exp(-1/scale), for t >= c. A unit of k records that is
        alone in its cells is seen most easily in one cell of k, or in k cells of one.
        """
        scale, share = self.scale(datasets, per_unit), self.delta / datasets
        steps = scale * (-math.log(share) - math.log1p(math.exp(-1 / scale)))
        # a relative slack far above the rounding of logarithms, so that never a step too few
        together = per_unit + max(1, math.ceil(steps * (1 + 1e-12)))
        apart = (steps + scale * math.log(per_unit)) * (1 + 1e-12)
        return max(together, 1 + math.ceil(apart))

    def check_counts(self, counts: RowCounts | FileCounts) -> None:
        if isinstance(counts, RowCounts):
            self.cells(counts)

    def cells(self, counts: RowCounts) -> CrossTable:
        """The confidential table over the cells of the support."""
        if self.support == "threshold":
            counts.check_types()
        if self.support != "public":
            return counts.occupied
        _refuse_product(counts.categories)
        counts.check_declared()
        return counts.all_declared

    def promise(self, datasets: int, size_is_public: bool) -> Claim:
        """What m data sets promise; `size_is_public`: as many records as the file has."""
        conditions = []
        if self.support == "observed":
            conditions.append(OBSERVED_CELLS)
        if self.support == "public":
            conditions.append(PUBLIC_CELLS)
        if size_is_public:
            conditions.append(PUBLIC_SIZE)
        return Claim(
            self.claims,
            self.epsilon,
            delta=float(self.delta),
            relation=self.relation,
            conditions=tuple(conditions),
            mechanism=f"MODIPS, {self.support} support, {several(datasets, 'data set')}",
        )

    def release_rows(self, counts: RowCounts, datasets: int) -> ReleasedRows:
        """Each data set's own sanitised counts (M §2.2.4)."""
        table = self.cells(counts)
        self._warn_useless(table, datasets, counts.per_unit)

        def one_set(_: np.random.Generator) -> CrossTable:
            noisy = self.noisy(table.counts, datasets, counts.per_unit)
            if self.support == "threshold":
                return _shown(table, noisy, counts.levels_not_declared)
            return replace(table, counts=noisy)

        drawn = tuple(noted(cells) for cells in counts.each(one_set, datasets))
        claim = counts.claimed(self.promise(datasets, size_is_public=counts.model.size is None))
        return ReleasedRows(CellCounts(drawn), claim)

    def _warn_useless(self, table: CrossTable, datasets: int, per_unit: int) -> None:
        """Noise that is larger than the mean cell leaves little but the prior and the noise."""
        scale = self.scale(datasets, per_unit)
        mean = table.n / table.cells
        if scale > mean:
            needed = self.epsilon * scale / mean
            warnings.warn(
                f"At epsilon {self.epsilon:g} for {several(datasets, 'data set')} the noise has an "
                f"expected error of about {scale:.3g} per cell, and the mean cell holds {mean:.3g} "
                f"records; ask for epsilon {needed:.3g}, or fewer columns or data sets, or use "
                "Marginals.",
                UserWarning,
                stacklevel=4,
            )


def _shown(table: CrossTable, noisy: Counts, not_declared: list[str]) -> CrossTable:
    """The cells above the threshold, without the other levels of columns whose levels are not
    declared: one record with a new level would move the codes of all cells after it."""
    kept = noisy > 0
    if not kept.any():
        raise Refused(
            "No cell reaches the threshold at this epsilon and delta; ask for more epsilon, or "
            "model fewer columns."
        )
    shown = CrossTable(table.categories, table.codes[kept], noisy[kept])
    return shown.shown_only(not_declared)


def _refuse_product(categories: Categories) -> None:
    if categories.product <= MOST_CELLS:
        return
    sizes = dict(zip(categories.columns, categories.sizes, strict=True))
    widest = max(sizes, key=lambda name: sizes[name])
    raise Refused(
        f"The full domain has {categories.product:,} cells, more than {MOST_CELLS:,}; column "
        f"`{widest}` alone has {sizes[widest]} levels: group its levels, model fewer columns, or "
        'use Marginals or support="threshold".'
    )


def checked_relation(relation: str) -> None:
    """Counts are protected under `add-remove` or `replace`."""
    if relation not in get_args(CountRelation):
        raise UnknownName("relation of a table of counts", str(relation), get_args(CountRelation))


def expected_noisy(expected: ArrayLike, scale: float) -> Vector:
    """E max(n + Z, 0) for n ~ Poisson(expected) and integer Laplace Z of this scale.

    lambda + a/(1 - a^2) exp(-lambda (1 - a)), a = exp(-1/scale): the clipping at 0 adds the second
    term. For a large scale a/(1 - a^2) is scale/2, and this is E_k of methods §8.
    """
    mean = np.asarray(expected, dtype=np.float64)
    lifted = 0.5 / math.sinh(1 / scale) if scale > 1e-2 else math.exp(-1 / scale)
    return np.asarray(mean + lifted * np.exp(mean * math.expm1(-1 / scale)), dtype=np.float64)


def expected_bias(shares: ArrayLike, size: int, prior: float, scale: float) -> Vector:
    """Closed form of the bias of MODIPS cell shares (methods §8); `scale` 0 is MS.

    (N E_k / sum E + prior)/(N + prior K) - pi_k, with E_k = `expected_noisy`(N pi_k).
    """
    pi = np.asarray(shares, dtype=np.float64)
    expected = size * pi
    if scale > 0:
        lifted = expected_noisy(expected, scale)
        expected = size * lifted / lifted.sum()
    return np.asarray((expected + prior) / (size + prior * pi.size) - pi, dtype=np.float64)
