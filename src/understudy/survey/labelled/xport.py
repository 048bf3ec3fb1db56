"""What pyreadstat does not tell about a SAS transport file: special missing values, and
whether its last record is whole.

Layout (SAS technical support paper TS-140): records of 80 bytes; one NAMESTR of 140 bytes per
variable with its type, length and position; then the observations, padded with blanks. A
missing number is the byte `.`, `_` or A to Z followed by zeros.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from understudy.errors import Refused
from understudy.survey.labelled.missing_tags import tag_code

RECORD, NAMESTR = 80, 140
_TAG_BYTES = b"_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# The code of each first byte, 0 for a byte that is not a tag.
_CODE_OF_BYTE = np.zeros(256, dtype=np.int64)
for _byte in _TAG_BYTES:
    _CODE_OF_BYTE[_byte] = tag_code(chr(_byte))


@dataclass(frozen=True)
class XportLayout:
    """Where the observations of a transport file are, and its numeric variables."""

    path: Path
    start: int
    row_length: int
    numeric: dict[int, tuple[int, int]]  # number of the variable: (offset, length)

    def tags(self, first: int, count: int) -> dict[int, npt.NDArray[np.int64]]:
        """For each numeric variable with special missing values in these rows: their codes.

        An array has the shape (count,), with 0 where the value is not a special missing one.
        """
        start = self.start + first * self.row_length
        rows = np.memmap(
            self.path, dtype=np.uint8, mode="r", offset=start, shape=(count, self.row_length)
        )
        tagged = {}
        for variable, (offset, length) in self.numeric.items():
            codes = _CODE_OF_BYTE[rows[:, offset]]
            if codes.any():
                codes[rows[:, offset + 1 : offset + length].any(axis=1)] = 0
                if codes.any():
                    tagged[variable] = codes
        return tagged

    def check_whole(self, rows: int) -> None:
        """Refuse a file that was cut: after the last row only blanks may follow."""
        end = self.start + rows * self.row_length
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            file.seek(end)
            rest = file.read(self.row_length)
        if size % RECORD or rest.strip(b" "):
            raise Refused(
                f"`{self.path.name}` ends in the middle of a record; it was not copied completely."
            )


def xport_layout(path: Path) -> XportLayout:
    """Read the header of a transport file, version 5 or 8."""
    with path.open("rb") as file:
        header = file.read(16 * 1024 * 1024)
    names = re.search(rb"HEADER RECORD\*{7}NAM(?:ESTR|STV8) HEADER RECORD!{7}(\d{10})", header)
    observations = re.search(rb"HEADER RECORD\*{7}OBS(?:  |V8)   HEADER RECORD!{7}", header)
    if names is None or observations is None or observations.start() % RECORD:
        raise Refused(f"`{path.name}` is not a SAS transport file, or it is damaged.")
    count = int(names[1])
    if names.start() + RECORD + count * NAMESTR > observations.start():
        raise Refused(f"`{path.name}` is not a SAS transport file, or it is damaged.")
    numeric, row_length = {}, 0
    for variable in range(count):
        start = names.start() + RECORD + variable * NAMESTR
        facts = header[start : start + NAMESTR]
        type_, length = int.from_bytes(facts[0:2], "big"), int.from_bytes(facts[4:6], "big")
        position = int.from_bytes(facts[84:88], "big")
        row_length = max(row_length, position + length)
        if type_ == 1:
            numeric[variable] = (position, length)
    if row_length == 0:
        raise Refused(f"`{path.name}` has no variables, or it is damaged.")
    return XportLayout(path, observations.start() + RECORD, row_length, numeric)
