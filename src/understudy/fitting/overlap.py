"""Whether a reference is the confidential file itself: equal values, and what chance explains.

A reference or a weight function must come from other records. Both files' sensitive values are
compared as multisets, to ten significant digits, so that order and rounding do not matter. Three
things betray the same records:

- *Hits*: confidential records with a value that only one record of the reference has. By Good and
  Turing such values together have a chance of about 2 N2/m, N2 the values that two records have.
  Where no two have the same, numbers of nine digits or more are taken to have no chance of it;
  shorter ones (amounts in cents) may have met by luck.
- *Too few misses*: a new record has a value that a file of n records does not have with chance
  N1/n, N1 the file's single values (Good and Turing again). A subset misses nothing.
- *Too equal*: where values repeat, two samples differ in how often each occurs. Their chi-square
  statistic of homogeneity, each difference raised by a half, must not be improbably small. Where
  the multisets are the same, the chance of that is exact: given how often each value occurs in
  both files together, they are dealt out alike in prod C(2c, c) of C(2n, n) ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from understudy.errors import Refused

DIGITS = 10
IMPROBABLE = 1e-9


@dataclass(frozen=True)
class Overlap:
    """`equal` records in common as multisets; `hits` of the reference's single values, of which
    chance explains `explained`; `few_misses` is the chance of so few values that the other file
    has not, and `too_equal` that of frequencies at least so much alike."""

    equal: int
    hits: int
    explained: float
    few_misses: float
    too_equal: float

    @property
    def improbable(self) -> bool:
        return self.hits > self.explained or min(self.few_misses, self.too_equal) < IMPROBABLE


def overlap(confidential: NDArray[np.float64], reference: NDArray[np.float64]) -> Overlap:
    """Both (records, columns)."""
    rows = rounded(np.concatenate([confidential, reference]))
    n, m = len(confidential), len(reference)
    number = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    cells = int(number.max()) + 1
    ours, theirs = (np.bincount(part, minlength=cells) for part in (number[:n], number[n:]))
    hits = int(ours[theirs == 1].sum())
    doubles = int((theirs == 2).sum())
    # an upper limit of the doubles' number, and then of a Poisson count with that mean
    mean = n * 2 * float(stats.gamma.isf(IMPROBABLE, doubles + 1)) / m
    by_luck = doubles > 0 or _are_short(reference)
    explained = float(stats.poisson.isf(IMPROBABLE, mean)) if by_luck else 2.0
    both = ours + theirs
    difference = np.abs(ours - both * (n / (n + m))) + 0.5
    square = float((difference**2 / both).sum()) * (n + m) ** 2 / (n * m)
    too_equal = float(stats.chi2.cdf(square, cells - 1)) if cells > 1 else 1.0
    if np.array_equal(ours, theirs):
        too_equal = min(
            too_equal, float(np.exp(_log_halvings(ours).sum() - _log_halvings(np.array(n))))
        )
    few = min(_few_misses(ours, theirs), _few_misses(theirs, ours))
    return Overlap(int(np.minimum(ours, theirs).sum()), hits, explained, few, too_equal)


def _log_halvings(size: NDArray[np.int64]) -> NDArray[np.float64]:
    """log C(2c, c): the ways to divide 2c records into two halves."""
    return np.asarray(special.gammaln(2 * size + 1) - 2 * special.gammaln(size + 1))


def _few_misses(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> float:
    """The chance of at most so many of their records with values that we do not have."""
    singles = int((ours == 1).sum())
    lowest = float(stats.gamma.ppf(IMPROBABLE, singles)) if singles else 0.0
    mean = theirs.sum() * lowest / ours.sum()
    return float(stats.poisson.cdf(theirs[ours == 0].sum(), mean)) if mean else 1.0


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers to ten significant digits: an ulp more or less is the same number. What is 15 digits
    below the largest number of its column is 0."""
    digits, unit = _digits(values)
    return digits * unit


def _are_short(values: NDArray[np.float64]) -> bool:
    """Whether most records have eight significant digits or fewer in every column."""
    return bool(np.mean((_digits(values)[0] % 100 == 0).all(axis=1)) > 0.5)


def _digits(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Whole numbers of ten digits, and the unit of each."""
    size = np.abs(values)
    least = size.max(axis=0) * 1e-15
    known = size > least
    exponent = np.floor(np.log10(np.where(known, size, 1.0)))
    unit = 10.0 ** (exponent - (DIGITS - 1))
    return np.where(known, np.rint(values / unit), 0.0), unit


def refuse_overlap(
    confidential: NDArray[np.float64], reference: NDArray[np.float64], purpose: str
) -> None:
    """Refused where more records agree than chance explains; the message is for the data holder."""
    if len(reference) == 0 or len(confidential) == 0:
        return
    shared = overlap(confidential, reference)
    if shared.improbable:
        raise Refused(
            f"{purpose.capitalize()} must not come from the confidential data itself: "
            f"{shared.equal:,} of its {len(reference):,} records have the sensitive values of "
            "confidential records, more than chance explains; give a historical or public survey "
            "of other records."
        )
