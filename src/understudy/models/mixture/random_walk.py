"""Metropolis steps for a coordinate that has no conjugate prior, inside a Gibbs sampler."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

STEPS = 8


def random_walk(log_density: Callable[[Array], Array], at: Array, step: Array, key: Array) -> Array:
    """`STEPS` Metropolis steps, each coordinate on its own; reversible for the density."""

    def move(state: tuple[Array, Array], key_of_move: Array) -> tuple[tuple[Array, Array], None]:
        at, height = state
        of_step, of_level = jax.random.split(key_of_move)
        new = at + step * jax.random.normal(of_step, at.shape)
        new_height = log_density(new)
        moved = jnp.log(jax.random.uniform(of_level, at.shape)) < new_height - height
        return (jnp.where(moved, new, at), jnp.where(moved, new_height, height)), None

    last_state = jax.lax.scan(move, (at, log_density(at)), jax.random.split(key, STEPS))[0]
    return last_state[0]


def scale_walk(scale: Array, number: Array, squares: Array, floor: float, key: Array) -> Array:
    """Scales of normal residuals, of which the number and the sum of squares are given, under a
    half-t prior with 3 degrees of freedom above `floor`."""

    def log_density(log_scale: Array) -> Array:
        value = jnp.exp(log_scale)
        log_value = -number * log_scale - 0.5 * squares / value**2
        log_value += log_scale - 2.0 * jnp.log1p(value**2 / 3.0)
        return jnp.where(value > floor, log_value, -jnp.inf)

    step = 2.4 / jnp.sqrt(2.0 * number + 1.0)
    return jnp.exp(random_walk(log_density, jnp.log(scale), step, key))
