"""Gibbs sampling of a mixture of regressions under record weights, exactly.

The density is prior(theta) prod_i S_i^alpha_i with S_i = sum_k pi_k N(y_i; theta_k q_i, sigma_k^2).
A sweep first lets some records take part (t_i = 1), with probability alpha_i and whatever theta
is. The component of each that does is drawn from its full conditional. The density of all is

    prior(theta) prod_i S_i^(alpha_i - t_i) prod_{t_i = 1} pi_{z_i} N(y_i; theta_{z_i} q_i, ...).

Without the first product this is a mixture of regressions on the records that take part, where
every block of parameters has its usual conditional. A block is proposed from that, and accepted
with the ratio of the first product: exp(sum_i (alpha_i - t_i) change of log S_i). Where all weights
are 1 everybody takes part, the ratio is 1, and this is the usual Gibbs sampler.

The sum is small when records that take part resemble those that do not. They are therefore drawn
systematically, in an order in which neighbours are alike; any way of drawing them is exact that
does not look at theta.

Scales and gamma have no conjugate prior: a few steps of a random walk, reversible for the
conditional, take the place of a draw from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import gammaln
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from understudy.models.contract import is_weighted
from understudy.models.mixture.hurdle_gibbs import draw_shares, hurdle_sums, sweep_losses
from understudy.models.mixture.random_walk import random_walk, scale_walk

TINY = 1e-300  # the least density of a record, as a multiple of its largest when a sweep begins
LIKE_SIZES = 10.0  # how much more alike neighbours are in size than in a column
BLOCK = 64  # records of one component that are summed together
LEAST_SHARE = 1e-300  # a smaller share is reported as this

SweepData = Mapping[str, Any]


class State(NamedTuple):
    theta: Array  # (K, R)
    sigma: Array  # (K,)
    log_share: Array  # (K,)
    spread: Array  # (R,)
    gamma: Array
    loss_mean: Array
    loss_sigma: Array  # (1,)


class ComponentFit(NamedTuple):
    """How the components fit every record, as logarithms less `top`: of pi_k N_ki it is the
    largest of the record when a sweep begins. In double precision, unlike NUTS: a record far from
    all components has a density that single numbers cannot hold, and a small weight allows it."""

    top: Array  # (n,)
    log_normal: Array  # (K, n), log N_ki - top
    joint: Array  # (K, n), pi_k N_ki / exp(top)
    log_sum: Array  # (n,), log S_i - top


class Members(NamedTuple):
    """Moments of the records that take part, by component, and alpha_i - t_i of all."""

    number: Array  # (K,)
    XX: Array  # (K, R, R)
    Xy: Array  # (K, R)
    yy: Array  # (K,)
    left: Array  # (n,)


def mixture_data(
    arrays: Mapping[str, Any], alpha: NDArray[np.float64], floors: tuple[float, float]
) -> dict[str, Any]:
    """What a sweep needs: positive incomes, in the order of a k-d tree's leaves.

    Records without weight never take part. They are left out where all others have weight 1.
    """
    y, Q = np.asarray(arrays["y"]), np.asarray(arrays["Q"])
    some = (y > 0) & ((alpha > 0) | is_weighted(alpha))
    Q, size, weight = Q[some], np.log(y[some]) - float(arrays["centre"]), alpha[some]
    points = np.column_stack([LIKE_SIZES * size / max(float(size.std()), 1e-9), Q])
    order = cKDTree(points, leafsize=1).indices
    Q, size = Q[order], size[order]
    L = np.asarray(arrays["L"])
    return {
        "table": np.vstack([np.column_stack([Q, size]), np.zeros(Q.shape[1] + 1)]),
        "rows": np.ascontiguousarray(Q.T),
        "size": size,
        "alpha": weight[order],
        "inverse": np.linalg.inv(L),
        "floors": np.array(floors),
        **hurdle_sums(dict(arrays), alpha),
    }


def mixture_state(parameters: Mapping[str, Any]) -> State:
    values = {name: jnp.asarray(value, dtype=jnp.float64) for name, value in parameters.items()}
    return State(
        values["theta"], values["sigma"], jnp.log(values["share"]), values["spread"],
        values["gamma"], values["loss_mean"], values["loss_sigma"][None],
    )  # fmt: skip


def mixture_parameters(key: Array, state: State, data: SweepData) -> dict[str, Array]:
    """By site name. The largest share comes last (labels mean nothing): it is what the others
    leave, so that the smallest keep their digits."""
    order = jnp.argsort(state.log_share)
    share = jnp.maximum(jnp.exp(state.log_share[order]), LEAST_SHARE)
    return draw_shares(key, data) | {
        "theta": state.theta[order], "sigma": state.sigma[order], "share": share / share.sum(),
        "spread": state.spread, "gamma": state.gamma,
        "loss_mean": state.loss_mean, "loss_sigma": state.loss_sigma[0],
    }  # fmt: skip


def sweep(key: Array, state: State, data: SweepData, weighted: bool) -> State:
    """All parameters once."""
    keys = jax.random.split(key, 7)
    fit = evaluate(state, data)
    members = draw_members(keys[0], fit, data, weighted)
    state, fit = move_coefficients(keys[1], state, fit, members, data, weighted)
    state, fit = move_widths(keys[2], state, fit, members, data, weighted)
    state = move_shares(keys[3], state, fit, members, weighted)
    beta = data["inverse"] @ state.theta.T
    number = jnp.full(len(state.spread), float(len(state.sigma)))
    spread = scale_walk(state.spread, number, (beta**2).sum(axis=1), data["floors"][1], keys[4])
    gamma = move_concentration(keys[5], state)
    losses = sweep_losses(keys[6], state.loss_mean, state.loss_sigma, data, data["floors"][0])
    return state._replace(spread=spread, gamma=gamma, loss_mean=losses[0], loss_sigma=losses[1])


def evaluate(state: State, data: SweepData) -> ComponentFit:
    mean = state.theta @ data["rows"]
    log_normal = _log_normal(data["size"] - mean, state.sigma[:, None])
    joint = log_normal + state.log_share[:, None]
    top = joint.max(axis=0)
    joint = jnp.exp(joint - top)
    return ComponentFit(top, log_normal - top, joint, _log(joint.sum(axis=0)))


def draw_members(key: Array, fit: ComponentFit, data: SweepData, weighted: bool) -> Members:
    """Who takes part (systematic sampling), and in which component; then their moments."""
    of_start, of_component = jax.random.split(key)
    (K, n), alpha = fit.joint.shape, data["alpha"]
    part = jnp.ones(n, dtype=bool)
    if weighted:
        passed = jnp.floor(jnp.cumsum(alpha) + jax.random.uniform(of_start))
        part = jnp.diff(passed, prepend=0.0) > 0
    below = jnp.cumsum(fit.joint, axis=0)
    level = jax.random.uniform(of_component, (n,)) * below[-1]
    z = jnp.minimum((below <= level).sum(axis=0), K - 1)
    own = (z == jnp.arange(K)[:, None]) & part
    number, gram = _moments(own, z, part, data["table"])
    left = alpha - part
    return Members(number, gram[:, :-1, :-1], gram[:, :-1, -1], gram[:, -1, -1], left)


def _moments(own: Array, z: Array, part: Array, table: Array) -> tuple[Array, Array]:
    """Numbers (K,) and cross products (K, R + 1, R + 1) of the members of each component.

    Each component's members are put into blocks of their own, so that the products are one batch
    of small matrices; the last line of `table` is zero and fills the blocks up.
    """
    K, n = own.shape
    position = jnp.cumsum(own, axis=1)
    number = position[:, -1]
    blocks = -(-number // BLOCK)
    first = jnp.cumsum(blocks) - blocks
    count = n // BLOCK + K
    rank = jnp.take_along_axis(position, z[None], axis=0)[0] - 1
    slot = jnp.where(part, BLOCK * first[z] + rank, BLOCK * count)
    record = jnp.full(BLOCK * count, n).at[slot].set(jnp.arange(n), mode="drop")
    rows = table[record].reshape(count, BLOCK, -1)
    products = jnp.einsum("bij,bik->bjk", rows, rows)
    at = jnp.arange(count)
    member = (at >= first[:, None]) & (at < (first + blocks)[:, None])
    gram = member.astype(rows.dtype) @ products.reshape(count, -1)
    return number.astype(rows.dtype), gram.reshape(K, *products.shape[1:])


def move_coefficients(
    key: Array, state: State, fit: ComponentFit, members: Members, data: SweepData, weighted: bool
) -> tuple[State, ComponentFit]:
    """theta_k from its normal conditional."""
    of_draw, of_moves = jax.random.split(key)
    variance = state.sigma**2
    prior = (data["inverse"].T / state.spread**2) @ data["inverse"]
    factor = jnp.linalg.cholesky(prior + members.XX / variance[:, None, None])
    right = (members.Xy / variance[:, None])[..., None]
    half = solve_triangular(factor, right, lower=True)
    half += jax.random.normal(of_draw, half.shape)
    theta = solve_triangular(factor, half, lower=True, trans=1)[..., 0]
    if not weighted:
        return state._replace(theta=theta), fit
    moved, fit = _moves(of_moves, state, fit, members, data, theta, state.sigma)
    return state._replace(theta=jnp.where(moved[:, None], theta, state.theta)), fit


def move_widths(
    key: Array, state: State, fit: ComponentFit, members: Members, data: SweepData, weighted: bool
) -> tuple[State, ComponentFit]:
    """sigma_k, half-t above its floor."""
    of_walk, of_moves = jax.random.split(key)
    theta = state.theta
    squares = members.yy - 2.0 * (theta * members.Xy).sum(axis=1)
    squares += jnp.einsum("kr,krs,ks->k", theta, members.XX, theta)
    squares = jnp.maximum(squares, 0.0)  # rounding
    sigma = scale_walk(state.sigma, members.number, squares, data["floors"][0], of_walk)
    if not weighted:
        return state._replace(sigma=sigma), fit
    moved, fit = _moves(of_moves, state, fit, members, data, theta, sigma)
    return state._replace(sigma=jnp.where(moved, sigma, state.sigma)), fit


def move_shares(
    key: Array, state: State, fit: ComponentFit, members: Members, weighted: bool
) -> State:
    """pi from Dirichlet(gamma / K + counts), by logarithms: most shares are next to nothing."""
    of_draw, of_move = jax.random.split(key)
    shape = state.gamma / len(state.sigma) + members.number
    new = jax.random.loggamma(of_draw, shape)
    new -= jax.nn.logsumexp(new)
    if not weighted:
        return state._replace(log_share=new)
    joint = _exp(fit.log_normal + new[:, None])
    moved = _accepted(of_move, members, fit, _log(joint.sum(axis=0)))
    return state._replace(log_share=jnp.where(moved, new, state.log_share))


def move_concentration(key: Array, state: State) -> Array:
    """gamma ~ Gamma(1, 1), given pi ~ Dirichlet(gamma / K)."""
    K, total = len(state.sigma), state.log_share.sum()

    def log_density(log_gamma: Array) -> Array:
        gamma = jnp.exp(log_gamma)
        dirichlet = gammaln(gamma) - K * gammaln(gamma / K) + gamma / K * total
        return dirichlet - gamma + log_gamma

    walked = random_walk(log_density, jnp.log(state.gamma)[None], jnp.ones(1), key)
    return jnp.exp(walked[0])


def _moves(
    key: Array,
    state: State,
    fit: ComponentFit,
    members: Members,
    data: SweepData,
    theta: Array,
    sigma: Array,
) -> tuple[Array, ComponentFit]:
    """One component after the other goes to its new coefficients and width, or stays."""
    K = len(sigma)

    def step(fit: ComponentFit, component: tuple[Array, ...]) -> tuple[ComponentFit, Array]:
        k, key, theta_k, sigma_k, log_share = component
        mean = theta_k @ data["rows"]
        log_normal = _log_normal(data["size"] - mean, sigma_k) - fit.top
        joint = _exp(log_normal + log_share)
        others = (jnp.arange(K) != k) @ fit.joint
        log_sum = _log(others + joint)
        moved = _accepted(key, members, fit, log_sum)
        entries = (jnp.arange(K) == k)[:, None] & moved
        fit = ComponentFit(
            fit.top,
            jnp.where(entries, log_normal, fit.log_normal),
            jnp.where(entries, joint, fit.joint),
            jnp.where(moved, log_sum, fit.log_sum),
        )
        return fit, moved

    each = (
        jnp.arange(K), jax.random.split(key, K), theta, sigma, state.log_share,
    )  # fmt: skip
    fit, moved = jax.lax.scan(step, fit, each)
    return moved, fit


def _accepted(key: Array, members: Members, fit: ComponentFit, log_sum: Array) -> Array:
    change = members.left @ (log_sum - fit.log_sum).astype(jnp.float64)
    return jnp.log(jax.random.uniform(key)) < change


def _log_normal(residual: Array, sigma: Array) -> Array:
    z = residual * (1.0 / sigma)
    return -0.5 * z * z - jnp.log(sigma)


def _exp(values: Array) -> Array:
    """Finite: nobody gets 690 logs likelier by a move."""
    return jnp.exp(jnp.minimum(values, 690.0))


def _log(values: Array) -> Array:
    return jnp.log(jnp.maximum(values, TINY))
