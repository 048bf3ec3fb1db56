"""The fitter without a sampler: which records count, where chains start, what a key is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isqrt
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
import pytest
import scipy.stats

from understudy.errors import Refused
from understudy.fitting import fitter as fitter_module
from understudy.fitting.diagnostics import diagnose
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import FEW, ModelFitter, _factor, random_key
from understudy.fitting.nuts import Chains
from understudy.mechanisms.contract import Terms, plain_terms
from understudy.models.beta import Beta
from understudy.models.from_numpyro import NumPyroModel, from_numpyro
from understudy.models.normal_sample import FBS
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey


def lognormal(n: int, pay: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
    with numpyro.plate("record", n):
        numpyro.sample("pay", dist.LogNormal(mean, 1.0), obs=pay)


MODEL = from_numpyro(lognormal, ["pay"])
PAY = Column("pay", "sensitive", bounds=(0.0, 10.0))
VALUES = [2.0, 0.0, 3.0, 5.0, 4.0]  # a lognormal value is never 0


def fitter_on(
    values: list[float] = VALUES,
    missing: tuple[int, ...] = (),
    model: NumPyroModel = MODEL,
    **house: Any,
) -> ModelFitter:
    lacking = np.isin(np.arange(len(values)), missing)
    book = Codebook({"pay": PAY}, **({"unit": "house", "records_per_unit": 1} if house else {}))
    survey = Survey(pl.DataFrame({"pay": values, **house}), codebook=book)
    settings = Settings(800, chains=3, warmup=100)
    return ModelFitter(model, survey, {"pay": np.array(values)}, lacking, settings, 7)


def test_what_cannot_be_learnt_from_is_refused() -> None:
    with pytest.raises(Refused, match="`pay` is constant"):
        fitter_on([2.0, 2.0, 2.0])
    with pytest.raises(Refused, match="`pay` is constant"):
        fitter_on([2.0, 2.0, 3.0], missing=(2,))
    with pytest.raises(Refused, match="No record has a value of `pay`"):
        fitter_on([2.0, 3.0], missing=(0, 1))
    assert fitter_on([2.0, 2.0, 3.0]).n == 3


def test_what_a_record_is_beside_its_amount_has_no_column_of_its_own() -> None:
    """Zeros are declared: an array says which records have them."""
    book = Codebook({"pay": replace(PAY, special=(0.0,))})
    survey = Survey(pl.DataFrame({"pay": VALUES}), codebook=book)
    model = Beta("pay").for_survey(survey)
    arrays = model.prepare(survey)
    fitter = ModelFitter(model, survey, arrays, np.zeros(5, dtype=bool), Settings(), 7)
    assert (model.sensitive, model.targets) == (("pay",), ("y", "kind"))
    assert fitter.arrays["kind"].tolist() == [0, 1, 0, 0, 0]
    assert fitter.sensitive_values.tolist() == [[value] for value in VALUES]


def test_a_part_of_the_file_is_known_though_weights_have_another_unit_there() -> None:
    """Log weights are modelled in the unit N/n: those of half the records differ by log 2."""
    rng = np.random.default_rng(1)
    columns = {"pay": np.exp(rng.normal(9, 0.5, 200)), "w": np.exp(rng.normal(4, 0.4, 200))}
    frame = pl.DataFrame(columns)
    book = Codebook({"pay": Column("pay", "sensitive", bounds=(1.0, 1e7))}, population_size=1e5)
    whole, part = (Survey(f, Design(weight="w"), book) for f in (frame, frame.head(100)))
    model = FBS("pay", "1").for_survey(whole)
    nobody = np.zeros(200, dtype=bool)
    fitter = ModelFitter(model, whole, model.prepare(whole), nobody, Settings(), 7)
    with pytest.raises(Refused, match="100 of its 100 records"):
        fitter.on(part, "the reference")


def test_each_record_is_a_unit_unless_the_codebook_says_otherwise() -> None:
    alone, together = fitter_on(), fitter_on(house=["b", "a", "b", "c", "a"])
    assert (alone.unit, alone.units) == ("record", None)
    assert together.unit == "house"
    assert together.units is not None
    assert together.units.tolist() == [1, 0, 1, 2, 0]


def test_absent_records_carry_the_values_of_a_present_one() -> None:
    fitter = fitter_on(missing=(0,))
    assert fitter.present.tolist() == [False, False, True, True, True]
    assert fitter.safe_arrays["pay"].tolist() == [3.0, 3.0, 3.0, 5.0, 4.0]
    assert fitter.arrays["pay"].tolist() == VALUES
    assert fitter.sensitive_values.tolist() == [[0.0], [3.0], [5.0], [4.0]]


def test_records_that_are_all_possible_are_probed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight passes over a million records took a seventh of a release's time."""
    fitter, asked = fitter_on([0.2, 0.5, 0.8, 0.4, 0.6]), []
    evaluate = fitter.density.evaluate_now
    monkeypatch.setattr(
        fitter.density, "evaluate_now", lambda *at: asked.append(at) or evaluate(*at)
    )
    assert fitter.present.all()
    assert len(asked) == 1


