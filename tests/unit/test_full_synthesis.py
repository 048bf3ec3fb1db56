"""Full synthesis by completing the population: V's variance, the model's law, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.chance import chance_of
from understudy.publication import outcome_ground

N0, FILES = 4000, 3


@pytest.fixture(scope="module")
def population() -> pl.DataFrame:
    return us.doctorate_population(np.random.default_rng(3))


@pytest.fixture(scope="module")
def result() -> us.Synthesis:
    """Draws that no fit made: their law is known."""
    survey, model = us.doctorates(300), us.FBP("salary", "C(field) + gender")
    bound = model.for_survey(survey)
    rng = np.random.default_rng(2)
    draws = tuple(
        {
            "beta": np.append(11.5 + 0.1 * k, rng.normal(0, 0.2, 8))[:, None],
            "kappa_x": rng.normal(0, 0.2, 9), "kappa_y": np.array([0.9]),
            "sigma_pi": 0.4,
            "sigma_y": np.array([0.4 + 0.1 * k]),
        }
        for k in range(FILES)
    )  # fmt: skip
    ground = outcome_ground(survey, survey, bound, look_inside=False)
    output, claim = us.ParameterDraws(draws), us.Claim("risk", None, mechanism="known draws")
    return us.Synthesis(claim, output, ground, chance_of(1), "rows", np.ones(survey.n))


@pytest.fixture(scope="module")
def files(result: us.Synthesis, population: pl.DataFrame) -> list[us.Survey]:
    return us.full_synthesis(result, population, N0, seed=5)


def test_the_variance_of_a_total_is_the_papers(
    files: list[us.Survey], population: pl.DataFrame
) -> None:
    """V §3, N^2 (1 - n0/N) s0^2/n0; each file is another sample of other persons."""
    N = population.height
    for file in files:
        salary = file.frame()["salary"].to_numpy()
        line = us.tabulate(file, "total(salary)").row(0, named=True)
        assert line["estimate"] == pytest.approx(N * salary.mean())
        assert line["se"] ** 2 == pytest.approx(N**2 * (1 - N0 / N) * salary.var(ddof=1) / N0)
    fields = [file.frame()["field"].to_list() for file in files]
    assert fields[0] != fields[1]
    combined = us.tabulate(files, "mean(salary)", combine="full").row(0, named=True)
    means = [file.frame()["salary"].mean() for file in files]
    assert combined["estimate"] == pytest.approx(np.mean(means))


def test_values_have_the_law_of_a_completed_population(
    files: list[us.Survey], result: us.Synthesis, population: pl.DataFrame
) -> None:
    """Beside a population that is completed unit by unit, in NumPy, and then sampled."""
    rng = np.random.default_rng(8)
    field, male = population["field"].to_numpy(), (population["gender"] == "Male").to_numpy()
    dummies = [np.ones(len(field)), *((field == f) * 1.0 for f in range(2, 9)), 1.0 - male]
    for file, draw in zip(files, result.draws, strict=True):
        mean = np.column_stack(dummies) @ np.asarray(draw["beta"])[:, 0]
        completed = mean + float(draw["sigma_y"][0]) * rng.standard_normal(len(mean))
        sampled = rng.choice(completed, N0, replace=False)
        ours = np.log(file.frame()["salary"].to_numpy())
        for statistic in (np.mean, np.var):
            # both are simple random samples of populations with one law
            spread = completed.std() * np.sqrt(2 / N0) * (1 if statistic is np.mean else 2)
            assert abs(statistic(ours) - statistic(sampled)) < 4.5 * spread
        women = np.array([(file.frame()["gender"] == "Female").mean(), 1 - male.mean()])
        assert abs(women[0] - women[1]) < 4.5 * np.sqrt(0.25 / N0)
        by_gender = file.frame().group_by("gender").agg(pl.col("salary").log().mean())
        gap = dict(by_gender.iter_rows())
        expected = mean[male].mean() - mean[~male].mean()
        assert gap["Male"] - gap["Female"] == pytest.approx(expected, abs=4.5 * 0.5 * 2 / N0**0.5)


def test_what_cannot_be_completed_is_refused(
    result: us.Synthesis, population: pl.DataFrame
) -> None:
    with pytest.raises(us.Refused, match="`size` must lie between 1 and the 100,000"):
        us.full_synthesis(result, population, 0)
    with pytest.raises(us.Refused, match="column of the population `gender`"):
        us.full_synthesis(result, population.drop("gender"), 10)
    fbs = us.FBS("salary", "C(field) + gender").for_survey(us.doctorates(300))
    sampled = replace(result, ground=replace(result.ground, models=(fbs,)))
    with pytest.raises(us.Refused, match="FBS describes the sample"):
        us.full_synthesis(sampled, population, 10)
