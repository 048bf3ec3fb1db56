"""`NoisyMoments`: events on noisy sums or counts, of which every file is made."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from understudy.audit.attack import ALPHA, Losses, MechanismAttack, Simulation
from understudy.audit.epsilon_bound import shown_loss
from understudy.dp.binned_counts import BinnedValues, bin_edges, counted
from understudy.dp.clipped_moments import divided, first_sums, second_sums, sensitivities
from understudy.dp.noise import exact_scale, integer_laplace
from understudy.mechanisms.noisy_moments import NoisyMoments

CLASSES = 3  # of a noisy sum: below both exact ones, between them, above both


class NoisyMomentsAttack(MechanismAttack):
    """One column in one cell: a record at its bound is blanked, which moves both of its sums as far
    as anything can. (Under `replace` no pair of values moves both by twice as much.)"""

    name = "noisy-moments"
    relations = ("blank",)
    mutants: ClassVar[tuple[str, ...]] = ("noise-halved", "noise-for-each-of-two-files")
    trials = 200_000
    leaks = False
    per_unit: ClassVar[int] = 1

    def losses(self, simulation: Simulation) -> Losses:
        asked, mutant, trials = (
            NoisyMoments(simulation.epsilon),
            simulation.mutant,
            simulation.trials,
        )
        protected = 1 if mutant == "units-clipped-per-record" else self.per_unit
        limits = sensitivities(1, protected)
        if mutant == "noise-halved":
            limits = limits[0] // 2, limits[1] // 2
        repeats = 2 if mutant == "noise-for-each-of-two-files" else 1
        parts = divided(asked.epsilon, asked.share)
        # beyond its bound, where clipping holds it; the others cancel
        values = np.vstack([np.full((self.per_unit, 1), 3.0), np.full((5, 1), 0.25)])
        files = [_sums(values), _sums(values[self.per_unit :])]
        low, high = np.minimum(*files), np.maximum(*files)
        drawn = []
        for sums in files:
            noisy = np.column_stack(
                [
                    integer_laplace(np.full(trials * repeats, exact), limit, part)
                    for exact, limit, part in zip(sums, limits, parts, strict=True)
                ]
            )
            classes = ((noisy > low).astype(np.int64) + (noisy >= high)).reshape(trials, -1)
            drawn.append(classes @ CLASSES ** np.arange(2 * repeats))
        shown = shown_loss(drawn[0], drawn[1], CLASSES ** (2 * repeats), ALPHA)
        scales = [exact_scale(limit, part) for limit, part in zip(limits, parts, strict=True)]
        exact_loss = repeats * float((np.abs(files[0] - files[1]) / scales).sum())
        return Losses(simulation.epsilon, shown, exact_loss)


class NoisyMomentsUnitAttack(NoisyMomentsAttack):
    """The same for a household of three, all at their bound."""

    name = "noisy-moments-units"
    relations = ("blank",)
    mutants = ("units-clipped-per-record",)
    trials = 200_000
    leaks = False
    per_unit = 3


class NoisyBinsAttack(MechanismAttack):
    """Counts in bins: a household of three, all in one bin, is blanked."""

    name = "noisy-moments-bins"
    relations = ("blank",)
    mutants: ClassVar[tuple[str, ...]] = ("units-counted-as-one", "noise-for-each-of-two-files")
    trials = 200_000
    leaks = False

    def losses(self, simulation: Simulation) -> Losses:
        trials, mutant, three = simulation.trials, simulation.mutant, 3
        repeats = 2 if mutant == "noise-for-each-of-two-files" else 1
        protected = 1 if mutant == "units-counted-as-one" else three
        values = np.array([0.1] * three + [0.1, 0.7])  # those of the household first
        edges, drawn, counts = bin_edges((0.0, 1.0), 2, False), [], []
        for kept in (values, values[three:]):
            exact = counted(kept, np.zeros(len(kept), dtype=np.int64), 1, edges)
            file = BinnedValues(
                np.tile(exact, (trials * repeats, 1)), np.full(trials * repeats, len(values)),
                edges, np.zeros(1, dtype=np.int64), False, protected,
            )  # fmt: skip
            counts.append(exact[0])
            drawn.append(file.noisy(simulation.epsilon, 0.0))
        low, high = np.minimum(*counts)[0], np.maximum(*counts)[0]
        classes = [
            ((noisy.counts[:, 0] > low).astype(np.int64) + (noisy.counts[:, 0] >= high))
            .reshape(trials, -1) @ CLASSES ** np.arange(repeats)
            for noisy in drawn
        ]  # fmt: skip
        shown = shown_loss(classes[0], classes[1], CLASSES**repeats, ALPHA)
        exact_loss = repeats * float(np.abs(counts[0] - counts[1]).sum()) / drawn[0].scale
        return Losses(simulation.epsilon, shown, exact_loss)


def _sums(values: np.ndarray) -> np.ndarray:
    """Both sums of one column in one cell, (2,)."""
    cell = np.zeros(len(values), dtype=np.int64)
    return np.concatenate([first_sums(values, cell, 1).ravel(), second_sums(values)])
