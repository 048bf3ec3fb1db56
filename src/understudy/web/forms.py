"""The ask form: choices that follow the codebook, and the question they make.

Levels travel as their place in the codebook ("gender:1"), so that numbers stay numbers and no
text of a form is ever taken for a value. What cannot be understood goes to `Catalogue.read` as it
came: there is one place that refuses. Which inputs there are follows from the fields that the
estimator and the measures declare.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeGuard

from understudy.survey.codebook import Codebook, Column
from understudy.verify.catalogue import Catalogue
from understudy.verify.estimator import Estimator
from understudy.verify.mistakes import InvalidQuery
from understudy.verify.query import DOMAIN
from understudy.verify.question_fields import (
    CoefficientOf,
    Group,
    LevelColumn,
    NumberBox,
    NumberColumn,
    Predictors,
    QuestionField,
    question_fields,
)

NUMBERS = ("continuous", "integer")
SHOWN_ROLES = ("public", "sensitive", "stratum", "psu")
ALSO, FIRST = "also", "first"  # fields: a further estimate's document, the form that it joins
MOST_LEVELS = 60  # of a column that is offered with a box for each level

Sent = Mapping[str, list[str]]  # the fields of a form, by name


@dataclass(frozen=True)
class Choice:
    value: str
    label: str
    chosen: bool = False


@dataclass(frozen=True)
class LevelBoxes:
    """The levels of one column, as boxes."""

    column: str
    label: str
    choices: tuple[Choice, ...]

    @property
    def open(self) -> bool:
        return any(choice.chosen for choice in self.choices)


@dataclass(frozen=True)
class Input:
    """One input of the page: a list to choose from, boxes to tick, groups of boxes, or a box to
    type into."""

    kind: Literal["pick", "ticks", "groups", "text"]
    name: str
    label: str
    hint: str = ""
    choices: tuple[Choice, ...] = ()
    groups: tuple[LevelBoxes, ...] = ()


@dataclass(frozen=True)
class AskForm:
    """Everything that the template shows; it computes nothing."""

    dataset: str
    estimator: str
    inputs: tuple[Input, ...]
    settings: tuple[Input, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    also: tuple[Choice, ...] = ()  # further estimates, each as its document


DEFAULTS = {
    "tolerance_kind": "se",
    "interval": "adjusted",
    "tolerance": "2",
    "epsilon": "1",
    "partitions": "",
    "delta": "",
    "estimate": "",
    "se": "",
}


def ask_form(
    dataset: str,
    estimator: type[Estimator],
    catalogue: Catalogue,
    codebook: Codebook,
    sent: Sent,
    released: bool = True,
) -> AskForm:
    """The form for one estimator, with what was sent before; `released` says whether the server
    has the released files."""
    chosen = {name: set(values) for name, values in sent.items()}
    fields = question_fields(estimator)
    settings = _settings(catalogue)
    domain = replace(DOMAIN, label="First group") if _compares(fields) else DOMAIN
    groups = [(n, f) for n, f in fields.items() if isinstance(f, Group)]
    ordered = [*(pair for pair in fields.items() if pair not in groups), ("domain", domain)]
    inputs = (_input(name, part, codebook, chosen) for name, part in (*ordered, *groups))
    usual = {name: part.usual for name, part in {**fields, **settings}.items() if _typed(part)}
    defaults = {"measure": catalogue.usual_measure(estimator, released), **DEFAULTS, **usual}
    return AskForm(
        dataset=dataset,
        estimator=estimator.name,
        inputs=(*(made for made in inputs if made is not None), _table_by(codebook, chosen)),
        settings=tuple(Input("text", n, part.label, part.hint) for n, part in settings.items()),
        texts={name: sent.get(name, [value])[0] for name, value in defaults.items()},
        also=tuple(Choice(text, _in_words(text, catalogue), True) for text in sent.get(ALSO, [])),
    )


def further_estimate(sent: Sent, catalogue: Catalogue, codebook: Codebook) -> dict[str, list[str]]:
    """The form that is carried in `FIRST`, with the estimate that was sent as one more."""
    whole = question_from_form(sent, catalogue, codebook)
    kind = catalogue.estimators.get(whole["estimator"])
    names = ("estimator", "domain", *(question_fields(kind) if kind else ()))
    own = {name: whole[name] for name in whole if name in names}
    first = _document(_first(sent, FIRST))
    fields = first.items() if isinstance(first, dict) else ()
    form = {str(name): [str(v) for v in values] for name, values in fields}
    return {**form, ALSO: [*form.get(ALSO, []), json.dumps(own)]}


def question_from_form(sent: Sent, catalogue: Catalogue, codebook: Codebook) -> dict[str, Any]:
    """The document that `Catalogue.read` takes."""
    estimator = _first(sent, "estimator")
    question: dict[str, Any] = {
        "dataset": _first(sent, "dataset"),
        "estimator": estimator,
        "tolerance": {
            "value": _number(_first(sent, "tolerance")),
            "kind": _first(sent, "tolerance_kind") or "se",
            "interval": _first(sent, "interval") or "adjusted",
        },
        "epsilon": _first(sent, "epsilon").strip(),
        "domain": _conditions(sent.get("domain", []), codebook),
    }
    if estimator in catalogue.estimators:
        for name, part in question_fields(catalogue.estimators[estimator]).items():
            question |= _answers(name, part, sent, codebook)
    for name in (*_settings(catalogue), "estimate", "se"):
        text = _first(sent, name).strip()
        if text:
            question[name] = _number(text)
    if sent.get(ALSO):
        question[ALSO] = [_document(text) for text in sent[ALSO]]
    if sent.get("by"):
        question["by"] = sent["by"]
    if delta := _first(sent, "delta").strip():
        question["delta"] = delta
    if measure := _first(sent, "measure"):
        question["measure"] = measure
    partitions = _first(sent, "partitions").strip()
    if partitions:
        question["partitions"] = _whole(partitions)
    return question


def _table_by(codebook: Codebook, chosen: Mapping[str, set[str]]) -> Input:
    """The columns of a table whose cells are all asked for at one price."""
    offered = [
        _choice(column.name, named(column), chosen, "by")
        for column in codebook
        if column.declared("levels") and column.role in SHOWN_ROLES
    ]
    return Input("ticks", "by", "Every cell of a table by", choices=tuple(offered))


def _settings(catalogue: Catalogue) -> dict[str, NumberBox]:
    """The boxes of the measures' own settings."""
    parts = (pair for kind in catalogue.measures.values() for pair in question_fields(kind).items())
    return {name: part for name, part in parts if isinstance(part, NumberBox)}


