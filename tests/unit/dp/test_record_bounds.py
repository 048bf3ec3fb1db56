"""Record bounds: equal to the whole matrix by brute force, and bounded in memory."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax import Array

import understudy.models.contract  # noqa: F401 (turns on double precision)
from understudy.dp import record_bounds as module
from understudy.dp.record_bounds import Vector, record_bounds


def normal_loglik(position: Array, arrays: Any) -> Array:
    return -0.5 * (arrays["y"] - position[0]) ** 2 - 0.5 * jnp.log(2 * jnp.pi)


@pytest.mark.parametrize(("draws", "n"), [(1, 5), (64, 7), (130, 300), (65, 1)])
def test_maxima_equal_the_whole_matrix(draws: int, n: int) -> None:
    rng = np.random.default_rng(draws)
    y, positions = rng.normal(size=n) * 3, rng.normal(size=(draws, 1))
    alpha, reference = rng.uniform(size=n), rng.normal(size=n)
    loglik = scipy.stats.norm.logpdf(y[None, :], positions, 1.0)
    gain = alpha * (loglik - reference)
    bounds = record_bounds(normal_loglik, positions, {"y": y}, alpha, reference, 1.5)
    np.testing.assert_allclose(bounds.loglik, np.abs(loglik).max(axis=0), rtol=1e-13)
    np.testing.assert_allclose(bounds.weighted, np.abs(gain).max(axis=0), rtol=1e-13)
    np.testing.assert_allclose(bounds.contribution, np.minimum(bounds.weighted, 1.5), rtol=1e-13)
    assert bounds.overall == bounds.contribution.max() <= 1.5
    assert bounds.censored == int((np.abs(gain).max(axis=0) > 1.5).sum())
    assert bounds.draws == draws


def test_parts_of_the_records_give_what_the_whole_gives() -> None:
    rng = np.random.default_rng(3)
    y, positions = rng.normal(size=10), rng.normal(size=(70, 1))
    alpha, reference = rng.uniform(size=10), rng.normal(size=10)
    whole = record_bounds(normal_loglik, positions, {"y": y}, alpha, reference, 0.4)
    filled = {"y": np.append(y, [y[0], y[0]]).reshape(3, 4)}
    parts = record_bounds(normal_loglik, positions, filled, alpha, reference, 0.4, in_parts=True)
    assert parts.loglik.tolist() == whole.loglik.tolist()
    assert parts.weighted.tolist() == whole.weighted.tolist()
    assert parts.contribution.tolist() == whole.contribution.tolist()


def test_infinite_and_undefined_log_likelihoods_have_no_bound() -> None:
    y = np.array([0.0, np.inf, np.nan])
    bounds = record_bounds(normal_loglik, np.zeros((3, 1)), {"y": y}, [1, 0, 0], [0, 0, 0], 1.0)
    assert np.isfinite(bounds.loglik[0])
    assert bounds.loglik[1:].tolist() == [np.inf, np.inf]
    assert bounds.contribution[1:].tolist() == [0.0, 0.0]  # weight 0 contributes nothing


def test_a_million_records_and_a_thousand_draws_fit_into_two_gigabytes() -> None:
    n, draws = 1_000_000, 1000
    like = np.zeros(n)
    block = max(1, module.BLOCK_NUMBERS // n)
    arrays = {"y": like[None]}
    compiled = module._thoroughly_compiled.lower(
        normal_loglik, block, np.zeros((draws, 3)), arrays
    ).compile()
    memory = compiled.memory_analysis()
    used = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
    assert 0 < used < 0.5e9  # the matrix of all draws would take 8 GB


@pytest.mark.parametrize(
    ("draws", "n", "block"),
    [(1000, 7, 64), (3, 7, 3), (65, 4, 64), (1000, 100, 10), (1000, 101, 9), (8, 1001, 1)],
)
def test_blocks_are_as_large_as_memory_draws_and_records_allow(
    draws: int, n: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for a thousand numbers, and at most 64 draws at a time."""
    blocks: list[int] = []

    def ends(_: object, size: int, *__: object) -> tuple[Vector, Vector]:
        blocks.append(size)
        return np.zeros((1, n)), np.zeros((1, n))

    monkeypatch.setattr(module, "BLOCK_NUMBERS", 1000)
    monkeypatch.setattr(module, "_ends", ends)
    arrays = {"y": np.zeros(n)}
    record_bounds(normal_loglik, np.zeros((draws, 1)), arrays, np.ones(n), np.zeros(n))
    assert blocks == [block]
