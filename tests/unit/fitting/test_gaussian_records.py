"""Records of Gaussian models by cell and block, against their own log-likelihoods one by one."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.dp.contributions import reference_censored
from understudy.fitting import gaussian_records as module
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.mechanisms.contract import plain_terms
from understudy.models.density import loglik_at

N = 900


def fitter_of(model: us.FBS | us.FBP) -> ModelFitter:
    rng = np.random.default_rng(6)
    group = rng.integers(0, 3, N)
    survey = us.Survey(
        pl.DataFrame(
            {
                "group": np.array(list("abc"))[group],
                "age": rng.integers(1, 14, N),
                "salary": np.exp(10 + 0.4 * group + 0.5 * rng.standard_t(5, N)),
                "bonus": np.exp(rng.normal(7, 1, N)),
                "w": np.exp(rng.normal(2, 0.4, N)),
            }
        ),
        us.Design(weight="w"),
    )
    bound = replace(model, population=1e5).for_survey(survey)
    nobody = np.zeros(N, dtype=bool)
    return ModelFitter(bound, survey, bound.prepare(survey), nobody, Settings(200), 3)


@pytest.fixture(autouse=True)
def _for_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW_RECORDS", 100)
    monkeypatch.setattr(module, "LEAST_PER_CELL", 10)


@pytest.mark.parametrize(
    "model",
    [us.FBS("salary", "group + age"), us.FBP(["salary", "bonus"], "group + age")],
    ids=["FBS", "FBP"],
)
def test_blocks_give_what_the_models_own_density_gives(model: us.FBS | us.FBP) -> None:
    """Bounds, weights and clipped sums; 39 cells are more than one group of them."""
    fitter = fitter_of(model)
    centre = np.random.default_rng(1).normal(0, 0.1, fitter.density.dimension)
    at = centre + np.random.default_rng(2).normal(0, 0.05, (70, len(centre)))
    records = module.gaussian_records(fitter.density, fitter.safe_arrays)
    assert records is not None
    assert len(records.quadratics.X) > module.CELLS
    loglik = np.asarray(loglik_at(fitter.density, at, fitter.safe_arrays))
    low, high = records.lowest_and_highest(at)
    np.testing.assert_allclose(low, loglik.min(axis=0), rtol=1e-11)
    np.testing.assert_allclose(high, loglik.max(axis=0), rtol=1e-11)
    np.testing.assert_allclose(fitter.bounds_over(at), np.abs(loglik).max(axis=0), rtol=1e-11)
    alpha = np.linspace(0.0, 0.4, N)
    reference = fitter.record_loglik(centre)
    limit = float(np.median(np.abs(loglik - reference))) * 0.2
    expected = reference_censored(loglik, reference, alpha, limit).sum(axis=1)
    sums = records.clipped_sums(at, centre, alpha, limit)
    np.testing.assert_allclose(sums, expected, rtol=1e-9)
    without = records.clipped_sums(at, None, alpha, 5.0)
    expected = reference_censored(loglik, jnp.zeros(N), alpha, 5.0).sum(axis=1)
    np.testing.assert_allclose(without, expected, rtol=1e-9)


def test_a_fits_bounds_are_the_same_by_block_and_record_by_record() -> None:
    fitter = fitter_of(us.FBS("salary", "group"))
    terms = plain_terms(fitter, np.linspace(0.1, 1.0, N))
    posterior = fitter.fit(terms, "release")
    assert posterior.records is not None
    one_by_one = replace(posterior, records=None)
    for name in ("loglik", "weighted", "contribution"):
        ours, theirs = (getattr(each.bounds, name) for each in (posterior, one_by_one))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_records_are_not_in_blocks_where_that_gains_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitter = fitter_of(us.FBS("salary", "group + age"))
    arrays, units = fitter.safe_arrays, np.arange(N) // 2
    assert module.gaussian_records(fitter.density, arrays) is not None
    assert module.gaussian_records(fitter.density, arrays, units) is None
    monkeypatch.setattr(module, "LEAST_PER_CELL", N // 39 + 1)
    assert module.gaussian_records(fitter.density, arrays) is None
    monkeypatch.setattr(module, "LEAST_PER_CELL", 10)
    monkeypatch.setattr(module, "FEW_RECORDS", N)
    assert module.gaussian_records(fitter.density, arrays) is None


def test_a_reference_without_a_position_is_looked_at_record_by_record() -> None:
    fitter = fitter_of(us.FBS("salary", "group"))
    plain = plain_terms(fitter, limit=2.0)
    assert fitter._sums(plain) is not None
    assert fitter._sums(replace(plain, reference_loglik=np.ones(N))) is None
    centre = np.zeros(fitter.density.dimension)
    with_position = replace(plain, reference_loglik=np.ones(N), reference=centre)
    assert fitter._sums(with_position) is not None
