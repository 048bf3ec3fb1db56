"""R §2.4 as a computation: one simulated file of counts, every synthesizer, both controls.

The controls are those of methods: the unweighted synthesizer a second time with another seed, and
a constant weight equal to the mean of the Marginal's or of the Pairwise's weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import Row, Vector
from understudy_studies.shared_fits import shared_fits

RADII = (0.30, 0.25, 0.20, 0.15)
DATASETS = (1, 5, 10, 20, 30)
SHOWN = 20  # data sets of every result but Table 6
HARD = 0.15  # the radius of R's Figure 5b and supplement §6
RISE = 0.2  # of risk, for the whack-a-mole count
APART = 500_000  # between the seeds of two synthesizers of one file

SYNTHESIZER, AGAIN = "Synthesizer", "Synthesizer again"
PAIRWISE = f"Pairwise r={HARD:.0%}"
CONSTANT_PAIRWISE, CONSTANT_MARGINAL = "Constant, mean of Pairwise", "Constant, mean of Marginal"
SAMPLER = us.SamplerSettings(draws=1000, chains=2, warmup=200)


@dataclass(frozen=True)
class SimulationDesign:
    """Sizes; n = 1000 is R's."""

    n: int = 1000
    sampler: us.SamplerSettings = SAMPLER
    radii: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7)  # of the sweep
    sweeps: int = 10  # files that are swept


QUICK = SimulationDesign(n=200, radii=(0.1, 0.3), sweeps=1)  # for a look at all parts


def marginal(radius: float) -> str:
    return f"Marginal r={radius:.0%}"


def simulated_counts(n: int, rng: np.random.Generator) -> Vector:
    """0.7 NB(100, 20) + 0.3 NB(100, 5) (R eq. 5), as a gamma mixture of Poissons."""
    phi = np.where(rng.random(n) < 0.7, 20.0, 5.0)
    return rng.poisson(100.0 * rng.gamma(phi) / phi).astype(np.float64)


def replicate(design: SimulationDesign, seed: int, number: int) -> Row:
    """Rows by synthesizer, rows of Table 6, and for the first file each record's risk."""
    rng = np.random.default_rng([seed, number])
    y = simulated_counts(design.n, rng)
    made = synthetic_counts(design, y, 1000 * seed + number)
    risks = {name: risks_at(y, sets[:SHOWN], radii_of(name)) for name, sets in made.items()}
    before = risks[SYNTHESIZER][HARD]
    data = risks_at(y, None, RADII)
    riskiest = most_at_risk(data[HARD])
    rows = []
    for name, sets in made.items():
        distance = np.array([us.ecdf_distance(y, values) for values in sets[:SHOWN]]).mean(axis=0)
        intervals = us.bootstrap_intervals(sets[:SHOWN], rng=rng, replicates=200)
        limits = {f"{i.statistic} {k}": v for i in intervals for k, v in _limits(i).items()}
        for radius, risk in risks[name].items():
            hard = radius == HARD and name != SYNTHESIZER
            row = {
                "name": name,
                "radius": radius,
                "U_m": distance[0],
                "U_a": distance[1],
                "mean risk": risk.mean(),
                "max risk": risk.max(),
                "IQR": iqr(risk),
                "riskiest": risk[riskiest].mean(),
                "rising": us.whack_a_mole(before, risk, RISE).count if hard else None,
            }
            rows.append(row | limits)
    rows += [
        {"name": "Data", "radius": r, "mean risk": v.mean(), "max risk": v.max(),
         "riskiest": v[riskiest].mean()} for r, v in data.items()
    ]  # fmt: skip
    result: Row = {"replicate": number, "rows": rows, "table 6": _table_6(y, made, rng)}
    if number == 0:
        result["y"] = y.tolist()
        by_radius = {f"Data|{r}": v for r, v in data.items()}
        by_radius |= {f"{name}|{r}": v for name, own in risks.items() for r, v in own.items()}
        result["risks"] = {name: np.round(v, 6).tolist() for name, v in by_radius.items()}
    return result


def compared(fitter: us.ModelFitter) -> dict[str, us.Mechanism]:
    """Every synthesizer and control."""
    mechanisms: dict[str, us.Mechanism] = {SYNTHESIZER: us.Unweighted(), AGAIN: us.Unweighted()}
    mechanisms |= {marginal(radius): us.MarginalRisk((), radius) for radius in RADII}
    mechanisms[PAIRWISE] = us.PairwiseRisk((), HARD)
    mechanisms[f"3-way r={HARD:.0%}"] = us.QWayRisk((), HARD, 3)
    for name, like in ((CONSTANT_PAIRWISE, us.PairwiseRisk), (CONSTANT_MARGINAL, us.MarginalRisk)):
        mechanisms[name] = us.ConstantWeight(float(like((), HARD).settle(fitter)[0].mean()))
    return mechanisms


def synthetic_counts(
    design: SimulationDesign,
    y: Vector,
    seed: int,
    mechanisms: Callable[[us.ModelFitter], dict[str, us.Mechanism]] = compared,
    count: int = max(DATASETS),
) -> dict[str, list[Vector]]:
    """`count` synthetic columns by every mechanism.

    Each has random numbers of its own. With shared ones, weighted and unweighted runs would move
    together and rise less than a second run of the unweighted synthesizer by that alone.
    """
    survey, model = us.Survey(pl.DataFrame({"y": y.astype(np.int64)})), us.NegativeBinomial("y")
    fitter = shared_fits(survey, model, design.sampler, seed)
    made = {}
    for number, (name, mechanism) in enumerate(mechanisms(fitter).items()):
        own = shared_fits(survey, model, design.sampler, seed + APART * number)
        generated = own.generated(mechanism.release(own, count).output)
        made[name] = [np.asarray(columns["y"], dtype=np.float64) for columns in generated]
    return made


def radii_of(name: str) -> tuple[float, ...]:
    """At which radii a synthesizer's risk is measured: the Marginal's own, R's four for S."""
    if name == SYNTHESIZER:
        return RADII
    return tuple(radius for radius in RADII if name == marginal(radius)) or (HARD,)


def risks_at(y: Vector, sets: list[Vector] | None, radii: tuple[float, ...]) -> dict[float, Vector]:
    confidential = pl.DataFrame({"y": y})
    synthetic = None if sets is None else [pl.DataFrame({"y": values}) for values in sets]
    return {
        radius: us.identification_risk(confidential, synthetic, known=(), target="y", radius=radius)
        for radius in radii
    }


def _table_6(y: Vector, made: dict[str, list[Vector]], rng: np.random.Generator) -> list[Row]:
    drawn = [("Data", 0, us.bootstrap_intervals(y, rng=rng, replicates=500))]
    for name in (SYNTHESIZER, marginal(0.20)):
        for count in DATASETS:
            sets = made[name][:count]
            drawn.append((name, count, us.bootstrap_intervals(sets, rng=rng, replicates=200)))
    return [
        {"name": name, "L": count, "statistic": interval.statistic, **_limits(interval)}
        for name, count, intervals in drawn
        for interval in intervals
    ]


def _limits(interval: Any) -> Row:
    return {name: getattr(interval, name) for name in ("estimate", "lower", "upper", "length")}


def most_at_risk(risk: Vector) -> Any:
    """The riskiest percent of records."""
    return np.argsort(-risk, kind="stable")[: max(1, len(risk) // 100)]


def iqr(risk: Vector) -> float:
    return float(np.subtract(*np.quantile(risk, [0.75, 0.25])))
