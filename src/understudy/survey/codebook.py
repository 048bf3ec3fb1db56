"""The codebook: what is public about each column before anyone looks at the records.

Bounds, levels, transforms and totals that a privacy claim rests on come from here, never
from the data. A fact that was drafted from the data is listed in the column's `drafted`
until the steward removes it from that list, and a formal claim refuses to rest on it.
"""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from understudy.errors import Refused, UnknownName

__public__ = ("Codebook", "Column", "read_codebook")

Role = Literal["public", "sensitive", "weight", "stratum", "psu", "fpc", "unit", "replicate"]
Type = Literal["categorical", "continuous", "integer", "text", "date"]
Value = str | int | float | bool

FACTS = ("role", "type", "levels", "bounds", "transform", "missing")


@dataclass(frozen=True)
class Column:
    """The public facts of one column."""

    name: str
    role: Role = "public"
    type: Type = "continuous"
    label: str = ""
    levels: tuple[Value, ...] | None = None
    value_labels: Mapping[Value, str] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    transform: Literal["log"] | None = None
    missing: tuple[Value, ...] = ()
    drafted: frozenset[str] = frozenset()

    def declared(self, fact: str) -> bool:
        """Whether a fact stands here by declaration rather than drafted from the data."""
        return fact not in self.drafted and getattr(self, fact) not in (None, ())


@dataclass(frozen=True)
class Codebook:
    """Columns by name, the public totals of the population, and its structural zeros.

    `impossible` are conditions that no record can meet (`age < 15 and marital == "married"`):
    edit rules that are public, in the words of `tabulate`'s `where`.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    title: str = ""
    population_size: float | None = None
    population_by: Mapping[str, Mapping[Value, float]] = field(default_factory=dict)
    impossible: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise UnknownName("column in the codebook", name, self.columns)
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns.values())

    def with_column(self, column: Column) -> Codebook:
        return replace(self, columns={**self.columns, column.name: column})

    def only(self, names: list[str]) -> Codebook:
        """The same codebook for fewer columns."""
        return replace(self, columns={n: c for n, c in self.columns.items() if n in names})

    def not_declared(self, facts: Mapping[str, str]) -> list[str]:
        """Which of {column: fact} are missing or only drafted, as "column.fact"."""
        return [
            f"{name}.{fact}"
            for name, fact in facts.items()
            if name not in self or not self[name].declared(fact)
        ]


def read_codebook(path: str | Path) -> Codebook:
    """Read a codebook from TOML; every mistake names its place and the nearest right word."""
    path = Path(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise Refused(f"There is no codebook at `{path}`; check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise Refused(f"The codebook `{path.name}` cannot be read: {reason}.") from None
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"The codebook `{path.name}` is not valid TOML: {error}.") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, endless brackets
        raise Refused(f"The codebook `{path.name}` is not valid TOML.") from None
    return codebook_from_dict(document)


def codebook_from_dict(document: Mapping[str, Any]) -> Codebook:
    _known("key of the codebook", document, ("title", "population", "columns", "impossible"))
    population = _table(document.get("population", {}), "population")
    _known("key of [population]", population, ("size", "by"))
    size = population.get("size")
    if size is not None:
        size = _positive(size, "population.size")
    columns = {
        name: _column(name, _table(facts, f"columns.{name}"))
        for name, facts in _table(document.get("columns", {}), "columns").items()
    }
    totals: dict[str, dict[Value, float]] = {}
    for name, by_level in _table(population.get("by", {}), "population.by").items():
        if name not in columns:
            raise UnknownName("column under [population.by]", name, columns)
        levels = columns[name].levels or ()
        spelled = spelled_values(levels)
        totals[name] = {}
        for text, count in _table(by_level, f"population.by.{name}").items():
            level = read_key(text, spelled)
            if levels and level not in levels:
                raise UnknownName(f"level of `{name}` under [population.by]", text, spelled)
            totals[name][level] = _positive(count, f"population.by.{name}.{text}")
        sum_of_levels = math.fsum(totals[name].values())
        complete = set(totals[name]) == set(levels)
        if size is not None and complete and not math.isclose(sum_of_levels, size, rel_tol=1e-6):
            raise Refused(
                f"The totals under [population.by.{name}] add up to {sum_of_levels:.10g}, but "
                f"population.size is {size:.10g}; correct one of them."
            )
    impossible = _list(document.get("impossible", []), "impossible")
    if not all(isinstance(rule, str) and rule.strip() for rule in impossible):
        raise Refused(
            "`impossible` in the codebook must be a list of conditions, such as "
            "\"age < 15 and marital == 'married'\"."
        )
    return Codebook(columns, str(document.get("title", "")), size, totals, tuple(impossible))


def _column(name: str, facts: Mapping[str, Any]) -> Column:
    known = [f.name for f in fields(Column) if f.name != "name"]
    _known(f"key of [columns.{name}]", facts, known)
    role = facts.get("role", "public")
    if role not in get_args(Role):
        raise UnknownName(f"role of column `{name}`", role, get_args(Role))
    type_ = facts.get("type", "continuous")
    if type_ not in get_args(Type):
        raise UnknownName(f"type of column `{name}`", type_, get_args(Type))
    transform = facts.get("transform")
    if transform not in (None, "log"):
        raise UnknownName(f"transform of column `{name}`", transform, ["log"])
    drafted = frozenset(_list(facts.get("drafted", []), f"columns.{name}.drafted"))
    for fact in drafted:
        if fact not in FACTS:
            raise UnknownName(f"drafted fact of column `{name}`", str(fact), FACTS)
    levels = facts.get("levels")
    if levels is not None:
        levels = tuple(_list(levels, f"columns.{name}.levels"))
        if len(set(levels)) < len(levels) or not levels:
            raise Refused(f"The levels of column `{name}` must be a list without repeats.")
    missing = tuple(_list(facts.get("missing", []), f"columns.{name}.missing"))
    return Column(
        name=name,
        role=role,
        type=type_,
        label=str(facts.get("label", "")),
        levels=levels,
        value_labels=_value_labels(name, facts.get("value_labels", {}), (levels or ()) + missing),
        bounds=_bounds(name, facts.get("bounds"), transform),
        transform=transform,
        missing=missing,
        drafted=drafted,
    )


def _value_labels(name: str, labels: Any, values: tuple[Value, ...]) -> dict[Value, str]:
    """TOML keys are strings; give them back the type of the levels they name, or a number's."""
    table = _table(labels, f"columns.{name}.value_labels")
    spelled = spelled_values(values)
    return {read_key(text, spelled): str(label) for text, label in table.items()}


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


