"""Records that several cases use: salaries by field and gender, with weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

BLOCK = 1_000_000  # records that are made at a time


def salaries(n: int, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "field": rng.integers(1, 9, n),
            "gender": rng.integers(0, 2, n),
            "w": rng.gamma(2.0, 50.0, n),
            "salary": rng.lognormal(11.0, 0.4, n),
        }
    )


def salaries_file(n: int, folder: Path) -> Path:
    """The same as a Parquet file, written in blocks: 100,000,000 records need no memory."""
    path = folder / f"salaries-{n}.parquet"
    writer = None
    for number, start in enumerate(range(0, n, BLOCK)):
        block = salaries(min(BLOCK, n - start), seed=number + 1).to_arrow()
        writer = writer or pq.ParquetWriter(path, block.schema)
        writer.write_table(block)
    if writer is not None:
        writer.close()
    return path
