"""Draw samples from a population, with the inclusion probability of every selected unit.

Arrays of the population go in, positions in these arrays come out. The randomness is a
numpy Generator that the caller seeds, so that a study can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.errors import Refused, UnknownName

__public__ = (
    "inclusion_probabilities",
    "proportional_allocation",
    "stratified_pps",
    "systematic_pps",
)

# Cumulated probabilities carry rounding of this order; a unit this close to 1 is certain.
CERTAIN = 1 - 1e-9


@dataclass(frozen=True)
class Selected:
    """Who was drawn: positions in ascending order and their inclusion probabilities.

    sum(weight * y) estimates the total of y (V eq. 1).
    """

    index: NDArray[np.int64]  # (n,)
    inclusion: NDArray[np.float64]  # (n,)

    @property
    def weight(self) -> NDArray[np.float64]:
        """Design weights 1/pi."""
        return 1.0 / self.inclusion

    def __len__(self) -> int:
        return len(self.index)


def simple_random(n_population: int, n: int, rng: np.random.Generator) -> Selected:
    """n of N units without replacement, every subset equally likely; pi = n/N."""
    _check_count(n, n_population, "the population")
    index = np.sort(rng.choice(n_population, n, replace=False, shuffle=False))
    return Selected(index.astype(np.int64), np.full(n, n / n_population))


def stratified(strata: ArrayLike, sizes: Mapping[Any, int], rng: np.random.Generator) -> Selected:
    """A simple random sample of `sizes[h]` units in every stratum h; pi = n_h/N_h."""
    parts = []
    for members, n in _by_stratum(strata, sizes):
        chosen = simple_random(len(members), n, rng)
        parts.append(Selected(members[chosen.index], chosen.inclusion))
    return _together(parts)


def inclusion_probabilities(size: ArrayLike, n: int) -> NDArray[np.float64]:
    """pi_i = n z_i / sum z, certainty units set aside (V §2.1).

    Where n z_i / sum z exceeds 1 the unit is taken with certainty (pi = 1), and the others
    share the rest of n by their sizes, again and again until nothing exceeds 1. In
    descending order of z this ends at the first k with (n - k) z_(k+1) <= z_(k+1) + ...,
    which one sort finds.
    """
    z = _sizes(size)
    _check_count(n, len(z), "the population")
    pi: NDArray[np.float64] = n * z / z.sum()
    if pi.max() <= 1:
        return pi
    order = np.argsort(z)
    ascending = z[order]
    rest = np.cumsum(ascending)  # sum of the sizes up to each unit, the smallest first
    remaining = n - np.arange(len(z) - 1, -1, -1)  # n - k where k units are larger
    settled = np.flatnonzero(remaining * ascending <= rest)[-1]
    share = order[: settled + 1]
    pi[:] = 1.0
    pi[share] = remaining[settled] * z[share] / rest[settled]
    return pi


def systematic_pps(pi: ArrayLike, rng: np.random.Generator, *, shuffle: bool = False) -> Selected:
    """Fixed-size sampling with the given inclusion probabilities, which add up to n.

    One random start, then every unit in which the cumulated probabilities pass another
    whole step. In file order this spreads the sample along the file; `shuffle=True` puts
    the population in random order first. Certainty units are set aside and always taken.
    """
    p = _probabilities(pi)
    total = float(p.sum())
    if abs(total - round(total)) > 1e-6 * max(1.0, total):
        raise Refused(
            "Systematic selection needs inclusion probabilities that add up to a whole number; "
            "make them with `inclusion_probabilities`."
        )
    certain = p >= CERTAIN
    others = np.flatnonzero(~certain)
    if shuffle:
        others = rng.permutation(others)
    steps = round(total) - int(certain.sum())
    start = rng.random()
    if steps > 0:
        cumulated = np.cumsum(p[others])
        cumulated *= steps / cumulated[-1]
        hit = np.searchsorted(cumulated, start + np.arange(steps), side="right")
        others = others[np.minimum(hit, len(others) - 1)]
    else:
        others = others[:0]
    index = np.sort(np.concatenate([np.flatnonzero(certain), others]))
    return Selected(index.astype(np.int64), p[index])


def stratified_pps(
    strata: ArrayLike, size: ArrayLike, sizes: Mapping[Any, int], rng: np.random.Generator
) -> Selected:
    """Inside every stratum h a systematic PPS sample of `sizes[h]` units (T §4.1).

    `size` is the measure of size of every unit; the population is put in random order.
    """
    z = _sizes(size)
    labels = np.asarray(strata)
    if len(labels) != len(z):
        raise Refused("`strata` and `size` must have one value for every unit of the population.")
    parts = []
    for members, n in _by_stratum(labels, sizes):
        chosen = systematic_pps(inclusion_probabilities(z[members], n), rng, shuffle=True)
        parts.append(Selected(members[chosen.index], chosen.inclusion))
    return _together(parts)


def proportional_allocation(strata: ArrayLike, n: int, *, minimum: int = 2) -> dict[Any, int]:
    """Split n over the strata in proportion to their numbers of units, by largest remainders.

    No stratum gets fewer than `minimum` (two units are needed for a variance) nor more than
    it has.
    """
    labels, counts = np.unique(np.asarray(strata), return_counts=True)
    _check_count(n, int(counts.sum()), "the population")
    floor = np.minimum(minimum, counts)
    if n < floor.sum():
        raise Refused(
            f"{n} units are too few for {len(labels)} strata with at least {minimum} each; "
            "increase n or merge strata."
        )
    quota = n * counts / counts.sum()
    # Strata below the floor get the floor; the others share what is then left.
    raised = np.zeros(len(counts), dtype=bool)
    while (low := ~raised & (quota < floor)).any():
        raised |= low
        quota[raised] = floor[raised]
        share = counts[~raised] / max(counts[~raised].sum(), 1)
        quota[~raised] = (n - floor[raised].sum()) * share
    sizes = np.floor(quota).astype(int)
    largest = np.argsort(sizes - quota, kind="stable")[: n - int(sizes.sum())]
    sizes[largest] += 1
    return {label.item(): int(count) for label, count in zip(labels, sizes, strict=True)}


def _by_stratum(
    strata: ArrayLike, sizes: Mapping[Any, int]
) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Positions of every stratum's units and how many of them to take."""
    labels, codes, counts = np.unique(np.asarray(strata), return_inverse=True, return_counts=True)
    known = {label.item(): number for number, label in enumerate(labels)}
    for name in sizes:
        if name not in known:
            raise UnknownName("stratum", str(name), map(str, known))
    left_out = [label for label in known if label not in sizes]
    if left_out:
        raise Refused(
            f"{len(left_out)} of {len(known)} strata have no sample size; every stratum needs "
            "one, or its units are never selected."
        )
    order = np.argsort(codes, kind="stable").astype(np.int64)
    groups = np.split(order, np.cumsum(counts)[:-1])
    for label, members in zip(known, groups, strict=True):
        _check_count(sizes[label], len(members), f"stratum `{label}`")
        yield members, sizes[label]


