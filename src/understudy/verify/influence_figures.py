"""What a receipt keeps about an answer by influence, beside the noisy number: public figures."""

from __future__ import annotations

import math

from pydantic.dataclasses import dataclass

from understudy.dp.additive import AdditiveNoise, GaussianNoise, LaplaceNoise
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
    rho: float = 0.0  # of Gaussian noise under zCDP; 0: Laplace

    @property
    def scale(self) -> float:
        """Of the noise, in units of the estimate."""
        return self.grid_scale * self.step

    @property
    def noise_se(self) -> float:
        return self.scale if self.rho else math.sqrt(2.0) * self.scale

    @property
    def error(self) -> float:
        """Of the difference: the noise, and what clipping leaves."""
        return math.hypot(self.noise_se, self.cut_se)

    @property
    def corrected_se(self) -> float:
        """Of the corrected estimate: sampling, clipping and noise."""
        return math.hypot(self.held_se, self.noise_se)

    def law(self, epsilon: float) -> AdditiveNoise:
        """The distribution of the noise, for answers at this price."""
        return GaussianNoise(epsilon, 0.5, self.rho) if self.rho else LaplaceNoise(epsilon)


def figures_of(plan: InfluencePlan, number: int = 0) -> InfluenceFigures:
    """The figures of one of a plan's estimates."""
    prepared = plan.prepared
    constant = 0.0 if prepared.per_unit.any() else float(prepared.constant[number])
    return InfluenceFigures(
        step=float(plan.step[number]),
        grid_scale=plan.grid_scale,
        added=float(prepared.loss[number]) - constant,
        sampling_se=float(prepared.sampling_se[number]),
        held_se=float(prepared.held_se[number]),
        df=float(min(prepared.df, 1e9)),
        cut_se=float(prepared.cut_se[number]),
        touched=plan.touched,
        advice=plan.advice,
        note="; ".join(prepared.notes),
        rho=float(getattr(plan.noise, "rho", 0.0)),
    )
