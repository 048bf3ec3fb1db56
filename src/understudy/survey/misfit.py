"""How far synthetic tables are from the confidential ones beyond their noise, as a release says it.

A synthetic file fits few tables. What it says of others, and what smoothing did to the fitted ones,
is off by an amount that no spread between the files shows. A release measures it on average over
kinds of tables (mechanisms/whole_file/misfit.py) and publishes it, in units of the sampling
variance: the variance of an estimate from the file is 1 + the figure times as large.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from understudy.errors import Refused

KINDS = ("measured", "pairs", "more")


@dataclass(frozen=True)
class Misfit:
    """`counts` and `means` are figures for estimates of each kind: all columns in one of the
    `measured` tables (or only one column), two columns that are in none, and more columns.

    `exact` are columns that stayed as they were: estimates from them alone have no misfit.
    """

    measured: tuple[tuple[str, ...], ...]
    counts: tuple[float, ...]
    means: tuple[float, ...]
    exact: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "measured", tuple(tuple(names) for names in self.measured))
        object.__setattr__(self, "exact", tuple(self.exact))
        for name in ("counts", "means"):
            figures = tuple(float(figure) for figure in getattr(self, name))
            object.__setattr__(self, name, figures)
            if len(figures) != len(KINDS) or not all(0 <= f < inf for f in figures):
                raise Refused(f"`misfit.{name}` must be three numbers of at least 0.")

    def factor(self, columns: Iterable[str], counts: bool) -> float:
        """What the sampling variance of an estimate from these columns is multiplied by."""
        used = set(columns)
        if used <= set(self.exact):
            return 1.0
        figures = self.counts if counts else self.means
        if len(used) < 2 or any(used <= set(names) for names in self.measured):
            return 1.0 + figures[0]
        return 1.0 + figures[1 if len(used) == 2 else 2]
