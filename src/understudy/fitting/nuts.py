"""Warm-up and NUTS as one compiled program that every fit of a model reuses.

The program advances one chain by a fixed number of iterations. What an iteration does (adapt the
step, adapt step and metric, close a window, or sample) is data, like the arrays, the record
weights and the limit; so warm-up and sampling, any number of them, and every mechanism run
through the same program. Chains run side by side in threads: JAX releases the interpreter while
it computes, and chains that are batched into one program instead wait for the longest tree
(measured: 10 times slower).

The pieces are BlackJAX's: NUTS, dual averaging, Welford's metric and Stan's window schedule.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.adaptation.window_adaptation import build_schedule
from jax import Array
from numpy.typing import NDArray

from understudy.dp.contributions import reference_censored
from understudy.errors import Refused
from understudy.fitting.continuation import run_until_good
from understudy.fitting.diagnostics import Diagnostics
from understudy.fitting.fit_settings import Settings
from understudy.fitting.record_devices import over_devices, several_devices
from understudy.models.compilation import compiled
from understudy.models.contract import Judged, SummedModel
from understudy.models.density import Density

CHUNK = 50  # iterations per call of the program
SAMPLING = 2  # beside Stan's stages 0 (step size) and 1 (step size and metric)
DENSE_UP_TO = 100  # coordinates; above, a dense metric costs more than it saves
CAREFUL = (0.95, 0.99)  # acceptance rates to aim at when chains diverge
CANDIDATES = 16  # random starting points per chain, of which the best is taken

Inputs = dict[str, Any]
Tick = Callable[[int], None]


@dataclass(frozen=True)
class Chains:
    """Kept draws of all chains, (chains, draws, d), and their diagnostics."""

    positions: NDArray[np.float64]
    diagnostics: Diagnostics


def log_density(density: Density, position: Array, inputs: Inputs) -> Array:
    """log prior(theta) + sum_i contribution_i(theta) (methods §3), for all mechanisms at once."""
    position = _scaled(position, inputs.get("scale", 1.0))
    log_prior, record_loglik = density.evaluate(position, inputs["arrays"])
    if "moments" in inputs and isinstance(
        density.model, SummedModel
    ):  # nothing is clipped, and a reference would only shift the sum
        parameters = density.constrain(position, inputs["arrays"])
        total = density.model.summed_loglik(parameters, inputs["moments"])
    else:
        total = reference_censored(
            record_loglik,
            inputs["reference_loglik"],
            inputs["alpha"],
            inputs["limit"],
            inputs.get("units"),
        ).sum()
    return prior_of_terms(log_prior, position, inputs) + total


def prior_of_terms(log_prior: Array, position: Array, inputs: Inputs) -> Array:
    """The model's own prior, or the normal one around a reference that replaces it."""
    own = jnp.isinf(inputs["prior_scale"])
    scale = jnp.where(own, 1.0, inputs["prior_scale"])
    around = -0.5 * jnp.sum(((position - inputs["prior_centre"]) / scale) ** 2)
    return jnp.where(own, log_prior, around)


def _scaled(points: Any, scale: Any) -> Any:
    """Positions (..., d) from the sampler's coordinates, whose unit is `scale`: (d,), or a lower
    triangular factor (d, d) where coordinates are known to be correlated."""
    return points @ scale.T if jnp.ndim(scale) == 2 else points * scale


def _unscaled(points: NDArray[np.float64], inputs: Inputs) -> NDArray[np.float64]:
    scale = np.asarray(inputs.get("scale", 1.0))
    return np.asarray(np.linalg.solve(scale, points.T).T if scale.ndim == 2 else points / scale)


def sample(
    density: Density,
    inputs: Inputs,
    settings: Settings,
    key: Array,
    start: NDArray[np.float64] | None = None,
    tick: Tick | None = None,
) -> Chains:
    """Draws from the density; `start` (k, d) are points to start from, chain by chain."""
    own_arrays, (at_devices, inputs) = inputs["arrays"], over_devices(density, inputs)
    program = _program(at_devices, inputs)
    key_start, key_chains = jax.random.split(key)
    if start is None:
        points = _starting_points(program, key_start, settings.chains, inputs)
    else:
        points = _unscaled(spread_over(np.asarray(start), settings.chains), inputs)
    for target in [settings.target_acceptance, *CAREFUL]:
        if target < settings.target_acceptance:
            continue
        chains = [
            _NutsChain(
                program, jnp.asarray(points[c]), key_c, settings.warmup, target, inputs, tick
            )
            for c, key_c in enumerate(jax.random.split(key_chains, settings.chains))
        ]
        side_by_side = 1 if several_devices(inputs) else settings.chains
        drawn = run_on(chains, density, settings, own_arrays, side_by_side)
        if not drawn.diagnostics.diverged:
            break
        points = _unscaled(drawn.positions[:, -1], inputs)
    return drawn


