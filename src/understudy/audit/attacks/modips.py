"""`Modips` by support: counts with noise, cell by cell."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from understudy.audit.attack import AuditRelation, Simulation
from understudy.audit.counts import DELTA, CountAttack, FilePair, neighbours, row_counts
from understudy.audit.epsilon_bound import shown_loss
from understudy.dp.noise import exact_scale, integer_laplace
from understudy.mechanisms.modips import CountRelation, Modips, Support


class ModipsAttack(CountAttack, abstract=True):
    trials = 200_000
    support: ClassVar[Support]

    def pair_losses(
        self, pair: FilePair, relation: CountRelation, simulation: Simulation, alpha: float
    ) -> tuple[float, float]:
        epsilon, trials, mutant = simulation.epsilon, simulation.trials, simulation.mutant
        hidden = self.support == "threshold" and mutant != "threshold-missing"
        delta = DELTA if self.support == "threshold" else 0.0
        mechanism = Modips(epsilon, self.support, relation, delta)
        halved = Modips(2 * epsilon, self.support, relation, delta)
        used = halved if mutant == "scale-halved" else mechanism
        tables = [mechanism.cells(row_counts(file)) for file in pair]
        # each file's counts over the full domain; -1 where a cell is not in the file's support
        placed = [np.full(4, -1, dtype=np.int64) for _ in tables]
        for table, counts in zip(tables, placed, strict=True):
            counts[table.categories.places(table.codes)] = table.counts
        differing = np.flatnonzero(placed[0] != placed[1])
        repeats = 2 if mutant == "two-sets" else 1
        symbols = []
        for counts in placed:
            seen = np.zeros((repeats * trials, differing.size), dtype=np.int64)
            for column, cell in enumerate(differing):
                if counts[cell] < 0:
                    continue  # never shown
                tiled = np.full(repeats * trials, counts[cell])
                if mutant == "threshold-missing":
                    noisy = integer_laplace(tiled, used.sensitivity, epsilon)
                else:
                    noisy = used.noisy(tiled, 1)
                # counts differ by 1, and the ratio is constant on either side of the larger one
                steps = (noisy >= max(placed[0][cell], placed[1][cell])) + 1
                seen[:, column] = np.where((noisy == 0) & hidden, 0, steps)
            numbered = seen.reshape(trials, -1) @ 3 ** np.arange(differing.size * repeats)
            symbols.append(np.asarray(numbered, dtype=np.int64))
        cells = 3 ** (differing.size * repeats)
        distance = int(np.abs(np.maximum(placed[0], 0) - np.maximum(placed[1], 0)).sum())
        exact = repeats * distance / exact_scale(used.sensitivity, used.epsilon)
        if (placed[0] < 0).tolist() != (placed[1] < 0).tolist():
            exact = 0.0 if hidden else math.inf
        return shown_loss(symbols[0], symbols[1], cells, alpha, delta), exact


class ModipsPublicAttack(ModipsAttack):
    name = "modips-public"
    mutants = ("scale-halved", "two-sets")
    support = "public"

    def pairs(self, relation: AuditRelation) -> list[FilePair]:
        return neighbours(relation)[1:]  # all cells have noise: who is alone stands for everyone


class ModipsThresholdAttack(ModipsAttack):
    name = "modips-threshold"
    mutants = ("scale-halved", "threshold-missing")
    support = "threshold"


class ModipsObservedAttack(ModipsAttack):
    name = "modips-observed"
    mutants = ()
    leaks = True
    support = "observed"
