"""The codebook's rules kept in synthetic records: no impossible combination, no broken order, no
answer to a question that does not apply, and derived columns that follow their formula.

All of it is post-processing of drawn records by public facts. A record that breaks a rule is
repaired in three steps, each only where the one before found nothing:

1. its columns are drawn again within their own (coarse) cells, from the released fine shares;
2. one column takes the value of another record, the others stay;
3. all columns that rules connect are copied from a record that breaks none.

Records are seen as analyses see them: a missing code is a missing value, and breaks no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.survey.cells import ColumnCells
from understudy.survey.codebook import Codebook, Column
from understudy.tables.derived import computed_columns, parse_formula
from understudy.tables.domain import named_columns, parse_broken, parse_domain
from understudy.tables.ruled_file import RuleEffects, TableNames

Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]
Evaluated = Callable[[ir.Table], Any]
CANDIDATES = 40  # values that are tried for a record at once
ROW = "row_number_"


def apply_rules(
    frame: pl.DataFrame,
    codebook: Codebook,
    cells: Mapping[str, ColumnCells],
    rng: np.random.Generator,
    *,
    kept: Collection[str] = (),
    coarse: Mapping[str, NDArray[Any]] | None = None,
    shares: Mapping[str, NDArray[np.float64]] | None = None,
    measured: Sequence[TableNames] = (),
) -> tuple[pl.DataFrame, RuleEffects]:
    """The records without a broken rule, and what that took.

    `cells` are those of the drawn columns. `kept` columns are not changed. `coarse` gives the
    coarse cell of each fine one, within which a value may be drawn again (its fine cell without
    it), and `shares` the fine cells' shares. `measured` are tables of coarse cells, of which it is
    told how far the rules move them.
    """
    rules = Rules(codebook, tuple(frame.columns))
    if not rules.any:
        return frame, RuleEffects({}, 0, {}, frame.height)
    before = rules.completed(frame, derive_only=True)
    broken = rules.broken(before)
    counts = {rule: int(flags.sum()) for rule, flags in broken.items()}
    after = rules.completed(before)
    bad = _any(rules.broken(after), after.height)
    redraw = _Redraw(cells, coarse or {}, shares or {}, rng)
    if bad.any():
        after = _repaired(after, bad, rules, redraw, set(kept), rng)
    differs = (
        pl.DataFrame([before[name].ne_missing(after[name]) for name in rules.columns])
        .select(pl.any_horizontal(pl.all()))
        .to_series()
    )
    named = [name for name in rules.columns if name in cells]
    shifts: dict[TableNames, Counts] = {}
    for name in named:
        shifts[(name,)] = _fine_table(cells[name], after) - _fine_table(cells[name], before)
    for names in measured:
        if not set(named).isdisjoint(names):
            tables = [_coarse_table(names, cells, coarse or {}, f) for f in (before, after)]
            shifts[names] = tables[1] - tables[0]
    return after, RuleEffects(counts, int(differs.sum()), shifts, after.height)


def rules_within(codebook: Codebook, columns: Collection[str]) -> Codebook:
    """The codebook with the rules over these columns alone, for files without the others; refused
    where a rule names a column that the codebook does not know. A question whose condition cannot
    be seen any more is empty, or holds its `skip`, wherever it was not put."""
    derived = computed_columns(codebook, columns)

    def stays(rule: str) -> bool:
        named = named_columns(rule)
        for name in sorted(named - codebook.columns.keys()):
            raise UnknownName("column in a rule of the codebook", name, codebook.columns)
        return named <= {*columns, *derived}

    for column in codebook:
        if column.derived:
            stays(column.derived)
    blind = [c for c in codebook if c.applies_when and not stays(c.applies_when)]
    kept = dict(codebook.columns)
    for column in blind:
        blanks = True if column.skip is None else column.blanks
        kept[column.name] = replace(column, applies_when="", blanks=blanks)
    impossible, order = (
        tuple(filter(stays, rules)) for rules in (codebook.impossible, codebook.order)
    )
    return replace(codebook, columns=kept, impossible=impossible, order=order)


class Rules:
    """The codebook's rules over these columns; a rule that names another column says nothing."""

    def __init__(self, codebook: Codebook, columns: tuple[str, ...]) -> None:
        self.codebook = codebook
        self._present = set(columns)
        self.impossible = [rule for rule in codebook.impossible if self._applies(rule)]
        self.order = [rule for rule in codebook.order if self._applies(rule)]
        self.skips = [c for c in codebook if c.name in columns and c.applies_when]
        self.skips = [c for c in self.skips if not c.derived and self._applies(c.applies_when)]
        self.derived = [c for c in codebook if c.derived and self._applies(c.derived)]

    def _applies(self, rule: str) -> bool:
        names = named_columns(rule)
        derived = {column.name for column in self.codebook if column.derived}
        unknown = names - self._present - derived - set(self.codebook.columns)
        # `parse_domain` says what is wrong with a name that nobody knows
        return bool(unknown) or names <= self._present | derived

    @property
    def any(self) -> bool:
        return bool(self.impossible or self.order or self.skips or self.derived)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns that a rule names, in the codebook's order."""
        named = set().union(*(names for names in self._connected))
        return tuple(name for name in self.codebook.columns if name in named)

    @cached_property
    def _connected(self) -> list[set[str]]:
        texts = [named_columns(rule) for rule in (*self.impossible, *self.order)]
        texts += [{c.name, *named_columns(c.applies_when)} for c in self.skips]
        texts += [{c.name, *named_columns(c.derived)} for c in self.derived]
        return texts

    @cached_property
    def groups(self) -> list[tuple[str, ...]]:
        """Columns that rules connect, one group after the other."""
        groups: list[set[str]] = []
        for names in self._connected:
            touching = [group for group in groups if group & names]
            groups = [group for group in groups if not group & names]
            groups.append(set(names).union(*touching))
        return [tuple(n for n in self.columns if n in group) for group in groups]

    @cached_property
    def _levels(self) -> list[list[Column]]:
        """Computed columns and skips, those that others depend on first."""
        waiting = {c.name: c for c in (*self.derived, *self.skips)}
        levels = []
        while waiting:
            ready = [
                column
                for column in waiting.values()
                if not named_columns(column.derived or column.applies_when)
                & (waiting.keys() - ({column.name} if not column.derived else set()))
            ]
            if not ready:
                circle = ", ".join(f"`{name}`" for name in waiting)
                raise Refused(
                    f"The formulas and conditions of {circle} in the codebook depend on each other "
                    "in a circle; remove one of them."
                )
            levels.append(ready)
            waiting = {name: c for name, c in waiting.items() if c not in ready}
        return levels

    def completed(self, frame: pl.DataFrame, derive_only: bool = False) -> pl.DataFrame:
        """With derived columns computed, and the skip's value where a question does not apply."""
        for level in self._levels:
            chosen = [column for column in level if column.derived or not derive_only]
            made = self._evaluated(frame, {c.name: partial(_new_value, c) for c in chosen})
            for column in chosen:
                values = made[column.name]
                if column.derived:
                    frame = frame.with_columns(_declared_type(values, column))
                else:
                    skip = pl.lit(column.skip, dtype=frame.schema[column.name])
                    stay = pl.when(values.fill_null(False)).then(pl.col(column.name))
                    frame = frame.with_columns(stay.otherwise(skip).alias(column.name))
        return frame

    def broken(self, frame: pl.DataFrame) -> dict[str, Flags]:
        """Which records break each rule."""
        tests: dict[str, Evaluated] = {
            rule: partial(parse_domain, rule) for rule in self.impossible
        }
        tests |= {rule: partial(parse_broken, rule) for rule in self.order}
        for column in self.skips:
            tests[f"{column.name} applies when {column.applies_when}"] = partial(
                parse_domain, column.applies_when
            )
        for column in self.derived:
            if column.bounds is not None and column.type != "date":
                tests[f"{column.name} within its bounds"] = partial(_outside, column)
        made = self._evaluated(frame, tests)
        flags = {rule: made[rule].fill_null(False).to_numpy() for rule in tests}
        for column in self.skips:
            rule = f"{column.name} applies when {column.applies_when}"
            values = frame[column.name]
            empty = values.is_null() if column.skip is None else values.eq_missing(column.skip)
            skipped = empty.to_numpy()
            must_answer = column.skip is not None or column.blanks is not True
            flags[rule] = (~flags[rule] & ~skipped) | (flags[rule] & skipped & must_answer)
        return flags

    def _evaluated(self, frame: pl.DataFrame, made: Mapping[str, Evaluated]) -> pl.DataFrame:
        """New columns from functions of the records as analyses see them."""
        if not made:
            return pl.DataFrame()
        seen = [name for name in frame.columns if name in self.columns]
        views = [_seen(frame[name], self.codebook[name]) for name in seen]
        table = ibis.memtable(pl.DataFrame(views).with_row_index(ROW))
        numbered = {f"made_{k}": make(table) for k, make in enumerate(made.values())}
        out: pl.DataFrame = table.select(ROW, **numbered).to_polars().sort(ROW)
        return out.drop(ROW).rename({f"made_{k}": name for k, name in enumerate(made)})


