"""`understudy study verification`: all of V §4, and how well each measure answers the question.

The simulation is V's: its population, designs and repeats, its Figures 1 to 5 with r_full. Beside
it stand the ROC of agreement and discrepancy at equal epsilon, equal blocks against the keyed
hash, Laplace against geometric noise, and a median and a regression slope.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

from understudy_studies.framework import open_study, run_replicates, write_study
from understudy_studies.verification.facts import facts
from understudy_studies.verification.figures import draw_figures
from understudy_studies.verification.replicate import QUICK, VerificationDesign, replicate
from understudy_studies.verification.tables import study_rows, study_tables


def run_study(
    replicates: int | None = None,
    out: Path = Path("study-verification"),
    seed: int = 1,
    *,
    quick: bool = False,
    progress: bool | None = None,
    workers: int = 1,
    design: VerificationDesign | None = None,
) -> Path:
    """Run or continue the study; returns the page, `out`/study.html.

    Files and partitions are the same for the same seed; the noise of the answers has none.
    """
    design = design or (QUICK if quick else VerificationDesign())
    replicates = (12 if quick else 200) if replicates is None else replicates
    out = open_study("verification", out, seed, asdict(design))
    compute = partial(replicate, design, seed)
    folder = out / "replicates"
    results = run_replicates(folder, replicates, compute, progress, "V §4, repeats", workers)
    rows = study_rows(results, float(design.epsilon))
    tables = study_tables(rows, design, len(results))
    biased = rows["answers"].filter(partitioning="equal", estimand="total", synthesis="biased")
    known = facts(tables, design, results, biased["centre"].to_numpy())
    figures, small = draw_figures(rows, design), design != VerificationDesign()
    return write_study("verification", out, tables, figures, known, small)
