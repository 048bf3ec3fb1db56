"""Chains of a model's own Gibbs sampler, judged like those of NUTS.

A sweep costs far less than a trajectory, so an iteration is several sweeps: settings then mean
about the same work, and the same words (draws, warm-up, thinning) hold for both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from math import isinf
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from understudy.fitting.fit_settings import Settings
from understudy.fitting.nuts import Chains, Tick, run_on, spread_over
from understudy.mechanisms.contract import Terms
from understudy.models.compilation import compiled
from understudy.models.contract import Arrays, GibbsModel, is_weighted
from understudy.models.density import Density

SWEEPS = 5  # per iteration
CHUNK = 25  # iterations per call of the program


def has_gibbs(density: Density, terms: Terms) -> bool:
    """Whether contributions are alpha_i f_i with weights up to 1, under the model's own prior."""
    own = isinstance(density.model, GibbsModel) and isinf(terms.limit) and isinf(terms.prior_scale)
    return own and float(terms.alpha.max()) <= 1.0


def sample_by_gibbs(
    density: Density,
    arrays: Arrays,
    alpha: NDArray[np.float64],
    settings: Settings,
    key: Array,
    start: NDArray[np.float64],
    tick: Tick | None = None,
) -> Chains:
    """Draws from prior times prod_i exp(alpha_i f_i); `start` (k, d) are points to start from."""
    model = density.model
    assert isinstance(model, GibbsModel)  # settled by the caller
    data = {name: jnp.asarray(a) for name, a in model.gibbs_data(arrays, alpha).items()}
    columns = {name: jnp.asarray(a) for name, a in arrays.items()}
    states = [
        model.gibbs_state(density.constrain_now(point, columns))
        for point in spread_over(start, settings.chains)
    ]
    program = _program(density, is_weighted(alpha), states[0], data, columns)
    keys = jax.random.split(key, settings.chains)
    chains = [
        _GibbsChain(partial(program, data, columns), state, own, settings.warmup, tick)
        for state, own in zip(states, keys, strict=True)
    ]
    return run_on(chains, density, settings, columns)


class _GibbsChain:
    """A chain of Gibbs sweeps; `advance` runs the next `CHUNK` iterations."""

    def __init__(
        self,
        advance: Callable[[Array, Any], tuple[Any, Array]],
        state: Any,
        key: Array,
        warmup: int,
        tick: Tick | None,
    ) -> None:
        self.advance, self.state, self.key, self.tick = advance, state, key, tick
        self.warmup = -(-warmup // CHUNK)
        self.chunks_done = 0
        self.positions: list[NDArray[np.float64]] = []

    def run_to(self, length: int) -> None:
        while CHUNK * len(self.positions) < length:
            key = jax.random.fold_in(self.key, self.chunks_done)
            self.state, chunk = self.advance(key, self.state)
            position = np.asarray(chunk)  # waits for the chunk
            if self.chunks_done >= self.warmup:
                self.positions.append(position)
            self.chunks_done += 1
            if self.tick is not None:
                self.tick(CHUNK)

    def kept(self, length: int, thinning: int) -> NDArray[np.float64]:
        return np.concatenate(self.positions)[thinning - 1 : length : thinning]

    def divergences(self, length: int) -> int:  # noqa: ARG002 (a sweep cannot diverge)
        return 0


_PROGRAMS: WeakKeyDictionary[Density, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()
_BUILDING = threading.Lock()


def _program(density: Density, weighted: bool, state: Any, data: Any, arrays: Any) -> Any:
    """The compiled function of one density at these shapes, made once."""
    model = density.model
    assert isinstance(model, GibbsModel)

    def advance(data: Any, arrays: Any, key: Array, state: Any) -> tuple[Any, Array]:
        """The state after `CHUNK` iterations, and the position after each, (CHUNK, d)."""

        def sweep(state: Any, key: Array) -> tuple[Any, None]:
            return model.gibbs_sweep(key, state, data, weighted), None

        def iterate(state: Any, key: Array) -> tuple[Any, Array]:
            of_sweeps, of_rest = jax.random.split(key)
            state, _ = jax.lax.scan(sweep, state, jax.random.split(of_sweeps, SWEEPS))
            parameters = model.gibbs_parameters(of_rest, state, data)
            return state, density.unconstrain(parameters, arrays)

        visited: tuple[Any, Array] = jax.lax.scan(iterate, state, jax.random.split(key, CHUNK))
        return visited

    shapes = (weighted, *((name, a.shape) for name, a in sorted(data.items())))
    with _BUILDING:
        programs = _PROGRAMS.setdefault(density, {})
        if shapes not in programs:
            programs[shapes] = compiled(
                advance, data, arrays, jax.random.key(0), state, optimisation=1
            )
        return programs[shapes]
