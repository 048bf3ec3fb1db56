"""One release of ten million simulated records by twenty columns: CPU seconds and peak memory.

    python bench/ten_million.py [--rows 10000000] [--model WholeFile] [--datasets 5] [--keep FOLDER]

Simulates a file of persons in blocks (thirteen categories, among them the strata; four integers; an
amount with zeros and a topcode; a rent; a design weight), writes codebook and recipe beside it and
runs `understudy release` in a process of its own. Where the recipe has a reference, a past file of
as many persons by the same laws lies beside it. Prints the CPU seconds of all its processes, the
peak of the sum of their resident memory (private and file pages, looked at five times a second) and
of the largest one, and what the release says of itself. Exits 1 above 600 CPU seconds or 4 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray

import understudy as us

BLOCK = 500_000  # records that are simulated at once
MOST_SECONDS, MOST_MEMORY = 600.0, 4.0  # CPU, and GB
LEVELS = {
    "region": 8, "field": 12, "gender": 2, "education": 5, "marital": 4, "sector": 6,
    "citizenship": 3, "health": 5, "tenure": 4, "internet": 2, "urban": 3, "occupation": 15,
    "origin": 6,
}  # fmt: skip
TOPCODE = 250_000
CLASSES = (0.3, 0.2, 0.2, 0.15, 0.1, 0.05)  # latent, on which all columns depend
EACH = 10  # persons that a record stands for, about

RECIPES = {
    "WholeFile": """
[synthesis]
model = "WholeFile"
datasets = {datasets}

[privacy]
mechanism = "Marginals"
epsilon = 1.0
delta = 1e-10

[tables]
statistics = ["count", "mean(salary)", "mean(rent)"]
by = ["field", "gender"]
""",
    "FBS": """
[synthesis]
model = "FBS"
sensitive = "rent"
predictors = "field + gender + education"
population = {population}
datasets = {datasets}

[privacy]
mechanism = "Weighted"

[tables]
statistics = ["count", "mean(rent)"]
by = ["field", "gender"]
""",
}
RECIPES["FBSWithPast"] = RECIPES["FBS"].replace(
    '"Weighted"', '"ReferenceCensored"\nepsilon = 1.0\nreference = "past.parquet"'
)


def persons(rows: int, rng: np.random.Generator, laws: list[NDArray[np.float64]]) -> pl.DataFrame:
    """A block of persons; `laws` has the shares of each category's levels in every class."""
    kind = rng.choice(len(CLASSES), rows, p=CLASSES)
    frame: dict[str, NDArray[np.generic]] = {}
    for (name, size), law in zip(LEVELS.items(), laws, strict=True):
        codes = (rng.random(rows)[:, None] > law[kind]).sum(axis=1)
        frame[name] = np.minimum(codes, size - 1) + 1
    age = np.clip(rng.normal(30 + 6 * kind, 12), 16, 90).astype(np.int64)
    frame["age"] = age
    frame["experience"] = np.clip((age - 18) * rng.beta(5, 2, rows), 0, 60).astype(np.int64)
    frame["children"] = rng.binomial(8, 0.05 + 0.04 * kind)
    frame["hours"] = np.where(rng.random(rows) < 0.25, 0, rng.binomial(80, 0.3 + 0.04 * kind))
    school = frame["education"].astype(np.float64)
    pay = np.exp(rng.normal(9.5 + 0.2 * kind + 0.15 * school, 0.7)).round(-1)
    frame["salary"] = np.where(frame["hours"] == 0, 0, np.clip(pay, 10, TOPCODE)).astype(np.int64)
    frame["rent"] = np.clip(np.exp(rng.normal(6 + 0.1 * school, 0.5)), 50, 20_000)
    frame["weight"] = np.clip(10 * np.exp(rng.normal(-0.08, 0.4, rows)), 1, 200)
    return pl.DataFrame(frame)


