"""What a receipt keeps about an answer by influence, beside the noisy number: public figures."""

from __future__ import annotations

import math

from pydantic.dataclasses import dataclass

from understudy.influence import InfluencePlan


@dataclass(frozen=True)
class InfluenceFigures:
    """All in units of the estimate but for `grid_scale`, which counts grid steps."""

    step: float  # one grid step
    grid_scale: float  # of the noise
    added: float  # to the noisy sum: what clipping cuts off, less a total's constant
    sampling_se: float
    held_se: float  # of the corrected estimate but for the noise
    df: float
    cut_se: float  # what clipping leaves in the difference
    touched: float  # share of units that the clip touches
    advice: str = ""
    note: str = ""

    @property
    def corrected_se(self) -> float:
        """Of the corrected estimate: sampling, clipping and noise."""
        return math.hypot(self.held_se, math.sqrt(2.0) * self.grid_scale * self.step)


def figures_of(plan: InfluencePlan) -> InfluenceFigures:
    """The figures of a plan for one estimate."""
    prepared = plan.prepared
    constant = 0.0 if prepared.per_unit.any() else float(prepared.constant[0])
    return InfluenceFigures(
        step=float(plan.step[0]),
        grid_scale=plan.grid_scale,
        added=float(prepared.loss[0]) - constant,
        sampling_se=float(prepared.sampling_se[0]),
        held_se=float(prepared.held_se[0]),
        df=float(min(prepared.df, 1e9)),
        cut_se=float(prepared.cut_se[0]),
        touched=plan.touched,
        advice=plan.advice,
        note="; ".join(prepared.notes),
    )
