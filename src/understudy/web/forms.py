"""The ask form: choices that follow the codebook, and the question they make.

Levels travel as their place in the codebook ("gender:1"), so that numbers stay numbers and no
text of a form is ever taken for a value. What cannot be understood goes to `read_query` as it
came: there is one place that refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.survey.codebook import Codebook, Column
from understudy.verify.query import DEFAULT_PARTITIONS

NUMBERS = ("continuous", "integer")
SHOWN_ROLES = ("public", "sensitive", "stratum", "psu")
MOST_LEVELS = 60  # of a column that is offered with a box for each level

Given = Mapping[str, list[str]]


@dataclass(frozen=True)
class Choice:
    value: str
    label: str
    chosen: bool = False


@dataclass(frozen=True)
class Group:
    """The levels of one column, as boxes."""

    column: str
    label: str
    choices: tuple[Choice, ...]

    @property
    def open(self) -> bool:
        return any(choice.chosen for choice in self.choices)


@dataclass(frozen=True)
class AskForm:
    """Everything that the template shows; it computes nothing."""

    dataset: str
    estimator: str
    variables: tuple[Choice, ...]
    properties: tuple[Choice, ...]
    denominators: tuple[Choice, ...]
    predictors: tuple[Choice, ...]
    coefficients: tuple[Choice, ...]
    domain: tuple[Group, ...]
    versus: tuple[Group, ...]
    texts: Mapping[str, str] = field(default_factory=dict)


DEFAULTS = {
    "measure": "discrepancy",
    "tolerance_kind": "se",
    "interval": "adjusted",
    "tolerance": "2",
    "epsilon": "1",
    "clip": "2",
    "probability": "0.5",
    "partitions": "",
    "estimate": "",
    "se": "",
}


def ask_form(dataset: str, estimator: str, codebook: Codebook, given: Given) -> AskForm:
    """The form for one estimator, with what was given before."""
    numbers = [c for c in codebook if c.type in NUMBERS and c.role in SHOWN_ROLES]
    levelled = [c for c in codebook if c.declared("levels") and c.role in SHOWN_ROLES]
    chosen = {name: set(values) for name, values in given.items()}
    coefficients = []
    for column in (*numbers, *levelled):
        if column in numbers:
            coefficients.append(_choice(column.name, named(column), chosen, "coefficient"))
        else:
            coefficients += _levels(column, "coefficient", chosen, skip=1)
    predictors = {c.name: c for c in (*numbers, *levelled)}.values()
    return AskForm(
        dataset=dataset,
        estimator=estimator,
        variables=tuple(_choice(c.name, named(c), chosen, "variable") for c in numbers),
        properties=tuple(one for c in levelled for one in _levels(c, "property", chosen)),
        denominators=tuple(_choice(c.name, named(c), chosen, "denominator") for c in numbers),
        predictors=tuple(_choice(c.name, named(c), chosen, "predictors") for c in predictors),
        coefficients=tuple(coefficients),
        domain=_groups(levelled, "domain", chosen),
        versus=_groups(levelled, "versus", chosen),
        texts={name: given.get(name, [usual])[0] for name, usual in DEFAULTS.items()},
    )


def question_from_form(given: Given, codebook: Codebook) -> dict[str, Any]:
    """The document that `read_query` takes."""
    estimator = _first(given, "estimator")
    measure = _first(given, "measure") or "discrepancy"
    question: dict[str, Any] = {
        "dataset": _first(given, "dataset"),
        "estimator": estimator,
        "measure": measure,
        "tolerance": {
            "value": _number(_first(given, "tolerance")),
            "kind": _first(given, "tolerance_kind") or "se",
            "interval": _first(given, "interval") or "adjusted",
        },
        "epsilon": _first(given, "epsilon").strip(),
    }
    if _first(given, "clip"):
        question["clip"] = _number(_first(given, "clip"))
    if estimator in ("proportion", "logistic"):
        question["variable"], question["level"] = _level(_first(given, "property"), codebook)
    else:
        question["variable"] = _first(given, "variable")
    if estimator == "ratio":
        question["denominator"] = _first(given, "denominator")
    if estimator == "quantile":
        question["probability"] = _number(_first(given, "probability"))
    if estimator in ("linear", "logistic"):
        question["predictors"] = given.get("predictors", [])
        name = _first(given, "coefficient")
        question["coefficient"] = name
        if ":" in name:
            question["coefficient"], question["coefficient_level"] = _level(name, codebook)
    for part in ("domain", "versus"):
        if part == "domain" or estimator == "difference":
            question[part] = _conditions(given.get(part, []), codebook)
    for name in ("partitions", "estimate", "se"):
        text = _first(given, name).strip()
        if text:
            question[name] = _whole(text) if name == "partitions" else _number(text)
    return question


def pairs(given: Given) -> list[tuple[str, str]]:
    """The form again as hidden fields."""
    return [(name, value) for name, values in given.items() for value in values]


def named(column: Column) -> str:
    return f"{column.label} ({column.name})" if column.label else column.name


def default_partitions(measure: str) -> int:
    return DEFAULT_PARTITIONS.get(measure, 50)


def _groups(columns: Iterable[Column], field: str, chosen: Mapping[str, set[str]]) -> Any:
    return tuple(
        Group(column.name, named(column), tuple(_levels(column, field, chosen)))
        for column in columns
        if len(column.levels or ()) <= MOST_LEVELS
    )


def _levels(
    column: Column, field: str, chosen: Mapping[str, set[str]], skip: int = 0
) -> list[Choice]:
    found = []
    for place, level in enumerate(column.levels or ()):
        if place >= skip:
            label = column.value_labels.get(level, "")
            text = f"{level} ({label})" if label else str(level)
            if field in ("property", "coefficient"):
                text = f"{column.label or column.name} = {text}"
            value = f"{column.name}:{place}"
            found.append(Choice(value, text, value in chosen.get(field, ())))
    return found


def _choice(value: str, label: str, chosen: Mapping[str, set[str]], field: str) -> Choice:
    return Choice(value, label, value in chosen.get(field, ()))


def _conditions(values: Iterable[str], codebook: Codebook) -> list[dict[str, Any]]:
    columns: dict[str, list[Any]] = {}
    for value in values:
        column, level = _level(value, codebook)
        columns.setdefault(column, []).append(level)
    return [{"column": column, "levels": levels} for column, levels in columns.items()]


def _level(value: str, codebook: Codebook) -> tuple[str, Any]:
    """ "gender:1" -> ("gender", "Female"); what is not of this form stays as it came."""
    name, _, place = value.rpartition(":")
    levels = codebook[name].levels if name in codebook else None
    number = _whole(place)
    if levels is None or isinstance(number, str) or number >= len(levels):
        return (name or value), place
    return name, levels[number]


def _first(given: Given, name: str) -> str:
    return (given.get(name) or [""])[0]


def _number(text: str) -> float | str:
    try:
        return float(text.strip().replace(",", ""))
    except ValueError:
        return text


def _whole(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
