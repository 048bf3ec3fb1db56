"""A rehearsal of a clipped posterior on records that cost nothing: which alpha ends well.

Where much of a tail is clipped, a clipped posterior has two modes, one that fits all records and
one that gives the tail up, and chains that found both would fail their diagnostics after the
release was paid for. Whether it has, a reference file tells beforehand: the release's own program
is run on it, and on files of as many records as the confidential one has, drawn from the reference.
All of them must pass, at a length that leaves the release room. Nothing but the number of
confidential records is used.
"""

from __future__ import annotations

import time
from functools import cached_property

import numpy as np

from understudy.errors import Refused
from understudy.mechanisms.contract import Fitted, Fitter, Terms, Vector, plain_terms

LOWER = 2**-0.5  # the next scale, after one that did not pass
SCALES = 9  # at most, so that the last is a sixteenth of the first
APART = 4  # of these, where chains of gradients are the second choice: the first, middle and last
LEAST_RATIO = 2.0  # of M to alpha for chains of gradients: below it a few files in a hundred have a
# second mode that a rehearsal on a handful of files does not see (docs/decisions/038)
FILES_WEIGHED = 7  # drawn from the reference, where a fit takes tenths of a second,
FILES_WALKED = 2  # and where it takes chains of gradients
MOST_RECORDS = 100_000  # of a drawn file


class NothingPassed(Refused):
    """No setting that was tried ended well on any of the files of a rehearsal."""

    def __init__(self, files: str, reason: str) -> None:
        super().__init__(
            f"The release was rehearsed on {files}, and its diagnostics passed at no weight alpha "
            f"({reason.rstrip('.')}); nothing was spent"
        )


class ScaleRehearsal:
    """Trial runs on a reference, for a confidential file of n records."""

    def __init__(self, reference: Fitter, n: int, prior_scale: float) -> None:
        self._begun = time.perf_counter()
        self.seconds = 0.0  # of all of it so far, and of the two fits of a release
        self._reference, self._prior_scale = reference.rehearsing(fast=False), prior_scale
        self._n = min(n, MOST_RECORDS)
        self._larger = n / self._n
        fitted = self._reference.fit(plain_terms(self._reference), "reference")
        fitted.check()
        self.positions, self.centre = fitted.positions, fitted.positions.mean(axis=0)
        self._first_fit = time.perf_counter() - self._begun
        self._reason = ""  # why the last scale did not pass

    @cached_property
    def _files(self) -> list[tuple[Fitter, Vector]]:
        """Each with its theta_ref: that of the release, and others that are as likely."""
        number = FILES_WEIGHED if self._reference.weighs_proposals else FILES_WALKED
        spread = self.positions[:: max(1, len(self.positions) // number)]
        return [
            (self._reference, self.centre),
            *((self._reference.resampled(self._n, k), spread[k]) for k in range(number)),
        ]

    def largest_scale(self, first: float, limit: float, walked: bool = True) -> float:
        """The first of `first`, `first`/sqrt(2), ... with which all files pass.

        Scales at which the fast sampler suits come before those at which chains of gradients must
        be asked: where it suits, one mode has all the mass. Where it suits at none, chains are
        asked at few scales, as a failure of theirs takes minutes; without `walked` at none. They
        look for no second mode, so they start no higher than M / LEAST_RATIO.
        """
        steps = LOWER ** np.arange(SCALES)
        weighs = self._reference.weighs_proposals
        weighed = [(scale, True) for scale in first * steps if weighs]
        gentle = min(first, limit / LEAST_RATIO) * steps[:: APART if weighs else 1]
        slow = [(scale, False) for scale in gentle if walked]
        for scale, fast in (*weighed, *slow):
            if self._passes(scale, limit, fast):
                return float(scale)
        raise NothingPassed("the reference and on files drawn from it", self._reason)

    def _passes(self, scale: float, limit: float, fast: bool) -> bool:
        for file, centre in self._files:
            begun = time.perf_counter()
            try:
                self._fitted(file.rehearsing(fast), centre, scale, limit).check()
            except Refused as refusal:
                self._reason = str(refusal)
                return False
            last = time.perf_counter() - begun
        self.seconds = time.perf_counter() - self._begun + self._first_fit + last * self._larger
        return True

    def _fitted(self, file: Fitter, centre: Vector, scale: float, limit: float) -> Fitted:
        alpha, loglik = np.where(file.present, scale, 0.0), file.record_loglik(centre)
        terms = Terms(alpha, loglik, limit, centre, self._prior_scale, centre)
        return file.fit(terms, "rehearsal", self.positions)
