"""What a class declares about itself: a kind's base class names the facts, every class of the
kind states them, and everybody else reads them from the class.

    class Format(Declared, abstract=True):       # the kind: facts without a value
        endings: ClassVar[tuple[str, ...]]       # the same for all objects of a class

        @property
        @abstractmethod
        def lossless(self) -> bool:              # may depend on an object's settings
            \"\"\"Whether values come back as they were.\"\"\"

    @dataclass(frozen=True)
    class Csv(Format):                           # one file, one class, all facts
        endings = (".csv", ".tsv")
        lossless = True
        delimiter: Annotated[str, "Between two values."] = ","

A fact that is missing is an error when the class is defined. It is stated as a constant, as a
field, or as a property where it depends on the settings. Constants are not inherited from a class
that is itself complete: what is true of the parent need not be true of its child. Families that
share facts are `abstract=True` and may leave the rest open.

Settings are the fields of a dataclass whose annotation carries a meaning; recipe keys, their
checks and the reference pages are read off with `settings_of`. Fields without one are for Python.

Classes are found by looking into a folder of the package; a class in a file outside of the
package is named by `mine.py:Mine` and is as good as the others.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import pkgutil
import re
import sys
from functools import cache
from pathlib import Path
from types import CodeType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from understudy.errors import Refused, UnknownName

OWN = ".py:"  # in the name of something in a file of the user's own
_FACTS = "_facts"  # {name: abstract property} of a kind or family


class Declared:
    """Base of the kinds. `abstract=True` marks a class that others complete."""

    _complete = False

    def __init_subclass__(cls, abstract: bool = False, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls._complete = not abstract
        if abstract:
            # a fact must not be found on the kind itself: a field of that name would take the
            # abstract property for its default
            facts = {name: value for name, value in vars(cls).items() if _is_fact(value)}
            for name in facts:
                delattr(cls, name)
            setattr(cls, _FACTS, facts)
            return
        demands = _demands(cls)
        missing = [name for name in demands if _home(cls, name) is None]
        if missing:
            meanings = [_meaning(demands[name]) for name in sorted(missing)]
            listed = ", ".join(f"{n}{m}" for n, m in zip(sorted(missing), meanings, strict=True))
            raise TypeError(f"{cls.__name__} does not declare {listed}")
        for name, demand in demands.items():
            _check(cls, name, demand)


T = TypeVar("T", bound=Declared)


@dataclasses.dataclass(frozen=True)
class Setting:
    """One field that a recipe may set."""

    name: str
    type: Any  # as annotated, without its meaning
    meaning: str
    required: bool
    default: Any  # None where it is required
    limits: tuple[Any, ...] = ()  # further annotations, such as annotated_types.Interval


@cache
def settings_of(cls: type) -> dict[str, Setting]:
    """The fields of a dataclass that carry a meaning, in their order."""
    hints = get_type_hints(cls, include_extras=True)
    settings = {}
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        meanings = [note for note in notes if isinstance(note, str)]
        if not meanings:
            continue
        required = field.default is dataclasses.MISSING
        default = None if required else field.default
        limits = tuple(note for note in notes if not isinstance(note, str))
        settings[field.name] = Setting(
            field.name, get_args(hint)[0], meanings[0], required, default, limits
        )
    return settings


def required_facts(cls: type) -> list[str]:
    """The names that the bases of a class annotate as facts of the class (ClassVar)."""
    names = []
    for base in cls.__mro__:
        if base is Declared or not issubclass(base, Declared):
            continue
        for name, kind in inspect.get_annotations(base).items():
            text = kind if isinstance(kind, str) else str(get_origin(kind) or kind)
            if "ClassVar" in text:
                names.append(name)
    return names


def declared_in(package: str, kind: type[T]) -> dict[str, type[T]]:
    """The complete classes of a kind by name, from every file of the package."""
    return {cls.__name__: cls for module in _modules(package) for cls in _complete(module, kind)}


def declared_as(name: str, package: str, kind: type[T]) -> type[T] | None:
    """The complete class of this name, in upper or lower case. Of the package's files only one that
    defines it is loaded: others may need libraries that take longer than reading a recipe."""
    for module, named in _class_names(package).items():
        if name.casefold() not in named:
            continue
        for cls in _complete(module, kind):
            if cls.__name__.casefold() == name.casefold():
                return cls
    return None


@cache
def _modules(package: str) -> tuple[str, ...]:
    folders = importlib.import_module(package).__path__
    return tuple(sorted(entry.name for entry in pkgutil.walk_packages(folders, f"{package}.")))


@cache
def _class_names(package: str) -> dict[str, frozenset[str]]:
    """Of every file of the package the classes that its text defines, in lower case."""
    specs = {module: importlib.util.find_spec(module) for module in _modules(package)}
    texts = {
        module: Path(spec.origin).read_text(encoding="utf-8")
        for module, spec in specs.items()
        if spec is not None and spec.origin is not None
    }
    return {
        module: frozenset(re.findall(r"^class (\w+)", text.casefold(), re.MULTILINE))
        for module, text in texts.items()
    }


def _complete(module: str, kind: type[T]) -> list[type[T]]:
    values = vars(importlib.import_module(module)).values()
    return [cls for cls in values if is_complete(cls, kind) and cls.__module__ == module]


def is_complete(value: object, kind: type) -> bool:
    """Whether a value is a class of this kind that states all of its facts."""
    return (
        isinstance(value, type)
        and issubclass(value, Declared)
        and (issubclass(value, kind) and value._complete)
    )


def choices_of(hint: Any) -> tuple[Any, ...]:
    """The values of a Literal type; none for other types."""
    return get_args(hint) if get_origin(hint) is Literal else ()


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of a union, without None; a type that is not a union stands alone."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for part in get_args(hint) for kind in alternatives(part))
    return () if hint in (None, NoneType) else (hint,)


def own_class(name: str, kind: type[T], what: str, folder: Path | None = None) -> type[T]:
    """The class `Mine` of `mine.py:Mine`, a path from `folder`; `what` is the kind in words."""
    file, _, wanted = name.rpartition(":")
    value: Any = vars(own_module(file, what, folder)).get(wanted)
    if not is_complete(value, kind):
        module = own_module(file, what, folder)
        known = [n for n, v in vars(module).items() if is_complete(v, kind) and v is not kind]
        raise UnknownName(f"{what} in `{Path(file).name}`", wanted, known)
    mine: type[T] = value
    return mine


def own_module(file: str, what: str, folder: Path | None = None) -> Any:
    """The module of a user's own file; what the file does is the user's affair."""
    path = ((folder or Path()) / file).expanduser()
    if not path.is_file():
        raise Refused(f"There is no file `{file}` with the {what}; check its path.")
    return _loaded(path.resolve(), hashlib.sha256(path.read_bytes()).hexdigest(), what)


class _TextLoader(importlib.machinery.SourceFileLoader):
    """Loads the text as it is now. Kept bytecode is known by the second and the size of its text
    alone, and would pass for that of a text of the same size which was saved a moment later."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return self.source_to_code(self.get_data(self.path), self.path)