def _seen(values: pl.Series, column: Column) -> pl.Series:
    """The values with missing codes as null."""
    codes = [*column.missing, *(() if column.skip is None else (column.skip,))]
    codes = [code for code in codes if isinstance(code, str) == (values.dtype == pl.String)]
    if not codes or values.dtype.is_temporal():
        return values
    return pl.select(pl.when(~values.is_in(codes)).then(values).alias(values.name)).to_series()


def _new_value(column: Column, table: ir.Table) -> Any:
    if column.derived:
        return parse_formula(column.derived, table)
    return parse_domain(column.applies_when, table)


def _outside(column: Column, table: ir.Table) -> Any:
    assert column.bounds is not None
    return ~table[column.name].between(*column.bounds)


def _declared_type(values: pl.Series, column: Column) -> pl.Series:
    values = values.alias(column.name)
    if not values.dtype.is_numeric():
        return values
    if column.rounding is not None:
        values = (values / column.rounding).round() * column.rounding
    if column.type == "integer" or (column.levels and isinstance(column.levels[0], int)):
        return values.round().cast(pl.Int64)
    return values.cast(pl.Float64)


@dataclass(frozen=True, eq=False)
class _Redraw:
    """New values within the coarse cells that records are in."""

    cells: Mapping[str, ColumnCells]
    coarse: Mapping[str, NDArray[Any]]
    shares: Mapping[str, NDArray[np.float64]]
    rng: np.random.Generator

    def within(self, values: pl.Series) -> pl.Series:
        inside = self.cells[values.name]
        codes = inside.codes(values)
        if values.name in self.coarse:
            groups = np.asarray(self.coarse[values.name])
            shares = np.asarray(self.shares.get(values.name, np.ones(inside.size)), dtype=float)
            codes = _fine(codes, groups, shares, self.rng)
        return inside.values(codes, self.rng).cast(values.dtype)


