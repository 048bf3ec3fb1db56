"""`understudy study verification`: all of V §4, and how well each measure answers the question.

The simulation is V's: its population, designs and repeats, its Figures 1 to 5 with r_full. Beside
it stand the ROC of agreement and discrepancy at equal epsilon, equal blocks against the keyed
hash, Laplace against geometric noise, and answers by influence (means, medians, slopes), also from
real files that lie in the folder `real`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from understudy_studies.framework import Run, Study, stacked
from understudy_studies.verification.figures import draw_figures
from understudy_studies.verification.influence import advice_of, influence_repeat
from understudy_studies.verification.replicate import QUICK, VerificationDesign, replicate
from understudy_studies.verification.tables import facts, rows_of, study_tables

PARTS = ("answers", "more", "bounded")


def parts(run: Run) -> Any:
    results = run.each("V §4, repeats", replicate)
    rows = {part: rows_of(results, part, float(run.design.epsilon)) for part in PARTS}
    repeat = partial(influence_repeat, run.options["real"])
    fewer = replace(run, replicates=min(run.replicates, run.design.influence_repeats))
    answered = stacked(fewer.each("influence, repeats", repeat, "influence"), "influence")
    rows["influence"] = answered.with_columns(inside=pl.col("distance").abs() <= pl.col("alpha"))
    tables = study_tables(rows, run.design, len(results))
    known = facts(tables, run.design, results, rows["answers"]) | {"real": run.options["real"]}
    known["says"] = partial(advice_of, rows["influence"])
    return tables, draw_figures(rows, run.design), known


run_study = Study("verification", VerificationDesign(), QUICK, 200, 12, parts, (("real", None),))
