"""How far synthetic tables are from the confidential ones beyond their noise, as a release says it.

A synthetic file fits few tables. What it says of others, and what smoothing did to the fitted ones,
is off by an amount that no spread between the files shows. A release measures it on average over
kinds of tables (mechanisms/whole_file/misfit.py) and publishes it, in units of the sampling
variance: the variance of an estimate from the file is 1 + the figure times as large. Of the mean of
a group it is 1 + (1 - p) figure, p the group's share of the records: a fit has the mean of all
records right, so that what it takes from the sums of small groups it gives to large ones. Where the
table of the groups and the number was measured, small groups have more of it
(tables/variance_factor.py, `evenly`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from understudy.errors import Refused

KINDS = ("measured", "pairs", "more")
OwnFigure = tuple[str, tuple[str, ...], float]  # counts or means, the columns, the figure


@dataclass(frozen=True)
class Misfit:
    """`counts` and `means` are figures for estimates of each kind: all columns in one of the
    `measured` tables (or only one column), two columns that are in none, and more columns.

    `exact` are columns that stayed as they were: estimates from them alone have no misfit.
    `numbers` are figures like `means` of single columns, for estimates that rest on these, and
    `own` those of single tables, for estimates that rest on just their columns.
    """

    measured: tuple[tuple[str, ...], ...]
    counts: tuple[float, ...]
    means: tuple[float, ...]
    exact: tuple[str, ...] = ()
    numbers: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    own: tuple[OwnFigure, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "measured", tuple(tuple(names) for names in self.measured))
        object.__setattr__(self, "exact", tuple(self.exact))
        object.__setattr__(self, "counts", _three("counts", self.counts))
        object.__setattr__(self, "means", _three("means", self.means))
        own = {name: _three(f"numbers.{name}", f) for name, f in self.numbers.items()}
        object.__setattr__(self, "numbers", own)
        object.__setattr__(self, "own", tuple((s, tuple(c), float(f)) for s, c, f in self.own))

    def figure(self, columns: Iterable[str], counts: bool) -> float:
        """What is added to the sampling variance of an estimate from these columns, over it."""
        used = set(columns)
        if used <= set(self.exact):
            return 0.0
        statistic = "counts" if counts else "means"
        for of_statistic, names, figure in self.own:
            if of_statistic == statistic and used == set(names):
                return figure
        of_means = [self.numbers[name] for name in used if name in self.numbers] or [self.means]
        figures = self.counts if counts else tuple(map(max, *of_means, of_means[0]))
        if self.follows(used):
            return figures[0]
        return figures[1 if len(used) == 2 else 2]

    def follows(self, columns: set[str]) -> bool:
        """Whether a table of these columns was measured, so that the fit is to noisy counts."""
        return len(columns) < 2 or any(columns <= set(names) for names in self.measured)


def _three(name: str, figures: Iterable[float]) -> tuple[float, ...]:
    numbers = tuple(float(figure) for figure in figures)
    if len(numbers) != len(KINDS) or not all(0 <= figure < inf for figure in numbers):
        raise Refused(f"`misfit.{name}` must be three numbers of at least 0.")
    return numbers
