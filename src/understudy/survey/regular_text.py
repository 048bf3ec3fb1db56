"""A CSV file in which no two parsers could see different fields, read by Arrow in one go.

DuckDB decides what a text file holds (text_records.py). Arrow reads one faster, but takes files
that DuckDB refuses; so it reads only those with one kind of line ending, quotes around whole
fields, and the same number of fields in every line. Likewise columns become numbers here only if
all of their fields are written plainly (-12, 0.5, 3e4). Everything else is left to DuckDB.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from itertools import islice
from math import isfinite
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

MOST_BYTES = 500_000_000  # of a file that is held in memory while it is read
MOST_BROKEN = 5  # columns that are tried as numbers in vain, each for one reading
BLOCK = 1 << 18  # octets that are looked at together, in the processor's cache
PARSED = 1 << 22  # octets that one thread parses at a time
UTF8_MARK = b"\xef\xbb\xbf"  # at the start of some files
QUOTE, MINUS, PLUS, POINT, ZERO, BLANK, TAB, LINE, RETURN = b'"-+.0 \t\n\r'

Octets = NDArray[np.uint8]


class RegularText:
    """The octets of such a file, which stay on disk."""

    def __init__(self, data: mmap, width: int, delimiter: str) -> None:
        self.data, self.width, self.delimiter = data, width, delimiter
        self.octets: Octets = np.frombuffer(data, dtype=np.uint8)
        self.quoted = data.find(b'"') >= 0

    @classmethod
    def of(cls, path: Path, width: int, delimiter: str) -> RegularText | None:
        """None if the file is large, or not regular as far as its lines and quotes show."""
        if width < 2 or path.stat().st_size > MOST_BYTES:  # an empty line may be one empty field
            return None
        with path.open("rb") as file:
            text = cls(mmap(file.fileno(), 0, access=ACCESS_READ), width, delimiter)
        return text if text._lines_agree() and text._quotes_agree() else None

    def _lines_agree(self) -> bool:
        """Whether all lines end alike, and no octet is 0."""
        if self.data.find(b"\0") >= 0:
            return False
        if self.data.find(b"\r") < 0:
            return True
        line, back = self.octets == LINE, self.octets == RETURN
        return bool(not line[0] and not back[-1] and (back[:-1] == line[1:]).all())

    def _quotes_agree(self) -> bool:
        """Whether quotes open where a field starts and close where it ends. In order, they open and
        close in turn; one inside a field is written twice, so that it closes and opens again."""
        if not self.quoted:
            return True
        quotes = np.flatnonzero(self.octets == QUOTE)
        if len(quotes) % 2 or np.searchsorted(quotes, self.data.find(b"\n")) % 2:
            return False
        opening, closing = quotes[::2], quotes[1::2]
        borders = np.array([ord(self.delimiter), LINE, RETURN], dtype=np.uint8)
        again = np.append(opening[1:] == closing[:-1] + 1, False)
        last = len(self.octets) - 1
        closed = again | (closing == last)
        closed |= np.isin(self.octets[np.minimum(closing + 1, last)], borders)
        opened = np.isin(self.octets[opening - 1], borders) | np.insert(again[:-1], 0, False)
        opened[0] |= opening[0] in (0, len(UTF8_MARK))
        return bool(opened.all() and closed.all())

    def first(self, count: int) -> list[list[str]] | None:
        """The fields of the first records; None where they are not as many as there are names."""
        self.data.seek(0)
        lines = (line.decode("utf-8") for line in iter(self.data.readline, b""))
        try:
            reader = csv.reader(lines, delimiter=self.delimiter)
            records = list(islice(filter(None, reader), 1, count + 1))  # without empty lines
        except (UnicodeDecodeError, csv.Error):
            return None
        return records if all(len(record) == self.width for record in records) else None

    def columns(
        self, numbers: Mapping[int, pa.DataType], missing: tuple[str, ...]
    ) -> pa.Table | None:
        """The fields as columns c0, c1, ...: texts, but for those of `numbers` that are plain ones
        throughout; null where a field says missing without quotes. None if the lines differ in
        their number of fields, or a number is too large."""
        zeros = self._zeros_in_front() if numbers else set()
        left = {i: kind for i, kind in numbers.items() if i not in zeros}
        while True:
            try:
                table = self._read(left, missing)
                break
            except pa.ArrowInvalid as error:
                broken = _broken_column(error)
                if not left:
                    return None
                further = len(numbers) - len(left) < MOST_BROKEN and broken in left
                left = {i: kind for i, kind in left.items() if i != broken} if further else {}
        decimals = (table.column(i) for i, kind in left.items() if kind == pa.float64())
        return table if all(isfinite(pc.sum(each).as_py()) for each in decimals) else None

    def _read(self, numbers: Mapping[int, pa.DataType], missing: tuple[str, ...]) -> pa.Table:
        named = {f"c{i}": numbers.get(i, pa.string()) for i in range(self.width)}
        return pa.csv.read_csv(
            pa.BufferReader(pa.py_buffer(self.data)),
            pa.csv.ReadOptions(column_names=list(named), skip_rows=1, block_size=PARSED),
            pa.csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=self.quoted,
            ),
            pa.csv.ConvertOptions(
                column_types=named,
                null_values=list(missing),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
            pa.system_memory_pool(),  # Arrow's own one gives back and takes memory all the time
        )

    def _zeros_in_front(self) -> set[int]:
        """Columns in which a field starts with a zero that a number would not have (007, 0x1F);
        all of them where quotes or empty lines hide which it is."""
        octets, delimiter = self.octets, ord(self.delimiter)
        in_blocks = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(octets), BLOCK):
            # two more: a zero is seen with its neighbours
            zeros = _zeros(octets[start : start + BLOCK + 2], delimiter)
            if zeros.any():
                in_blocks.append(start + 1 + np.flatnonzero(zeros))
        places = np.concatenate(in_blocks)
        signed = np.isin(octets[places - 1], (MINUS, PLUS))
        borders = np.array([delimiter, LINE, QUOTE, BLANK, TAB], dtype=np.uint8)
        places = places[np.isin(octets[places - 1 - signed], borders)]
        if not len(places):
            return set()
        if self.quoted or any(self.data.find(empty) >= 0 for empty in (b"\n\n", b"\n\r\n")):
            return set(range(self.width))
        ends = np.flatnonzero((octets == delimiter) | (octets == LINE))
        return set((np.searchsorted(ends, places) % self.width).tolist())


def _zeros(octets: Octets, delimiter: int) -> NDArray[np.bool_]:
    """Which octets but the first and the last are a zero at the start of something longer. Points
    and commas come before the digits, letters after them; a delimiter may be either."""
    before, after = octets[:-2], octets[2:]
    zeros = (octets[1:-1] == ZERO) & (after >= ZERO)
    if delimiter < POINT:
        return np.asarray(zeros & (before < POINT))
    return np.asarray(zeros & (after != delimiter) & ((before < POINT) | (before == delimiter)))


def _broken_column(error: pa.ArrowInvalid) -> int | None:
    """The column in which Arrow found something that is no number, by its message."""
    match = re.match(r"In CSV column #(\d+): CSV conversion error", str(error))
    return int(match[1]) if match else None