def _fine(
    codes: NDArray[Any], groups: NDArray[Any], shares: NDArray[np.float64], rng: Any
) -> NDArray[Any]:
    """A fine cell of the same group for each, in proportion to the shares."""
    order = np.argsort(groups, kind="stable")
    heights = np.cumsum(shares[order])
    first = np.searchsorted(groups[order], groups[codes], side="left")
    last = np.searchsorted(groups[order], groups[codes], side="right") - 1
    start = np.where(first > 0, heights[first - 1], 0.0)
    height = start + rng.random(len(codes)) * (heights[last] - start)
    position = np.clip(np.searchsorted(heights, height, side="right"), first, last)
    drawn = order[position]
    return np.where(heights[last] > start, drawn, codes)


def _repaired(
    frame: pl.DataFrame,
    bad: Flags,
    rules: Rules,
    redraw: _Redraw,
    kept: set[str],
    rng: np.random.Generator,
) -> pl.DataFrame:
    computed = {column.name for column in rules.derived}
    free = [n for n in rules.columns if n in redraw.cells and n not in kept | computed]
    for name in (None, *reversed(free)):  # all within their cells, then one from anywhere
        rows = np.flatnonzero(bad)
        if not len(rows):
            return frame
        tried = frame[np.repeat(rows, CANDIDATES)]
        if name is None:
            tried = tried.with_columns([redraw.within(tried[column]) for column in free])
        else:
            tried = tried.with_columns(frame[name].gather(_donors(bad, tried.height, rng)))
        tried = rules.completed(tried)
        fine = ~_any(rules.broken(tried), tried.height).reshape(-1, CANDIDATES)
        works = fine.any(axis=1)
        chosen = np.flatnonzero(works) * CANDIDATES + fine.argmax(axis=1)[works]
        frame = _placed(frame, rows[works], tried[chosen])
        bad[rows[works]] = False
    return _copied(frame, bad, rules, kept, rng)


