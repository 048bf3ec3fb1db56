"""A file in memory, for simulations: what `SyntheticFile` and the one pass are to a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from understudy.tables.influence.clip import Norm, norms
from understudy.tables.influence.equation import FileColumns, Floats
from understudy.tables.influence.prepared import PreparedInfluence
from understudy.tables.influence.question import InfluenceQuestion
from understudy.tables.influence.unit_sums import GRID, RECORD, Steps

__public__ = ("ArrayFile",)


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """Records of one stratum, each a unit and a PSU; columns have the names that the question's
    equation gives them (y, z, x0, x1, ...).

    `chance` are inclusion probabilities, 0 for draws with replacement; the variance is Brewer's.
    """

    values: Mapping[str, Floats]
    weight: Floats
    chance: Floats | float = 0.0

    @property
    def drawn_weight(self) -> Floats:
        return self.weight

    @property
    def units(self) -> int:
        return len(self.weight)

    @property
    def df(self) -> float:
        return self.units - 1.0

    def columns(self, question: InfluenceQuestion) -> FileColumns:  # noqa: ARG002
        return FileColumns(self.values, self.weight, np.ones(self.units, dtype=bool))

    def by_unit(self, influences: Floats) -> Floats:
        return influences

    def by_record(self, influences: Floats) -> Floats:
        return influences

    def covariance(self, influences: Floats) -> Floats:
        centred = influences - influences.mean(axis=0)
        remaining = np.broadcast_to(1 - np.asarray(self.chance), self.units)
        squares = (centred * remaining[:, None]).T @ centred
        return np.asarray(self.units / (self.units - 1) * squares)

    def sums(self, prepared: PreparedInfluence) -> Steps:
        """What the pass over a table would add up."""
        inside = np.ones(self.units, dtype=bool)
        made = [
            influence
            for question, at in zip(prepared.questions, prepared.released, strict=True)
            for influence in question.equation.influences(at, self.values, self.weight, inside)
        ]
        return array_sums(np.column_stack(made) - prepared.per_unit, prepared.steps, prepared.norm)


def array_sums(by_unit: Floats, steps: Floats, norm: Norm) -> Steps:
    """The sums of `unit_sums` from a (units, k) array."""
    values = np.nan_to_num(by_unit, nan=0.0, posinf=np.inf, neginf=-np.inf) * steps
    if values.shape[1] > 1:
        held = np.clip(values, -RECORD, RECORD)
        values = held * np.minimum(1.0, GRID / np.maximum(norms(held, norm), 1.0))[:, None]
    held = np.clip(values, -GRID, GRID)
    return np.asarray(np.floor(held + 0.5).astype(np.int64).sum(axis=0))
