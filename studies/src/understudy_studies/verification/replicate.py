"""One repeat of V §4: a confidential and two synthetic files per design, and all their answers.

Flags, steps and noise are the server's own (`verify.measures`, `verify.noise`). Everything is
seeded but the noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

import understudy as us
from understudy_studies.framework import Vector
from understudy_studies.verification import samples
from understudy_studies.verification.samples import Moments, Population

Columns = dict[str, list[Any]]

CLIP = 2.0  # c of the discrepancy (methods §7)
DESIGN = ("n_k", "M", "estimand", "synthesis", "partitioning")  # of a pair


@dataclass(frozen=True)
class VerificationDesign:
    """V §4, and where more pairs are drawn for the ROC and for influence."""

    population: int = 10_000_000
    sizes: tuple[int, ...] = (500, 20_000, 50_000)  # n_k
    partitions: tuple[int, ...] = (25, 50, 90)  # M
    alphas: tuple[float, ...] = (1.0, 3.0, 5.0)
    epsilon: str = "1"
    roc_size: int = 500
    roc_partitions: int = 50
    roc_pairs: int = 10  # per repeat and population
    roc_smallest: float = 2.0  # z of the population without extreme weights, from here to 10
    clips: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)  # c of the discrepancy, for the ROC
    influence_repeats: int = 40  # at most: each has several pairs
    influence_pairs: int = 4  # per repeat and setting
    influence_sizes: tuple[int, ...] = (1000, 5000, 25_000)  # all but one line have the first
    influence_alphas: tuple[float, ...] = (0.5, 1.0, 2.0)  # V's in its figures
    influence_epsilons: tuple[str, ...] = ("0.1", "0.3", "3", "10")
    influence_smallest: tuple[float, ...] = (0.1, 0.5, 1.0)  # z: tails of weights between the two

    @property
    def whole_sizes(self) -> tuple[int, ...]:
        """Records of the paper's two smaller files, for answers that divide nothing."""
        return tuple(n_k * min(self.partitions) for n_k in self.sizes[:2])


