"""The MODIPS study from end to end: the table, the replicates, the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.acs_modips.page import write_page
from understudy_studies.acs_modips.pairs import kept_pairs
from understudy_studies.acs_modips.population import (
    CELLS,
    RECORDS,
    TWELVE,
    acs_categories,
    invented_tables,
    margin_of,
    population,
    pums_tables,
)
from understudy_studies.acs_modips.replicate import EPSILONS, Counts, Summary, run


def run_study(
    replicates: int,
    out: Path,
    pums: Sequence[Path] = (),
    seed: int = 1,
    *,
    records: int = RECORDS,
    cells: int = CELLS,
    epsilons: Sequence[float] = EPSILONS,
    progress: bool = False,
) -> list[Summary]:
    """Write the page into `out`; the table and the sums are kept there, so that it can go on.

    `pums` are Parquet files of ACS person records, such as those of two states; without them the
    two-way tables behind the population are invented.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    source = (
        f"drawn from the two-way tables of {len(pums)} PUMS files" if pums else "invented tables"
    )
    counts, twelve = _table(out / "table.npz", pums, seed, records, cells)
    with _shown(replicates, progress) as advance:
        summaries = run(counts, replicates, out / "state.npz", epsilons, seed, advance)
    pairs = kept_pairs(out / "pairs.json", twelve, seed)
    write_page(summaries, pairs, out, source, replicates)
    return summaries


def _table(
    kept: Path, pums: Sequence[Path], seed: int, records: int, cells: int
) -> tuple[Counts, us.CrossTable]:
    """The true counts of the occupied cells, and the table of twelve columns.

    Made once and then read from the study's folder.
    """
    key = f"{[str(path) for path in pums]} {seed} {records} {cells}"
    if kept.exists():
        with np.load(kept) as found:
            if str(found["key"]) == key:
                twelve = us.CrossTable(acs_categories(TWELVE), found["codes"], found["twelve"])
                return np.array(found["counts"]), twelve
        raise us.Refused(f"`{kept.name}` in the study's folder is of another study; name another.")
    categories = acs_categories()
    if pums:
        missing = [path for path in pums if not Path(path).is_file()]
        if missing:
            raise us.Refused(f"There is no file `{missing[0]}`; check the path.")
        frames = [pl.read_parquet(path, columns=list(us.ACS_COLUMNS)) for path in pums]
        tables, pairs = pums_tables(us.prepare_acs(pl.concat(frames)).survey)
    else:
        tables, pairs = invented_tables(categories.sizes, seed)
    table = population(tables, pairs, categories, records, cells, seed)
    twelve = margin_of(table, TWELVE)
    arrays: dict[str, Any] = {
        "counts": table.counts,
        "codes": twelve.codes,
        "twelve": twelve.counts,
    }
    np.savez(kept, key=np.array(key), **arrays)
    return table.counts, twelve


@contextmanager
def _shown(replicates: int, progress: bool) -> Iterator[Callable[[int], None] | None]:
    """A function to call with the number of replicates done, or None when nothing is shown."""
    if not progress:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replicates", total=replicates)
        yield lambda done: bar.update(task, completed=done)
