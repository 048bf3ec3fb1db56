"""`understudy study acs-modips`: report M's simulation, at its full size.

Bias, RMSE, coverage and empty cells of ORI, MS and MODIPS on a table of 300,000 occupied cells,
and two-way tables from Marginals beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

import understudy as us
from understudy_studies.acs_modips.facts import facts
from understudy_studies.acs_modips.figures import means_figure, quantiles_figure
from understudy_studies.acs_modips.pairs import compare_pairs
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
from understudy_studies.acs_modips.replicate import EPSILONS, Summary, run
from understudy_studies.acs_modips.tables import study_table
from understudy_studies.framework import open_study, stored, stored_arrays, write_study


@dataclass(frozen=True)
class ModipsDesign:
    """Records, occupied cells and epsilons; the defaults are the report's."""

    records: int = RECORDS
    cells: int = CELLS
    epsilons: tuple[float, ...] = EPSILONS


QUICK = ModipsDesign(60_000, 12_000, tuple(math.exp(k) for k in (-6, -2, 0, 1, 2, 4)))


def run_study(
    replicates: int | None = None,
    out: Path = Path("study-acs-modips"),
    seed: int = 1,
    pums: Sequence[Path] = (),
    *,
    quick: bool = False,
    progress: bool | None = None,
    design: ModipsDesign | None = None,
) -> list[Summary]:
    """Run or continue the study, and write its page to `out`/study.html.

    `pums` are Parquet files of ACS person records, such as those of two states; without them the
    two-way tables behind the population are invented.
    """
    design = design or (QUICK if quick else ModipsDesign())
    replicates = (5 if quick else 20) if replicates is None else replicates
    settings = {**asdict(design), "pums": [str(path) for path in pums]}
    out = open_study("acs-modips", out, seed, settings)
    arrays = stored_arrays(out / "table.npz", lambda: _table(design, pums, seed))
    twelve = us.CrossTable(acs_categories(TWELVE), arrays["codes"], arrays["twelve"])
    sums = out / "sums.npz"
    summaries = run(arrays["counts"], replicates, sums, design.epsilons, seed, progress)
    pairs = stored(out / "pairs.json", lambda: {"pairs": _pairs(twelve, seed)})["pairs"]
    figures = {"figure-3-1": means_figure(summaries), "figure-3-2": quantiles_figure(summaries)}
    known = {"files": len(pums), "replicates": replicates, "whole": design.records == RECORDS,
             **facts(summaries, pairs)}  # fmt: skip
    tables, small = {"study": study_table(summaries)}, design != ModipsDesign()
    write_study("acs-modips", out, tables, figures, known, small)
    return summaries


def _table(design: ModipsDesign, pums: Sequence[Path], seed: int) -> dict[str, Any]:
    """The true counts of the occupied cells, and the table of twelve columns."""
    categories = acs_categories()
    if pums:
        missing = [path for path in pums if not Path(path).is_file()]
        if missing:
            raise us.Refused(f"There is no file `{missing[0]}`; check the path.")
        frames = [pl.read_parquet(path, columns=list(us.ACS_COLUMNS)) for path in pums]
        tables, pairs = pums_tables(us.prepare_acs(pl.concat(frames)).survey)
    else:
        tables, pairs = invented_tables(categories.sizes, seed)
    table = population(tables, pairs, categories, design.records, design.cells, seed)
    twelve = margin_of(table, TWELVE)
    return {"counts": table.counts, "codes": twelve.codes, "twelve": twelve.counts}


def _pairs(twelve: us.CrossTable, seed: int) -> list[dict[str, Any]]:
    return [asdict(distance) for distance in compare_pairs(twelve, seed=seed)]
