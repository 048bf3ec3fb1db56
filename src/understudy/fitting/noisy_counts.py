"""The posterior of a model of one bounded outcome given noisy counts in bins: it knows the noise.

The records enter through noisy counts alone (dp/binned_counts.py). With cells c of n_c records and
bins b, the true counts are latent and summed out:

    P(h_cb | theta) = sum_k Poisson(k; n_c p_cb(theta)) P(noise = h_cb - k)

p_cb is the model's own density of the outcome, integrated or summed over the bin; the first and the
last bin have the tails beyond the bounds, since values there are counted in them, and records are
drawn from the whole law. Counts of a cell add up to n_c, which
independent Poisson counts need not: without noise both give the same posterior, because the p_cb
add up to 1; with it, Poisson counts are a little less sure.

A count's P(h | lambda) depends on theta through lambda alone, so that it is computed once for each
count at a grid of sqrt(lambda) and interpolated: the sum by a recursion of the noise's geometric
tails, and for large lambda, where Poisson counts are normal, by the law of a normal and a Laplace
variable. Noise beyond a few scales is not believed in (`_within_reach`). It is post-processing: no
claim rests on any of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.signal import lfilter
from scipy.special import gammaln, log_ndtr

from understudy.dp.binned_counts import BinnedValues, NoisyBins, bin_edges, whole_edges
from understudy.errors import Refused
from understudy.fitting.observed_law import observed_law
from understudy.models.compilation import kept
from understudy.models.contract import Arrays, OutcomeModel
from understudy.models.density import Density, density_at
from understudy.survey.codebook import Codebook

NODES = 8  # at which a bin's density is looked at
GRADED = 4  # the power by which nodes crowd at the bounds, where a density may be infinite
STEP = 0.05  # of sqrt(lambda)
REACH = 4.0  # scales of noise, beyond which no count is explained by it
SUMMED = 2_000.0  # lambda up to which counts are Poisson, beyond it normal
START_WIDTH = 2.0  # standard deviations, by which chains start apart,
WIDEST_START = 5.0  # each of at most so much
TINY = 1e-250  # probabilities below it have lost digits
TAIL = 0.25  # of the range: half of a tail's nodes are nearer than this

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
OWN = ("log_weight", "root_size", "table", "slope")  # arrays that are not the model's


class CountedDensity(Density):
    """A model's density with noisy counts for records: contributions are those of the counts, in
    the order of cells and bins. Its arrays are the model's own at nodes, (cells * bins * nodes,),
    and those of `OWN`."""

    def at_nodes(self, position: Array, arrays: Mapping[str, Any]) -> tuple[Array, Array]:
        """The log prior, and log densities (cells, bins, nodes)."""
        log_prior, values = super().evaluate(position, arrays)
        return log_prior, values.reshape(arrays["log_weight"].shape)

    def log_bins(self, position: Array, arrays: Mapping[str, Any]) -> tuple[Array, Array]:
        """The log prior, and log p (cells, bins): bins of a cell make up 1, as those at the ends
        have the tails."""
        log_prior, values = self.at_nodes(position, arrays)
        log_p = logsumexp(values + arrays["log_weight"], axis=-1)
        return log_prior, log_p - logsumexp(log_p, axis=-1, keepdims=True)

    def evaluate(self, position: Array, arrays: Mapping[str, Any]) -> tuple[Array, Array]:
        log_prior, log_p = self.log_bins(position, arrays)
        root = arrays["root_size"][:, None] * jnp.exp(0.5 * log_p)
        return log_prior, _interpolated(root.ravel(), arrays["table"], arrays["slope"])

    def _arguments(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return super()._arguments({n: a for n, a in arrays.items() if n not in OWN})


def counted_density(
    model: OutcomeModel, arrays: Arrays, seen: BinnedValues, noisy: NoisyBins
) -> tuple[CountedDensity, Arrays]:
    """The density of noisy counts, and its arrays; of `arrays`, public ones are looked at."""
    own, log_weight = _at_nodes(model, arrays, seen)
    grid = np.arange(0.0, np.sqrt(seen.sizes.max()) + 3 * STEP, STEP)
    table = log_noisy_counts(noisy.counts.ravel(), noisy.scale, grid)
    own |= {
        "log_weight": log_weight,
        "root_size": np.sqrt(seen.sizes.astype(np.float64)),
        "table": table,
        "slope": slopes_of(table),
    }
    density = density_at(model, own, CountedDensity)
    assert isinstance(density, CountedDensity)
    return density, own


def _at_nodes(model: OutcomeModel, arrays: Arrays, seen: BinnedValues) -> tuple[Arrays, Matrix]:
    """The model's arrays at each cell's nodes, and the logarithms of these nodes' weights, (cells,
    bins, nodes). A node that cannot occur in a cell weighs next to nothing there, and has the value
    of one that can."""
    name, n = model.targets[0], len(arrays[model.targets[0]])
    values, log_weight = integers_of(seen.edges) if seen.ends else nodes_of(seen.edges, seen.whole)

    def at(values: NDArray[Any]) -> Arrays:
        rows = np.repeat(seen.rows, values[0].size)
        own = {k: a[rows] if a.shape[:1] == (n,) else a for k, a in arrays.items()}
        return own | {name: values.ravel()}

    tiled = np.broadcast_to(values, (seen.cells, *values.shape))
    if seen.whole and not seen.ends:
        return at(tiled), np.broadcast_to(log_weight, tiled.shape)
    own = at(tiled)
    law = observed_law(density_at(model, own), own, own[name])
    inside = law.inside.reshape(tiled.shape)
    seen_nodes = (inside & np.isfinite(log_weight)).any(axis=(0, 1))  # Beta laws have no tails
    first = inside.reshape(seen.cells, -1).argmax(axis=1)
    possible = tiled.reshape(seen.cells, -1)[np.arange(seen.cells), first]
    weight = log_weight + law.log_slope.reshape(tiled.shape)
    weight = np.maximum(np.where(inside, weight, -np.inf), np.log(TINY))
    tiled = np.where(inside, tiled, possible[:, None, None])
    return at(tiled[:, :, seen_nodes]), weight[:, :, seen_nodes]


def edges_of(
    density: Density, arrays: Arrays, codebook: Codebook, number: int
) -> tuple[Vector, bool]:
    """Edges of so many bins of the outcome, and whether they hold all whole numbers of a law that
    has a largest one. Such a law needs no declared bounds, and each declared level is a bin."""
    model = density.model
    law = observed_law(density, arrays, np.zeros_like(arrays[model.targets[0]]))
    least, largest = float(law.lower.min()), float(law.upper.max())
    if len(model.sensitive) == 1 and np.isfinite([least, largest]).all():
        column = codebook.columns.get(model.sensitive[0])
        levels = column is not None and column.levels and column.declared("levels")
        values = int(largest - least) + 1
        bins = values if levels else min(number, values)
        return whole_edges(int(least), int(largest), bins), True
    _, (low, high) = model.bounded_target(codebook)
    low = least if np.isfinite(least) else low
    return bin_edges((low, high), number, density.whole), False


def refuse_own_parameters(density: Density, arrays: Arrays, rows: NDArray[np.int64]) -> None:
    """Where fewer records would have fewer parameters: before the noise is paid for."""
    few = {k: a[rows] if a.shape[:1] == (density.n,) else a for k, a in arrays.items()}
    if density_at(density.model, few).shapes != density.shapes:
        raise Refused("NoisyMoments is for models without a parameter of each record.")


def counted_inputs(density: CountedDensity, arrays: Arrays) -> dict[str, Any]:
    """What the program of NUTS is given: every count as it is, and the model's own prior."""
    counts = len(arrays["table"])
    return {
        "arrays": {name: jnp.asarray(array) for name, array in arrays.items()},
        "alpha": jnp.ones(counts),
        "reference_loglik": jnp.zeros(counts),
        "limit": jnp.asarray(jnp.inf),
        "prior_centre": jnp.zeros(density.dimension),
        "prior_scale": jnp.asarray(jnp.inf),
    }


