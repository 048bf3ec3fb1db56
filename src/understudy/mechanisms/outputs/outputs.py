"""The output that an envelope holds, by the names that it notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.errors import Refused
from understudy.mechanisms.outputs.cell_draws import CellCounts, MarginalTables
from understudy.mechanisms.outputs.file_tables import FileTables
from understudy.mechanisms.outputs.mixed_draws import MixedDraws
from understudy.mechanisms.outputs.outcome_draws import Histograms, ParameterDraws
from understudy.mechanisms.outputs.output import MechanismOutput

_OUTPUTS: dict[str, type[MechanismOutput]] = {
    cls.__name__: cls
    for cls in (ParameterDraws, Histograms, CellCounts, MarginalTables, FileTables)
}


def output_from(names: Sequence[str], draws: Sequence[dict[str, Any]]) -> MechanismOutput:
    """The output of which these are the draws; of mixed data, one for each step."""
    if not names or not draws or not set(names) <= set(_OUTPUTS):
        raise Refused("The envelope holds draws of an unknown kind; nothing is published.")
    if len(names) == 1:
        return _OUTPUTS[names[0]].from_draws(draws)
    parts = [
        _OUTPUTS[name].from_draws([draw["parts"][number] for draw in draws])
        for number, name in enumerate(names)
    ]
    return MixedDraws(tuple(parts))