# All parts of the study, in a minute or so.
QUICK = VerificationDesign(
    population=1_000_000, sizes=(100, 500, 2000), roc_size=200, influence_pairs=3,
    influence_sizes=(1000, 5000),
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """The estimates of one confidential and one synthetic file: all that a measure needs."""

    n_k: int
    M: int
    estimand: str
    synthesis: str
    partitioning: str
    centre: float  # tau_0
    se: float
    full: float  # tau_hat, which only the study sees
    estimates: Vector  # tau_k


@lru_cache(maxsize=2)
def study_population(n: int, seed: int, smallest: float = 0.0) -> Population:
    return samples.population(n, np.random.default_rng([seed, 4]), smallest)


def replicate(design: VerificationDesign, seed: int, number: int) -> dict[str, Any]:
    """All answers of repeat `number`, as columns."""
    units = study_population(design.population, seed)
    rng = np.random.default_rng([seed, 4, number])
    drawn = [(n_k, m) for n_k in design.sizes for m in design.partitions]
    faithful = samples.simple_moments(units, [n_k * m for n_k, m in drawn], rng)
    pairs = []
    for (n_k, m), synthetic in zip(drawn, faithful, strict=True):
        pairs += pairs_of(units, n_k, m, synthetic, rng, biased=True)
    more = _roc_pairs(units, design, rng)
    calm = study_population(design.population, seed, design.roc_smallest)
    bounded = _roc_pairs(calm, design, rng)
    tau = units.n * float(units.x.mean())
    return {
        "replicate": number,
        "tau": tau,
        "answers": answers(pairs, design),
        "more": answers(more, design, design.clips),
        "bounded": answers(bounded, design, design.clips),
    }


def _roc_pairs(
    units: Population, design: VerificationDesign, rng: np.random.Generator
) -> list[Pair]:
    pairs = []
    for _ in range(design.roc_pairs):
        n_k, m = design.roc_size, design.roc_partitions
        drawn = rng.choice(units.n, n_k * m, replace=False, shuffle=False)
        pairs += pairs_of(units, n_k, m, samples.moments(units.x[drawn]), rng, biased=False)
    return pairs


def answers(
    pairs: Iterable[Pair], design: VerificationDesign, clips: Sequence[float] = ()
) -> Columns:
    """One row for each pair, interval and alpha; discrepancies are the same for all of these."""
    micro = us.parse_epsilon(design.epsilon)
    discrepancy_noise = us.geometric_noise(2 * us.DISCREPANCY_GRID, micro)
    rows: list[dict[str, Any]] = []
    for pair in pairs:
        root = sqrt(pair.M)
        bounds = [clip * root * pair.se for clip in (CLIP, *clips)]
        steps = [us.discrepancy_steps(pair.estimates, pair.centre, bound) for bound in bounds]
        sums = [int(each.sum()) for each in steps]
        about = {name: getattr(pair, name) for name in DESIGN} | {
            "centre": pair.centre,
            "full": pair.full,
            "distance": (pair.full - pair.centre) / pair.se,
            "steps": sums[0],
        }
        named = ("discrepancy", *(f"clip {clip:g}" for clip in clips))
        about |= zip(named, map(int, discrepancy_noise(sums)), strict=True)
        for interval, gamma in (("fixed", 1.0), ("adjusted", root)):
            for alpha in design.alphas:
                flags = us.agreement_flags(pair.estimates, pair.centre, gamma * alpha * pair.se)
                rows.append(
                    about | {"interval": interval, "alpha": alpha, "count": int(flags.sum())}
                )
    columns: Columns = {name: [row[name] for row in rows] for name in rows[0]}
    # Laplace noise (V) and bounded geometric noise (ours) on every count
    columns["laplace"] = list(us.laplace_noise(1, micro)(columns["count"]))
    counts, sizes = np.array(columns["count"]), np.array(columns["M"])
    noisy = np.empty(len(counts), dtype=np.int64)
    for m in np.unique(sizes):
        noisy[sizes == m] = us.geometric_noise(1, micro, (0, int(m)))(counts[sizes == m])
    return {**columns, "geometric": noisy.tolist()}


def pairs_of(
    units: Population,
    n_k: int,
    m: int,
    faithful: Moments,
    rng: np.random.Generator,
    biased: bool,
) -> list[Pair]:
    """Totals and means (V eq. 3, 7, 8) by equal blocks and by keyed hash."""
    chosen = samples.systematic_pps(units, n_k * m, rng)
    n, x, z = len(chosen), units.x[chosen], units.z[chosen]
    weight = units.size / (n * z)
    weighted = weight * x
    syntheses = {"faithful": faithful}
    if biased:
        syntheses["biased"] = samples.biased_moments(samples.moments(x), n, rng)
    equal = (np.arange(n) % m).astype(np.uint8)
    rng.shuffle(equal)
    # Given the key, the hash of a unit's id is as good as a uniform label of its own.
    hashed = rng.integers(0, m, n, dtype=np.uint8)
    pairs = []
    for partitioning, label in (("equal", equal), ("hash", hashed)):
        top = np.bincount(label, weighted, m)
        bottom = np.bincount(label, weight, m)
        factor = n / np.bincount(label, minlength=m) if partitioning == "equal" else float(m)
        estimators = {
            "total": (units.n, top.sum(), factor * top),
            "mean": (1, top.sum() / bottom.sum(), top / bottom),
        }
        for synthesis, file in syntheses.items():
            # The variance of the synthetic mean; V prints (1 - n0)/N for (1 - n0/N).
            se = sqrt((1 - n / units.n) * file.variance / n)
            for estimand, (scale, full, estimates) in estimators.items():
                centre, tau = (scale * file.mean, scale * se), np.asarray(estimates, dtype=float)
                names = (estimand, synthesis, partitioning)
                pairs.append(Pair(n_k, m, *names, *centre, float(full), tau))
    return pairs