def test_a_record_that_is_possible_somewhere_between_minus_two_and_two_is_present() -> None:
    """Stan's box of starting points; 8,000 numbers come within a hundredth of both ends."""
    fitter, seen = fitter_on(), []

    def evaluate_now(point: Any, arrays: Any) -> Any:  # noqa: ARG001
        seen.append(point)
        possible = np.arange(5) < 4 if len(seen) == 8 else np.arange(5) < 3
        return 0.0, np.where(possible, -1.0, -np.inf)

    made_up = SimpleNamespace(dimension=1000, evaluate_now=evaluate_now)
    fitter.__dict__["density"] = made_up  # a cached property
    assert fitter.present.tolist() == [True] * 4 + [False]
    assert -2.0 <= np.min(seen) < -1.99
    assert 1.99 < np.max(seen) <= 2.0


def test_log_likelihoods_and_bounds_are_scipys() -> None:
    fitter = fitter_on()
    safe = np.array([2.0, 2.0, 3.0, 5.0, 4.0])
    positions = np.array([[0.5], [2.0], [-1.0]])
    loglik = scipy.stats.lognorm.logpdf(safe, 1.0, scale=np.exp(positions))
    np.testing.assert_allclose(fitter.record_loglik(positions[1]), loglik[1])
    expected = np.abs(loglik).max(axis=0)
    expected[1] = np.inf
    np.testing.assert_allclose(fitter.bounds_over(positions), expected)
    with pytest.raises(Refused, match="belongs to another model"):
        fitter.bounds_over(np.zeros((3, 2)))


def grouped(group: Any, pay: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0).expand([2]).to_event(1))
    with numpyro.plate("record", group.shape[0]):
        numpyro.sample("pay", dist.LogNormal(mean[group], 1.0), obs=pay)


def test_another_survey_is_coded_like_this_one() -> None:
    book = Codebook({"pay": PAY, "group": Column("group", "public", levels=("a", "b"))})
    other_book = Codebook({"pay": PAY, "group": Column("group", "public", levels=("b", "a"))})
    survey = Survey(pl.DataFrame({"pay": [2.0, 3.0], "group": ["a", "b"]}), codebook=book)
    reference = Survey(
        pl.DataFrame({"pay": [2.5, None, 3.5], "group": ["b", "b", "a"]}), codebook=other_book
    )
    model = from_numpyro(grouped, ["pay"])
    nobody = np.zeros(2, dtype=bool)
    fitter = ModelFitter(model, survey, model.prepare(survey), nobody, Settings(), 7)
    other = fitter.on(reference, "the reference")
    assert other.arrays["group"].tolist() == [1, 0]
    assert other.arrays["pay"].tolist() == [2.5, 3.5]
    recoded = ModelFitter(
        model, survey, model.prepare(survey), nobody, Settings(), 7, coding=reference
    )
    assert recoded.on(reference, "the reference").arrays["group"].tolist() == [0, 1]


def test_a_histogram_counts_the_values_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(fitter_module, "perturbed_histogram", lambda *facts: seen.append(facts))
    fitter_on(missing=(2,)).histogram(1.5, "sqrt")
    values, *public = seen.pop()
    assert sorted(values) == [0.0, 2.0, 4.0, 5.0]
    assert public == [(0.0, 10.0), isqrt(5), 1.5]
    fitter_on(missing=(4,), house=["a", "b", "b", "c", "b"]).histogram(1.5, 4)
    values, *public = seen.pop()
    assert sorted(values) in ([0.0, 2.0, 5.0], [2.0, 3.0, 5.0])  # one of each house
    assert public == [(0.0, 10.0), 4, 1.5, 1]


def test_a_histogram_needs_one_bounded_variable_and_a_limit_of_a_units_records() -> None:
    fitter_on().check_histogram(alone=True)
    fitter_on(house=["a", "b", "b", "c", "b"]).check_histogram(alone=True)
    grouped_too = replace(fitter_on(), arrays={"pay": np.array(VALUES), "group": np.zeros(5)})
    grouped_too.check_histogram()
    with pytest.raises(Refused, match="one bounded variable without predictors"):
        grouped_too.check_histogram(alone=True)
    book = Codebook({"pay": PAY}, unit="house")
    several = Survey(
        pl.DataFrame({"pay": VALUES, "house": ["a", "b", "b", "c", "b"]}), codebook=book
    )
    with pytest.raises(Refused, match="records_per_unit"):
        replace(fitter_on(), survey=several).check_histogram()


