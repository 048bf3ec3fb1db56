"""The covariance of sums by hand, where records have no weight."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.tables.design_records import DesignRecords

W = np.array([1.0, 2.0, 0.0, 3.0, 1.5, 2.5])
SEX = np.array(["F", "M", "F", "M", "F", "M"])
Y = np.array([4.0, 1.0, 9.0, 3.0, 2.0, 7.0])


def test_a_record_without_weight_is_one_of_the_sample_and_adds_nothing() -> None:
    """Calibrated to the sexes, so deviations are from the weighted mean of each: n/(n - 1) times
    the sum of squares."""
    survey = us.Survey(pl.DataFrame({"w": W, "sex": SEX}), us.Design("w", calibrated="sex"))
    terms = np.zeros(6)
    for sex in "FM":
        own = sex == SEX
        terms[own] = W[own] * (Y[own] - np.average(Y[own], weights=W[own]))
    ((variance,),) = DesignRecords(survey).covariance((W * Y)[:, None])
    assert variance == pytest.approx(6 * np.var(terms, ddof=1))
