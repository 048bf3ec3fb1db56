"""The distinct values of some public columns, and how many records have each: a GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.survey.survey import Survey

NUMBER, SIZE = "understudy_cell", "understudy_size"


class PredictorCells(Survey):
    """A survey with one record for each combination of values, in their order; `counts` says how
    many records of the whole survey it stands for."""

    def __init__(self, whole: Survey, columns: Sequence[str]) -> None:
        names = list(columns)
        if names:
            sizes = whole.table.group_by(names).aggregate(**{SIZE: whole.table.count()})
            frame = pl.DataFrame(sizes.to_polars()).sort(names)
        else:
            frame = pl.DataFrame({SIZE: [whole.n]})
        shown = frame.select(names) if names else frame
        super().__init__(shown, codebook=whole.codebook.only(names) if names else None)
        self.counts: NDArray[np.int64] = frame[SIZE].to_numpy().astype(np.int64)
        self.names = tuple(names)

    @property
    def lookup(self) -> pl.DataFrame:
        """The values of the cells beside their numbers."""
        return self.frame(list(self.names)).with_row_index(NUMBER) if self.names else pl.DataFrame()


def cell_numbers_of(records: pl.DataFrame, lookup: pl.DataFrame) -> NDArray[np.int64]:
    """The number of each record's cell by its values of the lookup's columns."""
    names = [name for name in lookup.columns if name != NUMBER]
    if not names:
        return np.zeros(records.height, dtype=np.int64)
    joined = records.select(names).join(
        lookup.cast({name: records.schema[name] for name in names}),
        on=names, how="left", maintain_order="left",
    )  # fmt: skip
    return joined[NUMBER].to_numpy().astype(np.int64)
