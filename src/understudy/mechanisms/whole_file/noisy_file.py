"""The noisy tables of a whole file: all that leaves the inside, and all that records are made from.

One set of tables for each data set, with noise of its own; the cells and the choice of tables are
common to the sets. It is written as the release's draws, one JSON object a set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.misfit import Misfit

Vector = NDArray[np.float64]
Codes = NDArray[np.int32]
ColumnNumbers = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NoisySet:
    """`one_way[j]`: column j's counts over its fine cells; `tables[t]`: counts over coarse ones."""

    one_way: list[Vector]
    tables: list[Vector]


@dataclass(frozen=True)
class MeasuredQuality:
    """Of tables of so many columns: how many, their mean total variation and its error."""

    columns: int
    tables: int
    distance: float
    error: float


@dataclass(frozen=True)
class MeasuredClusters:
    """The design effect of all columns, its error by noise, those of single columns, and the
    records of a PSU on average."""

    design_effect: float
    error: float
    columns: Mapping[str, float]
    psu_records: float


@dataclass(frozen=True, eq=False)
class NoisyFile:
    """`coarse[j]` is the coarse cell of each fine one of column j; `measured[t]` are the columns of
    table t. Variances are those of a cell's noise in one set; 0 for what is public."""

    columns: tuple[str, ...]
    coarse: tuple[Codes, ...]
    measured: tuple[ColumnNumbers, ...]
    one_way_variances: tuple[float, ...]
    table_variances: tuple[float, ...]
    sets: tuple[NoisySet, ...]
    records: int  # of each synthetic file
    misfit: Misfit | None = None  # of the fit; None where it was not measured
    quality: tuple[MeasuredQuality, ...] = ()  # empty where no budget was given to it
    clusters: MeasuredClusters | None = None  # None, too

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Coarse cells of each column."""
        return tuple(int(mapped.max()) + 1 for mapped in self.coarse)

    @property
    def kept(self) -> tuple[bool, ...]:
        """Which columns stayed as they are: their tables have no noise where others have some."""
        noisy = max(self.one_way_variances) > 0
        return tuple(noisy and variance == 0 for variance in self.one_way_variances)

    @property
    def averaged(self) -> NoisyFile:
        """With one set, the average of all; its noise has an m-th of the variance of a set's."""
        count = len(self.sets)
        one_way = zip(*(single.one_way for single in self.sets), strict=True)
        tables = zip(*(single.tables for single in self.sets), strict=True)
        average = NoisySet(
            [np.mean(table, axis=0) for table in one_way],
            [np.mean(table, axis=0) for table in tables],
        )
        return replace(
            self,
            one_way_variances=tuple(variance / count for variance in self.one_way_variances),
            table_variances=tuple(variance / count for variance in self.table_variances),
            sets=(average,),
        )

    def draws(self) -> list[dict[str, Any]]:
        """Each set with what is common to them, as JSON values."""
        common = {
            "columns": list(self.columns),
            "coarse": [mapped.tolist() for mapped in self.coarse],
            "measured": [list(names) for names in self.measured],
            "one_way_variances": list(self.one_way_variances),
            "table_variances": list(self.table_variances),
            "records": self.records,
            "misfit": None if self.misfit is None else asdict(self.misfit),
            "quality": [asdict(measured) for measured in self.quality],
            "clusters": None if self.clusters is None else asdict(self.clusters),
        }
        return [
            common
            | {
                "one_way": [_plain(table) for table in single.one_way],
                "tables": [_plain(table) for table in single.tables],
            }
            for single in self.sets
        ]


def from_draws(draws: Sequence[Mapping[str, Any]]) -> NoisyFile:
    """The noisy tables that `NoisyFile.draws` wrote."""
    try:
        common = draws[0]
        return NoisyFile(
            tuple(str(name) for name in common["columns"]),
            tuple(np.asarray(mapped, dtype=np.int32) for mapped in common["coarse"]),
            tuple(tuple(int(name) for name in names) for names in common["measured"]),
            tuple(float(variance) for variance in common["one_way_variances"]),
            tuple(float(variance) for variance in common["table_variances"]),
            tuple(
                NoisySet(
                    [np.asarray(table, dtype=np.float64) for table in draw["one_way"]],
                    [np.asarray(table, dtype=np.float64) for table in draw["tables"]],
                )
                for draw in draws
            ),
            int(common["records"]),
            None if common.get("misfit") is None else Misfit(**common["misfit"]),
            tuple(MeasuredQuality(**measured) for measured in common.get("quality", ())),
            MeasuredClusters(**common["clusters"]) if common.get("clusters") else None,
        )
    except (KeyError, IndexError, TypeError, ValueError):
        raise Refused(
            "The release has no tables of a whole file; draw from a release of model WholeFile."
        ) from None


def _plain(table: Vector) -> Any:
    """Whole numbers as such: noisy counts are."""
    whole = np.rint(table)
    return (whole.astype(np.int64) if np.array_equal(whole, table) else table).tolist()