def _donors(bad: Flags, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Records that break no rule."""
    good = np.flatnonzero(~bad)
    if not len(good):
        raise Refused(
            "No drawn record keeps the codebook's rules; check that they do not contradict each "
            "other or the columns' bounds."
        )
    return rng.choice(good, count)


def _copied(
    frame: pl.DataFrame,
    bad: Flags,
    rules: Rules,
    kept: set[str],
    rng: np.random.Generator,
) -> pl.DataFrame:
    """All connected columns from a good record, one with the same kept values."""
    good = np.flatnonzero(~bad)
    for row in np.flatnonzero(bad):
        for group in rules.groups:
            donors = good
            for name in kept & set(group):
                same = frame[name].eq_missing(frame[name][int(row)]).to_numpy()
                donors = donors[same[donors]]
            if not len(donors):
                raise Refused(
                    "A kept record breaks the codebook's rules whatever is drawn for it; correct "
                    "the rules, or do not keep the columns "
                    f"{', '.join(f'`{name}`' for name in sorted(kept & set(group)))}."
                )
            donor = frame[[int(rng.choice(donors))]].select(group)
            rest = frame[[int(row)]].drop(group)
            whole = pl.concat([rest, donor], how="horizontal").select(frame.columns)
            frame = _placed(frame, np.array([row]), whole)
    return frame


def _placed(frame: pl.DataFrame, rows: NDArray[np.int64], new: pl.DataFrame) -> pl.DataFrame:
    if not len(rows):
        return frame
    row = np.arange(frame.height)
    row[rows] = frame.height + np.arange(len(rows))
    return pl.concat([frame, new.select(frame.columns)])[row]


def _any(broken: Mapping[str, Flags], height: int) -> Flags:
    return reduce(or_, broken.values(), np.zeros(height, dtype=bool))


def _fine_table(cells: ColumnCells, frame: pl.DataFrame) -> Counts:
    return np.bincount(cells.codes(frame[cells.name]), minlength=cells.size)


def _coarse_table(
    names: TableNames,
    cells: Mapping[str, ColumnCells],
    coarse: Mapping[str, NDArray[Any]],
    frame: pl.DataFrame,
) -> Counts:
    maps = [np.asarray(coarse.get(name, np.arange(cells[name].size))) for name in names]
    shape = [int(mapped.max()) + 1 for mapped in maps]
    codes = [m[cells[name].codes(frame[name])] for name, m in zip(names, maps, strict=True)]
    return np.bincount(np.ravel_multi_index(codes, shape), minlength=int(np.prod(shape)))
