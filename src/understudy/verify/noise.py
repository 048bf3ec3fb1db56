"""The only randomness that answers carry: OpenDP's exact integer samplers, unseeded.

The scale is the smallest double s with s * epsilon >= sensitivity in exact arithmetic; a
quotient rounded down would spend more than was paid (threat 5). Samplers work on whole
numbers, so there are no low bits that give the true value away (threat 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import opendp.prelude as dp

from understudy.dp import noise
from understudy.ledger.epsilon import exact_epsilon

__public__ = ("geometric as geometric_noise", "laplace as laplace_noise")

dp.enable_features("contrib")

# Draws take lists, so that the audit can take many answers from the very sampler that the
# server uses; an answer is a list of one.
Draw = Callable[[Iterable[int]], list[float]]
WholeBounds = tuple[int, int]


def exact_scale(sensitivity: int, micro: int) -> float:
    """The smallest double s such that s * epsilon >= sensitivity exactly."""
    return noise.exact_scale(sensitivity, exact_epsilon(micro))


@lru_cache(maxsize=256)
def geometric(sensitivity: int, micro: int, held: WholeBounds | None = None) -> Draw:
    """Two-sided geometric noise, its sums held between two numbers if these are given."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement: Any = dp.m.make_geometric(
        *space, scale=exact_scale(sensitivity, micro), bounds=held
    )
    return lambda sums: list(measurement([int(value) for value in sums]))


@lru_cache(maxsize=256)
def laplace(sensitivity: int, micro: int, _held: WholeBounds | None = None) -> Draw:
    """Laplace(sensitivity/epsilon), the paper's mechanism (V §3.1); never held."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    measurement: Any = dp.m.make_laplace(*space, scale=exact_scale(sensitivity, micro))
    return lambda sums: list(measurement([float(value) for value in sums]))


SAMPLERS: dict[str, Callable[[int, int, WholeBounds | None], Draw]] = {
    "geometric": geometric,
    "laplace": laplace,
}
