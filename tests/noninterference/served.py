"""Neighbouring confidential files behind one configuration, codebook and release; the mechanism's
output, the noisy number, is the same for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from verification_samples import make_frame
from web_samples import Site, make_site

from understudy.verify import noise

RECORD = 5
BASE = make_frame(60)


def changed(order: int = 1, **values: Any) -> pl.DataFrame:
    """The file with other values for one record; a decimal makes decimals of the whole column."""
    frame = BASE
    for name, value in values.items():
        column = frame[name].cast(pl.Float64) if isinstance(value, float) else frame[name]
        answer = column.to_list()
        answer[RECORD] = value
        frame = frame.with_columns(pl.Series(name, answer, dtype=column.dtype))
    return frame[::order]


NEIGHBOURS: dict[str, pl.DataFrame] = {
    "an extreme value and a new type, upside down": changed(-1, income=1e12, hours=40.5),
    "missing values": changed(income=None, hours=None, region=None),
    "not a number": changed(income=math.nan, hours=math.nan),
}
ONE_BY_ONE: dict[str, pl.DataFrame] = {
    "an extreme value": changed(income=-1e300),
    "infinity": changed(income=math.inf),
    "a decimal among whole numbers": changed(hours=40.5),
    "another level": changed(region="East", sex=2),
    "a missing level": changed(region=None),
    "rows in another order": BASE[::-1],
}
UNSERVED: dict[str, pl.DataFrame] = {
    "a level that is not declared": changed(region="nobody's"),
    "a missing weight": changed(w=None),
    "whole numbers as text": BASE.with_columns(pl.col("hours").cast(pl.String)),
}


@contextmanager
def fixed_answers() -> Iterator[None]:
    """Every noisy number is the middle of its range, whatever the sum is."""

    def fixed(_sensitivity: int, _micro: int, held: tuple[int, int] | None = None) -> Any:
        middle = 7 if held is None else sum(held) // 2

        def draw(sums: Iterable[float]) -> list[float]:
            return [float(middle) for _ in sums]

        return draw

    with pytest.MonkeyPatch.context() as patch:
        for name in noise.SAMPLERS:
            patch.setitem(noise.SAMPLERS, name, fixed)
        yield


@contextmanager
def served(folder: Path, frame: pl.DataFrame) -> Iterator[Site]:
    with fixed_answers(), make_site(folder, frame, slot=0.01, deadline=0.05, budget="9") as site:
        yield site
