"""The mechanism that a recipe names: found by its class, built from its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

from understudy.claim import KINDS
from understudy.declarations import OWN, declared_as, declared_in, own_class, settings_of
from understudy.errors import Refused, UnknownName
from understudy.mechanisms.contract import Mechanism
from understudy.release.model_part import ModelPart
from understudy.release.recipe_values import names_file
from understudy.survey.survey import Survey

PACKAGE = "understudy.mechanisms"

ReadSurvey = Callable[[Path], Survey]


@dataclass(frozen=True)
class MechanismPart:
    """A mechanism by name and the settings that the recipe gives it; a setting that takes another
    mechanism holds a part of its own, and one that takes a survey the path of its file."""

    name: str
    cls: type[Mechanism]
    options: Mapping[str, Any] = field(default_factory=dict)

    def files(self) -> Iterator[Path]:
        """The historical files that the settings name."""
        for name, value in self.options.items():
            if isinstance(value, MechanismPart):
                yield from value.files()
            elif isinstance(value, Path) and names_file(settings_of(self.cls)[name]):
                yield value

    def build(self, read: ReadSurvey) -> Mechanism:
        """The mechanism, with its files read."""
        settings = dict(self.options)
        for name, value in settings.items():
            if isinstance(value, MechanismPart):
                settings[name] = value.build(read)
            elif isinstance(value, Path):
                settings[name] = read(value)
        return self.cls(**settings)

    def facts(self) -> Mechanism:
        """The class with these settings, unchecked and without its files: to ask what it declares
        before anything is read."""
        defaults = {s.name: s.default for s in settings_of(self.cls).values()}
        drafted = object.__new__(self.cls)
        for name, value in {**defaults, **self.options}.items():
            known = value.facts() if isinstance(value, MechanismPart) else value
            object.__setattr__(drafted, name, known)
        return drafted

    def __str__(self) -> str:
        """As a person would write it, without the names of files."""
        shown = [
            f"{name}={value}" for name, value in self.options.items() if not isinstance(value, Path)
        ]
        return f"{self.name}({', '.join(shown)})"


@dataclass(frozen=True)
class GivenPart:
    """A regression of numbers on the synthetic categories, with its own mechanism."""

    model: ModelPart
    mechanism: MechanismPart


@cache
def all_mechanisms() -> dict[str, type[Mechanism]]:
    """Every mechanism of the package."""
    return declared_in(PACKAGE, Mechanism)


def find_mechanism(name: str, folder: Path) -> type[Mechanism]:
    """The class that a recipe names; upper and lower case do not matter.

    A name that is not known is answered by a near one, but never by one that protects less than
    another near one.
    """
    if OWN in name:
        return own_class(name, Mechanism, "mechanism", folder)
    cls = declared_as(name, PACKAGE, Mechanism)
    if cls is not None:
        return cls
    known = all_mechanisms()
    near = _near(name, known)
    if near is not None:
        raise Refused(f"Unknown mechanism `{name}`; did you mean `{near}`?")
    raise UnknownName("mechanism", name, known)


def own_files(name: str) -> tuple[str, ...]:
    """The steward's file in a name, if it is one."""
    return (name.partition(OWN)[0] + ".py",) if OWN in name else ()


NEARLY = 0.1  # in difflib's ratio: two names that are about as near as each other


def _near(name: str, known: Mapping[str, type[Any]]) -> str | None:
    """The nearest known name; of those that are about as near, the one with the strongest claim."""
    ratios = {
        known_name: SequenceMatcher(None, name.casefold(), known_name.casefold()).ratio()
        for known_name in known
    }
    best = max(ratios.values())
    if best < 0.5:
        return None
    close = [known_name for known_name, ratio in ratios.items() if ratio >= best - NEARLY]
    return min(close, key=lambda near: (_weakness(known[near]), -ratios[near]))


def _weakness(cls: type[Mechanism]) -> int:
    claims = vars(cls).get("claims", cls.claims)
    return KINDS.index(claims) if isinstance(claims, str) and claims in KINDS else 0
