"""The envelope: all that leaves the inside of a release.

    claim.json   what is promised
    draws.json   the mechanism's output: parameters, histograms or noisy tables, of each data set
    N.parquet    in its place, where nothing is claimed or the class says so: the rows of data set N
    corrections.json   where the table is corrected: noisy sums of influences, and their grid

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

CLAIM, DRAWS, CORRECTIONS = "claim.json", "draws.json", "corrections.json"

UNCOVERED = "The envelope holds something that no claim covers; nothing is published."


@dataclass(frozen=True)
class NoisySums:
    """Sums of clipped influences with noise, in steps of a grid that follows from the files."""

    sums: tuple[int, ...]
    steps: tuple[float, ...]  # how many make a unit of each estimate

    def write(self, envelope: Path) -> None:
        """Into the folder of an envelope, whose files they were made for."""
        values = {"sums": self.sums, "steps": self.steps}
        text = json.dumps(values, allow_nan=False) + "\n"
        (envelope / CORRECTIONS).write_text(text, encoding="utf-8")


@dataclass(frozen=True, eq=False)
class Envelope:
    """The mechanism's output and its claim; every public byte is made from this, what is declared
    and the columns that were public before. `output` says what the draws are (mechanisms/outputs);
    there are draws or rows, never both."""

    claim: Claim
    output: tuple[str, ...] = ()
    draws: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    rows: tuple[pl.DataFrame, ...] = field(default=(), repr=False)
    corrections: NoisySums | None = field(default=None, repr=False)

    def write(self, folder: Path) -> None:
        """Into a new folder."""
        folder.mkdir()
        (folder / CLAIM).write_text(self.claim.to_json() + "\n", encoding="utf-8")
        for number, frame in enumerate(self.rows, start=1):
            frame.write_parquet(folder / f"{number}.parquet", statistics=False)
        if not self.rows:
            draws = {"output": list(self.output), "draws": [plain_draw(d) for d in self.draws]}
            text = json.dumps(draws, allow_nan=False)
            (folder / DRAWS).write_text(text + "\n", encoding="utf-8")


def open_envelope(folder: Path) -> Envelope:
    """The envelope in a folder; refused where anything else lies in it."""
    names = {path.name for path in folder.iterdir()}
    claim = Claim.from_json((folder / CLAIM).read_text(encoding="utf-8"))
    corrections = None
    if CORRECTIONS in names:
        names.remove(CORRECTIONS)
        values = json.loads((folder / CORRECTIONS).read_text(encoding="utf-8"))
        if set(values) != {"sums", "steps"}:
            raise Refused(UNCOVERED)
        corrections = NoisySums(tuple(values["sums"]), tuple(values["steps"]))
    if names == {CLAIM, DRAWS}:
        noted = json.loads((folder / DRAWS).read_text(encoding="utf-8"))
        if set(noted) == {"output", "draws"}:
            output, draws = tuple(noted["output"]), tuple(noted["draws"])
            return Envelope(claim, output, draws, corrections=corrections)
    rows = [f"{number}.parquet" for number in range(1, len(names))]
    if not rows or names != {CLAIM, *rows}:
        raise Refused(UNCOVERED)
    frames = tuple(pl.read_parquet(folder / name) for name in rows)
    return Envelope(claim, rows=frames, corrections=corrections)


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
