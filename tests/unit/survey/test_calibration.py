"""Calibration in small: factors and their slopes, limits, and what is brought to which total."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.survey.calibration import adjustment, calibrate, margins_of
from understudy.survey.design import Design
from understudy.survey.survey import Survey

FILE = Survey(
    pl.DataFrame({"sex": ["f", "f", "m", "m", "m"], "age": [20, 30, 40, 50, 60], "w": [1.0] * 5}),
    Design(weight="w"),
)


@pytest.mark.parametrize(
    ("method", "limits"),
    [("linear", None), ("raking", None), ("logit", (0.5, 2.0)), ("logit", (0.0, 3.5))],
)
def test_slopes_are_those_of_the_factors(method: Any, limits: Any) -> None:
    """Against differences; a factor is 1 where nothing is missing, and keeps its limits."""
    adjust, u = adjustment(method, limits), np.linspace(-2, 2, 41)
    factors, slopes = adjust(u)
    np.testing.assert_allclose(
        (adjust(u + 1e-6)[0] - adjust(u - 1e-6)[0]) / 2e-6, slopes, rtol=1e-6
    )
    assert factors[20] == pytest.approx(1.0)
    if limits is not None:
        np.testing.assert_allclose(adjust(np.array([-50.0, 50.0]))[0], limits, atol=1e-12)


@pytest.mark.parametrize("limits", [(-0.1, 2.0), (1.0, 2.0), (1.5, 2.0), (0.5, 1.0), (0.2, 0.9)])
def test_one_lies_between_the_limits(limits: tuple[float, float]) -> None:
    with pytest.raises(Refused, match="1 between them"):
        calibrate(FILE, {}, population=50, method="logit", limits=limits)
    assert calibrate(FILE, {}, population=6, method="logit", limits=(0.0, 2.0)).design.calibrated


def test_levels_numbers_and_the_population_are_met() -> None:
    made = calibrate(FILE, {"sex": {"f": 12, "m": 18}, "age": 1260}, population=30)
    frame = made.frame()
    weight = frame["w_calibrated"]
    assert weight.sum() == pytest.approx(30)
    assert weight.filter(frame["sex"] == "f").sum() == pytest.approx(12)
    assert (weight * frame["age"]).sum() == pytest.approx(1260)
    assert (made.design.weight, made.design.base_weight) == ("w_calibrated", "w")
    alone = margins_of(FILE.frame(), {}, 30)
    assert (alone.matrix.tolist(), alone.totals.tolist()) == ([[1.0]] * 5, [30.0])
