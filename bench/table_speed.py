"""A 27-cell table of counts and means with standard errors, against DuckDB and svy.

Three figures, in one run: the ratio to DuckDB's bare GROUP BY of the same columns on
5,000,000 rows on disk (at most 3), the ratio to svy on 1,000,000 rows (at least 20), and the
peak memory of the process that makes the large table (at most 1.5 GB).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us

LARGE, SMALL = 5_000_000, 1_000_000
STATISTICS = ["count", "mean(salary)"]
DESIGN = us.Design(weight="w", strata="field")


def records(n: int) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "field": rng.integers(1, 9, n),
            "gender": rng.integers(0, 2, n),
            "w": rng.gamma(2.0, 50.0, n),
            "salary": rng.lognormal(11.0, 0.4, n),
        }
    )


def best(run: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def large(path: str) -> None:
    """In a process of its own, so that its peak memory is its own."""
    survey = us.read_survey(path, DESIGN)
    table = survey.raw
    bare = best(
        lambda: (
            table.group_by(["field", "gender"])
            .agg(w=table.w.sum(), wy=(table.w * table.salary).sum())
            .to_polars()
        )
    )
    ours = best(lambda: us.tabulate(survey, STATISTICS, ["field", "gender"], margins=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{LARGE:,} rows: bare GROUP BY {bare:.3f} s, table {ours:.3f} s, ratio {ours / bare:.2f}"
    )
    print(f"peak memory {peak:.2f} GB")
    if ours > 3 * bare or peak > 1.5:
        sys.exit("missed: at most 3 times the bare GROUP BY and 1.5 GB")


def against_svy(frame: pl.DataFrame) -> None:
    import svy

    survey = us.Survey(frame, DESIGN)
    ours = best(lambda: us.tabulate(survey, STATISTICS, ["field", "gender"], margins=True), 3)
    named = frame.with_columns(pl.col("field", "gender").cast(pl.String), one=1.0)
    sample = svy.Sample(named, svy.Design(stratum="field", wgt="w"))

    def by_svy() -> None:
        for by in (None, "field", "gender", ["field", "gender"]):
            sample.estimation.mean("salary", by=by)
            sample.estimation.total("one", by=by)

    theirs = best(by_svy, 1)
    print(
        f"{frame.height:,} rows: svy {theirs:.2f} s, table {ours:.3f} s, ratio {theirs / ours:.0f}"
    )
    if theirs < 20 * ours:
        sys.exit("missed: at least 20 times faster than svy")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "records.parquet")
        records(LARGE).write_parquet(path)
        subprocess.run([sys.executable, __file__, path], check=True)
    against_svy(records(SMALL))


if __name__ == "__main__":
    large(sys.argv[1]) if len(sys.argv) > 1 else main()
