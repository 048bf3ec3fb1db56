"""Values of a recipe against the types of the settings that they are for, by pydantic, strictly.

What is wrong is said in our words, by the setting's type: `a finite number`, `true or false`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from annotated_types import Interval, Len
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    create_model,
)

from understudy.declarations import Declared, Setting, alternatives, choices_of
from understudy.errors import UnknownName
from understudy.survey.survey import Survey

MISSING = "missing"  # pydantic's types of errors
UNKNOWN = "extra_forbidden"
SEVERAL = "a list of columns, or several lists"
LIST, LISTS = "text or list", "several lists"  # on the reference page


def problems_in(
    values: Mapping[str, Any], settings: Mapping[str, Setting]
) -> dict[str, tuple[str, str]]:
    """{key: (pydantic's type of error, what is wrong in words)} of one section."""
    try:
        _section(tuple(settings.values())).model_validate(values)
    except ValidationError as refusal:
        problems: dict[str, tuple[str, str]] = {}
        for error in refusal.errors(include_url=False, include_context=False):
            name = str(error["loc"][0])
            message = ""
            if error["type"] not in (MISSING, UNKNOWN):
                message = _message(settings[name], values[name])
            problems.setdefault(name, (error["type"], message))
        return problems
    return {}


@lru_cache(maxsize=128)
def _section(settings: tuple[Setting, ...]) -> type[BaseModel]:
    """What pydantic checks a section against; making it takes longer than checking."""
    fields: dict[str, Any] = {
        setting.name: (recipe_type(setting), ... if setting.required else Field(default=None))
        for setting in settings
    }
    return create_model("Section", __config__=ConfigDict(extra="forbid"), **fields)


def recipe_type(setting: Setting) -> Any:
    """The type that pydantic checks a value of this setting against."""
    kinds = tuple(_written(kind, setting.limits) for kind in alternatives(setting.type))
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    return union


def plain(setting: Setting, value: Any) -> Any:
    """The value as the class takes it: lists as tuples, one text as a list of one, paths."""
    if isinstance(value, str) and _is_texts(setting.type):
        return (value,)
    if isinstance(value, str) and Path in alternatives(setting.type):
        return Path(value)
    return _tuples(value)


def kind_of(setting: Setting) -> str:
    """The kinds of value in a few words, for the reference page."""
    kinds = dict.fromkeys(map(_kind, alternatives(setting.type)))
    for wider, narrower in (("table", "path"), ("path", "text"), (LIST, "text")):
        if wider in kinds:
            kinds.pop(narrower, None)
    return " or ".join(kind for kind in kinds if kind)


def names_file(setting: Setting) -> bool:
    """Whether the setting takes a survey, which a recipe names by its path."""
    return any(_base(kind) is Survey for kind in alternatives(setting.type))


def part_of(setting: Setting) -> type[Declared] | None:
    """The kind of class that the setting takes, which a recipe names in a table."""
    for kind in alternatives(setting.type):
        if isinstance(kind, type) and issubclass(kind, Declared):
            return kind
    return None


def _message(setting: Setting, value: Any) -> str:
    """What is wrong with a value, in one sentence."""
    choices = [choice for kind in alternatives(setting.type) for choice in choices_of(kind)]
    if choices and isinstance(value, str) and value not in choices:
        return str(UnknownName(f"choice of `{setting.name}`", value, choices))
    words = [_words(kind, setting.limits) for kind in alternatives(setting.type)]
    words = list(dict.fromkeys(word for word in words if word))
    if SEVERAL in words:
        words = [SEVERAL]
    elif _is_texts(setting.type):
        words = [_words(tuple[str, ...], ())]
    return f"`{setting.name}` must be {' or '.join(words)}."


def _written(kind: Any, limits: Sequence[Any]) -> Any:
    """One alternative of a type, as a recipe writes it."""
    base = _base(kind)
    if choices_of(kind):
        return kind
    if base in (str, Path, Survey):
        return Annotated[str, Strict(), AfterValidator(_text)]
    if base is bool:
        return Annotated[bool, Strict()]
    if base is int:
        own = limits or (Interval(ge=0, lt=2**63),)
        return Annotated[int, Strict(), *own]
    if base is float:
        return Annotated[float, Strict(), AllowInfNan(False), *limits]
    if base is tuple:
        inner = get_args(kind)
        if inner[0] is str:
            return Annotated[list[Annotated[str, Strict(), AfterValidator(_text)]],
                             BeforeValidator(_listed), AfterValidator(_different)]  # fmt: skip
        if get_origin(inner[0]) is tuple:
            return list[_written(inner[0], ())]  # type: ignore[misc]
        number = Annotated[float, Strict(), AllowInfNan(False)]
        if inner[-1] is ...:
            return list[number]
        return Annotated[list[number], Len(len(inner), len(inner))]
    if _are_tables(kind):
        return list[dict[str, Any]]
    if _is_table(base):
        return dict[str, Any]
    return Annotated[Any, AfterValidator(_nothing)]  # made in Python alone


def _words(kind: Any, limits: Sequence[Any]) -> str:
    base = _base(kind)
    if choices_of(kind):
        return " or ".join(f"`{choice}`" for choice in choices_of(kind))
    if base is tuple:
        inner = get_args(kind)
        if inner[0] is str:
            return "text in quotes, or a list of these without repeats"
        if get_origin(inner[0]) is tuple:
            return SEVERAL
        return "a list of numbers" if inner[-1] is ... else "two numbers, low before high"
    if base is int:
        for limit in limits:
            if isinstance(limit, Interval) and limit.le is not None:
                return f"a whole number from {limit.ge} to {limit.le:,}"
        return "a whole number, 0 or more"
    words = {
        str: "text in quotes",
        Path: "text in quotes",
        Survey: "the path of a file in quotes",
        bool: "true or false",
        float: "a finite number",
    }
    if base in words:
        return words[base]
    if _are_tables(kind):
        return "a list of tables, such as [{ key = 1 }]"
    return "a table, such as { key = 1 }" if _is_table(base) else ""


def _kind(kind: Any) -> str:
    base = _base(kind)
    if base is tuple:
        inner = get_args(kind)
        if inner[0] is str:
            return LIST
        if get_origin(inner[0]) is tuple:
            return LISTS
        if _base(inner[0]) in (str, Path):
            return "list of texts"
        return "two numbers" if inner[-1] is not ... else "list of numbers"
    plain_kinds = {
        str: "text", Path: "path", Survey: "path", bool: "yes or no", int: "whole number",
        float: "number",
    }  # fmt: skip
    if choices_of(kind):
        return "text"
    if _are_tables(kind):
        return "list of tables"
    return "table" if _is_table(base) else plain_kinds.get(base, "")


def _is_table(base: Any) -> bool:
    if base is dict or base is Mapping:
        return True
    return isinstance(base, type) and (issubclass(base, Declared) or is_dataclass(base))


def _are_tables(kind: Any) -> bool:
    return _base(kind) is Sequence and is_dataclass(get_args(kind)[0])


def _base(kind: Any) -> Any:
    """The class behind a type: tuple for tuple[str, ...]."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _base(get_args(kind)[0])
    return origin if origin is not None else kind


def _is_texts(hint: Any) -> bool:
    kinds = alternatives(hint)
    return any(_base(kind) is tuple and get_args(kind)[0] is str for kind in kinds)


def _text(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise ValueError("empty")
    return value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _different(values: list[str]) -> list[str]:
    if len(set(values)) < len(values):
        raise ValueError("twice")
    return values


def _nothing(value: Any) -> Any:  # noqa: ARG001
    raise ValueError("not in a recipe")


def _tuples(value: Any) -> Any:
    return tuple(_tuples(inner) for inner in value) if isinstance(value, list) else value
