"""The codebook: what is public about each column before anyone looks at the records.

Bounds, levels, transforms and totals that a privacy claim rests on come from here, never
from the data. A fact that was drafted from the data is listed in the column's `drafted`
until the steward removes it from that list, and a formal claim refuses to rest on it.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from understudy.errors import Refused, UnknownName
from understudy.survey.misfit import Misfit
from understudy.toml_mistakes import (
    Mistake,
    TomlRefused,
    line_at,
    lines_of,
    parse_toml,
    read_toml_text,
)

__public__ = ("Codebook", "Column", "read_codebook")

Role = Literal["public", "sensitive", "weight", "stratum", "psu", "fpc", "unit", "replicate"]
Type = Literal["categorical", "continuous", "integer", "text", "date"]
Transform = Literal["log"]
CellFact = Literal[  # what cells.py makes a column's cells of
    "type", "levels", "bounds", "missing", "blanks", "grid", "special", "rounding"
]
Fact = Literal["role", "transform", CellFact]  # may be drafted
CellGrid = Literal["linear", "log"] | tuple[float, ...]
Value = str | int | float | bool

FACTS: tuple[str, ...] = ("role", *get_args(CellFact), "transform")
GRIDS = ("linear", "log")
EPOCH = datetime.date(1970, 1, 1)  # bounds of dates are days since then
CELL_FACTS: tuple[str, ...] = get_args(CellFact)


@dataclass(frozen=True)
class Column:
    """The public facts of one column.

    `grid`, `special` and `rounding` say into which cells a number is counted (cells.py): evenly
    wide ones, ones of equal ratio or between given edges; values with a cell of their own (0, the
    topcode); the steps that published numbers stand on. `blanks`: whether a value may be empty;
    None where nothing is said. `applies_when`: a condition in the words of `where`; a record that
    does not meet it holds `skip` (empty when None). `derived`: a formula of other columns; such a
    column is computed and never drawn. `typical` and `spread` are a public guess of the middle
    value and of the standard deviation, where a model without a past file starts; never drafted.
    """

    name: str
    role: Role = "public"
    type: Type = "continuous"
    label: str = ""
    levels: tuple[Value, ...] | None = None
    value_labels: Mapping[Value, str] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    transform: Transform | None = None
    missing: tuple[Value, ...] = ()
    drafted: frozenset[str] = frozenset()
    blanks: bool | None = None
    grid: CellGrid | None = None
    special: tuple[float, ...] = ()
    rounding: float | None = None
    applies_when: str = ""
    skip: Value | None = None
    derived: str = ""
    typical: float | None = None
    spread: float | None = None

    def declared(self, fact: str) -> bool:
        """Whether a fact was declared rather than drafted from the data."""
        return fact not in self.drafted and getattr(self, fact) not in (None, ())

    def without_drafted(self) -> Column:
        """The column without levels, bounds and other values that were drafted from the records."""
        drafted = self.drafted & {"levels", "bounds", "missing", "grid", "special", "rounding"}
        cleared: dict[str, Any] = {
            fact: () if fact in ("missing", "special") else None for fact in drafted
        }
        return replace(self, **cleared)

    @property
    def drafted_cells(self) -> tuple[str, ...]:
        """The facts that its cells rest on (cells.py) and that were only drafted from the data."""
        return tuple(fact for fact in CELL_FACTS if fact in self.drafted)


@dataclass(frozen=True)
class Codebook:
    """Columns by name, the public totals of the population, and the rules between columns.

    The totals are those of the records that meet `population_where` ("all" for every record); where
    it is empty, of the records that a release uses, which is checked. `impossible` are
    conditions that no record can meet (`age < 15 and marital == "married"`): edit rules that are
    public, in the words of `tabulate`'s `where`. `order` are comparisons between numbers that every
    record meets (`wages <= income`). `design_effect` is how much larger the variance of an estimate
    is because of clusters that the design does not name, as that of a synthetic file,
    `design_effects` those of single columns, and `psu_records` the records of a cluster; `misfit`,
    which a release of whole files writes, is what its fit adds to it.

    `unit` names the column that says which records belong to one unit (a household); where it is
    empty, that is the column with the declared role `unit`, if there is one. Claims are then for
    the unit as a whole. No unit has more than `records_per_unit` records in a table of counts.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    title: str = ""
    population_size: float | None = None
    population_by: Mapping[str, Mapping[Value, float]] = field(default_factory=dict)
    impossible: tuple[str, ...] = ()
    population_where: str = ""
    unit: str = ""
    records_per_unit: int | None = None
    order: tuple[str, ...] = ()
    design_effect: float | None = None
    misfit: Misfit | None = None
    design_effects: Mapping[str, float] = field(default_factory=dict)
    psu_records: float | None = None

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise UnknownName("column in the codebook", name, self.columns)
        return self.columns[name]

    def label(self, name: str) -> str:
        """The label of a column, or its name where it has none."""
        return (self[name].label if name in self else "") or name

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns.values())

    @property
    def unit_column(self) -> str | None:
        """The column of the unit that claims are for; None where each record is a unit."""
        if self.unit:
            return self.unit
        units = [c.name for c in self if c.role == "unit" and c.declared("role")]
        if len(units) > 1:
            names = " and ".join(f"`{name}`" for name in units)
            raise Refused(
                f"The codebook has two unit columns, {names}; name the one that claims are for "
                "with `unit`."
            )
        return units[0] if units else None

    def with_column(self, column: Column) -> Codebook:
        return replace(self, columns={**self.columns, column.name: column})

    def only(self, names: list[str]) -> Codebook:
        """The same codebook for fewer columns; the unit is still known by its name."""
        columns = {n: c for n, c in self.columns.items() if n in names}
        effects = {n: effect for n, effect in self.design_effects.items() if n in names}
        unit = self.unit_column or ""
        return replace(self, columns=columns, design_effects=effects, unit=unit)

    def without_unit(self) -> Codebook:
        """The codebook of records that no longer say which unit they belong to."""
        columns = {n: c for n, c in self.columns.items() if n != self.unit_column}
        return replace(self, columns=columns, unit="", records_per_unit=None)

    def for_domain(self, where: str | None) -> Codebook:
        """The codebook of the records that meet a condition: without totals of other records."""
        asked, declared = (where or "all").split(), self.population_where.split()
        if declared in ([], asked):
            return self
        return replace(self, population_size=None, population_by={}, population_where="")

    def not_declared(self, facts: Mapping[str, str]) -> list[str]:
        """Which of {column: fact} are missing or only drafted, as "column.fact"."""
        return [
            f"{name}.{fact}"
            for name, fact in facts.items()
            if name not in self or not self[name].declared(fact)
        ]


def read_codebook(path: str | Path) -> Codebook:
    """Read a codebook from TOML; every mistake is named at once, by its line."""
    path = Path(path)
    return parse_codebook(read_toml_text(path, "codebook"), path.name)


def parse_codebook(text: str, name: str = "codebook.toml") -> Codebook:
    """A codebook from its text; `name` is what mistakes are reported under."""
    from understudy.survey.codebook_check import checked_codebook

    codebook, mistakes = checked_codebook(parse_toml(text, name))
    if mistakes:
        lines = lines_of(text)
        raise TomlRefused(
            name, [Mistake(line_at(lines, location), message) for location, message in mistakes]
        )
    return codebook


def spelled_values(values: Iterable[Value]) -> dict[str, Value]:
    return {str(value): value for value in values}


def read_key(key: str, spelled: Mapping[str, Value]) -> Value:
    """What a TOML key spells: a text in quotes of its own, a known value, a number, a text."""
    if len(key) > 1 and key[0] == key[-1] == '"':
        return key[1:-1]
    if key in spelled:
        return spelled[key]
    if key in ("True", "False"):
        return key == "True"
    for kind in (int, float):
        try:
            number = kind(key)
        except ValueError:
            continue
        if str(number) == key:  # 01 is a text
            return number
    return key
