"""The fingerprint of a confidential table: the same records, however named, ordered or typed.

A cap that belonged to a name could be had again by renaming (threat 15), and one that belonged to
typed values by another codebook. So records are digested as canonical text, before a codebook gives
them types: a number is the same as the text that it is written as, surrounding blanks do not count,
and an empty text, NA, NaN and null are all "missing". The digest streams over the table in batches
and does not depend on the order of rows or columns, nor on the backend: each record becomes two
64-bit numbers, and these are summed. It is not meant to withstand a steward who alters the file on
purpose.

A file that was edited has another fingerprint, so a sketch of it is kept as well: the digest of
each column that varies, whatever its name, and the 32 records with the smallest digests. Two files
that share half of either are akin (threat 19).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.cluster import on_cluster, summaries

if TYPE_CHECKING:
    import ibis.expr.types as ir

HashWords = NDArray[np.uint64]

SKETCHED = 32  # records

_NULL = np.uint64(0x6E756C6C)
_LANES = 2
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_MISSING = ["", "NA", "NaN"]


@dataclass(frozen=True)
class FileIdentity:
    """What tells one file from another: its fingerprint, that of 0.1.0, and a sketch."""

    fingerprint: str  # of canonical text
    typed: str = ""  # as version 0.1.0 computed it, from typed values
    columns: frozenset[str] = field(default=frozenset(), repr=False)
    records: frozenset[str] = field(default=frozenset(), repr=False)

    def akin(self, columns: frozenset[str], records: frozenset[str]) -> bool:
        """Whether half of the columns, or of the sketched records, are those of another file."""
        return _half(self.columns, columns) or _half(self.records, records)


def _half(some: frozenset[str], others: frozenset[str]) -> bool:
    fewer = min(len(some), len(others))
    return fewer > 0 and 2 * len(some & others) >= fewer


def identify(untyped: ir.Table, typed: ir.Table, batch: int = 100_000) -> tuple[FileIdentity, str]:
    """The identity of a file by its records before and after typing; and the digest of the typed
    table with its order and types, by which a release knows its input."""
    records, ordered = fingerprints(typed, batch)
    return _sketched(untyped, records, batch), ordered


def _sketched(table: ir.Table, typed: str, batch: int) -> FileIdentity:
    names = sorted(table.columns)
    sums = [0] * _LANES
    records = 0
    columns = dict.fromkeys(names, 0)
    ends = dict.fromkeys(names, (2**64, -1))
    least: set[int] = set()
    for summary in summaries(table.select(names), partial(_text_sums, names), batch):
        part = json.loads(summary)
        records += part["records"]
        sums = [(a + b) % 2**64 for a, b in zip(sums, part["sums"], strict=True)]
        for name, total, low, high in zip(names, part["columns"], *part["ends"], strict=True):
            columns[name] = (columns[name] + total) % 2**64
            ends[name] = min(ends[name][0], low), max(ends[name][1], high)
        least = set(sorted(least | set(part["least"]))[:SKETCHED])
    text = "\n".join(["text", str(records), *map(str, sums), *names])
    varying = (columns[name] for name in names if ends[name][0] < ends[name][1])
    return FileIdentity(
        hashlib.sha256(text.encode()).hexdigest(),
        typed,
        frozenset(f"{records}:{total:016x}" for total in varying),
        frozenset(f"{word:016x}" for word in least),
    )


def _text_sums(names: list[str], blocks: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """What blocks of records add to the identity, as JSON: sums, the ends of each column's words,
    and the smallest words of records."""
    sums = [0] * _LANES
    records = 0
    columns = dict.fromkeys(names, 0)
    ends = dict.fromkeys(names, (2**64, -1))
    least = np.zeros(0, dtype=np.uint64)
    for chunk in blocks:
        if not chunk.num_rows:
            continue
        records += chunk.num_rows
        words = {name: _text_words(_column(chunk, name)) for name in names}
        for name, column in words.items():
            columns[name] = (columns[name] + _total(_mix(column))) % 2**64
            low, high = ends[name]
            ends[name] = min(low, int(column.min())), max(high, int(column.max()))
        for lane in range(_LANES):
            state = _chained(words, chunk.num_rows, lane)
            sums[lane] = (sums[lane] + _total(state)) % 2**64
            if lane == 0:
                small = state if len(least) < SKETCHED else state[state < least[-1]]
                least = np.unique(np.concatenate([least, small]))[:SKETCHED]
    summary = {
        "records": records,
        "sums": sums,
        "columns": [columns[name] for name in names],
        "ends": [[ends[name][side] for name in names] for side in (0, 1)],
        "least": least.tolist(),
    }
    yield json.dumps(summary).encode()


def fingerprint(table: ir.Table, batch: int = 100_000) -> str:
    """A hexadecimal digest of typed records as a multiset, as 0.1.0 knew them."""
    return fingerprints(table, batch)[0]


def fingerprints(table: ir.Table, batch: int = 100_000) -> tuple[str, str]:
    """Two digests of typed records in one pass: as a multiset, as 0.1.0 knew them, and with their
    types and their order; a table on a cluster has no order, and the second is of the types."""
    names = sorted(table.columns)
    sums = [0] * _LANES
    records = 0
    types = "\n".join(f"{name} {kind}" for name, kind in table.schema().items())
    ordered = ""
    for summary in summaries(table.select(names), partial(_typed_sums, names, types), batch):
        part = json.loads(summary)
        records += part["records"]
        sums = [(a + b) % 2**64 for a, b in zip(sums, part["sums"], strict=True)]
        ordered = part["ordered"]  # of all records, where they are in one part
    text = "\n".join([str(records), *map(str, sums), *names])
    multiset = hashlib.sha256(text.encode()).hexdigest()
    if on_cluster(table):
        ordered = hashlib.sha256(f"{types}\n{multiset}".encode()).hexdigest()
    return multiset, ordered


def _typed_sums(names: list[str], types: str, blocks: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    sums = [0] * _LANES
    records = 0
    ordered = hashlib.sha256(types.encode())
    for chunk in blocks:
        records += chunk.num_rows
        by_name = {name: _column_words(_column(chunk, name)) for name in names}
        for lane in range(_LANES):
            words = _chained(by_name, chunk.num_rows, lane)
            ordered.update(words.tobytes())
            sums[lane] = (sums[lane] + _total(words)) % 2**64
    summary = {"records": records, "sums": sums, "ordered": ordered.hexdigest()}
    yield json.dumps(summary).encode()


def _column(chunk: pa.RecordBatch, name: str) -> Any:
    return chunk.column(chunk.schema.get_field_index(name))


def _total(words: HashWords) -> int:
    return int(np.add.reduce(words, dtype=np.uint64))


def _chained(by_name: dict[str, HashWords], records: int, lane: int) -> HashWords:
    """One word for each record, from those of its values."""
    state = np.full(records, _seed("record", lane), dtype=np.uint64)
    for name, words in by_name.items():
        state = _mix(state ^ _mix(words ^ _seed(name, lane)))
    return state


def _text_words(values: Any) -> HashWords:
    """One 64-bit word per value of canonical text: texts that are numbers count as numbers."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.string())
    elif _numeric(kind):
        return _number_words(values.cast(pa.float64(), safe=False))
    values = pc.utf8_trim_whitespace(values.cast(pa.string()))
    values = pc.if_else(pc.is_in(values, value_set=pa.array(_MISSING)), None, values)
    is_number = pc.fill_null(pc.match_substring_regex(values, _NUMBER), False)
    plain = pc.if_else(is_number, pc.utf8_ltrim(values, "+"), None)
    return np.where(
        np.asarray(is_number),
        _number_words(plain.cast(pa.float64())),
        _column_words(_lower_truth(pc.if_else(is_number, None, values))),
    )


def _lower_truth(values: Any) -> Any:
    lower = pc.utf8_lower(values)
    truth = pc.is_in(lower, value_set=pa.array(["true", "false"]))
    return pc.if_else(truth, lower, values)


def _number_words(numbers: Any) -> HashWords:
    plain = np.asarray(pc.fill_null(numbers, np.nan), dtype=np.float64) + 0.0  # -0.0 is 0.0
    return np.where(np.isnan(plain), _NULL, plain.view(np.uint64))


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
