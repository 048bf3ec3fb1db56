"""Files whose first records lack no value: the sums are the same as with masks, wherever a value is
missing after all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import understudy as us
from understudy.tables import collect, first_look

STATISTICS = ["count", "mean(y)", "total(y)", "ratio(y / x)"]
DESIGNS = [
    us.Design(weight="w", strata="h"),
    us.Design(weight="w", strata="h", lonely_psu="average"),
    us.Design(weight="w", strata="h", psu="c", nest=True),
    us.Design(strata="h", fpc="f"),
    us.Design(),
]


def records(missing: list[int], value: float | None, column: str = "y") -> pl.DataFrame:
    rng = np.random.default_rng(1)
    n = 400
    frame = pl.DataFrame(
        {
            "h": rng.integers(0, 3, n),
            "c": rng.integers(0, 9, n),
            "f": np.full(n, 0.25),
            "w": rng.gamma(2, 50, n),
            "x": rng.uniform(1, 2, n),
            "y": rng.lognormal(3, 1, n),
            "g": rng.integers(0, 2, n),
            "level": rng.integers(0, 2, n) * 1.0,
        }
    )
    values = frame[column].to_list()
    for record in missing:
        values[record] = value
    return frame.with_columns(pl.Series(column, values))


def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One more for every pass over all records."""
    monkeypatch.setattr(first_look, "FIRST_RECORDS", 100)
    made: list[int] = []
    aggregates = collect._aggregates
    monkeypatch.setattr(collect, "_aggregates", lambda *a: made.append(1) or aggregates(*a))
    return made


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("value", [None, np.nan], ids=str)
@pytest.mark.parametrize("column", ["y", "x"])
@pytest.mark.parametrize(
    ("missing", "expected"), [([], [1, 1]), ([3, 350], [1, 1]), ([350, 399], [2, 1])], ids=str
)
def test_a_file_is_summed_with_masks_where_any_value_is_missing(
    missing: list[int],
    expected: list[int],
    column: str,
    value: float | None,
    design: us.Design,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In memory the columns are looked through, and nothing is guessed. What was guessed wrong is
    remembered for the next table."""
    frame, path = records(missing, value, column), tmp_path / "records.parquet"
    frame.write_parquet(path)
    held = us.tabulate(us.Survey(frame, design), STATISTICS, ["h", "g"], margins=True, n=True)
    made, survey = passes(monkeypatch), us.read_survey(path, design)
    for number in expected:
        made.clear()
        on_disk = us.tabulate(survey, STATISTICS, ["h", "g"], margins=True, n=True)
        assert len(made) == number
        assert_frame_equal(on_disk, held, rel_tol=1e-9)


def test_groups_without_a_level_are_the_same_whether_by_nan_or_by_null(tmp_path: Path) -> None:
    """The file is read as it is only where no group can be NaN."""
    frame, path = records([350, 399], np.nan, "level"), tmp_path / "records.parquet"
    frame[5, "level"] = None
    frame.write_parquet(path)
    made = us.tabulate(us.read_survey(path, DESIGNS[0]), STATISTICS, "level", margins=True, n=True)
    held = us.tabulate(us.Survey(frame, DESIGNS[0]), STATISTICS, "level", margins=True, n=True)
    assert made["level"].to_list().count("Missing") == len(STATISTICS)
    assert_frame_equal(made, held, rel_tol=1e-9)


def test_a_table_by_strata_is_that_by_their_copy(tmp_path: Path) -> None:
    """Its query groups by the column once."""
    path = tmp_path / "records.parquet"
    records([], None).with_columns(copy=pl.col("h")).write_parquet(path)
    survey = us.read_survey(path, DESIGNS[0])
    by_strata = us.tabulate(survey, STATISTICS, ["g", "h"], margins=True)
    by_copy = us.tabulate(survey, STATISTICS, ["g", "copy"], margins=True)
    assert_frame_equal(by_strata, by_copy.rename({"copy": "h"}), rel_tol=1e-9)


def test_means_of_large_numbers_that_hardly_vary_keep_their_errors(tmp_path: Path) -> None:
    """A mean of 1e9 with a spread of 1: squares about 0 would leave no digit of it."""
    rng = np.random.default_rng(2)
    y = rng.integers(-8, 9, 1000) / 4
    path = tmp_path / "records.parquet"
    pl.DataFrame({"y": y + 1e9}).write_parquet(path)
    made = us.tabulate(us.read_survey(path), "mean(y)")
    assert made["se"][0] == pytest.approx(y.std(ddof=1) / np.sqrt(1000), rel=1e-9)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_infinite_values_are_refused(infinite: float, tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    records([350], infinite).write_parquet(path)
    with pytest.raises(us.Refused, match="infinite values"):
        us.tabulate(us.read_survey(path, DESIGNS[2]), "mean(y)", "h")