def _together(parts: list[Selected]) -> Selected:
    index = np.concatenate([part.index for part in parts])
    inclusion = np.concatenate([part.inclusion for part in parts])
    order = np.argsort(index, kind="stable")
    return Selected(index[order], inclusion[order])


def _check_count(n: int, available: int, where: str) -> None:
    if n < 1:
        raise Refused(f"The sample size for {where} is {n}; ask for 1 or more units.")
    if n > available:
        raise Refused(
            f"{n} units cannot be drawn without replacement from the {available} units of "
            f"{where}; ask for fewer."
        )


def _sizes(size: ArrayLike) -> NDArray[np.float64]:
    z = np.asarray(size, dtype=np.float64)
    if z.ndim != 1 or len(z) == 0:
        raise Refused("The measure of size must be one column with a value for every unit.")
    if not np.isfinite(z).all():
        raise Refused("The measure of size is missing or not finite for some units; repair it.")
    if z.min() < 0:
        raise Refused("The measure of size is negative for some units; it must be above 0.")
    if z.min() == 0:
        raise Refused(
            "The measure of size is zero for some units, which could then never be selected; "
            "give them a small size or leave them out of the population."
        )
    return z


def _probabilities(pi: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(pi, dtype=np.float64)
    if p.ndim != 1 or len(p) == 0:
        raise Refused("Inclusion probabilities must be one column with a value for every unit.")
    if not (np.isfinite(p).all() and p.min() > 0 and p.max() <= 1 + 1e-12):
        raise Refused("Inclusion probabilities must be above 0 and at most 1 for every unit.")
    return np.minimum(p, 1.0)