def starts(
    density: CountedDensity, arrays: Arrays, noisy: NoisyBins, chains: int, seed: int
) -> Matrix:
    """A point for each chain, around where the posterior would be highest if the noisy counts were
    true: noise with long tails gives up single counts, so that there may be other modes."""
    shown = np.maximum(noisy.counts, 0).astype(np.float64)

    def loss(position: Vector) -> tuple[float, Vector]:
        value, slope = _lost(density, position, arrays, shown)
        return float(value), np.asarray(slope)

    mode = minimize(loss, np.zeros(density.dimension), jac=True, method="L-BFGS-B").x
    scale, axes = np.linalg.eigh(known_information(density, mode, arrays))
    wide = START_WIDTH / np.sqrt(np.maximum(scale, 1 / WIDEST_START**2))
    apart = np.random.default_rng(seed).standard_normal((chains, density.dimension))
    return np.asarray(mode + (wide * apart) @ axes.T)


@kept(constants=1, few_runs=True)
def _lost(
    density: CountedDensity, position: Array, arrays: Any, shown: Array
) -> tuple[Array, Array]:
    """Minus the log posterior of true counts that are as shown, and its derivatives."""

    def value(q: Array) -> Array:
        log_prior, log_p = density.log_bins(q, arrays)
        return -(log_prior + (shown * log_p).sum())

    return jax.value_and_grad(value)(position)


