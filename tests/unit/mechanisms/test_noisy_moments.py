"""NoisyMoments: what it refuses, what it claims, and that noise is drawn once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
import pytest

import understudy as us
from understudy.dp import binned_counts, clipped_moments
from understudy.errors import Refused
from understudy.fitting.fitter import ModelFitter
from understudy.mechanisms.contract import NoisyDraws
from understudy.mechanisms.noisy_moments import UNSURE

CLIP = ((13_000.0, 480_000.0), (20.0, 400.0))
MODEL = us.FBS("salary", "field + gender")
MIXTURE = us.Mixture("salary", "gender", 3, "prior", typical=70_000.0)
UNIT = "household"


def homes(survey: us.Survey, limit: int | None) -> us.Survey:
    frame = survey.frame().with_columns(pl.Series(UNIT, np.arange(survey.n) // 3))
    codebook = survey.codebook.with_column(us.Column(UNIT, "unit", "integer"))
    return us.Survey(frame, survey.design, replace(codebook, records_per_unit=limit))


@pytest.fixture(scope="module")
def survey() -> us.Survey:
    return us.doctorates(300, seed=2)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, float]]:
    """Nothing is sampled; the number of sums, the sensitivity and the budget of each noise."""
    calls: list[tuple[int, int, float]] = []
    zero = {
        "coefficients": np.zeros((9, 2)), "scale": np.ones(2), "correlation": np.eye(2)
    }  # fmt: skip

    def noise(sums, limit, part):
        calls.append((len(sums), limit // clipped_moments.GRID, float(part)))
        return sums

    def fixed(_fitter, _seen, _noisy, datasets):
        return NoisyDraws([zero] * datasets, True)

    monkeypatch.setattr(clipped_moments, "integer_laplace", noise)
    monkeypatch.setattr(ModelFitter, "given_noisy", fixed)
    return calls


@pytest.mark.parametrize("datasets", [1, 7])
def test_any_number_of_files_has_one_price_and_one_noise(survey, asked, datasets):
    result = us.synthesize(survey, MODEL, us.NoisyMoments(2.0, CLIP), datasets, 1, progress=False)
    assert asked == [(32, 2, 1.6), (3, 2, 0.4)]  # 16 cells of two values; three products
    claim = result.claim
    assert (claim.kind, claim.epsilon, claim.relation) == ("formal", 2.0, "blank")
    assert claim.epsilon_replace == 4.0
    cost = us.NoisyMoments(2.0, CLIP).cost()  # a ledger hears what the claim says
    assert (cost.epsilon, cost.delta) == (claim.epsilon, claim.delta) == (2, 0)
    assert any("16 combinations" in condition for condition in claim.conditions)
    assert not any("exact draw" in condition for condition in claim.conditions)
    assert UNSURE not in claim.conditions
    assert len(result.datasets) == datasets


@pytest.mark.usefixtures("asked")
def test_chains_that_did_not_agree_are_told_in_the_claim(survey, monkeypatch):
    made = ModelFitter.given_noisy

    def unsure(*arguments):
        return replace(made(*arguments), passed=False)

    monkeypatch.setattr(ModelFitter, "given_noisy", unsure)
    result = us.synthesize(survey, MODEL, us.NoisyMoments(2.0, CLIP), 2, 1, progress=False)
    assert UNSURE in result.claim.conditions


def test_a_household_has_the_noise_of_all_its_records(survey, asked):
    mechanism = us.NoisyMoments(2.0, CLIP)
    result = us.synthesize(homes(survey, 3), MODEL, mechanism, 2, 1, progress=False)
    assert asked == [(32, 6, 1.6), (3, 6, 0.4)]
    assert result.claim.unit == UNIT
    assert f"No `{UNIT}` has more than 3 records" in result.claim.conditions


def test_a_household_of_more_records_than_declared_is_refused(survey, asked):
    with pytest.raises(Refused, match="more than 2 records"):
        us.synthesize(homes(survey, 2), MODEL, us.NoisyMoments(2.0, CLIP), 2, 1)
    assert asked == []


@pytest.mark.parametrize(
    ("model", "mechanism", "words"),
    [
        (us.Beta("salary", bounds=(1.0, 5e6)), us.NoisyMoments(1.0, CLIP), "`clip` is for FBS"),
        (MIXTURE, us.NoisyMoments(1.0), "not for mixtures"),
        (MODEL, us.NoisyMoments(1.0, CLIP[:1]), "a pair of numbers for each of salary, weight"),
    ],
)
def test_what_does_not_go_together_is_refused_before_noise_is_drawn(
    survey, asked, model, mechanism, words
):
    with pytest.raises(Refused, match=words):
        us.synthesize(survey, model, mechanism, 2, 1)
    assert asked == []


def test_bounds_must_be_declared(survey, asked):
    column = replace(survey.codebook["weight"], bounds=None)
    other = us.Survey(survey.frame(), survey.design, survey.codebook.with_column(column))
    with pytest.raises(Refused, match="declare `bounds` of `weight`"):
        us.synthesize(other, MODEL, us.NoisyMoments(1.0), 2, 1)
    assert asked == []


def test_cells_of_few_records_are_refused(survey, asked):
    age = pl.Series("age", np.random.default_rng(1).normal(size=survey.n))
    other = us.Survey(survey.frame().with_columns(age), survey.design, survey.codebook)
    with pytest.raises(Refused, match="300 combinations for 300 records"):
        us.synthesize(other, us.FBS("salary", "age"), us.NoisyMoments(1.0, CLIP), 2, 1)
    assert asked == []


@pytest.mark.parametrize("clip", [((0.0, 5.0),), ((5.0, 5.0),), ((3.0, float("inf")),)])
def test_a_clip_is_two_numbers_above_0(clip):
    with pytest.raises(Refused, match="low before high"):
        us.NoisyMoments(1.0, clip)


@pytest.mark.parametrize("model", [MODEL, us.FBP("salary", "field + gender")])
def test_clipped_values_are_those_between_the_bounds(survey, model):
    """By hand: the middle of the logarithms is 0, the ends are -1 and 1; FBP turns the weight."""
    bound = model.for_survey(survey)
    low, high = bound.clipped_range(CLIP, survey)
    unit = np.log(100_000 / survey.n)
    weights = np.log(CLIP[1]) - unit
    wanted = [np.log(CLIP[0]), weights if isinstance(model, us.FBS) else -weights[::-1]]
    np.testing.assert_allclose(np.column_stack([low, high]), wanted)


@pytest.fixture
def binned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, float]]:
    """Nothing is sampled; the number of counts, the sensitivity and the budget of each noise."""
    calls: list[tuple[int, int, float]] = []

    def noise(counts, sensitivity, epsilon):
        calls.append((len(counts), sensitivity, epsilon))
        return counts

    def fixed(_fitter, _seen, _noisy, datasets):
        return NoisyDraws([{"phi": np.array(0.3), "lambda": np.array(6.0)}] * datasets, True)

    monkeypatch.setattr(binned_counts, "integer_laplace", noise)
    monkeypatch.setattr(ModelFitter, "given_noisy", fixed)
    return calls


BOUNDED = us.Beta("salary", bounds=(1.0, 5e6))


@pytest.mark.parametrize(("unit", "limit"), [(False, 1), (True, 3)])
def test_other_models_have_counts_in_bins_at_one_price(survey, binned, unit, limit):
    file = homes(survey, 3) if unit else survey
    mechanism = us.NoisyMoments(2.0, bins=12)
    result = us.synthesize(file, BOUNDED, mechanism, 4, 1, progress=False)
    assert binned == [(12, limit, 2.0)]  # all of epsilon, once
    claim = result.claim
    assert (claim.kind, claim.epsilon, claim.relation) == ("formal", 2.0, "blank")
    assert claim.unit == (UNIT if unit else "record")
    assert any("public bins, within the 1 combination of" in c for c in claim.conditions)
    assert len(result.datasets) == 4


def each_its_own(n, salary=None):
    centre = numpyro.sample("centre", dist.Normal(11.0, 1.0))
    with numpyro.plate("record", n):
        own = numpyro.sample("own", dist.Normal(centre, 1.0))
        numpyro.sample("salary", dist.LogNormal(own, 0.3), obs=salary)


def test_a_parameter_of_each_record_is_refused_before_noise_is_drawn(survey, binned):
    model = us.from_numpyro(each_its_own, sensitive=["salary"])
    with pytest.raises(Refused, match="without a parameter of each record"):
        us.synthesize(survey, model, us.NoisyMoments(1.0), 2, 1)
    assert binned == []


def test_bins_go_by_the_public_number_of_records_and_epsilon(survey, binned):
    us.synthesize(survey, BOUNDED, us.NoisyMoments(1.5), 2, 1, progress=False)
    assert binned == [(16, 1, 1.5)]  # .05 * 300 * 1.5^2 / 2, rounded down


@pytest.mark.parametrize("bins", [1, 2.5, "many", True])
def test_bins_are_two_at_least(bins):
    with pytest.raises(Refused, match="at least 2"):
        us.NoisyMoments(1.0, bins=bins)


def test_few_files_are_forecast_as_such(survey):
    mechanism = us.NoisyMoments(1.0, CLIP)
    assert len(mechanism.forecast(MODEL, survey, 3)) == 2
    assert mechanism.forecast(MODEL, survey, 10) == [
        "Noise is drawn once: 10 files cost as much as one."
    ]
