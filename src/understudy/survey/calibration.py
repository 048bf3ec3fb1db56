"""Weights that add up to public totals: raking, GREG, and calibration with limits.

The new weight is w = d F(x'lambda), d the weight before and lambda such that sum w x meets the
totals (Deville and Sarndal 1992): F(u) = 1 + u (linear, the GREG estimator), exp(u) (raking), or
between two limits L and U (logit: (L(U-1) + U(1-L)e)/((U-1) + (1-L)e) with e = exp(Au) and
A = (U-L)/((1-L)(U-1))). The design remembers what was calibrated on, so that variances are those
of the residuals (tables/design_records.py). Replicate weights are each calibrated as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.one_blas_thread import one_blas_thread
from understudy.survey.codebook import Column, Value
from understudy.survey.design import Design, Replicates
from understudy.survey.survey import Survey

__public__ = ("calibrate",)

Floats = NDArray[np.float64]
Method = Literal["raking", "linear", "logit"]
Totals = Mapping[str, Mapping[Value, float] | float]
ROUNDS = 100
CLOSE = 1e-11  # relative: how well totals are met
AGREE = 1e-6  # relative: how far the sums of two margins may be apart


@dataclass(frozen=True)
class Margins:
    """Public totals beside the columns of the records that must meet them."""

    matrix: Floats  # (records, k)
    totals: Floats  # (k,)
    formula: str  # of the same columns, for the design


@one_blas_thread()
def calibrate(
    survey: Survey,
    totals: Totals,
    method: Method = "raking",
    limits: tuple[float, float] | None = None,
    population: float | None = None,
    name: str | None = None,
) -> Survey:
    """The same survey with a weight that meets public totals, and a design that knows it.

    `totals` has a number for each level of a column ({"sex": {"F": 5200, "M": 4900}}), or the total
    of a numeric column ({"income": 1.2e6}); `population` is the number of units, where no column of
    levels says it. "raking" multiplies, "linear" (GREG) may make weights negative and is then
    refused, "logit" keeps the new weight over the old one between `limits`. The weight is called
    `name`, or after the old one with `_calibrated`. The records are read into memory.
    """
    design = survey.design
    if method not in get_args(Method):
        raise UnknownName("method of calibration", method, get_args(Method))
    if (limits is not None) != (method == "logit"):
        raise Refused("`limits`, as in (0.5, 2), go with method='logit' and only with it.")
    if limits is not None and not 0 <= limits[0] < 1 < limits[1]:
        raise Refused("The `limits` of the new weight over the old one have 1 between them.")
    if design.weight is None:
        raise Refused("Calibration starts from a weight; name it in the Design.")
    if design.calibrated is not None:
        raise Refused("The weights are calibrated already; start from the weight before.")
    new = name or f"{design.weight}_calibrated"
    frame = survey.frame()
    margins = margins_of(frame, totals, population)
    adjust = adjustment(method, limits)
    replicates = design.replicates
    olds = replicates.matching(survey.columns, design.weight) if replicates is not None else ()
    names = [new, *(f"{new}_{number}" for number in range(1, len(olds) + 1))]
    taken = next((column for column in names if column in survey.columns), None)
    if taken is not None:
        raise Refused(f"The file already has a column `{taken}`; give another `name`.")
    columns = []
    for old, fresh in zip((design.weight, *olds), names, strict=True):
        d = frame[old].cast(pl.Float64).to_numpy()
        columns.append(pl.Series(fresh, d * solve_factors(d, margins, adjust)))
    if columns[0].min() < 0:  # type: ignore[operator]
        raise Refused(
            "Linear calibration makes some weights negative here; use method='raking', or 'logit' "
            "with limits."
        )
    return Survey(
        survey.raw.to_polars().with_columns(columns),
        _new_design(design, names, margins.formula),
        _new_codebook(survey, names),
    )


def adjustment(
    method: Method, limits: tuple[float, float] | None
) -> Callable[[Floats], tuple[Floats, Floats]]:
    """F and its derivative."""
    if method == "linear":
        return lambda u: (1 + u, np.ones_like(u))
    if method == "raking":
        return lambda u: (np.exp(u), np.exp(u))
    low, high = limits or (0.0, 2.0)
    slope = (high - low) / ((1 - low) * (high - 1))

    def bounded(u: Floats) -> tuple[Floats, Floats]:
        e = np.exp(np.clip(slope * u, -500, 500))
        below = (high - 1) + (1 - low) * e
        f = (low * (high - 1) + high * (1 - low) * e) / below
        return f, e * (1 - low) * (high - 1) * slope * (high - low) / below**2

    return bounded


def solve_factors(
    d: Floats, margins: Margins, adjust: Callable[[Floats], tuple[Floats, Floats]]
) -> Floats:
    """g = F(x'lambda) with sum d g x = totals, by Newton's method with halved steps."""
    X, totals = margins.matrix, margins.totals
    scale = 1 + np.abs(totals)
    multiplier = np.zeros(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        factors, slopes = adjust(X @ multiplier)
        missing = totals - X.T @ (d * factors)
        for _ in range(ROUNDS):
            if np.abs(missing / scale).max() < CLOSE:
                return factors
            information = (X * (d * slopes)[:, None]).T @ X
            step = np.linalg.lstsq(information, missing, rcond=1e-12)[0]
            for halved in range(40):
                trial = multiplier + step / 2**halved
                factors, slopes = adjust(X @ trial)
                left = totals - X.T @ (d * factors)
                if np.isfinite(left).all() and _size(left, scale) < _size(missing, scale):
                    break
            else:
                break
            multiplier, missing = trial, left
    if _size(missing, scale) < 1e3 * CLOSE:
        return factors
    raise Refused(
        "No weights of this kind meet these totals; check that the totals speak of this "
        "population, widen the limits, or merge small levels."
    )


def margins_of(frame: pl.DataFrame, totals: Totals, population: float | None) -> Margins:
    """Indicators of levels, numeric columns, and a column of ones where the population is named."""
    if not totals and population is None:
        raise Refused('Name at least one public total, as in {"sex": {"F": 5200, "M": 4900}}.')
    columns: list[Floats] = []
    targets: list[float] = []
    terms: list[str] = []
    sums = {} if population is None else {"population": float(population)}
    for name, target in totals.items():
        if name not in frame.columns:
            raise UnknownName("calibration column", name, frame.columns)
        values = frame[name]
        if values.null_count():
            raise Refused(
                f"The calibration column `{name}` is missing for some records; give them a value."
            )
        if isinstance(target, Mapping):
            columns += _indicators(values, target)
            targets += [float(total) for total in target.values()]
            sums[name] = float(sum(target.values()))
            terms.append(f"C(`{name}`)" if values.dtype.is_numeric() else f"`{name}`")
        else:
            if not values.dtype.is_numeric():
                raise Refused(f"`{name}` has levels; give a total for each of them.")
            columns.append(values.cast(pl.Float64).to_numpy())
            targets.append(float(target))
            terms.append(f"`{name}`")
    first = next(iter(sums), None)
    for other, total in sums.items():
        if first is not None and abs(total - sums[first]) > AGREE * abs(sums[first]):
            raise Refused(
                f"The totals of `{other}` add up to another number than those of `{first}`; "
                "correct them."
            )
    if not np.isfinite(targets).all() or min(targets, default=0.0) < 0:
        raise Refused("Public totals must be finite and not negative.")
    if population is not None:
        columns.append(np.ones(frame.height))
        targets.append(float(population))
    start = "1" if sums else "0"
    matrix = np.column_stack(columns)
    return Margins(matrix, np.array(targets), " + ".join([start, *terms]))


def _indicators(values: pl.Series, target: Mapping[Value, float]) -> list[Floats]:
    levels = set(values.unique().to_list())
    unknown = sorted(str(level) for level in levels - set(target))
    if unknown:
        raise Refused(f"`{values.name}` has levels without a public total; name all of them.")
    absent = [level for level in target if level not in levels and target[level] != 0]
    if absent:
        raise Refused(
            f"No record of `{values.name}` has the level {absent[0]!r}, which has a public total; "
            "merge it with another level."
        )
    return [(values == level).cast(pl.Float64).to_numpy() for level in target]


def _new_design(design: Design, names: Sequence[str], formula: str) -> Design:
    if design.replicates is None:
        return replace(design, weight=names[0], calibrated=formula, base_weight=design.weight)
    spec = replace(design.replicates, columns=tuple(names[1:]), prefix=None)
    checked: Replicates = spec
    return replace(design, weight=names[0], replicates=checked)


def _new_codebook(survey: Survey, names: Sequence[str]):  # type: ignore[no-untyped-def]
    codebook = survey._codebook
    if codebook is None:
        return None
    codebook = codebook.with_column(Column(names[0], role="weight"))
    for name in names[1:]:
        codebook = codebook.with_column(Column(name, role="replicate"))
    return codebook


def _size(missing: Floats, scale: Floats) -> float:
    return float(np.abs(missing / scale).max())
