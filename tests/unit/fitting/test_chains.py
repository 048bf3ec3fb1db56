"""Chains on made-up programs: what is warm-up, what is kept, where they start, when they retry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from blackjax.adaptation.window_adaptation import build_schedule

from understudy.errors import Refused
from understudy.fitting import nuts
from understudy.fitting.diagnostics import diagnose
from understudy.fitting.fit_settings import Settings
from understudy.fitting.gibbs import _GibbsChain, has_gibbs
from understudy.fitting.nuts import Chains, _NutsChain, _starting_points, spread_over
from understudy.mechanisms.contract import Terms
from understudy.models.contract import Judged
from understudy.models.from_numpyro import from_numpyro
from understudy.models.mixture.mixture import Mixture

CHUNK = 50


class Counting:
    """A program whose position is the number of the iteration, the next one first; every tenth
    iteration diverges. It remembers what it was asked for."""

    dimension = 2

    def __init__(self) -> None:
        self.stages: list[int] = []
        self.ends: list[bool] = []

    def start(self, position: Any, inputs: Any) -> int:  # noqa: ARG002
        return 0

    def advance(self, state: int, keys: Any, stages: Any, ends: Any, *_: Any) -> Any:
        assert keys.shape == (CHUNK,)
        self.stages += stages.tolist()
        self.ends += ends.tolist()
        numbers = np.arange(state, state + CHUNK)
        return state + CHUNK, (np.stack([numbers, -numbers], axis=1) * 1.0, numbers % 10 == 0)


def nuts_chain(warmup: int, ticks: list[int], **inputs: Any) -> tuple[_NutsChain, Counting]:
    program: Any = Counting()
    key = jax.random.key(0)
    return _NutsChain(program, jnp.zeros(2), key, warmup, 0.8, inputs, ticks.append), program


def test_a_chain_warms_up_once_by_stans_windows_and_keeps_what_comes_after() -> None:
    ticks: list[int] = []
    chain, program = nuts_chain(130, ticks)  # three chunks
    chain.run_to(120)
    windows = np.asarray(build_schedule(150))
    assert program.stages[:150] == windows[:, 0].astype(int).tolist()
    assert program.ends[:150] == windows[:, 1].astype(bool).tolist()
    assert any(program.ends)
    assert program.stages[150:] == [2] * 150
    assert not any(program.ends[150:])
    assert chain.kept(120, 1)[:, 0].tolist() == list(range(150, 270))
    assert chain.divergences(120) == 12
    assert chain.divergences(101) == 11
    chain.run_to(240)  # goes on where it was
    assert sum(ticks) == len(program.stages) == 150 + 250
    assert chain.kept(240, 3)[:, 0].tolist() == list(range(152, 390, 3))


def test_positions_come_back_in_the_models_coordinates() -> None:
    factor = np.array([[2.0, 0.0], [1.0, 3.0]])
    for scale in (factor, np.array([5.0, 7.0])):
        chain, _ = nuts_chain(50, [], scale=jnp.asarray(scale))
        chain.run_to(50)
        points = np.stack([np.arange(50.0, 100), -np.arange(50.0, 100)], axis=1)
        expected = points @ (scale.T if scale.ndim == 2 else np.diag(scale))
        np.testing.assert_allclose(chain.kept(50, 1), expected)


def test_gibbs_chains_leave_their_warm_up_out() -> None:
    ticks: list[int] = []

    def advance(key: Any, state: int) -> tuple[int, Any]:  # noqa: ARG001
        return state + 25, np.arange(state, state + 25.0)[:, None]

    chain = _GibbsChain(advance, 0, jax.random.key(0), 30, ticks.append)  # two chunks
    chain.run_to(60)
    assert chain.kept(60, 1)[:, 0].tolist() == list(range(50, 110))
    assert sum(ticks) == 50 + 75
    chain.run_to(120)
    assert chain.kept(120, 2)[:, 0].tolist() == list(range(51, 170, 2))
    assert chain.divergences(120) == 0


def ordinary(n: int, y: Any = None) -> None: ...


def test_gibbs_is_for_weights_up_to_one_without_limit_or_another_prior() -> None:
    ones, zeros = np.ones(3), np.zeros(3)
    density: Any = SimpleNamespace(model=Mixture("y", "x", 2))
    assert has_gibbs(density, Terms(ones, zeros)) is True
    assert has_gibbs(density, Terms(ones * [1.0, 1.5, 0.0], zeros)) is False
    assert has_gibbs(density, Terms(ones, zeros, limit=3.0)) is False
    assert has_gibbs(density, Terms(ones, zeros, np.inf, np.zeros(1), 0.5)) is False
    other: Any = SimpleNamespace(model=from_numpyro(ordinary, ["y"]))
    assert has_gibbs(other, Terms(ones, zeros)) is False


def scored(score: Any, dimension: int = 3) -> Any:
    return SimpleNamespace(dimension=dimension, score=score)


def test_each_chain_starts_at_the_best_of_its_points() -> None:
    """Uniform on (-2, 2): 1,920 numbers come near both ends (not so once in 2e10)."""
    seen: list[Any] = []

    def score(points: Any, inputs: Any) -> Any:  # noqa: ARG001
        seen.append(np.asarray(points))
        return -(np.asarray(points) ** 2).sum(axis=1)

    points = _starting_points(scored(score), jax.random.key(1), 40, {})
    candidates = seen[0].reshape(40, 16, 3)
    assert -2.0 <= candidates.min() < -1.95
    assert 1.95 < candidates.max() <= 2.0
    best = np.linalg.norm(candidates, axis=2).min(axis=1)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), best)


def test_a_chain_without_a_possible_point_is_refused() -> None:
    def score(points: Any, inputs: Any) -> Any:  # noqa: ARG001
        return np.where(np.arange(len(points)) < 16, np.nan, 0.0)

    with pytest.raises(Refused, match="zero or infinite at every starting point"):
        _starting_points(scored(score), jax.random.key(1), 2, {})


def test_points_are_spread_evenly_over_the_chains() -> None:
    points = np.arange(10.0)[:, None]
    assert spread_over(points, 4)[:, 0].tolist() == [0.0, 2.0, 5.0, 7.0]
    assert spread_over(points[:1], 3)[:, 0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("acceptance", "diverges", "expected"),
    [
        (0.8, True, [0.8, 0.95, 0.99]),
        (0.8, False, [0.8]),
        (0.95, True, [0.95, 0.95, 0.99]),
        (0.97, True, [0.97, 0.99]),
        (0.995, True, [0.995]),
    ],
)
def test_chains_that_diverge_start_again_from_where_they_are_with_smaller_steps(
    monkeypatch: pytest.MonkeyPatch, acceptance: float, diverges: bool, expected: list[float]
) -> None:
    tried: list[Any] = []

    def chain(program: Any, position: Any, key: Any, warmup: int, target: float, *_: Any) -> Any:  # noqa: ARG001
        return SimpleNamespace(position=np.asarray(position).tolist(), target=target)

    def run_on(chains: Any, *_: Any) -> Chains:
        tried.append(chains)
        positions = np.random.default_rng(len(tried)).normal(size=(2, 100, 2))
        return Chains(positions, diagnose(positions, 50 * diverges, ["a", "b"]))

    monkeypatch.setattr(nuts, "_program", lambda *_: None)
    monkeypatch.setattr(nuts, "_NutsChain", chain)
    monkeypatch.setattr(nuts, "run_on", run_on)
    inputs = {"arrays": {}, "alpha": jnp.ones(3), "scale": np.array([2.0, 4.0])}
    settings = Settings(200, chains=2, target_acceptance=acceptance)
    density: Any = None
    start = np.array([[1.0, 2.0], [3.0, 4.0]])
    drawn = nuts.sample(density, inputs, settings, jax.random.key(0), start)
    assert [chains[0].target for chains in tried] == expected
    assert [c.position for c in tried[0]] == [[0.5, 0.5], [1.5, 1.0]]  # in units of the scale
    for number, chains in enumerate(tried[1:], 1):
        before = np.random.default_rng(number).normal(size=(2, 100, 2))[:, -1]
        np.testing.assert_allclose([c.position for c in chains], before / [2.0, 4.0])
    last = np.random.default_rng(len(tried)).normal(size=(2, 100, 2))
    np.testing.assert_array_equal(drawn.positions, last)


def test_a_longer_run_keeps_as_many_draws_and_adds_up_all_divergences() -> None:
    """Chains far apart run eight times as long; each has one divergence in a thousand draws."""

    class Apart:
        def __init__(self, centre: float) -> None:
            self.values = centre + np.random.default_rng(1).normal(size=(4000, 1))
            self.length = 0

        def run_to(self, length: int) -> None:
            self.length = length

        def kept(self, length: int, thinning: int) -> Any:
            assert length == self.length
            return self.values[thinning - 1 : length : thinning]

        def divergences(self, length: int) -> int:
            return length // 1000

    density: Any = SimpleNamespace(judged=lambda positions, _: Judged(["a"], positions))
    chains: Any = [Apart(0.0), Apart(5.0)]
    drawn = nuts.run_on(chains, density, Settings(1000, chains=2), {})
    assert drawn.positions.shape == (2, 500, 1)
    np.testing.assert_array_equal(drawn.positions[1], chains[1].values[7::8])
    assert drawn.diagnostics.thinning == 8
    assert drawn.diagnostics.divergences == 8


def test_the_density_is_prior_and_contributions() -> None:
    """One parameter, normal records: by SciPy, under the model's prior and a centred one."""
    y = np.array([1.0, 2.0, 4.0])

    def evaluate(position: Any, arrays: Any) -> Any:
        mean = position[0]
        loglik = -0.5 * (arrays["y"] - mean) ** 2 - 0.5 * jnp.log(2 * jnp.pi)
        return -0.5 * (mean / 10.0) ** 2, loglik

    density: Any = SimpleNamespace(evaluate=evaluate, model=None)
    inputs = {
        "arrays": {"y": jnp.asarray(y)},
        "alpha": jnp.array([1.0, 0.5, 1.0]),
        "reference_loglik": jnp.array([-1.0, -1.0, 0.0]),
        "limit": jnp.asarray(2.0),
        "prior_centre": jnp.array([3.0]),
        "prior_scale": jnp.asarray(np.inf),
        "scale": jnp.array([2.0]),
    }
    mean = 1.5  # 0.75 in units of the scale
    loglik = scipy.stats.norm.logpdf(y, mean)
    total = np.clip([loglik[0] + 1.0, 0.5 * (loglik[1] + 1.0), loglik[2]], -2.0, 2.0).sum()
    assert abs(loglik[2]) > 2.0  # one record is clipped
    own = nuts.log_density(density, jnp.array([0.75]), inputs)
    assert float(own) == pytest.approx(-0.5 * (mean / 10) ** 2 + total)
    centred = nuts.log_density(density, jnp.array([0.75]), {**inputs, "prior_scale": 0.5})
    assert float(centred) == pytest.approx(-0.5 * ((mean - 3.0) / 0.5) ** 2 + total)
