"""FBS and FBP through the engine: every mechanism, claims, and files that add up."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.demo.doctorates import codebook, doctorates, population, sample
from understudy.errors import Refused
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.reference_censored import ReferenceCensored
from understudy.mechanisms.weighted import Weighted
from understudy.models.normal_population import FBP
from understudy.models.normal_sample import FBS
from understudy.models.survey_normal import SurveyNormal
from understudy.survey.survey import Survey
from understudy.synthesis import Synthesis, synthesize

BY = ["field", "gender"]


@pytest.fixture(scope="module")
def survey() -> Survey:
    """Its weights add up to other sizes than the public ones: released totals must be public."""
    rng = np.random.default_rng(2)
    frame = sample(population(rng), 400, rng)
    return Survey(frame, us.Design(weight="weight", strata="field"), codebook())


def release(survey: Survey, model: SurveyNormal, mechanism: object) -> Synthesis:
    return synthesize(
        survey, model, mechanism, datasets=3, seed=4, draws=1000, chains=2, progress=False  # type: ignore[arg-type]
    )  # fmt: skip


ToABound = Callable[[SurveyNormal, float], Synthesis]


@pytest.fixture(scope="module")
def weighted(survey: Survey) -> ToABound:
    """Releases under Weighted, each made once for all tests that look at it."""
    return cache(lambda model, bound: release(survey, model, Weighted(bound=bound)))


@pytest.mark.parametrize("model", [FBS("salary", "gender"), FBP("salary", "gender")], ids=repr)
@pytest.mark.parametrize("bound", [1.8, 3.4])
def test_weighted_to_a_bound(
    survey: Survey, weighted: ToABound, model: SurveyNormal, bound: float
) -> None:
    result = weighted(model, bound)
    assert bound - 0.03 <= result.record_bounds.max() <= bound
    assert result.claim.kind == "asymptotic"
    assert result.claim.epsilon == pytest.approx(6 * bound)
    assert any("N = 100,000" in condition for condition in result.claim.conditions)
    sizes = codebook().population_by["field"]
    for dataset in result.datasets:
        frame = dataset.frame()
        assert frame.select(BY).equals(survey.frame(BY))
        totals = frame.group_by("field").agg(pl.col("weight").sum())
        for field, total in totals.iter_rows():
            assert total == pytest.approx(sizes[field], rel=1e-12)
        assert not np.isclose(frame["weight"].sum(), survey.frame()["weight"].sum())


@pytest.mark.parametrize("model", [FBS("salary", "gender"), FBP("salary", "gender")], ids=repr)
def test_clipped_mechanisms(survey: Survey, model: SurveyNormal) -> None:
    censored = release(survey, model, Censored(epsilon=10.8))
    assert censored.record_bounds.max() <= 1.8
    assert (censored.claim.kind, censored.claim.epsilon) == ("local", 10.8)
    reference = doctorates(400, seed=9)
    referenced = release(survey, model, ReferenceCensored(3.0, reference, prior_scale=0.5))
    assert referenced.record_bounds.max() <= 0.5
    assert (referenced.claim.kind, referenced.claim.epsilon) == ("formal", 3.0)
    for result in (censored, referenced):
        mean = np.mean([dataset.frame()["salary"].mean() for dataset in result.datasets])
        assert 90_000 < mean < 160_000


def test_tables_of_the_files_add_up(weighted: ToABound) -> None:
    """Counts of margins are the sums of their cells, and field totals are the public ones."""
    result = weighted(FBS("salary", "gender"), 1.8)
    table = us.tabulate(
        result.datasets, ["count", "mean(salary)"], by=BY, margins=True, combine="partial"
    )
    counts = table.filter(pl.col("statistic") == "count")
    inner = counts.filter((pl.col("field") != "All") & (pl.col("gender") != "All"))
    by_field = inner.group_by("field").agg(pl.col("estimate").sum())
    margin = counts.filter((pl.col("field") != "All") & (pl.col("gender") == "All"))
    joined = margin.join(by_field, on="field", suffix="_sum")
    np.testing.assert_allclose(joined["estimate"], joined["estimate_sum"], rtol=1e-12)
    sizes = {str(k): v for k, v in codebook().population_by["field"].items()}
    expected = [sizes[field] for field in joined["field"]]
    np.testing.assert_allclose(joined["estimate"], expected, rtol=1e-12)
    with pytest.raises(Refused, match="Unknown by-variable `region`"):
        us.tabulate(result.datasets, "count", by=["region"], combine="partial")


def test_the_draw_and_the_seed_make_the_file(survey: Survey, weighted: ToABound) -> None:
    released = weighted(FBP("salary", "gender"), 1.8)
    other = release(survey, FBP("salary", "gender"), Weighted(bound=1.8))
    assert released.datasets[0].frame().equals(other.datasets[0].frame())
    assert set(released.draws[0]) == {"beta", "kappa_y", "kappa_x", "sigma_y", "sigma_pi"}
