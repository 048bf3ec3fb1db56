"""Kept columns are looked at before anything is spent: combinations that single records out."""

from __future__ import annotations

from understudy.errors import Refused
from understudy.release.inside import Inside
from understudy.risk.kept import KeptCombinations, kept_combinations

# Weights and what comes with them are made by the agency; an intruder does not know them.
NOT_KNOWN = ("weight", "replicate", "fpc", "unit")  # a unit is never published


def examine_kept(inside: Inside) -> KeptCombinations | None:
    """The combinations of the columns that are published as collected; None without any."""
    survey = inside.narrowed
    kept = [
        name
        for name in inside.as_collected
        if (name not in survey.codebook or survey.codebook[name].role not in NOT_KNOWN)
    ]
    return kept_combinations(survey, kept) if kept else None


def check_kept(inside: Inside) -> str:
    """The sentence for the steward; refused where too many records are alone and the recipe does
    not say why that is accepted."""
    combinations = examine_kept(inside)
    if combinations is None:
        return ""
    limits = inside.recipe.kept
    if combinations.unique_share > limits.unique and not limits.accept.strip():
        raise Refused(
            f"{combinations} That is more than {limits.unique:.1%}: keep fewer or coarser "
            'columns, or write under [kept] why it is accepted: accept = "..."'
        )
    return str(combinations)
