"""A codebook as its file has it: checked by pydantic, every mistake noted in our words.

Columns and totals are checked one by one, so that a mistake in one hides none in another.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Gt
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import (
    EPOCH,
    GRIDS,
    Codebook,
    Column,
    Fact,
    Role,
    Transform,
    Type,
    Value,
    read_key,
    spelled_values,
)
from understudy.survey.misfit import KINDS, Misfit
from understudy.toml_mistakes import Location

Mistakes = list[tuple[Location, str]]

_TABLE = "must be a table (a section with keys)"
_LIST = "must be a list of strings, numbers or true/false"
_WANTED = {  # by pydantic's name of the mistake
    "dict_type": _TABLE,
    "model_type": _TABLE,
    "tuple_type": _LIST,
    "frozen_set_type": _LIST,
    "plain_value": _LIST,
}
_FACT_WANTED = {  # of a column
    "bounds": "two finite numbers, low before high",
    "grid": '"linear", "log" or a list of increasing edges',
    "special": "a list of finite numbers",
    "blanks": "true or false",
    "typical": "a finite number",
    "skip": "a string, a number or true/false",
    "applies_when": 'a condition, such as "age >= 16"',
    "derived": 'a formula of other columns, such as "wages + rents"',
}
_RULE_EXAMPLES = {
    "impossible": "\"age < 15 and marital == 'married'\"",
    "order": '"wages <= income"',
}
_CHOICES = {"role": Role, "type": Type, "transform": Transform, "drafted": Fact}


def _plain(value: Any) -> Any:
    if not isinstance(value, (str, int, float, bool)) or value != value:  # NaN is not itself
        raise PydanticCustomError("plain_value", "not a value")
    return value


def _different(levels: tuple[Value, ...]) -> tuple[Value, ...]:
    if len(set(levels)) < len(levels) or not levels:
        raise Refused("The levels of column `{column}` must be a list without repeats.")
    return levels


def _in_order(bounds: tuple[float, float], info: ValidationInfo) -> tuple[float, float]:
    if not bounds[0] < bounds[1]:
        raise PydanticCustomError("order", "not low before high")
    if info.data.get("transform") == "log" and bounds[0] <= 0:
        raise Refused(
            "Column `{column}` is modelled on the log scale, so its lower bound must be above 0."
        )
    return bounds


def _by_value(labels: dict[str, str], info: ValidationInfo) -> dict[Value, str]:
    """TOML keys are strings; give them back the type of the levels they name, or a number's."""
    spelled = spelled_values((info.data.get("levels") or ()) + info.data.get("missing", ()))
    return {read_key(text, spelled): label for text, label in labels.items()}


def _days(value: Any) -> Any:
    """A TOML date as days since 1970-01-01; anything else as it is."""
    day = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return float((value - EPOCH).days) if day else value


def _grid(grid: Any) -> Any:
    if isinstance(grid, str):
        if grid not in GRIDS:
            raise PydanticCustomError("grid", "not a grid")
        return grid
    edges = TypeAdapter(tuple[Day, ...]).validate_python(grid)
    if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
        raise PydanticCustomError("grid", "not increasing")
    return edges


Number = Annotated[float, Strict(), AllowInfNan(False)]
Day = Annotated[Number, BeforeValidator(_days)]
Positive = Annotated[Number, Gt(0)]
NotNegative = Annotated[Number, Ge(0)]
Text = Annotated[str, BeforeValidator(str)]
RuleText = Annotated[str, Strict(), StringConstraints(pattern=r"\S")]
Values = tuple[Annotated[Any, AfterValidator(_plain)], ...]


