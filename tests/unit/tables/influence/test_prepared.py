"""What the synthetic files say before anything is asked of the confidential one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.tables.influence.ask import questions_of
from understudy.tables.influence.prepared import MeasuredInfluence, measure_influence
from understudy.tables.influence.question import SyntheticFile

Y = np.array([1.0, 4.0, -2.0, 7.0, 3.0, -1.0])


def measured(y: np.ndarray, where: str | None = None) -> MeasuredInfluence:
    survey = Survey(pl.DataFrame({"y": y, "w": np.full(6, 2.0)}), Design("w"))
    questions = questions_of("mean(y)", [survey], where=where)
    return measure_influence(questions, [SyntheticFile(survey)], 6)


@pytest.mark.parametrize("level", [-0.1, 0.1])
def test_a_constant_has_no_sampling_error_be_it_negative_or_not(level: float) -> None:
    assert measured(np.full(6, level)).varies.tolist() == [False]


def test_a_mean_has_the_textbook_error_be_it_negative_or_not() -> None:
    for sign in (1.0, -1.0):
        of_mean = measured(sign * Y)
        assert of_mean.varies.tolist() == [True]
        np.testing.assert_allclose(of_mean.sampling_se, Y.std(ddof=1) / np.sqrt(6))


def test_noise_is_scaled_by_the_units_that_have_an_influence() -> None:
    """Four of six are above zero: the scale is the standard error times sqrt(6/4)."""
    for where, active in ((None, 6), ("y > 0", 4)):
        of_mean = measured(Y, where)
        np.testing.assert_allclose(of_mean.scale, of_mean.sampling_se * np.sqrt(6 / active))
