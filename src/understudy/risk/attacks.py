"""Three attacks on synthetic files, each with a control set of records that were not used.

An attacker who holds the synthetic files succeeds now and then by what is true of everyone; a file
gives its own records away only as far as he succeeds more often with them than with as many records
of the same kind that the synthesis never saw. With success shares p (records that were used) and c
(control),

    risk = (p - c) / (1 - c)

p and c are Wilson's centres (s + z^2/2)/(k + z^2) of s successes in k attempts, and the interval of
the risk is that of their difference by linear propagation, z = 1.96.

- *singling out*: a condition on a few columns that exactly one synthetic record meets (an amount
  at most, or at least, its own value; a category equal to its own); it succeeds where exactly one
  record meets it.
- *linkability*: half of the columns are known of a person and the other half of somebody; both are
  looked up among the synthetic records. It succeeds where the two have a nearest record in common.
- *inference*: the value of one column is guessed to be that of the synthetic record that is nearest
  in all others; right if equal, or within a twentieth where it is an amount.

Nearest: columns that differ, amounts as a share of their range (Gower 1971).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused

Floats = NDArray[np.float64]

ATTEMPTS = 500  # of each attack, on either side
SYNTHETIC = 10_000  # records that are searched at most
CONDITION = 3  # columns in a condition that singles out
TRIES = 20  # conditions that are tried for one that singles out a synthetic record
NEIGHBOURS = 3  # nearest records that count as a link
TOLERANCE = 0.05  # of an amount that is guessed
Z = 1.959963984540054
BLOCK = 64  # records that are compared with all synthetic ones at once


@dataclass(frozen=True)
class Attack:
    """Attempts on either side and how many succeeded."""

    name: str
    target: str  # of an inference
    attempts: int
    successes: int
    control_attempts: int
    control_successes: int

    @property
    def rate(self) -> float:
        return wilson(self.successes, self.attempts)[0]

    @property
    def control_rate(self) -> float:
        return wilson(self.control_successes, self.control_attempts)[0]

    @property
    def risk(self) -> float:
        return (self.rate - self.control_rate) / (1 - self.control_rate)

    @property
    def limits(self) -> tuple[float, float]:
        """95 % interval of the risk, within [0, 1]."""
        p, error = wilson(self.successes, self.attempts)
        c, other = wilson(self.control_successes, self.control_attempts)
        half = math.hypot(error / (1 - c), other * (p - 1) / (1 - c) ** 2)
        return max(0.0, self.risk - half), min(1.0, max(0.0, self.risk + half))


@dataclass(frozen=True)
class Rehearsal:
    """Attacks on files that were made from half of the records, and how many that half had."""

    records: int
    attacks: list[Attack]


def wilson(successes: int, attempts: int) -> tuple[float, float]:
    """Centre and half width of Wilson's 95 % interval."""
    total = attempts + Z**2
    spread = successes * (attempts - successes) / max(attempts, 1) + Z**2 / 4
    return (successes + Z**2 / 2) / total, Z / total * math.sqrt(spread)


def attack(
    used: pl.DataFrame,
    control: pl.DataFrame,
    synthetic: pl.DataFrame,
    rng: np.random.Generator,
    attempts: int = ATTEMPTS,
) -> list[Attack]:
    """All three attacks; an inference for every column. `used` and `control` have the same number
    of records: singling out depends on it."""
    if used.height != control.height:
        raise Refused("Used records and control must be equally many: take halves of a file.")
    if synthetic.width < 2:
        raise Refused("An attack needs at least two columns; synthesize more of them.")
    if synthetic.height > SYNTHETIC:
        synthetic = synthetic[rng.choice(synthetic.height, SYNTHETIC, replace=False)]
    coded = _coded([used, control, synthetic])
    sides, made = coded[:2], coded[2]
    attempts = min(attempts, used.height)
    picked = [rng.choice(used.height, attempts, replace=False) for _ in sides]
    results = [_singling_out(sides, made, rng, attempts)]
    halves = np.array_split(rng.permutation(used.width), 2)

    def linked(side: Table, rows: NDArray[np.int64]) -> int:
        near = [made.nearest(side.rows(rows), half, NEIGHBOURS) for half in halves]
        return sum(len(np.intersect1d(a, b)) > 0 for a, b in zip(*near, strict=True))

    links = [linked(side, rows) for side, rows in zip(sides, picked, strict=True)]
    results.append(Attack("linkability", "", attempts, links[0], attempts, links[1]))
    guesses = [
        made.nearest_without_each(side.rows(rows)) for side, rows in zip(sides, picked, strict=True)
    ]
    for target, name in enumerate(used.columns):
        right = [
            int(made.agree(guess[target], side, rows, target).sum())
            for guess, side, rows in zip(guesses, sides, picked, strict=True)
        ]
        results.append(Attack("inference", name, attempts, right[0], attempts, right[1]))
    return results


