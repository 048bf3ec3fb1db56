"""`understudy study verification`: V §4 whole, and how well each measure tells what one asks.

The simulation is V's: its population, designs and repeats, its Figures 1 to 5 with r_full. Beside
it stand the ROC of agreement and discrepancy at equal epsilon, equal blocks against the keyed
hash, Laplace against geometric noise, and a median and a regression slope.
"""

from __future__ import annotations

from pathlib import Path

import understudy as us
from understudy_studies.replicates import open_study, run_replicates
from understudy_studies.verification.page import write_results
from understudy_studies.verification.replicate import VerificationDesign, replicate, settings_of


def run_study(
    replicates: int = 200,
    out: Path = Path("study-verification"),
    seed: int = 1,
    progress: bool | None = None,
    design: VerificationDesign | None = None,
) -> Path:
    """Run or go on with the study; returns the page, `out`/study.html.

    Each repeat is one file under `out`/replicates. The same command after an interruption, or with
    more replicates, computes only what is missing. Files and partitions are the same for the same
    seed; the noise of the answers has none.
    """
    design = design or VerificationDesign()
    open_study(out, settings_of(design, seed, us.__version__))
    found = run_replicates(
        out / "replicates",
        replicates,
        lambda number: replicate(design, seed, number),
        progress,
        "V §4, repeats",
    )
    return write_results(out, found, design)
