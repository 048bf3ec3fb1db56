"""The only randomness that answers carry: OpenDP's exact integer samplers, unseeded.

The scale is the smallest double s with s * epsilon >= sensitivity in exact arithmetic; a
quotient rounded down would spend more than was paid (threat 5). Samplers work on whole
numbers, so there are no low bits that give the true value away (threat 6).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import opendp.prelude as dp

from understudy.dp import noise
from understudy.ledger.epsilon import exact_epsilon
from understudy.verify.measures import AGREEMENT_SENSITIVITY, DISCREPANCY_SENSITIVITY

__public__ = (
    "bounded_geometric as bounded_geometric_noise",
    "geometric as geometric_noise",
    "laplace as laplace_noise",
)

dp.enable_features("contrib")


def exact_scale(sensitivity: int, micro: int) -> float:
    """The smallest double s such that s * epsilon >= sensitivity exactly."""
    return noise.exact_scale(sensitivity, exact_epsilon(micro))


def geometric_count(count: int, partitions: int, micro: int) -> int:
    """S plus two-sided geometric noise, held in 0..M (methods §7, measure 1)."""
    return int(bounded_geometric(micro, partitions)([count])[0])


def laplace_count(count: int, micro: int) -> float:
    """S plus Laplace(1/epsilon), the paper's mechanism (V §3.1)."""
    return float(laplace(micro)([float(count)])[0])


def geometric_sum(steps: int, micro: int) -> int:
    """The sum of grid steps plus two-sided geometric noise of sensitivity 2000 (measure 2)."""
    return int(geometric(micro)([steps])[0])


# The measurements take lists, so that the audit can draw many answers from the very ones
# that the server uses; an answer is a list of one.


@lru_cache(maxsize=256)
def bounded_geometric(micro: int, partitions: int) -> Any:
    scale = exact_scale(AGREEMENT_SENSITIVITY, micro)
    return dp.m.make_geometric(*_integers(), scale=scale, bounds=(0, partitions))


@lru_cache(maxsize=256)
def geometric(micro: int) -> Any:
    return dp.m.make_geometric(*_integers(), scale=exact_scale(DISCREPANCY_SENSITIVITY, micro))


@lru_cache(maxsize=256)
def laplace(micro: int) -> Any:
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    return dp.m.make_laplace(*space, scale=exact_scale(AGREEMENT_SENSITIVITY, micro))


def _integers() -> tuple[Any, Any]:
    return dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