def _compares(fields: Mapping[str, QuestionField]) -> bool:
    return any(isinstance(part, Group) for part in fields.values())


def _typed(part: QuestionField) -> TypeGuard[NumberBox]:
    return isinstance(part, NumberBox)


def _input(
    name: str, part: QuestionField, codebook: Codebook, chosen: Mapping[str, set[str]]
) -> Input | None:
    """The input that fills a field; None for fields that another one's input fills."""
    numbers = [c for c in codebook if c.type in NUMBERS and c.role in SHOWN_ROLES]
    levelled = [c for c in codebook if c.declared("levels") and c.role in SHOWN_ROLES]
    both = {c.name: c for c in (*numbers, *levelled)}.values()

    def columns(offered: Iterable[Column]) -> tuple[Choice, ...]:
        return tuple(_choice(c.name, named(c), chosen, name) for c in offered)

    def levels(offered: Iterable[Column], skip: int = 0) -> list[Choice]:
        return [choice for c in offered for choice in _levels(c, name, chosen, skip, True)]

    match part:
        case NumberColumn(label):
            return Input("pick", name, label, choices=columns(numbers))
        case LevelColumn(label):
            return Input("pick", name, label, choices=tuple(levels(levelled)))
        case Predictors(label):
            return Input("ticks", name, label, choices=columns(both))
        case CoefficientOf(label, hint=hint):
            offered = [Choice("", "all coefficients at once"), *columns(numbers)]
            offered += levels([c for c in levelled if c not in numbers], skip=1)
            return Input("pick", name, label, hint, tuple(offered))
        case Group(label, hint):
            return Input("groups", name, label, hint, groups=_groups(levelled, name, chosen))
        case NumberBox(label, hint):
            return Input("text", name, label, hint)
    return None


def _answers(name: str, part: QuestionField, sent: Sent, codebook: Codebook) -> dict[str, Any]:
    """The fields of a question that an input fills."""
    value = _first(sent, name)
    match part:
        case NumberColumn():
            return {name: value}
        case LevelColumn(level=level_field):
            column, level = _level(value, codebook)
            return {name: column, level_field: level}
        case Predictors():
            return {name: sent.get(name, [])}
        case CoefficientOf(level=level_field):
            if ":" not in value:
                return {name: value} if value else {}
            column, level = _level(value, codebook)
            return {name: column, level_field: level}
        case Group():
            return {name: _conditions(sent.get(name, []), codebook)}
        case NumberBox():
            return {name: _number(value)}
    return {}


def pairs(sent: Sent) -> list[tuple[str, str]]:
    """The form again as hidden fields."""
    return [(name, value) for name, values in sent.items() for value in values]


def named(column: Column) -> str:
    return f"{column.label} ({column.name})" if column.label else column.name


def _groups(
    columns: Iterable[Column], field: str, chosen: Mapping[str, set[str]]
) -> tuple[LevelBoxes, ...]:
    return tuple(
        LevelBoxes(column.name, named(column), tuple(_levels(column, field, chosen)))
        for column in columns
        if len(column.levels or ()) <= MOST_LEVELS
    )


def _levels(
    column: Column,
    field: str,
    chosen: Mapping[str, set[str]],
    skip: int = 0,
    with_column: bool = False,
) -> list[Choice]:
    choices = []
    for code, level in enumerate(column.levels or ()):
        if code >= skip:
            label = column.value_labels.get(level, "")
            text = f"{level} ({label})" if label else str(level)
            if with_column:
                text = f"{column.label or column.name} = {text}"
            value = f"{column.name}:{code}"
            choices.append(Choice(value, text, value in chosen.get(field, ())))
    return choices


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
    name, _, code = value.rpartition(":")
    levels = codebook[name].levels if name in codebook else None
    number = _whole(code)
    if levels is None or isinstance(number, str) or number >= len(levels):
        return (name or value), code
    return name, levels[number]


def _document(text: str) -> Any:
    """What a hidden field carries; what is none stays as it came."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _in_words(text: str, catalogue: Catalogue) -> str:
    """A further estimate for people; as it came, where it cannot be read."""
    further = _document(text)
    asked = {"dataset": "it", "tolerance": {"value": 1.0}, "epsilon": "1"}
    try:
        return catalogue.read({**asked, **further}).in_words()
    except (InvalidQuery, TypeError):
        return text


def _first(sent: Sent, name: str) -> str:
    return (sent.get(name) or [""])[0]


def _number(text: str) -> float | str:
    try:
        return float(text.strip().replace(",", ""))
    except ValueError:
        return text


def _whole(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