class Chain(Protocol):
    """A chain that can be run on; its random numbers do not depend on how far it is run."""

    def run_to(self, length: int) -> None: ...  # after its warm-up, until there are so many draws

    def kept(self, length: int, thinning: int) -> NDArray[np.float64]: ...  # positions (draws, d)

    def divergences(self, length: int) -> int: ...


def run_on(
    chains: Sequence[Chain],
    density: Density,
    settings: Settings,
    arrays: Any,
    side_by_side: int | None = None,
) -> Chains:
    """Run chains side by side, as far as the rule of `continuation` wants them."""
    with ThreadPoolExecutor(min(side_by_side or settings.chains, os.cpu_count() or 1)) as threads:

        def run(times: int) -> tuple[NDArray[np.float64], int]:
            length = times * settings.per_chain
            for done in [threads.submit(chain.run_to, length) for chain in chains]:
                done.result()
            positions = np.stack([chain.kept(length, times) for chain in chains])
            return positions, sum(chain.divergences(length) for chain in chains)

        def judged(positions: NDArray[np.float64]) -> Judged:
            return density.judged(positions, arrays)

        return Chains(*run_until_good(run, judged, settings.most_thinning))


class _NutsChain:
    """A chain of NUTS."""

    def __init__(
        self,
        program: _Program,
        position: Array,
        key: Array,
        warmup: int,
        target: float,
        inputs: Inputs,
        tick: Tick | None,
    ) -> None:
        self.program, self.key, self.inputs, self.tick = program, key, inputs, tick
        self.target = jnp.asarray(target)
        self.state = program.start(position, inputs)
        self.schedule = _schedule(-(-warmup // CHUNK))
        self.chunks_done = 0
        self.positions: list[NDArray[np.float64]] = []
        self.divergent: list[NDArray[np.bool_]] = []

    def run_to(self, length: int) -> None:
        for part in self.schedule[self.chunks_done :]:
            self._advance(part[:, 0].astype(np.int64), part[:, 1].astype(bool))
        while CHUNK * len(self.positions) < length:
            position, divergent = self._advance(np.full(CHUNK, SAMPLING), np.zeros(CHUNK, bool))
            self.positions.append(position)
            self.divergent.append(divergent)

    def kept(self, length: int, thinning: int) -> NDArray[np.float64]:
        points = np.concatenate(self.positions)[thinning - 1 : length : thinning]
        return np.asarray(_scaled(points, np.asarray(self.inputs.get("scale", 1.0))))

    def divergences(self, length: int) -> int:
        return int(np.concatenate(self.divergent)[:length].sum())

    def _advance(
        self, stages: NDArray[np.int64], window_ends: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        keys = _keys(self.key, self.chunks_done)
        self.state, (position, divergent) = self.program.advance(
            self.state, keys, stages, window_ends, self.inputs, self.target
        )
        self.chunks_done += 1
        out = np.asarray(position), np.asarray(divergent)  # waits for the chunk
        if self.tick is not None:
            self.tick(CHUNK)
        return out


@lru_cache
def _schedule(chunks: int) -> NDArray[np.int64]:
    """Stan's windows over the warm-up: (chunks, CHUNK, 2) of stage and whether a window closes."""
    return np.asarray(build_schedule(chunks * CHUNK)).reshape(chunks, CHUNK, 2)


class _Program:
    """The compiled functions of one density; called with other values of the same shapes only."""

    def __init__(self, density: Density, inputs: Inputs) -> None:
        dense = density.dimension <= DENSE_UP_TO
        metric_start, metric_update, metric_close = mass_matrix_adaptation(not dense)
        kernel = blackjax.nuts.build_kernel()
        # jit is for its cache here: the kernel asks for the density and its gradient in several
        # places, and tracing a NumPyro model takes longer than compiling it
        log_density_at = jax.jit(partial(log_density, density))

        def start(position: Array, inputs: Inputs) -> Any:
            step_start = dual_averaging_adaptation(0.8)[0]
            state = blackjax.nuts.init(position, lambda q: log_density_at(q, inputs))
            return state, step_start(1.0), metric_start(density.dimension)

        def advance(
            state: Any, keys: Array, stages: Array, ends: Array, inputs: Inputs, target: Array
        ) -> Any:
            step_start, step_update, step_final = dual_averaging_adaptation(target)

            def density_at(position: Array) -> Array:
                value: Array = log_density_at(position, inputs)
                return value

            def iterate(carry: Any, schedule: Any) -> Any:
                chain, step, metric = carry
                key, stage, closes = schedule
                log_size = jnp.where(stage == SAMPLING, step.log_step_size_avg, step.log_step_size)
                chain, info = kernel(
                    key,
                    chain,
                    density_at,
                    jnp.exp(log_size),
                    metric.inverse_mass_matrix,
                    density.model.deepest_tree,
                )
                step = jax.lax.cond(
                    stage == SAMPLING,
                    lambda s: s,
                    lambda s: step_update(s, info.acceptance_rate),
                    step,
                )
                metric = jax.lax.cond(
                    stage == 1, lambda m: metric_update(m, chain.position), lambda m: m, metric
                )
                step, metric = jax.lax.cond(
                    closes,
                    lambda s, m: (step_start(step_final(s)), metric_close(m)),
                    lambda s, m: (s, m),
                    step,
                    metric,
                )
                return (chain, step, metric), (chain.position, info.is_divergent)

            return jax.lax.scan(iterate, state, (keys, stages, ends))

        def score(candidates: Array, inputs: Inputs) -> Array:
            scores: Array = jax.lax.map(lambda q: log_density_at(q, inputs), candidates)
            return scores

        self.dimension = density.dimension
        point, key = jnp.zeros(density.dimension), jax.random.key(0)
        self.start = compiled(start, point, inputs, optimisation=0)  # runs once for each chain
        state = jax.eval_shape(start, point, inputs)
        chunk_keys = jax.eval_shape(_keys, key, 0)
        stages, ends = np.zeros(CHUNK, np.int64), np.zeros(CHUNK, bool)
        self.advance = compiled(advance, state, chunk_keys, stages, ends, inputs, jnp.asarray(0.8))
        self.score = jax.jit(score)


@jax.jit
def _keys(key: Array, chunk: Array) -> Array:
    """Of the iterations of one chunk."""
    return jax.random.split(jax.random.fold_in(key, chunk), CHUNK)


_PROGRAMS: WeakKeyDictionary[Density, dict[tuple[str, ...], _Program]] = WeakKeyDictionary()
_BUILDING = threading.Lock()


def _program(density: Density, inputs: Inputs) -> _Program:
    with _BUILDING:
        names = tuple(sorted(inputs))  # moments, units and a scale are not always there
        programs = _PROGRAMS.setdefault(density, {})
        if names not in programs:
            programs[names] = _Program(density, inputs)
        return programs[names]


def _starting_points(
    program: _Program, key: Array, chains: int, inputs: Inputs
) -> NDArray[np.float64]:
    """For each chain the best of a few points, uniform on (-2, 2) as in Stan."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))  # nothing to compile
    candidates = rng.uniform(-2.0, 2.0, (chains, CANDIDATES, program.dimension))
    flat = candidates.reshape(-1, program.dimension)
    score = np.asarray(program.score(flat, inputs)).reshape(chains, CANDIDATES)
    score = np.where(np.isfinite(score), score, -np.inf)
    if not np.isfinite(score).any(axis=1).all():
        raise Refused(
            "The model's density is zero or infinite at every starting point; check that the "
            "records are possible under the model's priors."
        )
    return np.asarray(candidates[np.arange(chains), score.argmax(axis=1)])


def spread_over(points: NDArray[np.float64], chains: int) -> NDArray[np.float64]:
    """One of the given points for each chain, spread evenly over them."""
    rows = (np.arange(chains) * len(points)) // chains
    return np.asarray(points[rows])