def _three(figures: tuple[float, ...]) -> tuple[float, ...]:
    if len(figures) != len(KINDS) or not all(0 <= figure < math.inf for figure in figures):
        raise ValueError("`misfit` has three numbers of at least 0 in `counts` and in `means`.")
    return figures


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Facts(_Table):
    """[columns.NAME]; a check sees the facts above its own."""

    role: Role = "public"
    type: Type = "continuous"
    label: Text = ""
    levels: Annotated[Values, AfterValidator(_different)] | None = None
    missing: Values = ()
    value_labels: Annotated[dict[str, Text], AfterValidator(_by_value)] = {}
    transform: Transform | None = None
    bounds: Annotated[tuple[Day, Day], AfterValidator(_in_order)] | None = None
    blanks: Annotated[bool, Strict()] | None = None
    grid: Annotated[Any, AfterValidator(_grid)] = None
    special: tuple[Day, ...] = ()
    rounding: Positive | None = None
    applies_when: RuleText = ""
    skip: Annotated[Any, AfterValidator(_plain)] | None = None
    derived: RuleText = ""
    typical: Number | None = None
    spread: Positive | None = None
    drafted: frozenset[Fact] = frozenset()


class _Population(_Table):
    size: Positive | None = None
    where: Text = ""
    by: dict[str, Any] = {}


class _Misfit(_Table):
    """[misfit]; written by a release of whole files."""

    measured: tuple[tuple[str, ...], ...] = ()
    counts: Annotated[tuple[float, ...], AfterValidator(_three)] = (0.0, 0.0, 0.0)
    means: Annotated[tuple[float, ...], AfterValidator(_three)] = (0.0, 0.0, 0.0)
    exact: tuple[str, ...] = ()
    numbers: dict[str, Annotated[tuple[float, ...], AfterValidator(_three)]] = {}
    own: tuple[tuple[Literal["counts", "means"], tuple[str, ...], NotNegative], ...] = ()


class _Document(_Table):
    title: Text = ""
    impossible: tuple[RuleText, ...] = ()
    order: tuple[RuleText, ...] = ()
    design_effect: Positive | None = None
    unit: Annotated[str, Strict()] = ""
    records_per_unit: Annotated[int, Strict(), Gt(0)] | None = None
    misfit: dict[str, Any] = {}
    design_effects: dict[str, Positive] = {}
    psu_records: Positive | None = None
    columns: dict[str, Any] = {}
    population: dict[str, Any] = {}


def checked_codebook(written: Mapping[str, Any]) -> tuple[Codebook, Mistakes]:
    """The codebook of all that is right, and what is wrong."""
    mistakes: Mistakes = []
    document = _checked(_Document, written, (), mistakes)
    columns = {}
    for name, facts in _inner(written, "columns").items():
        columns[name] = Column(name, **dict(_checked(_Facts, facts, ("columns", name), mistakes)))
    inside = _inner(written, "population")
    population = _checked(_Population, inside, ("population",), mistakes)
    by = {
        name: _totals(name, totals, columns, population.size, mistakes)
        for name, totals in _inner(inside, "by").items()
    }
    codebook = Codebook(
        columns,
        document.title,
        population.size,
        by,
        document.impossible,
        population.where,
        document.unit,
        document.records_per_unit,
        document.order,
        document.design_effect,
        _misfit(_inner(written, "misfit"), mistakes),
        document.design_effects,
        document.psu_records,
    )
    for name in document.design_effects:
        if name not in columns:
            unknown = UnknownName("column under [design_effects]", name, columns)
            mistakes.append((("design_effects", name), str(unknown)))
    _check_unit(codebook, mistakes)
    return codebook, mistakes


def _misfit(written: Mapping[str, Any], mistakes: Mistakes) -> Misfit | None:
    before = len(mistakes)
    facts = _checked(_Misfit, written, ("misfit",), mistakes) if written else None
    return None if facts is None or len(mistakes) > before else Misfit(**dict(facts))


