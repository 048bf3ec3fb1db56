"""The simulated mathematicians have the facts that C §5 publishes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from understudy_studies.censoring.mathematicians import AGES, BOUNDS, GENDERS, mathematicians


def test_published_facts_hold() -> None:
    frame = mathematicians().frame()
    salary = frame["salary"].to_numpy()
    assert frame.height == 1601
    assert np.quantile(salary, (0.15, 0.5, 0.9)) == pytest.approx([51_000, 80_000, 150_000])
    assert salary.mean() == pytest.approx(91_019, abs=0.5)
    assert set(frame["gender"]) == set(GENDERS)
    assert set(frame["age"]) == set(AGES)
    assert (frame["weeks"].min(), frame["weeks"].max()) == (2, 52)
    assert BOUNDS[0] < salary.min() < salary.max() < BOUNDS[1]


def test_salary_goes_with_the_predictors() -> None:
    survey = mathematicians(seed=5)
    frame = survey.frame()
    means = {g: frame.filter(pl.col("gender") == g)["salary"].mean() for g in GENDERS}
    assert means["Male"] > means["Female"]
    correlation = np.corrcoef(frame["weeks"].to_numpy(), np.log(frame["salary"].to_numpy()))
    assert correlation[0, 1] > 0.1


def test_another_level_is_another_survey_of_lower_salaries() -> None:
    later, earlier = mathematicians(seed=1), mathematicians(seed=2, level=0.96)
    assert earlier.frame()["salary"].median() == pytest.approx(0.96 * 80_000)
    assert not later.frame()["weeks"].equals(earlier.frame()["weeks"])
