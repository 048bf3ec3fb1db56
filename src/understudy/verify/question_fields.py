"""What a question can ask for, beside its data set, price and tolerance.

An estimator or a measure annotates its fields with one of these. The annotation says what the
codebook must hold for the field and which input of the page fills it:

    variable: Annotated[str, NumberColumn("Variable")]

Checks read the question and the codebook, nothing else (threats 8, 11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from itertools import islice
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator

from understudy.errors import UnknownName
from understudy.survey.codebook import Codebook
from understudy.verify.mistakes import LISTED, QuestionMistake, say

Level = str | int | float | bool
Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[tuple[Name, ...], Field(strict=False, max_length=30), FailFast()]


class Strict(BaseModel):
    """No conversions, no unknown fields, no infinities."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, str_max_length=10_000
    )

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, document: Any) -> Any:
        """Of fields that there are not, the first few: every one would get a hint (threat 22)."""
        if not isinstance(document, Mapping):
            return document
        unknown = (name for name in document if name not in cls.model_fields)
        known = [name for name in cls.model_fields if name in document]
        return {name: document[name] for name in (*known, *islice(unknown, LISTED))}


class Condition(Strict):
    """One part of a domain: the column takes one of these public levels."""

    column: Name
    levels: Annotated[
        tuple[Level, ...], Field(strict=False, min_length=1, max_length=1000), FailFast()
    ]


Domain = Annotated[tuple[Condition, ...], Field(strict=False, max_length=20), FailFast()]


class QuestionField:
    """What the codebook must hold for a field; `query` has the field's value.

    Mistakes are found one by one, as they are asked for: only the first few are told.
    """

    def mistakes(self, field: str, query: Any, codebook: Codebook) -> Iterator[QuestionMistake]:  # noqa: ARG002
        yield from ()

    def columns(self, value: Any) -> list[str]:  # noqa: ARG002
        """The columns of the data that a value names."""
        return []


@dataclass(frozen=True)
class NumberColumn(QuestionField):
    """A numeric column; with a level in the field `or_level` it is a column with levels."""

    label: str
    or_level: str = ""

    def mistakes(self, field: str, query: Any, codebook: Codebook) -> Iterator[QuestionMistake]:
        name = getattr(query, field)
        level = getattr(query, self.or_level) if self.or_level else None
        if level is not None:
            yield from level_mistakes(field, self.or_level, name, [level], codebook)
        elif name is not None:
            yield from number_mistakes(field, name, codebook)

    def columns(self, value: Any) -> list[str]:
        return [value]


@dataclass(frozen=True)
class LevelColumn(QuestionField):
    """A column with declared levels, of which the field `level` names one."""

    label: str
    level: str

    def mistakes(self, field: str, query: Any, codebook: Codebook) -> Iterator[QuestionMistake]:
        name, level = getattr(query, field), getattr(query, self.level)
        levels = [] if level is None else [level]
        yield from level_mistakes(field, self.level, name, levels, codebook)

    def columns(self, value: Any) -> list[str]:
        return [value]


@dataclass(frozen=True)
class LevelOf(QuestionField):
    """A level of the column in another field, which checks it."""

    column: str


@dataclass(frozen=True)
class Predictors(QuestionField):
    """Columns of a regression: numbers, or columns with declared levels."""

    label: str

    def mistakes(self, field: str, query: Any, codebook: Codebook) -> Iterator[QuestionMistake]:
        names = getattr(query, field)
        for name in names:
            if name in codebook and codebook[name].type == "categorical":
                yield from level_mistakes(field, field, name, [], codebook)
            else:
                yield from number_mistakes(field, name, codebook)
        used = [*names, query.variable] if names else []
        if len(set(used)) < len(used):
            yield say(field, "The outcome and the predictors must all differ.")

    def columns(self, value: Any) -> list[str]:
        return list(value)


