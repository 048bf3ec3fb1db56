"""From a recipe's words to the model and the mechanism that they name."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import understudy as us
from understudy.declarations import OWN
from understudy.errors import Refused, UnknownName
from understudy.models.contract import Model
from understudy.models.multinomial import Multinomial
from understudy.release.recipe import MechanismPart, ModelPart
from understudy.survey.survey import Survey


def build_model(part: ModelPart, folder: Path, missing: str = "refuse") -> Model | Multinomial:
    """The model; refused when its own arguments are."""
    if OWN in part.name:
        own: Model = us.from_numpyro(_own_function(part.name, folder), list(part.sensitive))
        return own
    make = getattr(us, part.name)
    if part.name == "Multinomial":
        return Multinomial(list(part.sensitive), missing=missing, **part.options)
    outcome: Any = part.sensitive if part.name in ("FBS", "FBP") else part.sensitive[0]
    given = [] if part.predictors is None else [part.predictors]
    model: Model = make(outcome, *given, **part.options)
    return model


def model_words(part: ModelPart) -> str:
    """The model as a person would write it: FBS(salary ~ field + gender)."""
    about = ", ".join(part.sensitive)
    if part.predictors is not None:
        about += f" ~ {part.predictors}"
    options = [f", {name}={value}" for name, value in part.options.items()]
    return f"{part.name}({about}{''.join(options)})"


def build_mechanism(part: MechanismPart, reference: Survey | None = None) -> Any:
    """The mechanism; `reference` is the historical survey that the recipe names, once read."""
    options = dict(part.options)
    if isinstance(options.get("reference"), str) and options["reference"] != "two-stage":
        options["reference"] = reference
    if isinstance(options.get("weights"), Mapping):
        inner = dict(options["weights"])
        options["weights"] = build_mechanism(MechanismPart(inner.pop("mechanism"), inner))
    return getattr(us, part.name)(**options)


def mechanism_words(part: MechanismPart) -> str:
    """The mechanism as a person would write it, without the names of files."""
    shown = {name: value for name, value in part.options.items() if name != "reference"}
    return f"{part.name}({', '.join(f'{name}={value}' for name, value in shown.items())})"


def reference_path(part: MechanismPart, folder: Path) -> Path | None:
    """The historical file that a mechanism names, if any."""
    named = part.options.get("reference")
    return folder / named if isinstance(named, str) and named != "two-stage" else None


def _own_function(name: str, folder: Path) -> Any:
    """The function of a steward's own file; what the file does is the steward's affair."""
    file, _, function = name.partition(":")
    path = folder / file
    if not path.is_file():
        raise Refused(f"There is no model file `{file}` beside the recipe; check `model`.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Refused(f"The model file `{file}` is no Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a stranger's file can raise
        kind = type(error).__name__
        raise Refused(f"The model file `{file}` fails when it is loaded: {kind}.") from None
    if not hasattr(module, function):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise UnknownName(f"function in `{file}`", function, public)
    return getattr(module, function)
