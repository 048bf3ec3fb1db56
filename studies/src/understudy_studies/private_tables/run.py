"""`understudy study private-tables`: T's simulation, replicate by replicate, in all processors.

Replicates are kept one by one, so that a killed study goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import understudy as us
from understudy_studies.private_tables.application import run_application
from understudy_studies.private_tables.cells import population_truth
from understudy_studies.private_tables.replicate import MODELS, Plan, one_replicate
from understudy_studies.private_tables.tables import write_report
from understudy_studies.replicates import open_study


def run_study(
    replicates: int = 100,
    out: Path = Path("study-private-tables"),
    seed: int = 1,
    progress: bool | None = None,
    plan: Plan | None = None,
    processes: int | None = None,
) -> Path:
    """Run or go on with the study; returns the page, `out`/study.html.

    Each replicate is kept under `out`/replicates as soon as it is done. `processes` is by default
    the number of processors that this process may use.
    """
    plan = plan or Plan()
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise us.Refused("`replicates` must be a whole number of at least 1.")
    out = Path(out)
    open_study(
        out, {"study": "private-tables", "version": us.__version__, "seed": seed, **asdict(plan)}
    )
    folder = out / "replicates"
    folder.mkdir(exist_ok=True)
    missing = [number for number in range(replicates) if not _kept(folder, number).exists()]
    shown = sys.stderr.isatty() if progress is None else progress
    columns = (TextColumn("replicates"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task("replicates", total=replicates, completed=replicates - len(missing))
        for _ in _computed(folder, plan, seed, missing, processes or _processors()):
            bar.advance(task)
    if plan.application and not (out / "application.parquet").exists():
        run_application(out, MODELS, plan.bounds[0], plan.draws, seed)
    return write_report(out, population_truth(_population(seed)), replicates)


def _computed(
    folder: Path, plan: Plan, seed: int, missing: list[int], processes: int
) -> Iterator[int]:
    """Compute what is missing, and say which number is done."""
    if min(processes, len(missing)) <= 1:
        for number in missing:
            yield _store(folder, plan, seed, number)
        return
    # spawned, because JAX's threads do not survive a fork
    with _workers(min(processes, len(missing))) as pool:
        waiting = [pool.submit(_store, folder, plan, seed, number) for number in missing]
        for done in as_completed(waiting):
            yield done.result()


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that are given up, and not waited for, when one fails or the user stops."""
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _store(folder: Path, plan: Plan, seed: int, number: int) -> int:
    """Compute one replicate and keep it; its table of rows comes last: with it all is there."""
    rows, facts, pictures = one_replicate(_population(seed), plan, seed, number)
    if number == 0:
        np.savez_compressed(folder / "pictures.npz", **pictures)  # type: ignore[arg-type]
    (folder / f"{number:04d}.json").write_text(json.dumps(facts), encoding="utf-8")
    kept = _kept(folder, number)
    part = kept.with_suffix(".part")
    rows.write_parquet(part)
    os.replace(part, kept)
    return number


def _kept(folder: Path, number: int) -> Path:
    return folder / f"{number:04d}.parquet"


@lru_cache(maxsize=1)
def _population(seed: int) -> pl.DataFrame:
    return us.doctorate_population(np.random.default_rng(seed))


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