def known_information(density: CountedDensity, position: Vector, arrays: Arrays) -> Matrix:
    return np.asarray(_information(density, position, arrays))


@kept(constants=1, few_runs=True)
def _information(density: CountedDensity, position: Array, arrays: Any) -> Array:
    """Minus the expected second derivative of the log posterior, (d, d), if the records themselves
    were known."""
    score = jax.jacfwd(lambda q: density.at_nodes(q, arrays)[1])(position)
    score = score.reshape(-1, density.dimension)
    mass = jnp.exp(density.at_nodes(position, arrays)[1] + arrays["log_weight"])
    weight = (arrays["root_size"][:, None, None] ** 2 * mass).ravel()
    of_prior = jax.hessian(lambda q: density.at_nodes(q, arrays)[0])(position)
    return jnp.asarray((score * weight[:, None]).T @ score - of_prior)


def nodes_of(edges: Vector, whole: bool) -> tuple[Matrix, Matrix]:
    """Points in each bin at which the density is looked at, and the logarithms of their weights,
    (bins, nodes): Gauss and Legendre's. Of few whole numbers these themselves; the probabilities of
    many, from a to b, are an integral from a - 1/2 to b + 1/2, and the last bin goes on. Of other
    numbers as many nodes more, those of the tails in the first and the last bin."""
    lower, upper = edges[:-1], edges[1:]
    point, weight = np.polynomial.legendre.leggauss(NODES)
    point, weight = (point + 1) / 2, weight / 2  # between 0 and 1
    width = (upper - lower)[:, None]
    if whole:
        few, number = width <= NODES, np.arange(NODES)
        each = np.minimum(number, width - 1)
        values = lower[:, None] + np.where(few, each, width * point - 0.5)
        weights = np.where(few, number < width, width * weight)
        reach = max(float(width[-1, 0]), lower[-1] / 4)  # of the last bin, which has no end
        values[-1] = lower[-1] - 0.5 + reach * point / (1 - point)
        weights[-1] = reach * weight / (1 - point) ** 2
        with np.errstate(divide="ignore"):
            return values, np.log(weights)
    values, weights = lower[:, None] + width * point, width * weight
    crowded, thinner = point**GRADED, GRADED * point ** (GRADED - 1) * weight
    values[0], weights[0] = lower[0] + width[0] * crowded, width[0] * thinner
    values[-1], weights[-1] = upper[-1] - width[-1] * crowded, width[-1] * thinner
    reach = TAIL * (upper[-1] - lower[0])
    beyond, far = reach * point / (1 - point), reach * weight / (1 - point) ** 2
    tails, of_tails = np.tile(lower[:, None], NODES), np.zeros_like(values)
    tails[0], tails[-1], of_tails[[0, -1]] = lower[0] - beyond, upper[-1] + beyond, far
    with np.errstate(divide="ignore"):
        return np.hstack([values, tails]), np.log(np.hstack([weights, of_tails]))


def integers_of(edges: Vector) -> tuple[NDArray[np.int64], Matrix]:
    """All whole numbers of each bin, and the logarithms of their weights, (bins, most)."""
    width = np.diff(edges)[:, None]
    number = np.arange(int(width.max()))
    values = edges[:-1, None] + np.minimum(number, width - 1)
    return values.astype(np.int64), np.where(number < width, 0.0, -np.inf)


def log_noisy_counts(shown: NDArray[np.int64], scale: float, grid: Vector) -> Matrix:
    """log P(h | lambda) for each noisy count h and each sqrt(lambda) of the grid."""
    rate = grid**2
    table = _log_normal_laplace(shown[:, None] - rate, np.maximum(rate, 1e-6), scale)
    summed = rate <= SUMMED
    exact = _poisson_geometric(shown, scale, rate[summed])
    with np.errstate(divide="ignore"):
        table[:, summed] = np.where(exact > TINY, np.log(exact), table[:, summed])
    return np.minimum(table, _within_reach(shown[:, None], scale, np.maximum(rate, STEP**2)))