def _bounds(name: str, bounds: Any, transform: str | None) -> tuple[float, float] | None:
    if bounds is None:
        return None
    numbers = (
        isinstance(bounds, (list, tuple)) and len(bounds) == 2 and all(map(_is_number, bounds))
    )
    if not numbers or not bounds[0] < bounds[1]:
        raise Refused(f"The bounds of column `{name}` must be two finite numbers, low before high.")
    if transform == "log" and bounds[0] <= 0:
        raise Refused(
            f"Column `{name}` is modelled on the log scale, so its lower bound must be above 0."
        )
    return float(bounds[0]), float(bounds[1])


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max  # also false for NaN


def _positive(value: Any, place: str) -> float:
    if not _is_number(value) or value <= 0:
        raise Refused(f"`{place}` in the codebook must be a number above 0.")
    return float(value)


def _table(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Refused(f"`{place}` in the codebook must be a table (a section with keys).")
    return value


def _list(value: Any, place: str) -> list[Any]:
    plain = isinstance(value, (list, tuple)) and all(
        isinstance(v, (str, int, float, bool)) and v == v  # NaN cannot be found again
        for v in value
    )
    if not plain:
        raise Refused(f"`{place}` in the codebook must be a list of texts, numbers or true/false.")
    return list(value)


def _known(kind: str, given: Mapping[str, Any], known: tuple[str, ...] | list[str]) -> None:
    for key in given:
        if key not in known:
            raise UnknownName(kind, key, known)
