"""The corrections of a release: noisy sums of the records' influences on its published table.

The files are made from what was handed out, as the outside will make them; from these public files
alone it follows what is asked of each record (the plan: estimates, derivatives, clip). What the
records answer leaves with noise, as part of the envelope; the table is made outside.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.claim import Claim
from understudy.corrected_table import Corrections, plan_corrections
from understudy.envelope import NoisySums
from understudy.release.inside import Inside
from understudy.release.outside import ENVELOPE, HandedOut, correction_plan
from understudy.survey.survey import Survey


def correct(records: Survey, handed: Path) -> None:
    """Put the noisy sums of these records into the envelope."""
    release = HandedOut.of(handed)
    plan = correction_plan(release.facts, release.datasets)
    sums = plan.noisy_sums(records)
    NoisySums(tuple(map(int, sums)), tuple(plan.steps)).write(handed / ENVELOPE)


def with_corrections(claim: Claim, corrections: Corrections) -> Claim:
    """What files and corrections promise together."""
    delta = f" and delta {corrections.delta:g}" if corrections.delta else ""
    condition = (
        f"The published table was corrected by noisy sums, which is epsilon {corrections.epsilon:g}"
        f"{delta} of the whole; for this part a record's weight and other columns do not change "
        "when another unit is added, removed or changed: weights calibrated over the whole file "
        "break it"
    )
    return Claim.compose([claim, corrections.claim((condition,))])


def expected_corrections(inside: Inside) -> list[str]:
    """What the noise will be in corrected cells, if the files turn out like the records: for the
    steward, who has these."""
    corrections, asked = inside.corrections, inside.corrected_statistics
    if corrections is None:
        return []
    plan = plan_corrections([inside.corrected_records], asked, asked, inside.by, corrections)
    if plan.influence is None:
        return ["No cell of the table has a sampling error, so none would be corrected."]
    error = plan.influence.error / plan.influence.prepared.sampling_se
    notes = []
    for statistic in asked:
        own = [k for k, (_, text) in enumerate(plan.keys) if text == statistic.text]
        if own:
            low, middle, high = np.quantile(error[own], [0, 0.5, 1])
            notes.append(
                f"`{statistic.text}` will be corrected in about {len(own)} cells with noise of "
                f"{middle:.2g} sampling errors ({low:.2g} to {high:.2g}), and by less where that "
                "is more than synthesis has wrong."
            )
    return notes