def _within_reach(shown: NDArray[np.int64], scale: float, rate: Vector) -> Matrix:
    """What log P(h | lambda) is at most if the noise is at most T = REACH scale: the true count is
    within [h - T, h + T]. Where lambda lies outside, and probabilities fall from the near end on by
    a factor r < 1 at least, their sum is that of a geometric series.

    A model that does not fit would explain whole bins by noise, since each of their records costs
    but 1/scale then; beyond T it costs as much as without noise. Where noise is in truth larger,
    a count is taken to be off by a few records, which says little (decision 053)."""
    reach = int(np.ceil(REACH * scale))
    end = np.where(rate < shown, np.maximum(shown - reach, 0), np.maximum(shown + reach, 0))
    below = end > rate  # the true count is larger than lambda
    outside = np.where(rate < shown, below, (end < rate) & (shown + reach >= 0))
    a = np.exp(-1.0 / scale)
    factor = np.where(below, rate / (end + 1), end / rate) / a
    log_first = end * np.log(rate) - rate - gammaln(end + 1) - np.abs(shown - end) / scale
    with np.errstate(divide="ignore", invalid="ignore"):
        log_sum = log_first - np.log1p(-factor) + np.log((1 - a) / (1 + a))
    return np.where(outside & (factor < 1), log_sum, np.inf)


def slopes_of(table: Matrix) -> Matrix:
    """Per step of the grid; a function of lambda has none in sqrt(lambda) at 0."""
    slope = np.gradient(table, axis=1)
    slope[:, 0] = 0.0
    return np.asarray(slope)


def _poisson_geometric(shown: NDArray[np.int64], scale: float, rate: Vector) -> Matrix:
    """sum_k Poisson(k; rate) (1 - a)/(1 + a) a^|h - k|, a = exp(-1/scale): what lies below h and
    what lies above it are geometric sums, each from its neighbour's."""
    a = np.exp(-1.0 / scale)
    k = np.arange(int(rate.max() + 12 * np.sqrt(rate.max()) + 40))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_pmf = k * np.log(rate)[:, None] - rate[:, None] - gammaln(k + 1)
    pmf = np.exp(np.where((rate == 0)[:, None], np.where(k == 0, 0.0, -np.inf), log_pmf))
    below = lfilter([1.0], [1.0, -a], pmf, axis=1)  # a^(h - k), k <= h
    above = lfilter([1.0], [1.0, -a], pmf[:, ::-1], axis=1)[:, ::-1] - pmf
    inside = np.clip(shown, 0, k[-1])
    # beyond the ends nothing is left on the other side
    beyond = np.exp(-np.abs(shown - inside) / scale)[:, None]
    total = (below + above)[:, inside].T * beyond
    return np.asarray((1 - a) / (1 + a) * total)


def _log_normal_laplace(gap: Matrix, variance: Vector, scale: float) -> Matrix:
    """The log density at `gap` of the sum of a normal and a Laplace variable."""
    s = np.sqrt(variance)
    sides = [
        variance / (2 * scale**2) - sign * gap / scale + log_ndtr(sign * gap / s - s / scale)
        for sign in (1.0, -1.0)
    ]
    return np.asarray(np.logaddexp(*sides) - np.log(2 * scale))


def _interpolated(root: Array, table: Array, slope: Array) -> Array:
    """Cubic between the points of the grid, for each row; slopes are per step."""
    steps = jnp.clip(root / STEP, 0.0, table.shape[1] - 1.001)
    left = jax.lax.stop_gradient(jnp.floor(steps)).astype(jnp.int64)
    t = steps - left

    def at(values: Array, offset: int) -> Array:
        return jnp.take_along_axis(values, (left + offset)[:, None], axis=1)[:, 0]

    y0, y1, m0, m1 = at(table, 0), at(table, 1), at(slope, 0), at(slope, 1)
    bend = (t - 1) * (m0 * (t - 1) + m1 * t)
    return jnp.asarray(y0 + (y1 - y0) * t**2 * (3 - 2 * t) + t * bend)


def spread_over_files(draws: Matrix, information: Matrix, count: int) -> Matrix:
    """A position for each of m files, (count, d), from draws (draws, d) given the noisy counts.

    Of the posterior's variance S the part inv(information) is what the records would leave open,
    and the rest V what noise and bins do. All files share V: it is spread by sqrt(m) around the
    posterior's mean, as in noisy_moments.py, and the other part is each file's own.
    """
    ends = (np.arange(1, count + 1) * len(draws)) // count - 1
    if count == 1:
        return np.asarray(draws[ends])
    centre = draws.mean(axis=0)
    L = np.linalg.cholesky(np.cov(draws.T).reshape(draws.shape[1], -1))
    own, axes = np.linalg.eigh(np.linalg.inv(L.T @ information @ L))
    own = np.clip(own, 0.0, 1.0)
    white = np.linalg.solve(L, (draws - centre).T).T @ axes
    others = white[(ends - len(draws) // (2 * count)) % len(draws)]
    common = white[ends] - white[ends].mean(axis=0)
    apart = np.sqrt(count * (1 - own)) * common + np.sqrt(own) * others
    return np.asarray(centre + apart @ axes.T @ L.T)
