"""A rehearsal of a release without history, on files simulated around the public guess.

How epsilon is best divided among the stages, and which alpha ends well, depends on the model, the
number of records and epsilon. So each division goes through all its stages on simulated files, by
the release's own program, with the largest alpha that passes. The divisions are compared by what
files would be made of: the mean of sum_i f_i(theta) over draws theta of the last stage. Nothing but
public columns, declarations and the number of records is used.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from understudy.errors import Refused
from understudy.mechanisms.contract import Fitter, Mechanism, Rehearsed
from understudy.mechanisms.scale_rehearsal import NothingPassed

FILES = 3  # simulated
SCORED = 20  # draws


def rehearsed_stages(
    divisions: Sequence[Sequence[Mechanism]], fitter: Fitter, datasets: int
) -> Rehearsed:
    """The best of the divisions, each with the first of its scales that passes on every file;
    refused where none does."""
    begun, reason = time.perf_counter(), ""
    files = [fitter.on_guess(number).rehearsing(fast=False) for number in range(1, FILES + 1)]
    best: tuple[float, float, Mechanism] | None = None
    for scales in divisions:
        for candidate in scales:
            started = time.perf_counter()
            try:
                score = sum(_lost(file, candidate, datasets) for file in files)
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


def _lost(fitter: Fitter, candidate: Mechanism, datasets: int) -> float:
    """How unlikely the last stage's draws make the records of a simulated file: less the mean of
    sum_i f_i over some of them. Refused where a stage does not pass."""
    prepared = candidate.prepare(fitter, datasets)
    fitted = fitter.fit(prepared.terms, "release", prepared.start)
    fitted.check()
    spaced = fitted.positions[:: max(1, len(fitted.positions) // SCORED)]
    heights = [fitter.record_loglik(each)[fitter.present].sum() for each in spaced]
    return -float(np.mean(heights))
