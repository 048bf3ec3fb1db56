"""Intercepts of their own for the primary sampling units (T §5 leaves it open).

    targets_i = those of the inner model + u_c(i),   u_c ~ N(0, diag(s^2)),   log s_j ~ N(log .2, 1)

with a number for log y and one for log w. Given u the records are independent as before, so every
record's log-likelihood is still its own; u is among the parameters that are drawn and released.
Synthetic files keep the PSUs, and values of one PSU vary together as the confidential ones do:
variances by PSU mean the same. A scale next to 0 makes a funnel that no gradient sampler passes,
hence a prior that is kept from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.models.contract import Arrays, OutcomeModel
from understudy.models.wrapped import Wrapped
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey

SPREAD, LOG_WIDTH = 0.2, 1.0  # of the prior of s


@dataclass(frozen=True)
class PsuIntercepts(Wrapped, abstract=True):
    """`columns` identify a PSU, and `labels` are those of the survey that is synthesized."""

    columns: tuple[str, ...]
    labels: tuple[str, ...]

    def given_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.base.given_columns(), *self.columns)))

    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        label = _labels(survey, self.columns)
        number = {name: code for code, name in enumerate(self.labels)}
        codes = label.replace_strict(number, default=None, return_dtype=pl.Int64)
        if codes.null_count():
            raise Refused(
                f"Some PSUs (`{self.columns[-1]}`) are not those of the confidential survey, and "
                "each has an intercept of its own; leave `psu_intercepts` out."
            )
        return {**self.base.prepare(survey, like), "psu": codes.to_numpy()}

    def function(self, psu: Any, **arrays: Any) -> None:
        targets = self.base.targets
        law = dist.LogNormal(log(SPREAD), LOG_WIDTH).expand([len(targets)]).to_event(1)
        spread = numpyro.sample("psu_spread", law)
        each = dist.Normal(0.0, spread).expand([len(self.labels), len(targets)]).to_event(2)
        effect = numpyro.sample("psu_effect", each)[psu]
        shifts = {name: effect[:, j] for j, name in enumerate(targets)}
        seen = arrays.get(targets[0]) is not None
        (self.observe if seen else self.generate)(arrays, shifts)

    def units(self, codebook: Codebook) -> str:
        return f"{self.base.units(codebook)}, given an intercept of each `{self.columns[-1]}`"

    def rough_start(
        self, arrays: Arrays, alpha: NDArray[np.float64], chain: int
    ) -> dict[str, Any] | None:
        first = self.base.rough_start(self._own(arrays), alpha, chain)
        if first is None:
            return None
        targets = len(self.base.targets)
        rng = np.random.default_rng(chain)
        effect = 0.5 * SPREAD * rng.normal(size=(len(self.labels), targets))
        return {**first, "psu_spread": np.full(targets, SPREAD), "psu_effect": effect}

    def start_scale(
        self, parameters: Mapping[str, Any], arrays: Arrays, alpha: NDArray[np.float64]
    ) -> dict[str, Any]:
        scale = self.base.start_scale(parameters, self._own(arrays), alpha)
        weight = 1.0 + np.bincount(arrays["psu"], alpha, len(self.labels))
        scale["psu_effect"] = np.outer(1 / np.sqrt(weight), parameters["scale"])
        scale["psu_spread"] = 1 / np.sqrt(2 * len(self.labels))
        return scale

    def _own(self, arrays: Arrays) -> Arrays:
        return {name: array for name, array in arrays.items() if name != "psu"}


def clustered(model: OutcomeModel, survey: Survey) -> PsuIntercepts:
    """The model with an intercept for each PSU of the survey's design."""
    design = survey.design
    if design.psu is None:
        raise Refused(
            "`psu_intercepts` needs the primary sampling units; name their column in the design."
        )
    nested = design.nest and design.strata is not None
    columns = (design.strata or "", design.psu) if nested else (design.psu,)
    labels = tuple(sorted(_labels(survey, columns).unique().to_list()))
    if len(labels) == survey.n:
        raise Refused(f"Every record is a `{design.psu}` of its own; leave `psu_intercepts` out.")
    return PsuIntercepts(model, columns, labels)


def _labels(survey: Survey, columns: tuple[str, ...]) -> pl.Series:
    frame = survey.frame(list(columns))
    return frame.select(pl.concat_str(pl.all().cast(pl.String), separator="/")).to_series()
