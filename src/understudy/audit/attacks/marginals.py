"""`Marginals` of one column each: every table has its noise, and a record is in all of them."""

from __future__ import annotations

import numpy as np

from understudy.audit.attack import AuditRelation, Simulation
from understudy.audit.counts import CountAttack, FilePair, neighbours, row_counts
from understudy.audit.epsilon_bound import shown_loss
from understudy.dp.noise import exact_scale, integer_laplace
from understudy.mechanisms.marginals import Marginals, marginal_counts
from understudy.mechanisms.modips import CountRelation


class MarginalsAttack(CountAttack):
    name = "marginals"
    mutants = ("scale-halved", "one-table")
    # The deciding event is four counts at once, with chance .10 and .04; OpenDP takes 8
    # microseconds for each count.
    trials = 400_000

    def pairs(self, relation: AuditRelation) -> list[FilePair]:
        return neighbours(relation)[:1]  # one-way tables do not know who is alone in the cross

    def pair_losses(
        self, pair: FilePair, relation: CountRelation, simulation: Simulation, alpha: float
    ) -> tuple[float, float]:
        epsilon, trials, mutant = simulation.epsilon, simulation.trials, simulation.mutant
        mechanism = Marginals(epsilon, order=1, relation=relation)
        columns = mechanism.columns(2)
        sensitivity = mechanism.sensitivity(1 if mutant == "one-table" else len(columns), 1)
        spent = 2 * epsilon if mutant == "scale-halved" else epsilon
        tables = [mechanism.cells(row_counts(file)) for file in pair]
        exact = [np.concatenate(marginal_counts(table, columns)) for table in tables]
        differing = np.flatnonzero(exact[0] != exact[1])
        # One draw of noise serves both files, because it is the dear part: the confidence limits of
        # the two chances hold together whether or not the files' outputs are independent.
        base = np.tile(exact[0][differing], trials)
        noise = integer_laplace(base, sensitivity, spent) - base
        symbols = []
        for counts in exact:
            noisy = np.tile(counts[differing], trials) + noise
            # how many counts speak for the first file: each multiplies the ratio by the same factor
            above = noisy.reshape(trials, -1) >= np.maximum(exact[0], exact[1])[differing]
            symbols.append((above == (exact[0] > exact[1])[differing]).sum(axis=1))
        distance = int(np.abs(exact[0] - exact[1]).sum())
        shown = shown_loss(symbols[0], symbols[1], differing.size + 1, alpha)
        return shown, distance / exact_scale(sensitivity, spent)
