"""`understudy study acs-modips`: report M's simulation, at its full size.

Bias, RMSE, coverage and empty cells of ORI, MS and MODIPS on a table of 300,000 occupied cells,
and two-way tables from Marginals beside them. The two-way tables behind the population are those
of the files `pums` (ACS person records, Parquet), or invented ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import understudy as us
from understudy_studies.acs_modips import population
from understudy_studies.acs_modips.figures import means_figure, quantiles_figure
from understudy_studies.acs_modips.pairs import compare_pairs
from understudy_studies.acs_modips.replicate import EPSILONS, over_cells, run
from understudy_studies.acs_modips.tables import facts, study_table
from understudy_studies.framework import Row, Run, Study, stored_arrays


@dataclass(frozen=True)
class ModipsDesign:
    """Records, occupied cells and epsilons; the defaults are the report's."""

    records: int = population.RECORDS
    cells: int = population.CELLS
    epsilons: tuple[float, ...] = EPSILONS


QUICK = ModipsDesign(60_000, 12_000, tuple(math.exp(k) for k in (-6, -2, 0, 1, 2, 4)))


def parts(call: Run) -> Any:
    design, out, pums = call.design, call.out, call.options["pums"] or ()
    arrays = stored_arrays(out / "table.npz", lambda: _table(design, pums, call.seed))
    twelve = us.CrossTable(
        population.acs_categories(population.TWELVE), arrays["codes"], arrays["twelve"]
    )
    sums, counts = out / "sums.npz", arrays["counts"]
    classes = run(counts, call.replicates, sums, design.epsilons, call.seed, call.progress)
    means = over_cells(classes)
    pairs = call.once("pairs", lambda _, seed: {"pairs": compare_pairs(twelve, seed=seed)})["pairs"]
    figures = {"figure-3-1": means_figure(means), "figure-3-2": quantiles_figure(classes)}
    about = {"files": len(pums), "whole": design.records == population.RECORDS}
    return {"study": study_table(means)}, figures, {**about, **facts(classes, means, pairs)}


def _table(design: ModipsDesign, pums: Sequence[Path], seed: int) -> Row:
    """The true counts of the occupied cells, and the table of twelve columns."""
    categories = population.acs_categories()
    if pums:
        missing = [path for path in pums if not Path(path).is_file()]
        if missing:
            raise us.Refused(f"There is no file `{missing[0]}`; check the path.")
        frames = [pl.read_parquet(path, columns=list(us.ACS_COLUMNS)) for path in pums]
        tables, pairs = population.pums_tables(us.prepare_acs(pl.concat(frames)).survey)
    else:
        tables, pairs = population.invented_tables(categories.sizes, seed)
    table = population.population(tables, pairs, categories, design.records, design.cells, seed)
    twelve = population.margin_of(table, population.TWELVE)
    return {"counts": table.counts, "codes": twelve.codes, "twelve": twelve.counts}


run_study = Study("acs-modips", ModipsDesign(), QUICK, 20, 5, parts, (("pums", None),))
