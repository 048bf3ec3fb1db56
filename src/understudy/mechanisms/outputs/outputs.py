"""The output that an envelope holds, by the names that it notes: only its own file is imported."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from understudy.errors import Refused
from understudy.mechanisms.outputs.output import MechanismOutput

_HOMES = {
    "outcome_draws": ("ParameterDraws", "Histograms"),
    "cell_draws": ("CellCounts", "MarginalTables"),
    "file_tables": ("FileTables",),
}


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
    for module, classes in _HOMES.items():
        if name in classes:
            home = import_module(f"understudy.mechanisms.outputs.{module}")
            cls: type[MechanismOutput] = getattr(home, name)
            return cls
    raise Refused("The envelope holds draws of an unknown kind; nothing is published.")
