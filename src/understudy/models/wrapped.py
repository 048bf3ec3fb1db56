"""A model around another: what it does not say itself, the inner one says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro
from jax import Array
from numpy.typing import NDArray
from numpyro import handlers

from understudy.models.contract import Arrays, Columns, OutcomeModel
from understudy.survey.codebook import Codebook, Value
from understudy.survey.design import Design
from understudy.survey.survey import Survey


@dataclass(frozen=True)
class Wrapped(OutcomeModel, abstract=True):
    """Made by the `for_survey` of the model inside; no recipe names it."""

    base: OutcomeModel

    @property
    def plain(self) -> OutcomeModel:
        return self.base.plain

    @property
    def sensitive(self) -> tuple[str, ...]:
        return self.base.sensitive

    @property
    def targets(self) -> tuple[str, ...]:
        return self.base.targets

    @property
    def generates_from_records(self) -> bool:
        return self.base.generates_from_records

    @property
    def deepest_tree(self) -> int:
        return self.base.deepest_tree

    @property
    def takes_record_count(self) -> bool:
        return self.base.takes_record_count

    def for_survey(self, survey: Survey) -> OutcomeModel:
        return self.base.for_survey(survey)

    def published_design(self, design: Design) -> Design:
        return self.base.published_design(design)

    def given_columns(self) -> tuple[str, ...]:
        return self.base.given_columns()

    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        return self.base.prepare(survey, like)

    def check_records(self, arrays: Arrays) -> None:
        self.base.check_records(arrays)

    def inside(self, generated: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_] | None:
        return self.base.inside(generated)

    def restore(self, generated: Mapping[str, NDArray[Any]], survey: Survey) -> Columns:
        return self.base.restore(generated, survey)

    def possible_value(self, name: str, codebook: Codebook) -> Value:
        return self.base.possible_value(name, codebook)

    def known(self, survey: Survey) -> Columns:
        return self.base.known(survey)

    def units(self, codebook: Codebook) -> str:
        return self.base.units(codebook)

    def rests_on(self, survey: Survey) -> dict[str, str]:
        return self.base.rests_on(survey)

    def bounded_target(self, codebook: Codebook) -> tuple[str, tuple[float, float]]:
        return self.base.bounded_target(codebook)

    def start(
        self, arrays: Arrays, alpha: NDArray[np.float64], chain: int = 0
    ) -> dict[str, Any] | None:
        return self.rough_start(arrays, alpha, chain)

    def observe(self, arrays: Mapping[str, Any], shifts: Mapping[str, Array]) -> None:
        """The inner function on targets from which a shift of each record is taken away."""
        own = {name: arrays[name] - shift for name, shift in shifts.items()}
        self.base.function(**{**arrays, **own})

    def generate(self, arrays: Mapping[str, Any], shifts: Mapping[str, Array]) -> None:
        """The inner function's targets, with the shift of each record added."""
        hidden = handlers.block(hide=list(self.base.targets))
        with hidden, handlers.trace() as trace, handlers.seed(rng_seed=numpyro.prng_key()):
            self.base.function(**arrays)
        for name in self.base.targets:
            numpyro.deterministic(name, trace[name]["value"] + shifts.get(name, 0.0))
