"""Answers by influence on plain arrays, for simulations: the package's own equations, clip and
sums, without a table engine, and noise of the same law from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.dp.additive import LaplaceNoise
from understudy.influence import InfluenceAnswer, InfluencePlan
from understudy.tables.influence.clip import Norm, norms
from understudy.tables.influence.equation import Equation, FileColumns
from understudy.tables.influence.prepared import measure_influence
from understudy.tables.influence.question import InfluenceQuestion
from understudy.tables.influence.unit_sums import GRID, RECORD


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """A file of one stratum whose records are its PSUs: what `SyntheticFile` is to a table.

    `chance` are inclusion probabilities, 0 for draws with replacement; the variance is Brewer's.
    """

    values: Mapping[str, np.ndarray]
    weight: np.ndarray
    chance: np.ndarray | float = 0.0

    @property
    def units(self) -> int:
        return len(self.weight)

    @property
    def df(self) -> float:
        return self.units - 1.0

    def columns(self, question: Any) -> FileColumns:  # noqa: ARG002
        return FileColumns(self.values, self.weight, np.ones(self.units, dtype=bool))

    def by_unit(self, influences: np.ndarray) -> np.ndarray:
        return influences

    def by_record(self, influences: np.ndarray) -> np.ndarray:
        return influences

    def covariance(self, influences: np.ndarray) -> np.ndarray:
        centred = influences - influences.mean(axis=0)
        remaining = np.broadcast_to(1 - np.asarray(self.chance), self.units)
        return self.units / (self.units - 1) * (centred * remaining[:, None]).T @ centred


def answer(
    equation: Equation,
    confidential: ArrayFile,
    synthetic: Sequence[ArrayFile],
    epsilon: float,
    draw: np.random.Generator,
) -> InfluenceAnswer:
    """What `us.influence` would answer under `replace`, with noise from `draw`."""
    noise = LaplaceNoise(epsilon)
    question = InfluenceQuestion(equation, lambda _: {})
    files: Any = list(synthetic)
    measured = measure_influence([question], files, confidential.units)
    prepared = measured.prepared(noise.deviation(2) ** 2, 1)
    plan = InfluencePlan(prepared, noise, "replace")
    parts = equation.influences(
        prepared.released[0], confidential.values, confidential.weight,
        np.ones(confidential.units, dtype=bool),
    )  # fmt: skip
    sums = array_sums(np.column_stack(parts) - prepared.per_unit, prepared.steps, 1)
    drawn = np.rint(draw.laplace(0.0, plan.grid_scale, len(sums))).astype(np.int64)
    return plan.answer(sums + drawn)


def array_sums(by_unit: np.ndarray, steps: np.ndarray, norm: Norm) -> np.ndarray:
    """The sums of `unit_sums` from a (units, k) array, written a second time."""
    values = np.nan_to_num(by_unit, nan=0.0, posinf=np.inf, neginf=-np.inf) * steps
    if values.shape[1] > 1:
        held = np.clip(values, -RECORD, RECORD)
        factor = np.minimum(1.0, GRID / np.maximum(norms(held, norm), 1.0))
        values = held * factor[:, None]
    held = np.clip(values, -GRID, GRID)
    return np.asarray(np.floor(held + 0.5).astype(np.int64).sum(axis=0))
