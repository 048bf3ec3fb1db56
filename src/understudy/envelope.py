"""The envelope: all that leaves the inside of a release.

    claim.json   what is promised
    N.parquet    the synthesized columns of data set N: the mechanism's output
    draws.json   the parameters or noisy tables behind them, where the claim covers these
    tables.parquet  the tables, where these were corrected by noisy sums that the claim covers

Nothing else may be in it: a field that no proof covers is a leak (docs/proofs/published-bytes.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from understudy.claim import Claim
from understudy.errors import Refused

CLAIM, DRAWS, TABLES = "claim.json", "draws.json", "tables.parquet"


@dataclass(frozen=True, eq=False)
class Envelope:
    """The mechanism's output and its claim; every public byte is made from this, what is declared
    and the columns that were public before."""

    claim: Claim
    synthesized: tuple[pl.DataFrame, ...] = field(repr=False)  # of each data set
    draws: tuple[dict[str, Any], ...] = field(default=(), repr=False)  # empty: not covered
    tables: pl.DataFrame | None = field(default=None, repr=False)  # None: follow from the files

    def write(self, folder: Path) -> None:
        """Into a new folder."""
        folder.mkdir()
        (folder / CLAIM).write_text(self.claim.to_json() + "\n", encoding="utf-8")
        for number, frame in enumerate(self.synthesized, start=1):
            frame.write_parquet(folder / f"{number}.parquet", statistics=False)
        if self.draws:
            text = json.dumps({"draws": [plain_draw(d) for d in self.draws]}, allow_nan=False)
            (folder / DRAWS).write_text(text + "\n", encoding="utf-8")
        if self.tables is not None:
            self.tables.write_parquet(folder / TABLES, statistics=False)


def open_envelope(folder: Path) -> Envelope:
    """The envelope in a folder; refused where anything else lies in it."""
    names = {path.name for path in folder.iterdir()}
    numbers = range(1, len(names - {CLAIM, DRAWS, TABLES}) + 1)
    frames = [f"{number}.parquet" for number in numbers]
    if not frames or names - {DRAWS, TABLES} != {CLAIM, *frames}:
        raise Refused("The envelope holds something that no claim covers; nothing is published.")
    draws = ()
    if DRAWS in names:
        draws = tuple(json.loads((folder / DRAWS).read_text(encoding="utf-8"))["draws"])
    claim = Claim.from_json((folder / CLAIM).read_text(encoding="utf-8"))
    files = tuple(pl.read_parquet(folder / name) for name in frames)
    tables = pl.read_parquet(folder / TABLES) if TABLES in names else None
    return Envelope(claim, files, draws, tables)


def plain_draw(value: Any) -> Any:
    """Arrays and numbers of a draw as JSON values."""
    if isinstance(value, dict):
        return {name: plain_draw(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_draw(inner) for inner in value]
    if isinstance(value, (str, int, float)) or value is None:
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise Refused("A released draw holds something that is not a number; it cannot be written.")
    return array.tolist()