@cache
def _loaded(path: Path, digest: str, what: str) -> Any:
    """Loaded once for each contents of the file, so that its classes stay the same objects."""
    name = f"understudy_own_{path.stem}_{digest[:12]}"
    if path.suffix != ".py":
        raise Refused(f"The file `{path.name}` with the {what} is not a Python file.")
    loader = _TextLoader(name, str(path))
    spec = importlib.machinery.ModuleSpec(name, loader, origin=str(path))
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a stranger's file can raise
        sys.modules.pop(name, None)
        detail = f": {error}" if isinstance(error, (TypeError, Refused)) else ""
        raise Refused(
            f"The file `{path.name}` with the {what} fails when it is loaded: "
            f"{type(error).__name__}{detail}."
        ) from None
    return module


def _demands(cls: type) -> dict[str, Any]:
    """What the kinds above a class ask for: facts, and functions that are abstract."""
    demands: dict[str, Any] = dict.fromkeys(required_facts(cls))
    for base in reversed(cls.__mro__):
        demands |= vars(base).get(_FACTS, {})
        demands |= {n: v for n, v in vars(base).items() if _is_abstract(v) and n not in demands}
    return demands


def _home(cls: type, name: str) -> type | None:
    """The class that says it: in its body, or as a field without a default."""
    for base in cls.__mro__:
        if name in vars(base):
            return None if _is_abstract(vars(base)[name]) else base
        if _is_field(base, name):
            return base
    return None


def _check(cls: type, name: str, demand: Any) -> None:
    """A constant is of the right type, and not taken from a class that is itself complete."""
    home = _home(cls, name) or cls
    if not isinstance(demand, property) or _is_field(home, name):
        return
    value = vars(home)[name]
    if isinstance(value, property):
        return
    if home is not cls and is_complete(home, Declared):
        raise TypeError(
            f"{cls.__name__} takes {name} from {home.__name__}; say it in its own body"
            f"{_meaning(demand)}"
        )
    try:
        hint = get_type_hints(demand.fget)["return"]
    except NameError:  # a type that is imported for type checkers alone
        return
    if not _is_a(value, hint):
        kinds = " or ".join(repr(choice) for choice in choices_of(hint))
        kinds = kinds or str(getattr(hint, "__name__", hint))
        raise TypeError(f"{name} of {cls.__name__} must be {kinds}{_meaning(demand)}")


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


def _is_field(cls: type, name: str) -> bool:
    kind = inspect.get_annotations(cls).get(name)
    return kind is not None and "ClassVar" not in str(kind)


def _is_abstract(value: object) -> bool:
    return bool(getattr(value, "__isabstractmethod__", False))


def _is_fact(value: object) -> bool:
    return isinstance(value, property) and _is_abstract(value)


def _meaning(demand: Any) -> str:
    documented = (demand is not None and inspect.getdoc(demand)) or ""
    return f" ({' '.join(documented.split())})" if documented else ""
