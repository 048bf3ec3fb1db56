"""Quantiles of records in order against those by queries, which R survey has checked too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from understudy.tables import sorted_records, woodruff
from understudy.tables.sorted_records import _ordered, _value

RNG = np.random.default_rng(8)
N = 400
FRAME = pl.DataFrame(
    {
        "h": RNG.integers(1, 5, N),
        "p": RNG.integers(1, 4, N),
        "g": RNG.choice(["a", None], N),
        "k": RNG.integers(0, 3, N),
        "w": RNG.choice([0.0, 1.0, 2.5, 7.0], N),
        "y": np.round(RNG.normal(0, 3, N), 1),
        "N": 900,
    }
).with_columns(
    y=pl.when(pl.col("k") == 2).then(None).otherwise(pl.col("y")),
    r1=pl.col("w"),
    r2=1 + pl.col("w"),
)
SIZES = FRAME.group_by("h").agg(pl.col("w").sum())
BOOK = us.Codebook(population_by={"h": dict(SIZES.iter_rows())})
DESIGNS = {
    "none": us.Design(),
    "strata": us.Design("w", "h"),
    "fpc": us.Design("w", "h", fpc="N"),
    "clusters": us.Design("w", "h", "p", nest=True),
    "replicates": us.Design("w", replicates=us.Replicates(prefix="r")),
    "calibrated": us.Design("w", "h", calibrated="C(k)"),
}


def cases() -> Iterator[tuple[str, bool, str | None]]:
    """Each design with and without sizes of its strata, and with and without a condition; sizes of
    strata that a design does not have change nothing. An fpc is one more factor of the strata's
    variance, and that by records is of queries in both tables: they have each once."""
    for name, sizes, where in product(DESIGNS, (False, True), (None, "y > -1")):
        once = name in ("fpc", "calibrated")
        if (DESIGNS[name].strata or not sizes) and not (once and sizes == (where is None)):
            yield name, sizes, where


@pytest.mark.filterwarnings("ignore:The weights of")
@pytest.mark.parametrize(("design", "declared", "where"), list(cases()))
def test_the_same_as_by_queries(
    monkeypatch: pytest.MonkeyPatch, design: str, declared: bool, where: str | None
) -> None:
    survey = us.Survey(FRAME, DESIGNS[design], BOOK if declared else None)
    asked = ["quantile(y, 0.05, 0.5, 0.75)", "mean(y)"]
    if design in ("strata", "replicates"):  # what is asked for does not depend on the design
        asked += ["quantile(y + k, 0.3)", "median(y)"]  # others, and the same records in order

    def table() -> pl.DataFrame:
        return us.tabulate(survey, asked, ["g", "k"], margins=True, where=where, n=True)

    if where is not None:  # replicate weights in batches, as where they are many
        monkeypatch.setattr(sorted_records, "AT_ONCE", 0)
    ours = table()
    monkeypatch.setattr(
        woodruff, "_distribution", lambda cells, x, _: woodruff.InDatabase(cells, x)
    )
    theirs = table()
    assert ours.select(pl.exclude(pl.Float64)).equals(theirs.select(pl.exclude(pl.Float64)))
    for name in ("estimate", "se", "lower", "upper", "n"):
        np.testing.assert_allclose(
            ours[name].to_numpy(), theirs[name].to_numpy(), rtol=1e-9, atol=1e-12, err_msg=name
        )


@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_numbers_keep_the_order_of_floats(values: list[float]) -> None:
    floats = np.array(values)
    numbers = _ordered(floats)
    assert (np.argsort(numbers, kind="stable") == np.argsort(floats, kind="stable")).all()
    assert (_value(numbers) == floats).all()
