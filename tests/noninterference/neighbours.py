"""Files that differ from the base one in the sensitive values of one record, and in their order."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import strategies as st
from releases import Case, base

# Extreme, of another type, new, or the value of others.
VALUES: dict[str, list[Any]] = {
    "share": [50.5, 0.001, 99.999, 1e-9, 20.0, 33.333333333333336],
    "income": [1.5, 1.0, 1e9, 35_000.01, 90_000.0, 123_456_789.125],
    "visits": [0, 1, 999, 1000],
    "group": ["never seen", "high", "low"],
    "rank": [30, 40, 10],
    "place": ["Aachen", "a level that nobody has", "zzz", "0", "1.5"],
    "w": [99.999, 51.0, 120.0],  # a total that is off by more than 2 % is refused
}


def extreme(case: Case) -> pl.DataFrame:
    """Everything at once: record 5 has the first value of each column above, in its type, and the
    file stands upside down."""
    frame = base()
    for name in drawn_by(case):
        frame = changed(frame, 5, name, VALUES[name][0])
    return frame[::-1]


def lacking(case: Case) -> pl.DataFrame:
    """Record 5 has no value in any column that may be missing."""
    frame = base()
    for name in drawn_by(case):
        if None in values_of(case, name):
            frame = changed(frame, 5, name, None)
    return frame


def values_of(case: Case, name: str) -> list[Any]:
    """Other values for a column, a missing one among them where the release allows it."""
    return [*VALUES[name], None] if case.missing and name != "w" else VALUES[name]


def changed(frame: pl.DataFrame, record: int, name: str, value: Any) -> pl.DataFrame:
    """The file with another value for one record; a decimal makes decimals of the whole column."""
    column = frame[name].cast(pl.Float64) if isinstance(value, float) else frame[name]
    values = column.to_list()
    values[record] = value
    return frame.with_columns(pl.Series(name, values))


@st.composite
def neighbours(draw: Any, case: Case) -> pl.DataFrame:
    """One record changed in some or all of the columns that the release draws; rows perhaps in
    another order."""
    frame = base()
    record = draw(st.integers(0, frame.height - 1))
    names = draw(st.lists(st.sampled_from(drawn_by(case)), min_size=1, unique=True))
    for name in names:
        frame = changed(frame, record, name, draw(st.sampled_from(values_of(case, name))))
    if draw(st.booleans()):
        order = draw(st.permutations(range(frame.height)))
        frame = frame[list(order)]
    return frame


def drawn_by(case: Case) -> list[str]:
    """The columns that a release draws, those of its regressions too."""
    outcomes = [name for name in ("share", "income") if f'"{name}"' in case.more]
    return [name for name in VALUES if name in (*case.drawn, *outcomes)]