@dataclass(frozen=True, eq=False)
class Table:
    """Records as numbers: codes of categories, amounts as shares of their range; -1 where an amount
    is missing."""

    values: Floats  # (records, columns)
    amounts: NDArray[np.bool_]  # (columns,)
    raw: Floats  # amounts as they are

    def rows(self, rows: NDArray[np.int64]) -> Floats:
        return self.values[rows]

    def nearest(self, wanted: Floats, columns: NDArray[np.int64], number: int) -> NDArray[np.intp]:
        """The nearest records in these columns, (wanted, number); ties by their order."""
        number = min(number, len(self.values))
        places = np.arange(len(self.values))
        blocks = []
        for block in _blocks(wanted):
            apart = self._apart(block, columns)
            bits = apart.view(np.int32).astype(np.int64)  # rise with numbers that are not negative
            nearest = np.partition((bits << 32) | places, number - 1, axis=1)[:, :number]
            blocks.append(np.sort(nearest, axis=1) & 0xFFFFFFFF)
        return np.concatenate(blocks)

    def nearest_without_each(self, wanted: Floats) -> NDArray[np.intp]:
        """For each column the nearest record in all others, (columns, wanted)."""
        columns = np.arange(self.values.shape[1])
        blocks = []
        for block in _blocks(wanted):
            whole = self._apart(block, columns)
            # differences far below the distance of two amounts are rounding
            near = [
                np.argmin(np.round(whole - self._apart(block, columns[j : j + 1]), 5), axis=1)
                for j in columns
            ]
            blocks.append(np.array(near))
        return np.concatenate(blocks, axis=1)

    def _apart(self, block: Floats, columns: NDArray[np.int64]) -> NDArray[np.float32]:
        apart = np.zeros((len(block), len(self.values)), dtype=np.float32)
        for j in columns:
            a, b = block[:, j, None], self.values[None, :, j]
            if self.amounts[j]:
                known = (a >= 0) & (b >= 0)
                apart += np.where(known, np.abs(a - b), a != b).astype(np.float32)
            else:
                apart += a != b
        return apart

    def agree(
        self, mine: NDArray[np.intp], other: Table, theirs: NDArray[np.int64], column: int
    ) -> NDArray[np.bool_]:
        """Whether a column of these records is that of the others, nearly where it is an amount."""
        a, b = self.raw[mine, column], other.raw[theirs, column]
        if not self.amounts[column]:
            return np.asarray(a == b)
        both = np.isnan(a) & np.isnan(b)
        return np.asarray(both | (np.abs(a - b) <= TOLERANCE * np.abs(b)))


def _coded(frames: Sequence[pl.DataFrame]) -> list[Table]:
    columns, raws, amounts = [], [], []
    for name in frames[0].columns:
        together = pl.concat([frame[name].cast(frames[0][name].dtype) for frame in frames])
        amount = together.dtype.is_numeric()
        if amount:
            raw = together.cast(pl.Float64).to_numpy()
            known = raw[~np.isnan(raw)]
            low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
            scaled = (raw - low) / (high - low) if high > low else np.zeros_like(raw)
            columns.append(np.where(np.isnan(raw), -1.0, scaled))
        else:
            texts = together.cast(pl.String).fill_null("")
            levels = pl.Enum(texts.unique().sort())
            raw = texts.cast(levels).to_physical().to_numpy().astype(np.float64) + 1
            columns.append(raw)
        raws.append(raw)
        amounts.append(amount)
    values, raw = np.column_stack(columns), np.column_stack(raws)
    ends = np.cumsum([frame.height for frame in frames])[:-1]
    return [
        Table(part, np.array(amounts), its_raw)
        for part, its_raw in zip(np.split(values, ends), np.split(raw, ends), strict=True)
    ]


def _blocks(wanted: Floats) -> Iterator[Floats]:
    return (wanted[start : start + BLOCK] for start in range(0, len(wanted), BLOCK))


def _singling_out(
    sides: Sequence[Table], made: Table, rng: np.random.Generator, attempts: int
) -> Attack:
    """Conditions that one synthetic record meets, and how often one record of a side does."""
    known = [values[values >= 0] for values in made.values.T]
    middle = np.array([np.median(values) if len(values) else np.nan for values in known])
    number = min(CONDITION, made.values.shape[1])
    counts = [0, 0]
    conditions = 0
    for _ in range(TRIES * attempts):
        if conditions == attempts:
            break
        record = made.values[rng.integers(len(made.values))]
        columns = rng.choice(made.values.shape[1], number, replace=False)
        if _meeting(made, record, columns, middle) != 1:
            continue
        conditions += 1
        for side, table in enumerate(sides):
            counts[side] += _meeting(table, record, columns, middle) == 1
    return Attack("singling out", "", conditions, counts[0], conditions, counts[1])


def _meeting(table: Table, record: Floats, columns: NDArray[np.int64], middle: Floats) -> int:
    """How many records meet the condition that a record's values make."""
    meets = np.ones(len(table.values), dtype=bool)
    for j in columns:
        values, own = table.values[:, j], record[j]
        if not table.amounts[j] or own < 0:
            meets &= values == own
        elif own > middle[j]:
            meets &= values >= own
        else:
            meets &= (values <= own) & (values >= 0)
    return int(meets.sum())
