"""Posterior: the draws of one fit, frozen, with what they say about each record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from understudy.dp.record_bounds import RecordBounds, bounds_of_ends, record_bounds
from understudy.errors import Refused
from understudy.fitting.diagnostics import Diagnostics
from understudy.fitting.gaussian_records import GaussianRecords
from understudy.mechanisms.contract import Terms
from understudy.models.compilation import kept
from understudy.models.contract import Arrays
from understudy.models.density import Density, loglik_at

__public__ = ("Posterior",)

LOGLIK_BLOCK = 2**22  # numbers of f in one block of `record_loglik`


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws (chains, draws, d) on the unconstrained scale, the terms they were drawn under, and
    diagnostics. Everything here was computed from confidential data and stays inside."""

    density: Density = field(repr=False)
    arrays: Arrays = field(repr=False)
    terms: Terms = field(repr=False)
    present: NDArray[np.bool_] = field(repr=False)
    chains: NDArray[np.float64] = field(repr=False)
    diagnostics: Diagnostics
    units: NDArray[np.int32] | None = field(default=None, repr=False)  # of each record
    records: GaussianRecords | None = field(default=None, repr=False)  # where they are in blocks

    @property
    def positions(self) -> NDArray[np.float64]:
        """All chains one after another, (draws, d)."""
        return self.chains.reshape(-1, self.chains.shape[-1])

    @cached_property
    def draws(self) -> dict[str, NDArray[np.float64]]:
        """Parameters by name in the model's own coordinates, each (chains, draws, ...)."""
        flat = _constrained(self.density, self.positions, self.arrays)
        lead = self.chains.shape[:2]
        return {name: np.asarray(v).reshape(lead + v.shape[1:]) for name, v in flat.items()}

    @cached_property
    def bounds(self) -> RecordBounds:
        """Record bounds over these draws; infinite |f_i| where a record is not present."""
        terms = self.terms
        if self.records is not None:
            ends = self.records.lowest_and_highest(self.positions)
            weighing = terms.alpha, terms.reference_loglik, terms.limit
            bounds = bounds_of_ends(ends, *weighing, len(self.positions))
        else:
            density, arrays = self.density.in_parts(self.arrays, self.units)
            bounds = record_bounds(
                density.record_loglik, self.positions, arrays, terms.alpha, terms.reference_loglik,
                terms.limit, self.units, self.present, in_parts=True,
            )  # fmt: skip
        loglik = np.where(self.present, bounds.loglik, np.inf)
        return RecordBounds(
            loglik, bounds.weighted, bounds.contribution, bounds.limit, bounds.draws
        )

    def record_loglik(self) -> Iterator[NDArray[np.float64]]:
        """f_i(theta) in blocks of shape (some draws, n), in the order of `positions`."""
        rows = max(1, LOGLIK_BLOCK // self.density.n)
        for first in range(0, len(self.positions), rows):
            part = self.positions[first : first + rows]
            yield np.asarray(loglik_at(self.density, part, self.arrays))

    def check(self) -> None:
        """Refuse a release when the chains do not vouch for exact draws (methods §1)."""
        failures = self.diagnostics.failures
        if failures:
            raise Refused(
                f"The sampler's diagnostics failed: {'; '.join(failures)}. Ask for more `draws` or "
                "`warmup`, raise `target_acceptance`, or simplify the model or its priors."
            )

    def parameters(self, number: int) -> list[dict[str, Any]]:
        """Parameters in the model's own coordinates, of `number` distinct draws."""
        return parameters_at(self.density, self.spaced(number), self.arrays)

    def spaced(self, number: int) -> NDArray[np.float64]:
        """`number` distinct draws, as far apart as the chains allow, (number, d): each of a chain
        of its own where there are as many."""
        worth = int(self.diagnostics.least_ess_bulk)
        if number > min(worth, len(self.positions)):
            raise Refused(
                f"{number} data sets need as many independent draws, and this fit is worth "
                f"{worth}; ask for fewer data sets or more `draws`."
            )
        ends = (np.arange(1, number + 1) * len(self.positions)) // number - 1
        return self.positions[ends]


def parameters_at(
    density: Density, positions: NDArray[np.float64], arrays: Arrays
) -> list[dict[str, Any]]:
    """Parameters in the model's own coordinates at each of (number, d) positions."""
    flat = _constrained(density, positions, arrays)
    by_name = {name: np.asarray(values) for name, values in flat.items()}
    return [{name: values[k] for name, values in by_name.items()} for k in range(len(positions))]


@kept(constants=1, few_runs=True)
def _constrained(density: Density, positions: Array, arrays: Any) -> dict[str, Array]:
    parameters: dict[str, Array] = jax.lax.map(lambda q: density.constrain(q, arrays), positions)
    return parameters
