"""One program for every fit: nothing is compiled again, and a seed fixes every byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.monitoring
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from monte_carlo import KnownMoments, compare

from understudy.errors import Refused
from understudy.fitting.fit_settings import Settings
from understudy.fitting.nuts import _program, sample
from understudy.models.compilation import cache_folder, compilations
from understudy.models.density import Density, density_of
from understudy.models.from_numpyro import from_numpyro


def normal(n: int, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
    with numpyro.plate("record", n):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


MODEL = from_numpyro(normal, ["y"])
SETTINGS = Settings(draws=1000, chains=2, warmup=200)
LONG = Settings(draws=12_000, chains=2, warmup=200)


def inputs_for(y: np.ndarray, alpha: float = 1.0, limit: float = np.inf) -> dict[str, Any]:
    n = len(y)
    return {
        "arrays": {"y": jax.numpy.asarray(y)},
        "alpha": jax.numpy.full(n, alpha),
        "reference_loglik": jax.numpy.zeros(n),
        "limit": jax.numpy.asarray(limit),
        "prior_centre": jax.numpy.zeros(1),
        "prior_scale": jax.numpy.asarray(np.inf),
    }


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    return np.random.default_rng(0).normal(3.0, 1.0, 50)


@pytest.fixture(scope="module")
def density(data: np.ndarray) -> Density:
    return density_of(MODEL, {"y": data})


def normal_moments(mean: float, precision: float) -> KnownMoments:
    variance = np.array([1 / precision])
    return KnownMoments(np.array([mean]), variance, 3 * variance**2)


def test_draws_follow_the_conjugate_posterior(density: Density, data: np.ndarray) -> None:
    for alpha in (1.0, 0.25):
        chains = sample(density, inputs_for(data, alpha), LONG, jax.random.key(1))
        precision = 1 / 100 + alpha * len(data)
        known = normal_moments(alpha * data.sum() / precision, precision)
        compare(chains.positions, known, shift=0.15, spread=0.1)
        assert not chains.diagnostics.failures
    _, _, metric = _program(density, inputs_for(data)).start(jax.numpy.zeros(1), inputs_for(data))
    assert metric.inverse_mass_matrix.shape == (1, 1)  # a matrix where coordinates are few


def test_a_centred_prior_replaces_the_models(density: Density, data: np.ndarray) -> None:
    inputs = inputs_for(data)
    inputs["prior_centre"], inputs["prior_scale"] = (
        jax.numpy.asarray([5.0]),
        0.05 * jax.numpy.ones(()),
    )
    chains = sample(density, inputs, LONG, jax.random.key(1))
    precision = 400 + len(data)
    known = normal_moments((400 * 5 + data.sum()) / precision, precision)
    compare(chains.positions, known, shift=0.15, spread=0.1)


def test_other_data_weights_limits_and_lengths_compile_nothing(
    density: Density, data: np.ndarray
) -> None:
    sample(density, inputs_for(data), SETTINGS, jax.random.key(0))
    built: list[str] = []

    def listen(event: str, _seconds: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            built.append(event)

    before = compilations()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        other = np.random.default_rng(5).normal(-1.0, 2.0, 50)
        longer = Settings(draws=2000, chains=4, warmup=400)
        sample(density, inputs_for(other, 0.5, 1.0), SETTINGS, jax.random.key(8))
        assert built == []
        # another number of chains needs new random keys, but not a new sampler
        sample(density, inputs_for(data, 0.1), longer, jax.random.key(9), np.zeros((4, 1)))
    finally:
        jax.monitoring.clear_event_listeners()
    assert compilations() == before


def test_a_seed_fixes_every_byte(density: Density, data: np.ndarray) -> None:
    first = sample(density, inputs_for(data), SETTINGS, jax.random.key(3))
    again = sample(density, inputs_for(data), SETTINGS, jax.random.key(3))
    other = sample(density, inputs_for(data), SETTINGS, jax.random.key(4))
    assert first.positions.tobytes() == again.positions.tobytes()
    assert first.positions.tobytes() != other.positions.tobytes()


def test_slow_chains_run_longer_and_keep_the_same_number(
    density: Density, data: np.ndarray
) -> None:
    short = Settings(draws=100, chains=2, warmup=100)  # never worth 400, however they alternate
    result = sample(density, inputs_for(data), short, jax.random.key(3))
    assert result.positions.shape == (2, 50, 1)
    assert result.diagnostics.thinning == 8
    assert any("ESS" in failure for failure in result.diagnostics.failures)


def test_progress_counts_iterations(density: Density, data: np.ndarray) -> None:
    seen: list[int] = []
    once = replace(SETTINGS, most_thinning=1)  # however the chains alternate
    sample(density, inputs_for(data), once, jax.random.key(3), None, seen.append)
    assert sum(seen) == 2 * 200 + 1000


def test_impossible_data_are_refused(density: Density, data: np.ndarray) -> None:
    inputs = inputs_for(np.full(len(data), np.inf))
    with pytest.raises(Refused, match="zero or infinite at every starting point"):
        sample(density, inputs, SETTINGS, jax.random.key(0))


@pytest.mark.parametrize(
    "wrong",
    [{"draws": 0}, {"chains": 1.5}, {"warmup": -1}, {"draws": 4}, {"target_acceptance": 1.0}],
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        Settings(**wrong)


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_CACHE", "/somewhere")
    assert str(cache_folder()) == "/somewhere"
    monkeypatch.delenv("UNDERSTUDY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert str(cache_folder()) == "/cache/understudy"
