"""What a class declares about itself: a kind's base class names the facts, every class of the
kind states them, and everybody else reads them from the class.

    class Format(Declared, abstract=True):       # the kind: facts without a value
        endings: ClassVar[tuple[str, ...]]

    class Csv(Format):                           # one file, one class, all facts
        endings = (".csv", ".tsv")

A fact that is missing is an error when the class is defined. Classes are found by looking into
a folder of the package, one class of the kind (or a few) to a file; a class in a file outside
of the package is named by `mine.py:Mine` and is as good as the others.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_origin

from understudy.errors import Refused, UnknownName

OWN = ".py:"  # in the name of something that lies in a file of the user's own


class Declared:
    """Base of the kinds. `abstract=True` marks a class that others complete."""

    _complete = False

    def __init_subclass__(cls, abstract: bool = False, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls._complete = not abstract
        if abstract:
            return
        missing = [name for name in required_facts(cls) if not hasattr(cls, name)]
        missing += [name for name in dir(cls) if _is_abstract(getattr(cls, name, None))]
        if missing:
            raise TypeError(f"{cls.__name__} does not declare {', '.join(sorted(set(missing)))}")


T = TypeVar("T", bound=Declared)


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
    """The complete classes of a kind by name, one import per file of the package."""
    module = importlib.import_module(package)
    found: dict[str, type[T]] = {}
    for _, name, _ in sorted(pkgutil.iter_modules(module.__path__), key=lambda entry: entry[1]):
        for value in vars(importlib.import_module(f"{package}.{name}")).values():
            if is_complete(value, kind) and value.__module__ == f"{package}.{name}":
                found[value.__name__] = value
    return found


def is_complete(value: object, kind: type) -> bool:
    """Whether a value is a class of this kind that states all of its facts."""
    return (
        isinstance(value, type)
        and issubclass(value, Declared)
        and (issubclass(value, kind) and value._complete)
    )


def own_class(name: str, kind: type[T], what: str, folder: Path | None = None) -> type[T]:
    """The class `Mine` of `mine.py:Mine`, a path from `folder`; `what` is the kind in words."""
    file, _, wanted = name.rpartition(":")
    value = vars(own_module(file, what, folder)).get(wanted)
    if not is_complete(value, kind):
        module = own_module(file, what, folder)
        known = [n for n, v in vars(module).items() if is_complete(v, kind) and v is not kind]
        raise UnknownName(f"{what} in `{Path(file).name}`", wanted, known)
    return value  # type: ignore[return-value]


def own_module(file: str, what: str, folder: Path | None = None) -> Any:
    """The module of a user's own file; what the file does is the user's affair."""
    path = ((folder or Path()) / file).expanduser()
    if not path.is_file():
        raise Refused(f"There is no file `{file}` with the {what}; check its path.")
    return _loaded(path.resolve(), hashlib.sha256(path.read_bytes()).hexdigest(), what)


@cache
def _loaded(path: Path, digest: str, what: str) -> Any:
    """Loaded once for each contents of the file, so that its classes stay the same objects."""
    name = f"understudy_own_{path.stem}_{digest[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused(f"The file `{path.name}` with the {what} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a stranger's file can raise
        sys.modules.pop(name, None)
        said = f": {error}" if isinstance(error, (TypeError, Refused)) else ""
        raise Refused(
            f"The file `{path.name}` with the {what} fails when it is loaded: "
            f"{type(error).__name__}{said}."
        ) from None
    return module


def _is_abstract(value: object) -> bool:
    return bool(getattr(value, "__isabstractmethod__", False))
