"""The type in which a column is published: the codebook's, never what its values look like.

One record with 50.5 instead of 50 turns whole numbers into decimals when a file is read. A
published column therefore has the type that is declared; where none is, that of the file, and
whoever publishes must say so.
"""

from __future__ import annotations

import polars as pl

from understudy.survey.codebook import Column
from understudy.survey.survey import Survey

_TYPES: dict[str, type[pl.DataType]] = {
    "continuous": pl.Float64,
    "integer": pl.Int64,
    "text": pl.String,
    "date": pl.Date,
}


def declared_dtype(column: Column | None) -> pl.DataType | None:
    """The type that the codebook declares; that of the levels where these are declared."""
    if column is None or not column.declared("type"):
        return None
    if column.declared("levels"):
        return pl.Series(list(column.levels or ()), strict=False).dtype
    return None if column.type == "categorical" else _TYPES[column.type]()


def published_dtype(survey: Survey, name: str) -> pl.DataType:
    """The declared type of a column, or that of the file where none is declared."""
    declared = declared_dtype(survey.codebook.columns.get(name))
    if declared is not None:
        return declared
    kind: pl.DataType = survey.raw.select(name).schema().to_polars()[name]
    return kind


def types_not_declared(survey: Survey, columns: tuple[str, ...]) -> list[str]:
    """The columns whose type could only be read off the file."""
    return [name for name in columns if declared_dtype(survey.codebook.columns.get(name)) is None]
