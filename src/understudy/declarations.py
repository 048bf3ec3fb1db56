"""A class says everything about itself in its body; what is missing fails when it is defined.

A contract is an abstract class whose facts are abstract properties, with their type and meaning:

    class Mechanism(Declared, abstract=True):
        @property
        @abstractmethod
        def seeded(self) -> bool:
            \"\"\"Whether the same seed gives the same bytes.\"\"\"

A class under it states each fact in its body: as a constant (`seeded = True`), as a field, or as a
property where the fact depends on the settings. Constants are not inherited from a class that is
itself whole: what was true of the parent need not be true of its child. Families that share
facts are declared `abstract=True` and may leave the rest open.

Settings are the fields of a dataclass whose annotation carries a meaning:

    epsilon: Annotated[float, "Privacy budget of the whole release, over all data sets."]

Fields without a meaning are for Python alone. Recipe keys, checks and reference pages are read
off with `settings_of`; `declared_in` finds all classes under a contract in a package.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Contract = TypeVar("Contract", bound="Declared")
_FACTS = "_declared_facts"  # {name: abstract property} of a contract


class Undeclared(TypeError):
    """A class does not say what its contract asks for."""


class Declared:
    """What stands below a contract declares every fact of it, or cannot be defined."""

    def __init_subclass__(cls, abstract: bool = False, **more: Any) -> None:
        super().__init_subclass__(**more)
        if not abstract:
            for name, demand in _demands(cls).items():
                _check(cls, name, demand)
            return
        # a fact must not be found on the contract itself: a field of that name would take the
        # abstract property for its default
        facts = {name: value for name, value in vars(cls).items() if _is_fact(value)}
        for name in facts:
            delattr(cls, name)
        setattr(cls, _FACTS, facts)

    @classmethod
    def is_contract(cls) -> bool:
        """Whether the class is a contract or a family, not a thing that can be used."""
        return cls is Declared or _FACTS in vars(cls)


@dataclasses.dataclass(frozen=True)
class Setting:
    """One field that a recipe may set."""

    name: str
    type: Any  # as annotated, without its meaning
    meaning: str
    required: bool
    default: Any  # None where it is required


def settings_of(cls: type) -> dict[str, Setting]:
    """The fields of a dataclass that carry a meaning, in their order."""
    hints = get_type_hints(cls, include_extras=True)
    found = {}
    for field in dataclasses.fields(cls):
        meanings = [text for text in get_args(hints[field.name])[1:] if isinstance(text, str)]
        if get_origin(hints[field.name]) is not Annotated or not meanings:
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        required = default is dataclasses.MISSING
        found[field.name] = Setting(
            field.name,
            get_args(hints[field.name])[0],
            meanings[0],
            required,
            None if required else default,
        )
    return found


@cache
def declared_in(package: str, contract: type[Contract]) -> Mapping[str, type[Contract]]:
    """Every class under a contract that a package defines, by its name, in alphabetical order."""
    home = importlib.import_module(package)
    modules = [home.__name__]
    modules += [module.name for module in pkgutil.walk_packages(home.__path__, f"{package}.")]
    found = {}
    for module in modules:
        for name, value in vars(importlib.import_module(module)).items():
            here = inspect.isclass(value) and value.__module__ == module
            if here and issubclass(value, contract) and not value.is_contract():
                found[name] = value
    return dict(sorted(found.items()))


def choices_of(hint: Any) -> tuple[Any, ...]:
    """The values of a Literal type; empty for other types."""
    return get_args(hint) if get_origin(hint) is Literal else ()


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of a union, without None; a type that is no union is alone."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for part in get_args(hint) for kind in alternatives(part))
    return () if hint in (None, NoneType) else (hint,)


def _demands(cls: type) -> dict[str, Any]:
    """What is abstract in the contracts above a class: properties and functions, by name."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        found |= vars(base).get(_FACTS, {})
        for name, value in vars(base).items():
            if getattr(value, "__isabstractmethod__", False):
                found.setdefault(name, value)
    return found


def _is_fact(value: Any) -> bool:
    return isinstance(value, property) and getattr(value, "__isabstractmethod__", False)


def _check(cls: type, name: str, demand: Any) -> None:
    fact = isinstance(demand, property)
    for base in cls.__mro__:
        contract = issubclass(base, Declared) and base.is_contract()
        in_body = vars(base).get(name)
        if name in vars(base).get("__annotations__", {}) and name not in vars(base):
            return  # a field without a default
        if name not in vars(base) or getattr(in_body, "__isabstractmethod__", False):
            continue
        constant = not (isinstance(in_body, property) or callable(in_body))
        field = name in vars(base).get("__annotations__", {})
        if fact and constant and not field:
            if base is not cls and not contract:
                raise Undeclared(
                    f"`{cls.__name__}` takes `{name}` from `{base.__name__}`; say it in its own "
                    f"body: {_meaning(demand)}"
                )
            _check_value(cls, name, in_body, demand)
        return
    raise Undeclared(f"`{cls.__name__}` does not declare `{name}`: {_meaning(demand)}")


def _check_value(cls: type, name: str, value: Any, demand: property) -> None:
    """A constant must be what the contract's property returns; types that are not plain pass."""
    try:
        hint = get_type_hints(demand.fget)["return"]
    except NameError:  # a type that is imported for type checkers alone
        return
    if not _is_a(value, hint):
        shown = choices_of(hint)
        kinds = " or ".join(repr(choice) for choice in shown) or str(
            getattr(hint, "__name__", hint)
        )
        raise Undeclared(f"`{name}` of `{cls.__name__}` must be {kinds}: {_meaning(demand)}")


def _is_a(value: Any, hint: Any) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(_is_a(value, part) for part in get_args(hint))
    if choices_of(hint):
        return value in choices_of(hint)
    if hint in (None, NoneType):
        return value is None
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    plain = hint if inspect.isclass(hint) else get_origin(hint)
    return isinstance(value, plain) if inspect.isclass(plain) else True


def _meaning(demand: Any) -> str:
    documented = inspect.getdoc(demand) or "see the contract"
    return " ".join(documented.split())