def _check_unit(codebook: Codebook, mistakes: Mistakes) -> None:
    if codebook.unit and codebook.unit not in codebook:
        unknown = UnknownName("column that `unit` names", codebook.unit, codebook.columns)
        mistakes.append((("unit",), str(unknown)))
    if codebook.records_per_unit is None:
        return
    try:
        column = codebook.unit_column
    except Refused as refusal:
        mistakes.append((("records_per_unit",), str(refusal)))
        return
    if column is None:
        message = "`records_per_unit` needs a unit; name its column with `unit`."
        mistakes.append((("records_per_unit",), message))


def _totals(
    name: str, written: Any, columns: Mapping[str, Column], size: float | None, mistakes: Mistakes
) -> dict[Value, float]:
    """[population.by.NAME], against the column's levels and the population's size."""
    location = ("population", "by", name)
    counts = _checked(dict[str, Positive], written, location, mistakes)
    if name not in columns:
        unknown = UnknownName("column under [population.by]", name, columns)
        mistakes.append((location, str(unknown)))
        return {}
    levels = columns[name].levels or ()
    spelled = spelled_values(levels)
    totals = {}
    for text, count in counts.items():
        level = read_key(text, spelled)
        if levels and level not in levels:
            unknown = UnknownName(f"level of `{name}` under [population.by]", text, spelled)
            mistakes.append(((*location, text), str(unknown)))
        totals[level] = count
    whole = math.fsum(totals.values())
    complete = bool(levels) and set(totals) == set(levels)
    if size is not None and complete and not math.isclose(whole, size, rel_tol=1e-6):
        message = (
            f"The totals under [population.by.{name}] add up to {whole:.10g}, but "
            f"population.size is {size:.10g}; correct one of them."
        )
        mistakes.append((location, message))
    return totals


def _inner(written: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table inside another; if it is not a table, the check of the outer one has noted that."""
    table = written.get(key, {})
    return table if isinstance(table, Mapping) else {}


def _checked(kind: Any, written: Any, location: Location, mistakes: Mistakes) -> Any:
    """The values as `kind` has them; a value that is wrong is noted and left out."""
    adapter = TypeAdapter(kind)
    try:
        return adapter.validate_python(written)
    except ValidationError as refusal:
        known = list(getattr(kind, "model_fields", ()))
        wrong = set()
        for error in refusal.errors(include_url=False):
            names = [part for part in error["loc"] if isinstance(part, str)]
            inside = (*location, *names)
            mistakes.append((inside, _in_our_words(error, inside, known)))
            wrong.update(names[:1])
    table = written if isinstance(written, Mapping) else {}
    return adapter.validate_python({key: v for key, v in table.items() if key not in wrong})


def _in_our_words(error: ErrorDetails, location: Location, known: list[str]) -> str:
    """One of pydantic's errors as a sentence that names the key."""
    kind, key, dotted = error["type"], location[-1], ".".join(location)
    table, column = ".".join(location[:-1]), location[1] if len(location) > 1 else ""
    if kind == "extra_forbidden":
        return str(UnknownName(f"key of {f'[{table}]' if table else 'the codebook'}", key, known))
    if kind == "value_error":
        return str(error["ctx"]["error"]).format(column=column)
    if kind == "literal_error":
        fact = "drafted fact" if key == "drafted" else key
        choices = get_args(_CHOICES[key])
        return str(UnknownName(f"{fact} of column `{column}`", str(error["input"]), choices))
    if location[2:] and key in _FACT_WANTED:
        return f"The {key} of column `{column}` must be {_FACT_WANTED[key]}."
    if dotted in _RULE_EXAMPLES:
        example = _RULE_EXAMPLES[dotted]
        return f"`{dotted}` in the codebook must be a list of conditions, such as {example}."
    if location == ("unit",):
        return "`unit` in the codebook must be the name of a column."
    if location == ("records_per_unit",):
        return "`records_per_unit` in the codebook must be a whole number of at least 1."
    return f"`{dotted}` in the codebook {_WANTED.get(kind, 'must be a number above 0')}."
