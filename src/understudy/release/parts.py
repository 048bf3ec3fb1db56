"""The model and the mechanism that a recipe names: found by their class, built from their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

from understudy.claim import KINDS
from understudy.declarations import (
    OWN,
    Setting,
    declared_in,
    is_complete,
    own_class,
    own_module,
    settings_of,
)
from understudy.errors import Refused, UnknownName
from understudy.mechanisms.contract import Mechanism
from understudy.models.contract import Model
from understudy.models.from_numpyro import NumPyroModel, from_numpyro
from understudy.release.recipe_values import names_file
from understudy.survey.survey import Survey

ReadSurvey = Callable[[Path], Survey]


@dataclass(frozen=True)
class ModelPart:
    """A model by name, its columns, and the settings that the recipe gives it."""

    name: str
    cls: type[Model]
    sensitive: tuple[str, ...]
    predictors: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None  # of the steward's own file

    def build(self, missing: str = "refuse") -> Model:
        """The model; refused when its own arguments are."""
        if self.function is not None:
            return from_numpyro(self.function, list(self.sensitive))
        names = [known.name for known in fields(self.cls)]  # type: ignore[arg-type]
        settings = dict(self.options)
        if self.sensitive or needs_columns(self.cls):
            settings[names[0]] = self.sensitive if takes_several(self.cls) else self.sensitive[0]
        if self.predictors is not None:
            settings["predictors"] = self.predictors
        if "missing" in names:
            settings["missing"] = missing
        return self.cls(**settings)

    def __str__(self) -> str:
        """As a person would write it: FBS(salary ~ field + gender)."""
        about = ", ".join(self.sensitive) or "all columns"
        if self.predictors is not None:
            about += f" ~ {self.predictors}"
        options = [f", {name}={value}" for name, value in self.options.items()]
        return f"{self.name}({about}{''.join(options)})"


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
def all_models() -> dict[str, type[Model]]:
    """Every model of the package that a recipe can name."""
    classes = declared_in("understudy.models", Model)
    return {name: cls for name, cls in classes.items() if cls is not NumPyroModel}


@cache
def all_mechanisms() -> dict[str, type[Mechanism]]:
    """Every mechanism of the package."""
    return declared_in("understudy.mechanisms", Mechanism)


def find_model(name: str, folder: Path) -> tuple[type[Model], Callable[..., Any] | None]:
    """The class that a recipe names, or the steward's own NumPyro function."""
    if OWN not in name:
        return _by_name("model", name, all_models()), None
    file, _, wanted = name.rpartition(":")
    module = own_module(file, "model", folder)
    value = vars(module).get(wanted)
    if is_complete(value, Model):
        return own_class(name, Model, "model", folder), None
    if not callable(value):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise UnknownName(f"function in `{Path(file).name}`", wanted, public)
    return NumPyroModel, value


def find_mechanism(name: str, folder: Path) -> type[Mechanism]:
    """The class that a recipe names; upper and lower case do not matter.

    A name that is not known is answered by a near one, but never by one that protects less than
    another near one.
    """
    if OWN in name:
        return own_class(name, Mechanism, "mechanism", folder)
    return _by_name("mechanism", name, all_mechanisms())


def model_settings(cls: type[Model]) -> dict[str, Setting]:
    """A model's own keys in [synthesis]; `sensitive`, `predictors` and `missing` are everyone's."""
    first = fields(cls)[0].name  # type: ignore[arg-type]
    settings = settings_of(cls).items()
    return {name: s for name, s in settings if name not in (first, "predictors", "missing")}


def takes_several(cls: type[Model]) -> bool:
    """Whether a model synthesizes more than one column: the type of its first field says so."""
    if cls is NumPyroModel:
        return True
    first = fields(cls)[0].name  # type: ignore[arg-type]
    return "tuple" in str(settings_of(cls)[first].type)


def needs_columns(cls: type[Model]) -> bool:
    """Whether a model must be told its columns: its first field has no default."""
    if cls is NumPyroModel:
        return True
    return settings_of(cls)[fields(cls)[0].name].required  # type: ignore[arg-type]


def predictors_of(cls: type[Model]) -> str:
    """Whether a model needs a formula: required, optional or none."""
    setting = settings_of(cls).get("predictors")
    if setting is None:
        return "none"
    return "required" if setting.required else "optional"


def own_files(name: str) -> tuple[str, ...]:
    """The steward's file in a name, if it is one."""
    return (name.partition(OWN)[0] + ".py",) if OWN in name else ()


def _by_name(what: str, name: str, known: Mapping[str, type[Any]]) -> type[Any]:
    folded = {known_name.casefold(): known_name for known_name in known}
    if name.casefold() in folded:
        return known[folded[name.casefold()]]
    if what == "mechanism":
        near = _near(name, known)
        if near is not None:
            raise Refused(f"Unknown {what} `{name}`; did you mean `{near}`?")
    raise UnknownName(what, name, known)


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