def write_file(path: Path, rows: int, past: bool = False) -> None:
    """The simulated file, block by block; or one of other persons by the same laws."""
    rng = np.random.default_rng(20)
    laws = [
        np.cumsum(rng.dirichlet(np.full(size, 0.7), len(CLASSES)), axis=1)
        for size in LEVELS.values()
    ]
    rng = np.random.default_rng(21) if past else rng
    writer = None
    for start in range(0, rows, BLOCK):
        block = persons(min(BLOCK, rows - start), rng, laws).to_arrow()
        writer = writer or pq.ParquetWriter(path, block.schema)
        writer.write_table(block)
    assert writer is not None
    writer.close()


def codebook() -> us.Codebook:
    """What is declared of the columns; rents and weights have a log scale."""
    columns = [
        us.Column(
            name, "stratum" if name == "region" else "public", "categorical",
            levels=tuple(range(1, size + 1)), blanks=False,
        )
        for name, size in LEVELS.items()
    ]  # fmt: skip
    columns += [
        us.Column(name, "sensitive", "integer", bounds=bounds, special=special, blanks=False)
        for name, bounds, special in (
            ("age", (16, 90), ()),
            ("experience", (0, 60), ()),
            ("children", (0, 8), ()),
            ("hours", (0, 80), (0,)),
        )
    ]
    columns += [
        us.Column("salary", "sensitive", "integer", bounds=(0, TOPCODE), special=(0, TOPCODE),
                  rounding=10, grid="log", blanks=False),
        us.Column("rent", "sensitive", "continuous", bounds=(50, 20_000), transform="log",
                  grid="log", blanks=False),
        us.Column("weight", "weight", "continuous", bounds=(1, 200), transform="log", grid="log",
                  blanks=False),
    ]  # fmt: skip
    return us.Codebook({column.name: column for column in columns}, title="Simulated persons")


def tree_memory(root: int) -> float:
    """GB that a process and all its descendants hold now."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rsplit(")")[-1].split()[1]
                )
            except OSError:
                continue
    held = 0
    for process in parents:
        ancestor: int | None = process
        while ancestor is not None and ancestor != root:
            ancestor = parents.get(ancestor)
        if ancestor == root:
            try:
                held += int(Path(f"/proc/{process}/statm").read_text().split()[1])
            except OSError:
                continue
    return held * os.sysconf("SC_PAGE_SIZE") / 1024**3


def release(folder: Path) -> tuple[float, float, float, float]:
    """CPU seconds, seconds, GB of all processes at once and of the largest."""
    command = Path(sys.executable).with_name("understudy")
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen([command, "release", folder / "release.toml", "--accept", "bench"])
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, tree_memory(process.pid))
        time.sleep(0.2)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit("The release failed.")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.monotonic() - start, peak, after.ru_maxrss / 1024**2


def measure(folder: Path, rows: int, model: str, datasets: int) -> bool:
    """Simulate the file once, release it, and print what that took."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "persons.parquet"
    if not data.exists():
        write_file(data, rows)
    if "past.parquet" in RECIPES[model] and not (folder / "past.parquet").exists():
        write_file(folder / "past.parquet", rows, past=True)
    us.write_codebook(codebook(), folder / "codebook.toml")
    text = '[data]\npath = "persons.parquet"\ncodebook = "codebook.toml"\n\n[design]\n'
    text += 'weight = "weight"\nstrata = "region"\n' + RECIPES[model].format(
        datasets=datasets, population=EACH * rows
    )
    (folder / "release.toml").write_text(text, encoding="utf-8")
    seconds, clock, peak, largest = release(folder)
    verdict = json.loads((folder / "release" / "manifest.json").read_text())["fitness"]
    print(
        f"{rows:,} records, {len(codebook().columns)} columns, {model}, {datasets} files: "
        f"{seconds:.0f} CPU s ({clock:.0f} s), peak memory {peak:.2f} GB (largest process "
        f"{largest:.2f}), verdict {verdict}"
    )
    return seconds < MOST_SECONDS and peak < MOST_MEMORY


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--model", choices=RECIPES, default="WholeFile")
    parser.add_argument("--datasets", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder for the file and the release")
    asked = parser.parse_args()
    if asked.keep:
        sys.exit(not measure(asked.keep, asked.rows, asked.model, asked.datasets))
    with tempfile.TemporaryDirectory() as made:
        sys.exit(not measure(Path(made), asked.rows, asked.model, asked.datasets))
