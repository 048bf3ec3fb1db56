"""Missing values that the first records do not show: the sums are made again with masks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import understudy as us
from understudy.tables import collect as module

STATISTICS = ["count", "mean(y)", "total(y)", "ratio(y / x)"]
DESIGN = us.Design(weight="w", strata="h")


def records(missing: list[int]) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    n = 400
    y = rng.lognormal(3, 1, n)
    y[missing] = np.nan
    return pl.DataFrame(
        {
            "h": rng.integers(0, 3, n),
            "w": rng.gamma(2, 50, n),
            "x": rng.uniform(1, 2, n),
            "y": pl.Series(y).fill_nan(None),
        }
    )


@pytest.mark.parametrize(
    ("missing", "passes"), [([], 1), ([3, 350], 1), ([350, 351, 399], 2)], ids=str
)
def test_a_file_is_summed_with_masks_where_any_value_is_missing(
    missing: list[int], passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory the columns are looked through at once, and nothing is guessed."""
    monkeypatch.setattr(module, "FIRST_RECORDS", 100)
    frame, path = records(missing), tmp_path / "records.parquet"
    frame.write_parquet(path)
    groupings: list[int] = []
    aggregates = module._aggregates
    monkeypatch.setattr(module, "_aggregates", lambda *a: groupings.append(1) or aggregates(*a))
    on_disk = us.tabulate(us.read_survey(path, DESIGN), STATISTICS, "h", margins=True, n=True)
    assert len(groupings) == passes
    in_memory = us.tabulate(us.Survey(frame, DESIGN), STATISTICS, "h", margins=True, n=True)
    assert_frame_equal(on_disk, in_memory, rel_tol=1e-9)
