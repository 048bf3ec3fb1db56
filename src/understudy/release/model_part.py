"""The model that a recipe names: found by its class, built from its keys, on both sides."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from understudy.declarations import (
    OWN,
    Setting,
    declared_as,
    declared_in,
    is_complete,
    own_class,
    own_module,
    settings_of,
)
from understudy.errors import UnknownName
from understudy.models.contract import Model
from understudy.models.from_numpyro import NumPyroModel, from_numpyro

PACKAGE = "understudy.models"


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

    def facts(self, missing: str) -> dict[str, Any]:
        """The part as JSON values, from which the outside builds the same model."""
        return {
            "name": self.name,
            "module": self.cls.__module__,
            "sensitive": self.sensitive,
            "predictors": self.predictors,
            "options": dict(self.options),
            "missing": missing,
        }

    def __str__(self) -> str:
        """As a person would write it: FBS(salary ~ field + gender)."""
        about = ", ".join(self.sensitive) or "all columns"
        if self.predictors is not None:
            about += f" ~ {self.predictors}"
        options = [f", {name}={value}" for name, value in self.options.items()]
        return f"{self.name}({about}{''.join(options)})"


@cache
def all_models() -> dict[str, type[Model]]:
    """Every model of the package that a recipe can name."""
    classes = declared_in(PACKAGE, Model)
    return {name: cls for name, cls in classes.items() if cls is not NumPyroModel}


def model_from(facts: Mapping[str, Any], folder: Path) -> Model:
    """The model that `ModelPart.facts` wrote; of the package's own files, its one alone is read."""
    name, module = facts["name"], facts["module"]
    function = None
    if OWN not in name and module.startswith(f"{PACKAGE}."):
        classes = vars(importlib.import_module(module))
        there = {known: value for known, value in classes.items() if is_complete(value, Model)}
        cls = known_class("model", name, there)
    else:
        cls, function = find_model(name, folder)
    options = {key: tuple(v) if isinstance(v, list) else v for key, v in facts["options"].items()}
    part = ModelPart(name, cls, tuple(facts["sensitive"]), facts["predictors"], options, function)
    return part.build(facts["missing"])


def find_model(name: str, folder: Path) -> tuple[type[Model], Callable[..., Any] | None]:
    """The class that a recipe names, or the steward's own NumPyro function."""
    if OWN not in name:
        cls = declared_as(name, PACKAGE, Model)
        if cls is None or cls is NumPyroModel:
            cls = known_class("model", name, all_models())
        return cls, None
    file, _, wanted = name.rpartition(":")
    module = own_module(file, "model", folder)
    value = vars(module).get(wanted)
    if is_complete(value, Model):
        return own_class(name, Model, "model", folder), None
    if not callable(value):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise UnknownName(f"function in `{Path(file).name}`", wanted, public)
    return NumPyroModel, value


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


def known_class(what: str, name: str, known: Mapping[str, type[Any]]) -> type[Any]:
    """The class of a name; upper and lower case do not matter."""
    folded = {known_name.casefold(): known_name for known_name in known}
    if name.casefold() in folded:
        return known[folded[name.casefold()]]
    raise UnknownName(what, name, known)
