"""What the page of the verification study says about the conditions of its ROC curves."""

from __future__ import annotations

from typing import Any

import polars as pl

from understudy_studies.verification.replicate import VerificationDesign
from understudy_studies.verification.words import Facts, range_of

NORMAL, BOUNDED, PAPER = "normal errors", "no extreme weights", "the paper's population"


def normal(known: Facts, design: VerificationDesign) -> str:
    texts = [
        f"with a ratio of {row['ratio']:g}, discrepancy {between(row, 'discrepancy')} and "
        f"agreement {between(row, 'agreement')}"
        for row in known.conditions.filter(setting=NORMAL).iter_rows(named=True)
    ]
    return (
        "The same question where every error is normal, which needs no data. The SE ratio is the "
        "confidential standard error over the synthetic one. AUC with "
        f"M = {design.roc_partitions}: " + "; ".join(texts) + ". "
        "`Follows` is the correlation of the clipped answer, before any noise, with the true "
        "difference: an answer can tell no more than that."
    )


def why(known: Facts) -> str:
    follow = {
        name: part["follows"]
        for (name,), part in known.conditions.group_by("setting", maintain_order=True)
    }
    even, calm, wild = (follow[name].to_numpy() for name in (NORMAL, BOUNDED, PAPER))
    text = (
        f"The clipped answer follows the difference by {range_of(follow[NORMAL])} with normal "
        f"errors, by {range_of(follow[BOUNDED])} in the population without extreme weights, and by "
        f"{range_of(follow[PAPER])} in the paper's. "
    )
    if wild.max() < calm.min():
        text += (
            "This is the condition. Where parts err alike, the clip cuts as many of them on either "
            "side, so their mean still moves with the whole difference. Where weights are "
            "heavy-tailed, one part with the heaviest record holds much of the difference; the "
            "clip bounds that part like any other, and what is left hardly follows. "
        )
    if wild.max() < even.min():
        text += (
            "The large SE ratio of the paper's population is not the reason by itself: with "
            "normal errors the largest ratio costs less. "
        )
    return text + (
        "More epsilon does not bring back what the clip cuts: it is what protects the heaviest "
        "record. A fixed limit on weights, set before the file is served, would help, as the "
        "population without extreme weights shows; the estimates are then those with limited "
        "weights."
    )


def between(row: dict[str, Any], name: str) -> str:
    """The range of an area over the tolerances."""
    return range_of(pl.Series([row[f"{name}_min"], row[f"{name}_max"]], dtype=pl.Float64))
