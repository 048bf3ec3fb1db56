"""The output that an envelope holds, by the names that it notes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from typing import Any

from understudy.errors import Refused
from understudy.mechanisms.outputs.output import MechanismOutput


def output_from(names: Sequence[str], draws: Sequence[dict[str, Any]]) -> MechanismOutput:
    """The output of which these are the draws; of mixed data, one for each step."""
    classes = [_class(name) for name in names]
    if not classes or not draws:
        raise Refused("The envelope holds no draws; nothing is published.")
    if len(classes) == 1:
        return classes[0].from_draws(draws)
    from understudy.mechanisms.outputs.mixed_draws import MixedDraws

    return MixedDraws(
        tuple(
            cls.from_draws([draw["parts"][number] for draw in draws])
            for number, cls in enumerate(classes)
        )
    )


def _class(name: str) -> type[MechanismOutput]:
    if name not in noted_outputs():
        raise Refused("The envelope holds draws of an unknown kind; nothing is published.")
    return noted_outputs()[name]


@cache
def noted_outputs() -> dict[str, type[MechanismOutput]]:
    """The outputs of this folder that an envelope can hold, by name."""
    package = "understudy.mechanisms.outputs"
    names = [f"{package}.{entry.name}" for entry in iter_modules(import_module(package).__path__)]
    values = [value for name in names for value in vars(import_module(name)).values()]
    classes = [v for v in values if isinstance(v, type) and issubclass(v, MechanismOutput)]
    return {cls.__name__: cls for cls in classes if cls.noted and not isabstract(cls)}
