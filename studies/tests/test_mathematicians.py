"""The simulated mathematicians: what C §5 publishes, and the law that a Beta regression fits."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from understudy_studies.censoring.mathematicians import (
    AGE_EFFECTS,
    AGES,
    BOUNDS,
    CONCENTRATION,
    GENDERS,
    INTERCEPT,
    SLOPE,
    mathematicians,
)
from understudy_studies.framework import published


def test_published_facts_hold() -> None:
    frame = mathematicians().frame()
    salary = frame["salary"].to_numpy()
    assert frame.height == 1601
    printed = published("censoring", "table-2").filter(mechanism="Data")
    ours = {"Mean": salary.mean(), "Median": np.median(salary),
            "15th Q": np.quantile(salary, 0.15), "90th Q": np.quantile(salary, 0.9)}  # fmt: skip
    for name, value in ours.items():  # as near as a Beta regression comes
        assert value == pytest.approx(printed[name].item(), rel=0.1)
    assert set(frame["gender"]) == set(GENDERS)
    assert set(frame["age"]) == set(AGES)
    assert (frame["weeks"].min(), frame["weeks"].max()) == (2, 52)
    assert BOUNDS[0] < salary.min() < salary.max() < BOUNDS[1]


def test_salaries_have_the_law_of_the_papers_model() -> None:
    """Through the distribution function of SciPy's Beta at each record's mean they are uniform."""
    frame = mathematicians(n=4000, seed=3).frame()
    age = frame["age"].replace_strict(dict(zip(AGES, AGE_EFFECTS, strict=True)))
    standing = age - 0.25 * (frame["gender"] == "Female") + 0.03 * (frame["weeks"] - 52)
    mean = 1 / (1 + np.exp(-(INTERCEPT + SLOPE * standing.to_numpy())))
    shares = frame["salary"].to_numpy() / BOUNDS[1]
    uniform = stats.beta.cdf(shares, mean * CONCENTRATION, (1 - mean) * CONCENTRATION)
    assert stats.kstest(uniform, "uniform").pvalue > 0.001


def test_salary_goes_with_the_predictors() -> None:
    survey = mathematicians(seed=5)
    frame = survey.frame()
    means = {g: frame.filter(pl.col("gender") == g)["salary"].mean() for g in GENDERS}
    assert means["Male"] > means["Female"]
    correlation = np.corrcoef(frame["weeks"].to_numpy(), np.log(frame["salary"].to_numpy()))
    assert correlation[0, 1] > 0.1


def test_another_level_is_another_survey_of_lower_salaries() -> None:
    later, earlier = mathematicians(seed=1), mathematicians(seed=2, level=0.96)
    medians = [survey.frame()["salary"].median() for survey in (earlier, later)]
    assert medians[0] == pytest.approx(0.96 * medians[1], rel=0.05)  # type: ignore[operator]
    assert not later.frame()["weeks"].equals(earlier.frame()["weeks"])
