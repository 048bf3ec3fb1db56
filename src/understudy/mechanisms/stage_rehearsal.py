"""A rehearsal of a release without history, on files simulated around the public guess.

How epsilon is best divided among the stages, and which alpha ends well, depends on the model, the
number of records and epsilon. So each division goes through all its stages on simulated files, by
the release's own program, with the largest alpha that passes. The divisions are compared by what
files would be made of: the mean of sum_i f_i(best) - sum_i f_i(theta) over draws theta of the last
stage, where `best` is the most likely draw of the posterior without a clip; this is about half the
number of parameters where nothing is lost. Nothing but public columns, declarations and the number
of records is used.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from understudy.errors import Refused
from understudy.mechanisms.contract import Fitter, Matrix, Mechanism, Rehearsed, Vector, plain_terms
from understudy.mechanisms.scale_rehearsal import NothingPassed

FILES = 3  # simulated
SCORED = 20  # draws


def rehearsed_stages(
    divisions: Sequence[Sequence[Mechanism]], fitter: Fitter, datasets: int
) -> Rehearsed:
    """The best of the divisions, each with the first of its scales that passes on every file;
    refused where none does."""
    begun, reason = time.perf_counter(), ""
    files = [_Simulated(fitter.on_guess(number)) for number in range(1, FILES + 1)]
    best: tuple[float, float, Mechanism] | None = None
    for scales in divisions:
        for candidate in scales:
            started = time.perf_counter()
            try:
                score = sum(file.score(candidate, datasets) for file in files)
            except Refused as refusal:
                reason = str(refusal)
                continue
            seconds = (time.perf_counter() - started) / FILES
            best = min(best or (score, seconds, candidate), (score, seconds, candidate), key=_score)
            break
    if best is None:
        raise NothingPassed("files around the public guess", reason)
    return Rehearsed(best[2], time.perf_counter() - begun + best[1])


def _score(tried: tuple[float, float, Mechanism]) -> float:
    return tried[0]


class _Simulated:
    """A simulated file, and how likely its records can be made."""

    def __init__(self, fitter: Fitter) -> None:
        self._fitter = fitter.rehearsing(fast=False)
        self._highest: float | None = None

    def score(self, candidate: Mechanism, datasets: int) -> float:
        """What the last stage's draws lose; refused where a stage does not pass."""
        prepared = candidate.prepare(self._fitter, datasets)
        fitted = self._fitter.fit(prepared.terms, "release", prepared.start)
        fitted.check()
        if self._highest is None:
            plain = self._fitter.fit(plain_terms(self._fitter), "plain", prepared.start)
            self._highest = float(self._heights(plain.positions).max())
        return self._highest - float(self._heights(fitted.positions).mean())

    def _heights(self, positions: Matrix) -> Vector:
        """sum_i f_i at some of the draws."""
        present = self._fitter.present
        spaced = positions[:: max(1, len(positions) // SCORED)]
        return np.array([self._fitter.record_loglik(each)[present].sum() for each in spaced])
