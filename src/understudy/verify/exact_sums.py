"""Numbers that add up to the same sum in any order: bounded decimals with twelve places.

With floats the last bit of a partition's sum would depend on how the engine split the rows,
and so on records of other partitions.
"""

from __future__ import annotations

from typing import Any

import ibis

# A record's scaled contribution; 10^10 records of this size still fit a decimal(38, 12).
LARGEST_CONTRIBUTION = 1e16


def exact_decimal(value: Any) -> Any:
    """A bounded decimal; `value` is never null here (least and greatest skip nulls)."""
    bounded = ibis.greatest(ibis.least(value, LARGEST_CONTRIBUTION), -LARGEST_CONTRIBUTION)
    return bounded.cast("decimal(38, 12)")
