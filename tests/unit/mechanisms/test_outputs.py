"""Outputs come back from an envelope by the names it notes, and by no other name."""

from __future__ import annotations

import pytest

from understudy.errors import Refused
from understudy.mechanisms.outputs.outcome_draws import Histograms, ParameterDraws
from understudy.mechanisms.outputs.outputs import noted_outputs, output_from

DRAWS = [{"slope": 1.5}, {"slope": -0.25}]


@pytest.mark.parametrize("cls", [ParameterDraws, Histograms])
def test_an_output_comes_back_by_its_name(cls: type) -> None:
    made = cls(tuple(DRAWS))
    back = output_from(made.names, made.draws())
    assert type(back) is cls
    assert back.draws() == DRAWS


def test_parts_of_mixed_data_come_back_each_by_its_name() -> None:
    draws = [{"parts": [{"count": i}, {"slope": 2 * i}]} for i in range(3)]
    back = output_from(("CellCounts", "ParameterDraws"), draws)
    assert back.names == ("CellCounts", "ParameterDraws")
    assert back.draws() == draws


@pytest.mark.parametrize(
    "name", ["MadeRows", "OwnTables", "MixedDraws", "DrawnOutput", "RowsOutput", "Ground", "os", ""]
)
def test_names_of_other_things_are_refused(name: str) -> None:
    assert name not in noted_outputs()
    with pytest.raises(Refused, match="unknown kind"):
        output_from([name], DRAWS)


def test_an_envelope_without_draws_is_refused() -> None:
    for names, draws in (([], DRAWS), (["ParameterDraws"], [])):
        with pytest.raises(Refused, match="no draws"):
            output_from(names, draws)
