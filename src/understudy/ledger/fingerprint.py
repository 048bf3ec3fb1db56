"""The fingerprint of a confidential table: the same records, however named or ordered.

A cap that belonged to a name could be had again by renaming (threat 15). This digest
streams over the table in batches and does not depend on the order of rows or columns, nor
on the backend: each record becomes two 64-bit numbers, and these are summed. It protects
against the same file under two names; it is not meant to withstand a steward who alters the
file on purpose.
"""

from __future__ import annotations

import hashlib
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

HashWords = NDArray[np.uint64]

_NULL = np.uint64(0x6E756C6C)
_LANES = 2


def fingerprint(table: ir.Table, batch: int = 100_000) -> str:
    """A hexadecimal digest of the records as a multiset."""
    return fingerprints(table, batch)[0]


def fingerprints(table: ir.Table, batch: int = 100_000) -> tuple[str, str]:
    """Two digests in one pass: of the records as a multiset, and of the table with its order and
    types."""
    names = sorted(table.columns)
    sums = [0] * _LANES
    records = 0
    types = [f"{name} {kind}" for name, kind in table.schema().items()]
    ordered = hashlib.sha256("\n".join(types).encode())
    for chunk in table.select(names).to_pyarrow_batches(chunk_size=batch):
        records += chunk.num_rows
        for lane in range(_LANES):
            words = _record_words(chunk, names, lane)
            ordered.update(words.tobytes())
            total = np.add.reduce(words, dtype=np.uint64)
            sums[lane] = (sums[lane] + int(total)) % 2**64
    text = "\n".join([str(records), *map(str, sums), *names])
    return hashlib.sha256(text.encode()).hexdigest(), ordered.hexdigest()


def _record_words(chunk: pa.RecordBatch, names: list[str], lane: int) -> HashWords:
    state = np.full(chunk.num_rows, _seed("record", lane), dtype=np.uint64)
    for name in names:
        words = _column_words(chunk.column(chunk.schema.get_field_index(name)))
        state = _mix(state ^ _mix(words ^ _seed(name, lane)))
    return state


def _column_words(values: Any) -> HashWords:
    """One 64-bit word per value; equal values get equal words, whatever the storage type."""
    kind = values.type
    if pa.types.is_temporal(kind) or (not _numeric(kind) and not pa.types.is_string(kind)):
        values = values.cast(pa.string())
    missing = np.asarray(values.is_null(nan_is_null=False))
    if _numeric(kind):
        numbers = pc.fill_null(values.cast(pa.float64(), safe=False), 0.0)
        # Adding zero makes -0.0 and 0.0 one; every NaN gets one bit pattern.
        plain = np.asarray(numbers, dtype=np.float64) + 0.0
        words = np.where(np.isnan(plain), np.nan, plain).view(np.uint64)
    else:
        encoded = values.dictionary_encode()
        known = np.array([_text_word(v) for v in encoded.dictionary.to_pylist()], dtype=np.uint64)
        index = np.asarray(pc.fill_null(encoded.indices, 0))
        words = known[index] if len(known) else np.zeros(len(values), dtype=np.uint64)
    return np.where(missing, _NULL, words)


def _numeric(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
    )


def _text_word(text: str | None) -> int:
    return int.from_bytes(hashlib.sha256((text or "").encode()).digest()[:8], "big")


def _seed(name: str, lane: int) -> np.uint64:
    digest = hashlib.sha256(f"{lane}:{name}".encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "big"))


def _mix(words: HashWords) -> HashWords:
    """A bijection of 64-bit words that spreads every bit (two multiply-and-fold rounds)."""
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        words = (words ^ (words >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return words ^ (words >> np.uint64(32))