def test_keys_differ_by_label_and_use_all_63_bits() -> None:
    keys = [
        int.from_bytes(
            np.asarray(jax.random.key_data(random_key(7, str(k)))).astype(">u4").tobytes()
        )
        for k in range(60)
    ]
    assert len(set(keys)) == 60
    assert np.bitwise_or.reduce(np.array(keys, dtype=object)) == 2**63 - 1
    assert fitter_on()._key("5") == random_key(7, "5")


def test_a_factor_is_that_of_the_draws_covariance_matrix_where_they_are_many() -> None:
    draws = np.random.default_rng(1).normal(size=(FEW * 2, 2)) @ [[2.0, 1.0], [0.0, 0.5]]
    factor = _factor(draws, 2)
    np.testing.assert_allclose(factor @ factor.T, np.cov(draws, rowvar=False))
    assert factor[0, 1] == 0.0
    for few in (None, draws[:-1]):
        np.testing.assert_array_equal(_factor(few, 2), np.eye(2))


class Started(NumPyroModel):
    """Each chain has a start of its own, but for the third."""

    generates_from_records = False
    deepest_tree = 10

    def start(self, arrays: Any, alpha: Any, chain: int = 0) -> dict[str, Any] | None:  # noqa: ARG002
        return {"mean": 1.0 + chain} if chain < 2 else None

    def start_scale(
        self,
        parameters: Mapping[str, Any],
        arrays: Any,  # noqa: ARG002
        alpha: Any,
    ) -> dict[str, Any]:
        return {"mean": 10 * parameters["mean"] + alpha.sum()}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the sampler was asked for; it answers with made-up chains."""
    seen: list[Any] = []

    def sample(density: Any, inputs: Any, settings: Any, key: Any, start: Any, tick: Any) -> Chains:  # noqa: ARG001
        seen.append((inputs, key, start))
        positions = np.random.default_rng(1).normal(size=(3, 20, 1))
        return Chains(positions, diagnose(positions, 0, density.coordinates))

    monkeypatch.setattr(fitter_module, "sample", sample)
    return seen


def test_the_sampler_is_given_the_terms(asked: list[Any]) -> None:
    fitter = fitter_on(house=["b", "a", "b", "c", "a"])
    posterior = fitter.fit(plain_terms(fitter, np.full(5, 0.5), limit=3.0), "weights")
    inputs, key, start = asked.pop()
    assert start is None
    assert key == random_key(7, "weights")
    assert inputs["arrays"]["pay"].tolist() == fitter.safe_arrays["pay"].tolist()
    assert inputs["alpha"].tolist() == [0.5, 0.0, 0.5, 0.5, 0.5]
    assert inputs["reference_loglik"].tolist() == [0.0] * 5
    assert (float(inputs["limit"]), float(inputs["prior_scale"])) == (3.0, np.inf)
    assert inputs["prior_centre"].tolist() == [0.0]
    assert inputs["units"].tolist() == [1, 0, 1, 2, 0]
    assert "scale" not in inputs
    assert posterior.chains.shape == (3, 20, 1)
    assert posterior.units is fitter.units
    assert posterior.present is fitter.present
    around = Terms(np.ones(5), np.ones(5), 3.0, np.array([4.0]), 0.5)
    fitter.fit(around, "release", np.array([[6.0]]))
    inputs, _, start = asked.pop()
    assert (inputs["prior_centre"].tolist(), float(inputs["prior_scale"])) == ([4.0], 0.5)
    assert inputs["reference_loglik"].tolist() == [1.0] * 5
    assert start.tolist() == [[6.0]]


def test_chains_start_where_the_model_says_unless_points_are_passed(asked: list[Any]) -> None:
    model = Started(lognormal, ("pay",), ("pay",), True)
    fitter = fitter_on(model=model)
    fitter.fit(plain_terms(fitter), "release")
    inputs, _, start = asked.pop()
    assert start.tolist() == [[1.0], [2.0], [1.0]]
    assert inputs["scale"].tolist() == [10.0 + 4.0]  # four records that count
    fitter.fit(plain_terms(fitter), "release", np.array([[6.0]]))
    assert asked.pop()[2].tolist() == [[6.0]]
