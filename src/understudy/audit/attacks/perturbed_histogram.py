"""`PerturbedHistogram`: events on noisy counts, of which everything else is made."""

from __future__ import annotations

import numpy as np

from understudy.audit.attack import ALPHA, Losses, MechanismAttack, Simulation
from understudy.audit.epsilon_bound import shown_loss
from understudy.dp.histogram import SENSITIVITY, histogram_counts, histogram_edges
from understudy.dp.noise import exact_scale, integer_laplace


class HistogramAttack(MechanismAttack):
    """The record moves from the first bin to the second, or is blanked."""

    name = "perturbed-histogram"
    relations = ("blank", "replace")
    mutants = ("scale-halved", "two-draws")
    trials = 200_000  # OpenDP's exact sampler takes about 13 microseconds per count
    leaks = False

    def losses(self, simulation: Simulation) -> Losses:
        epsilon, trials, mutant = simulation.epsilon, simulation.trials, simulation.mutant
        replaced = simulation.relation == "replace"
        bins = 2 if replaced else 1  # blanking concerns one bin only, so one bin is enough there
        edges = histogram_edges((0.0, 1.0), bins, 20)
        values = np.repeat([0.25, 0.75], 10)
        other = np.append(values[1:], 0.75) if replaced else values[1:]
        first, second = histogram_counts(values, edges), histogram_counts(other, edges)
        sensitivity = 1 if mutant == "scale-halved" else SENSITIVITY
        repeats = 2 if mutant == "two-draws" else 1
        drawn = []
        for counts in (first, second):
            noisy = integer_laplace(np.tile(counts, trials * repeats), sensitivity, epsilon)
            # The ratio is constant outside the two counts, so outputs further out may be lumped.
            steps = np.clip(noisy.reshape(trials, -1) - np.tile(first, repeats), -2, 2) + 2
            drawn.append(steps @ 5 ** np.arange(bins * repeats))
        shown = shown_loss(drawn[0], drawn[1], 5 ** (bins * repeats), ALPHA)
        distance = int(np.abs(first - second).sum())
        exact = repeats * distance / exact_scale(sensitivity, epsilon)
        # scale 2/epsilon against a distance of 2 (replace) or 1 (blank): docs/proofs
        return Losses(epsilon if replaced else epsilon / 2, shown, exact)
