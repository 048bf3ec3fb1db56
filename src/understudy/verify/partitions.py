"""Disjoint partitions by a keyed hash of the unit, with a new key for every query (V §3.1).

The hash has two steps. Once per file, each unit id becomes two 31-bit numbers, the head of
its SHA-256. Once per query, these go through h = (a u1 + b u2 + c) mod p, mod M, with a
fresh secret key (a, b, c): a strongly universal hash in whole-number arithmetic that DuckDB
and Spark both have, as fast as the modulus of a column. A unit's partition depends on its
own id and the key, on nothing else, so adding, removing or changing a unit touches one
partition whatever the hash's quality; the quality only makes the partitions even.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import Any, cast

import ibis
import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

PRIME = 2_147_483_647  # 2^31 - 1: two products and a constant stay below 2^63

UNIT_HEAD = "__unit_head"
UNIT_TAIL = "__unit_tail"
UNIT_NUMBER = "__unit_number"
PARTITION = "__partition"


@dataclass(frozen=True, repr=False)
class PartitionKey:
    """The secret of one query; it is never stored, and its repr does not show it."""

    a: int
    b: int
    c: int


def new_key() -> PartitionKey:
    return PartitionKey(
        1 + secrets.randbelow(PRIME - 1),
        1 + secrets.randbelow(PRIME - 1),
        secrets.randbelow(PRIME),
    )


def unit_digests(unit: ir.Value) -> tuple[ir.IntegerValue, ir.IntegerValue]:
    """Two numbers below 2^31 - 1 from the unit's SHA-256; computed once per file."""
    digest = cast(ir.StringValue, unit.cast("string")).hexdigest("sha256")
    return _number(digest, 0), _number(digest, 8)


def with_partition(table: ir.Table, key: PartitionKey, count: int) -> ir.Table:
    """The table with its partition, 0 .. count-1, as a lazy column."""
    mixed = (table[UNIT_HEAD] * _big(key.a) + table[UNIT_TAIL] * _big(key.b) + _big(key.c)) % PRIME
    return table.mutate(**{PARTITION: (mixed % count).cast("int64")})


def equal_size_shuffle(units: int, count: int) -> NDArray[np.int64]:
    """The paper's partition: a secure random permutation of the units, dealt in turn.

    Sizes differ by at most one. Only for the relation `replace`: adding a unit shifts
    every unit behind it, so under add/remove all M partitions could change.
    """
    while True:
        keys = np.frombuffer(os.urandom(8 * units), dtype=np.uint64)
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        # Ties would favour the lower unit number; draw again (chance n^2 / 2^65).
        if units < 2 or not np.any(ranked[1:] == ranked[:-1]):
            break
    dealt = np.empty(units, dtype=np.int64)
    dealt[order] = np.arange(units, dtype=np.int64) % count
    return dealt


def with_shuffle(table: ir.Table, dealt: NDArray[np.int64]) -> ir.Table:
    """The table with the partition of an equal-size shuffle, joined by unit number."""
    lookup: Any = ibis.memtable(
        {UNIT_NUMBER: np.arange(len(dealt), dtype=np.int64), PARTITION: dealt}
    )
    return table.join(lookup, UNIT_NUMBER)


def _number(digest: ir.StringValue, start: int) -> ir.IntegerValue:
    """Eight hexadecimal digits as a number mod 2^31 - 1, in functions every backend has.

    In doubles, which hold 32 bits exactly: Spark would do it in 32-bit integers, and fail.
    """
    digits = ibis.literal("0123456789abcdef")
    value: Any = ibis.literal(0.0)
    for offset in range(8):
        value = value * 16.0 + digits.find(digest.substr(start + offset, 1)).cast("float64")
    return cast(ir.IntegerValue, value.cast("int64") % PRIME)


def _big(number: int) -> Any:
    return ibis.literal(number, type="int64")