@dataclass(frozen=True)
class CoefficientOf(QuestionField):
    """One of the predictors; where it has levels, the field `level` names one of them."""

    label: str
    predictors: str
    level: str
    hint: str = ""

    def mistakes(self, field: str, query: Any, codebook: Codebook) -> Iterator[QuestionMistake]:
        name, predictors = getattr(query, field), getattr(query, self.predictors)
        if name is None or not predictors:
            return
        if name not in predictors:
            yield say(field, str(UnknownName("predictor", name, predictors)))
            return
        level = getattr(query, self.level)
        categorical = name in codebook and codebook[name].type == "categorical"
        levels = codebook[name].levels if categorical else None
        if categorical != (level is not None):
            verb = "needs" if categorical else "takes no"
            yield say(self.level, f"The coefficient of `{name}` {verb} `{self.level}`.")
        elif levels and level == levels[0]:
            yield say(self.level, f"`{level}` is the reference level of `{name}`; name another.")
        elif levels:
            yield from level_mistakes(field, self.level, name, [level], codebook)


@dataclass(frozen=True)
class Group(QuestionField):
    """Records by the public levels of their columns."""

    label: str
    hint: str

    def mistakes(self, field: str, query: Any, codebook: Codebook) -> Iterator[QuestionMistake]:
        conditions: tuple[Condition, ...] = getattr(query, field)
        columns = [condition.column for condition in conditions]
        if len(set(columns)) < len(columns):
            yield say(field, f"`{field}` names a column twice; list its levels together.")
        for condition in conditions:
            yield from level_mistakes(field, field, condition.column, condition.levels, codebook)

    def columns(self, value: Any) -> list[str]:
        return [condition.column for condition in value]


@dataclass(frozen=True)
class NumberBox(QuestionField):
    """A plain number; its range is in the field's type."""

    label: str
    hint: str
    usual: str  # what stands in the page's box at first


def question_fields(owner: type) -> Mapping[str, QuestionField]:
    """The annotated fields of an estimator or a measure, by name."""
    return {name: note for name, (_, note) in _annotated(owner).items()}


def field_types(owner: type) -> Mapping[str, Any]:
    """The types of these fields, with the ranges that pydantic checks."""
    return {name: hint for name, (hint, _) in _annotated(owner).items()}


def required_fields(owner: type) -> list[str]:
    """Those that a question must give."""
    names = question_fields(owner)
    return [f.name for f in fields(owner) if f.name in names and f.default is MISSING]


@cache
def _annotated(owner: type) -> Mapping[str, tuple[Any, QuestionField]]:
    annotated = {}
    for name, hint in get_type_hints(owner, include_extras=True).items():
        notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        for note in notes:
            if isinstance(note, QuestionField):
                annotated[name] = hint, note
    return annotated


def number_mistakes(field: str, name: str, codebook: Codebook) -> Iterator[QuestionMistake]:
    if name not in codebook:
        yield _unknown(field, name, codebook)
        return
    column = codebook[name]
    if not column.declared("type"):
        # A type that was read off the data could change with one record (threat 11).
        message = f"The codebook's type of `{name}` is only drafted; the steward must declare it."
        yield say(field, message)
    elif column.type not in ("continuous", "integer") or column.role in ("unit", "replicate"):
        numbers = [c.name for c in codebook if c.type in ("continuous", "integer")]
        shown = ", ".join(f"`{other}`" for other in numbers[:8]) or "none"
        yield say(field, f"`{name}` is not a number; the numeric columns are {shown}.")


def level_mistakes(
    field: str, level_field: str, name: str, levels: Sequence[Level], codebook: Codebook
) -> Iterator[QuestionMistake]:
    if name not in codebook:
        yield _unknown(field, name, codebook)
        return
    column = codebook[name]
    if not column.declared("levels"):
        message = f"The codebook declares no levels for `{name}`; choose a column that has them."
        yield say(field, message)
        return
    # In Python True == 1; in a database the two do not compare.
    known = {(isinstance(level, bool), level) for level in column.levels or ()}
    for level in levels:
        if (isinstance(level, bool), level) not in known:
            refusal = UnknownName(f"level of `{name}`", str(level), map(str, column.levels or ()))
            yield say(level_field, str(refusal))


def _unknown(field: str, name: str, codebook: Codebook) -> QuestionMistake:
    return say(field, str(UnknownName("column", name, codebook.columns)))
