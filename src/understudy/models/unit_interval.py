"""A bounded outcome on the unit interval: (y - low)/(high - low), by declared bounds.

Bounds come from the argument or from the codebook's declaration, never from the records. Where
the codebook declares the transform `log`, the scaling is done on log y between the logs of the
bounds. Values exactly on a bound are legal: their Beta density is 0 or infinite, so they get
record weight 0 (C §2.1) and are synthesized like the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey

Bounds = tuple[float, float]


@dataclass(frozen=True)
class UnitScale:
    """Where an outcome lies between its declared bounds."""

    outcome: str
    low: float
    high: float
    log: bool = False

    def to_unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = self._ends
        unit = ((np.log(values) if self.log else values) - low) / (high - low)
        # log and division round: a value on the bound must be exactly 0 or 1
        return np.where(values == self.low, 0.0, np.where(values == self.high, 1.0, unit))

    def from_unit(self, unit: NDArray[Any]) -> NDArray[np.float64]:
        low, high = self._ends
        inner = low + (high - low) * np.asarray(unit, dtype=np.float64)
        return np.clip(np.exp(inner) if self.log else inner, self.low, self.high)

    @property
    def _ends(self) -> Bounds:
        return (
            (float(np.log(self.low)), float(np.log(self.high)))
            if self.log
            else (
                self.low,
                self.high,
            )
        )

    def __str__(self) -> str:
        value = f"log({self.outcome})" if self.log else self.outcome
        return (
            f"{value} scaled to (0, 1) between the declared bounds {self.low:g} and {self.high:g}"
        )


def checked_bounds(bounds: Any) -> Bounds | None:
    """Two finite numbers, low before high, or None."""
    if bounds is None:
        return None
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = 0.0
    if not (isfinite(low) and isfinite(high) and low < high):
        raise Refused("`bounds` must be two finite numbers, low before high.")
    return low, high


def unit_scale(outcome: str, bounds: Bounds | None, codebook: Codebook) -> UnitScale:
    """The scale by the argument's bounds, or by those that the codebook declares."""
    column = codebook.columns.get(outcome)
    if bounds is None and column is not None and column.declared("bounds"):
        bounds = column.bounds
    if bounds is None:
        raise Refused(
            f"The bounds of `{outcome}` are not declared; give them in the codebook or as "
            "`bounds=(low, high)`, from what is public about the variable."
        )
    log = column is not None and column.transform == "log"
    if log and bounds[0] <= 0:
        raise Refused(f"`{outcome}` is on the log scale, so its lower bound must be above 0.")
    return UnitScale(outcome, *bounds, log=log)


def unit_outcome(survey: Survey, scale: UnitScale) -> NDArray[np.float64]:
    """The outcome of all records on the unit interval; refused outside the declared bounds."""
    if scale.outcome not in survey.columns:
        raise UnknownName("outcome column", scale.outcome, survey.columns)
    values = survey.frame([scale.outcome])[scale.outcome]
    if not values.dtype.is_numeric():
        raise Refused(f"The outcome `{scale.outcome}` is not numeric; a Beta model needs numbers.")
    numbers = values.cast(pl.Float64).to_numpy()
    if np.isnan(numbers).any():
        raise Refused(
            f"`{scale.outcome}` has missing values; choose `missing='drop'` or `missing='model'`."
        )
    if ((numbers < scale.low) | (numbers > scale.high)).any():
        raise Refused(
            f"`{scale.outcome}` has values outside the declared bounds {scale.low:g} to "
            f"{scale.high:g}; declare wider bounds, or correct the file."
        )
    return scale.to_unit(numbers)
