"""The survey layer against bare DuckDB or polars doing the same sums, in processor time.

Each figure is the least of three runs of both, in one process; processor time counts all threads,
and is little changed by other work on the machine. The bars: 80 replicate weights at most 2 times
DuckDB's sums, weighted quantiles at most 3 times its own (unweighted) quantiles, three columns of
300 at most 1.5 times a file of these three, a CSV file at most 2 times polars, and utility,
propensity and distance of distributions under 15 seconds for a million records.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import understudy as us
from understudy.utility.summary import summarise_utility

BY = ["field", "gender"]


def records(n: int, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "field": rng.integers(1, 9, n),
            "gender": rng.integers(0, 2, n),
            "w": rng.gamma(2.0, 50.0, n),
            "salary": rng.lognormal(11.0, 0.4, n),
        }
    )


def seconds(run: Callable[[], object], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def said(what: str, ours: float, theirs: float, bar: float) -> bool:
    met = ours <= bar * theirs
    print(
        f"{what}: {ours:.2f} s, bare {theirs:.2f} s, {ours / theirs:.2f} times (at most {bar})"
        f"{'' if met else '  MISSED'}",
        flush=True,
    )
    return met


def quantiles(folder: Path) -> bool:
    """27 cells: 16, and their margins."""
    path = folder / "quantiles.parquet"
    records(1_000_000).write_parquet(path)
    own = f"""SELECT field, gender, quantile_cont(salary, [0.1, 0.5, 0.9])
              FROM '{path}' GROUP BY CUBE (field, gender)"""
    theirs = seconds(lambda: duckdb.sql(own).fetchall())
    survey = us.read_survey(path, us.Design(weight="w", strata="field"))
    asked = "quantile(salary, 0.1, 0.5, 0.9)"
    ours = seconds(lambda: us.tabulate(survey, asked, BY, margins=True))
    return said("quantiles, 1,000,000 rows, 27 cells", ours, theirs, 3)


def replicates(folder: Path) -> bool:
    n, count = 5_000_000, 80
    path = folder / "replicates.parquet"
    frame, rng = records(n), np.random.default_rng(2)
    for r in range(count):
        factor = rng.integers(0, 2, n, dtype=np.int8).astype(np.float32) + 0.5
        frame = frame.with_columns((pl.col("w") * pl.Series(factor)).alias(f"r{r + 1}"))
    frame.write_parquet(path)
    del frame
    names = ["w", *(f"r{r + 1}" for r in range(count))]
    sums = ", ".join(f"sum({name}), sum({name} * salary)" for name in names)
    query = f"SELECT field, gender, {sums} FROM '{path}' GROUP BY field, gender"
    theirs = seconds(lambda: duckdb.sql(query).fetchall(), 2)
    design = us.Design(weight="w", replicates=us.Replicates(prefix="r", kind="bootstrap"))

    def table() -> None:
        survey = us.read_survey(path, design)
        us.tabulate(survey, ["count", "mean(salary)"], BY, margins=True)

    ours = seconds(table, 2)
    return said("80 replicate weights, 5,000,000 rows", ours, theirs, 2)


def wide_file(folder: Path) -> bool:
    n = 1_000_000
    frame = records(n)
    rng = np.random.default_rng(3)
    narrow, wide = folder / "narrow.parquet", folder / "wide.parquet"
    frame.select("field", "w", "salary").write_parquet(narrow)
    other = {f"x{k}": rng.integers(0, 9, n, dtype=np.int8) for k in range(297)}
    frame.select("field", "w", "salary").with_columns(**{
        name: pl.Series(values) for name, values in other.items()
    }).write_parquet(wide)  # fmt: skip

    def table(path: Path) -> None:
        survey = us.read_survey(path, us.Design(weight="w"))
        us.tabulate(survey, ["count", "mean(salary)"], "field")

    theirs = seconds(lambda: table(narrow))
    ours = seconds(lambda: table(wide))
    return said("3 columns of 300, 1,000,000 rows, against a file of 3", ours, theirs, 1.5)


def text_file(folder: Path) -> bool:
    path = folder / "records.csv"
    records(1_000_000).write_csv(path)

    def bare() -> None:
        weighted = (pl.col("w") * pl.col("salary")).sum().alias("weighted")
        pl.read_csv(path).group_by(BY).agg(pl.col("w").sum(), weighted)

    def table() -> None:
        survey = us.read_survey(path, us.Design(weight="w"))
        us.tabulate(survey, ["count", "mean(salary)"], BY)

    return said("a CSV file, 1,000,000 rows", seconds(table), seconds(bare), 2)


def utility() -> bool:
    """Under 15 seconds each."""
    first, second = records(1_000_000, 1), records(1_000_000, 2)
    columns = [*BY, "salary"]
    runs: dict[str, Callable[[], object]] = {
        "utility": lambda: summarise_utility(
            first, [second], columns, rng=np.random.default_rng(3)
        ),
        "propensity": lambda: us.propensity_score(first, second, columns, classes=10),
        "distance": lambda: us.ecdf_distance(
            first["salary"], second["salary"], first["w"], second["w"]
        ),
    }
    met = True
    for name, run in runs.items():
        taken = seconds(run, 1)
        met &= taken < 15
        print(
            f"{name}, 1,000,000 rows: {taken:.1f} s{'' if taken < 15 else '  MISSED'}", flush=True
        )
    return met


def main() -> None:
    parts = {
        "quantiles": quantiles,
        "wide": wide_file,
        "csv": text_file,
        "utility": lambda _: utility(),
        "replicates": replicates,
    }
    with tempfile.TemporaryDirectory() as folder:
        met = [parts[name](Path(folder)) for name in sys.argv[1:] or parts]
    if not all(met):
        sys.exit("missed: see above")


if __name__ == "__main__":
    main()
