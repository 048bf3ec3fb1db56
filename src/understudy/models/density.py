"""A NumPyro model on arrays of given shapes, as pure functions of an unconstrained position.

`density_of(model, arrays)` runs the function once, refuses what cannot become a synthesizer, and
remembers the result by model and shapes, so that repeated fits share one compiled program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any
from weakref import WeakSet

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpy.typing import NDArray
from numpyro import handlers
from numpyro.distributions.transforms import biject_to

from understudy.errors import Refused
from understudy.models.compilation import kept
from understudy.models.contract import Arrays, Judged, OutcomeModel, Predicted

__public__ = ("Density", "density_of")

RECORD = "record"
FEW_RECORDS = 20_000  # up to so many are one part
PART = 1024  # records of a part where there are more
MOST_DRAWS = 100  # of records outside declared bounds
Site = dict[str, Any]


class Density:
    """log prior and record log-likelihoods of one model at one shape; equal only to itself."""

    def __init__(self, model: OutcomeModel, arrays: Arrays) -> None:
        self.model = model
        self.n = len(arrays[model.targets[0]])
        self.whole = False  # whether the last observed site has whole numbers
        self.shapes = self._latent_shapes(arrays)  # of each latent site, unconstrained
        self.dimension = sum(prod(shape) for shape in self.shapes.values())
        if not self.dimension:
            raise Refused("The model has no parameter with a prior; there is nothing to learn.")
        self._refuse_generation(arrays)
        # compiled whole: one by one, the operations of a model are dozens of programs
        self.evaluate_now = jax.jit(self.evaluate)
        self.constrain_now = jax.jit(self.constrain)
        self.unconstrain_now = jax.jit(self.unconstrain)

    @property
    def coordinates(self) -> list[str]:
        """A name for each unconstrained coordinate: `phi`, `effect[3]`."""
        names = []
        for site, shape in self.shapes.items():
            places = np.ndindex(*shape)
            names += [site + (f"[{','.join(map(str, at))}]" if at else "") for at in places]
        return names

    def evaluate(self, position: Array, arrays: Mapping[str, Any]) -> tuple[Array, Array]:
        """(log prior with the Jacobian of the transformation, record log-likelihoods (n,))."""
        jacobian, trace = self._replay(position, arrays)
        log_prior, record_loglik = jnp.asarray(jacobian), jnp.zeros(self.n)
        for site in trace.values():
            if site["type"] != "sample":
                continue
            if site["is_observed"]:
                record_loglik = record_loglik + _by_record(site, self.n)
            else:
                log_prior = log_prior + _log_prob(site).sum()
        return log_prior, record_loglik

    def record_loglik(self, position: Array, arrays: Mapping[str, Any]) -> Array:
        """f_i(theta), shape (n,)."""
        return self.evaluate(position, arrays)[1]

    def in_parts(self, arrays: Arrays, units: object = None) -> tuple[Density, Arrays]:
        """The density of a few records, and the arrays with an axis of such parts in front: work on
        all draws of a part stays in the processor's cache. The last part is filled up with copies
        of the first record. One part, of all, where there are few records, where they belong to
        units, and where a parameter or a column is not each record's own."""
        whole = {name: np.asarray(array)[None] for name, array in arrays.items()}
        own = units is None and all(len(array) == self.n for array in arrays.values())
        if self.n <= FEW_RECORDS or not own:
            return self, whole
        rows = np.arange(-(-self.n // PART) * PART)
        rows[self.n :] = 0
        parts = {
            name: np.asarray(array)[rows].reshape(-1, PART, *array.shape[1:])
            for name, array in arrays.items()
        }
        part = density_at(self.model, {name: array[0] for name, array in parts.items()})
        return (part, parts) if part.shapes == self.shapes else (self, whole)

    def constrain(self, position: Array, arrays: Mapping[str, Any]) -> dict[str, Array]:
        """The parameters by site name, in the function's own coordinates."""
        trace = self._replay(position, arrays)[1]
        return {name: jnp.asarray(trace[name]["value"]) for name in self.shapes}

    def prior_draws(self, keys: Array, arrays: Mapping[str, Any]) -> tuple[dict[str, Array], Array]:
        """One draw by the function's own prior for each key: the parameters by site name, and the
        positions. What is drawn from a distribution whose parameters are not finite is NaN."""
        drawn: tuple[dict[str, Array], Array] = _drawn(self, keys, dict(arrays))
        return drawn

    def unconstrain(self, parameters: Mapping[str, Any], arrays: Mapping[str, Any]) -> Array:
        """The position of these parameters; the inverse of `constrain`."""
        values = {name: jnp.asarray(parameters[name]) for name in self.shapes}
        seeded = handlers.seed(self.model.function, jax.random.key(0))
        trace = handlers.trace(handlers.substitute(seeded, data=values)).get_trace(
            **self._arguments(arrays)
        )
        return self._position(trace)

    def _position(self, trace: Mapping[str, Site]) -> Array:
        sites = [trace[name] for name in self.shapes]
        free = [biject_to(site["fn"].support).inv(site["value"]) for site in sites]
        return jnp.concatenate([jnp.ravel(part) for part in free])

    def free_scale(self, by_site: Mapping[str, Any]) -> NDArray[np.float64]:
        """Numbers by site as one vector over the position; 1 where a site is left out."""
        parts = [np.broadcast_to(by_site.get(n, 1.0), shape) for n, shape in self.shapes.items()]
        return np.concatenate([np.ravel(part) for part in parts]).astype(np.float64)

    def judged(self, positions: NDArray[np.float64], arrays: Mapping[str, Any]) -> Judged:
        """What chains are judged on."""
        predicted = _predicted(self, positions.reshape(-1, self.dimension), dict(arrays))
        if predicted is None:
            return Judged(self.coordinates, positions)
        names = list(predicted.numbers)
        values = np.stack([np.asarray(predicted.numbers[name]) for name in names], axis=-1)
        numbers = values.reshape(positions.shape[:2] + values.shape[1:])
        if predicted.variance is None or not self.model.generates_from_records:
            return Judged(names, numbers)  # a claim may rest on exact draws
        own = [float(np.mean(predicted.variance[name])) for name in names]
        return Judged(names, numbers, np.array(own))

    def generate(self, key: Array, position: Array, arrays: Mapping[str, Any]) -> dict[str, Array]:
        """New sensitive arrays for all records, from one parameter draw."""
        return self.generate_from(key, self.constrain(position, arrays), arrays)

    def generate_from(
        self, key: Array, parameters: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> dict[str, Array]:
        """The same from parameters by site name; sensitive arrays are not looked at."""
        public = {name: a for name, a in arrays.items() if name not in self.model.targets}
        drawn = handlers.substitute(handlers.seed(self.model.function, key), data=dict(parameters))
        trace = handlers.trace(drawn).get_trace(**self._arguments(public))
        return {name: jnp.asarray(trace[name]["value"]) for name in self.model.targets}

    def _arguments(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        targets = {name: arrays.get(name) for name in self.model.targets}
        count = {"n": self.n} if self.model.takes_record_count else {}
        return {**count, **arrays, **targets}

    def _latent_shapes(self, arrays: Arrays) -> dict[str, tuple[int, ...]]:
        """Trace the function once, abstractly, and refuse what cannot become a synthesizer."""
        shapes: dict[str, tuple[int, ...]] = {}

        def run(columns: dict[str, Any]) -> None:
            seeded = handlers.seed(self.model.function, jax.random.key(0))
            proper = handlers.substitute(seeded, substitute_fn=_refuse_improper)
            trace = handlers.trace(proper).get_trace(**self._arguments(columns))
            _refuse_trace(trace, self.n)
            for name, site in trace.items():
                if site["type"] != "sample":
                    continue
                if site["is_observed"]:
                    self.whole = bool(getattr(site["fn"].support, "is_discrete", False))
                else:
                    transform = biject_to(site["fn"].support)
                    shapes[name] = tuple(transform.inverse_shape(jnp.shape(site["value"])))

        try:
            jax.eval_shape(run, dict(arrays))
        except Refused:
            raise
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
            raise Refused(
                "The model's shapes or branches depend on the values of a column; write such "
                "numbers (how many groups there are) as constants."
            ) from None
        except (TypeError, ValueError, IndexError, AssertionError) as error:
            raise Refused(
                f"The model function fails on the survey's columns: {_first_line(error)}"
            ) from error
        return shapes

    def _replay(
        self, position: Array, arrays: Mapping[str, Any]
    ) -> tuple[Array | float, dict[str, Site]]:
        """Run the function at a position; the Jacobian of all transformations and the trace."""
        jacobians: list[Array] = []
        values = self._split(position)

        def constrained(site: Site) -> Any:
            if site["type"] != "sample" or site["is_observed"] or site["name"] not in values:
                return None
            transform = biject_to(site["fn"].support)
            free = values[site["name"]]
            value = transform(free)
            jacobians.append(jnp.sum(transform.log_abs_det_jacobian(free, value)))
            return value

        seeded = handlers.seed(self.model.function, jax.random.key(0))
        placed = handlers.substitute(seeded, substitute_fn=constrained)
        trace = handlers.trace(placed).get_trace(**self._arguments(arrays))
        return sum(jacobians, start=0.0), trace

    def _split(self, position: Array) -> dict[str, Array]:
        values, start = {}, 0
        for name, shape in self.shapes.items():
            values[name] = position[start : start + prod(shape)].reshape(shape)
            start += prod(shape)
        return values

    def _refuse_generation(self, arrays: Arrays) -> None:
        def run(columns: dict[str, Any]) -> dict[str, Array]:
            return self.generate(jax.random.key(0), jnp.zeros(self.dimension), columns)

        try:
            generated = jax.eval_shape(run, dict(arrays))
        except KeyError as error:
            raise Refused(
                f"The model generates no site named {error}; name the observed site after its "
                "column, or add a `numpyro.deterministic` site of that name."
            ) from None
        except (TypeError, ValueError, AttributeError) as error:
            raise Refused(
                f"The model fails when its sensitive columns are None: {_first_line(error)}"
            ) from error
        for name, array in generated.items():
            if array.shape[:1] != (self.n,):
                raise Refused(
                    f"The model generates `{name}` with shape {array.shape}, not one value per "
                    "record; put its site inside the plate `record`."
                )


_DENSITIES: dict[tuple[Any, ...], Density] = {}
_PROPER: WeakSet[Density] = WeakSet()  # whose prior was looked at
MOST_DENSITIES = 64  # each keeps its compiled program alive; the oldest makes room


def density_of(model: OutcomeModel, arrays: Arrays) -> Density:
    """The density of a model at the shapes of these arrays, made once; and a check of the data.

    That records do not mix is checked on every call, because it depends on the values.
    """
    from understudy.models.density_check import is_proved, refuse_improper, refuse_mixing

    density = density_at(model, arrays)
    if density not in _PROPER:
        if not is_proved(model):
            refuse_improper(density, arrays)
        _PROPER.add(density)
    refuse_mixing(density, arrays, thoroughly=not is_proved(model))
    return density


def density_at(model: OutcomeModel, arrays: Arrays, kind: type[Density] = Density) -> Density:
    """The same without a check of the data, which generation does not look at."""
    shapes = tuple((name, a.shape, str(a.dtype)) for name, a in sorted(arrays.items()))
    if (kind, model, shapes) not in _DENSITIES:
        while len(_DENSITIES) >= MOST_DENSITIES:
            _DENSITIES.pop(next(iter(_DENSITIES)))
        _DENSITIES[kind, model, shapes] = kind(model, arrays)
    return _DENSITIES[kind, model, shapes]


def _log_prob(site: Site) -> Array:
    log_prob = site["fn"].log_prob(site["value"])
    return jnp.asarray(log_prob if site["scale"] is None else site["scale"] * log_prob)


def _by_record(site: Site, n: int) -> Array:
    """A site's log-probabilities summed over everything but the record plate: (n,)."""
    log_prob = _log_prob(site)
    axis = _record_frame(site).dim + log_prob.ndim
    return log_prob.sum(axis=tuple(a for a in range(log_prob.ndim) if a != axis)).reshape(n)


def _record_frame(site: Site) -> Any:
    return next((f for f in site["cond_indep_stack"] if f.name == RECORD), None)


def _refuse_trace(trace: dict[str, Site], n: int) -> None:
    sites = [site for site in trace.values() if site["type"] == "sample"]
    observed = [site for site in sites if site["is_observed"]]
    plates = [s for s in trace.values() if s["type"] == "plate" and s["name"] == RECORD]
    if not plates:
        raise Refused(
            "The model has no plate named `record`; put the observed sites inside "
            '`with numpyro.plate("record", n):`, one entry per record.'
        )
    if any(site["type"] == "param" for site in trace.values()):
        raise Refused(
            "The model has a `numpyro.param` site; give the parameter a prior with "
            "`numpyro.sample` instead."
        )
    if not observed:
        raise Refused("The model observes nothing; pass the sensitive columns as `obs=`.")
    for site in observed:
        if _record_frame(site) is None:
            raise Refused(
                f"The observed site `{site['name']}` lies outside the plate `record`; every "
                "observation must belong to one record."
            )
        _refuse_shape(site, n)
    for site in sites:
        if site["is_observed"]:
            continue
        if getattr(site["fn"].support, "is_discrete", False):
            raise Refused(
                f"The latent site `{site['name']}` is discrete; sum it out of the likelihood "
                "(a mixture: `dist.MixtureSameFamily`)."
            )


def _refuse_improper(site: Site) -> None:
    if site["type"] == "sample" and isinstance(_innermost(site["fn"]), dist.ImproperUniform):
        raise Refused(
            f"The prior of `{site['name']}` is improper; give it a proper one, or the clipped "
            "posterior does not exist."
        )


def _refuse_shape(site: Site, n: int) -> None:
    frame = _record_frame(site)
    shape = _log_prob(site).shape
    plates = {f.dim for f in site["cond_indep_stack"]}
    loose = [d for d in range(-len(shape), 0) if d not in plates and shape[d] > 1]
    if frame.size != n or len(shape) < -frame.dim or shape[frame.dim] != n or loose:
        raise Refused(
            f"The observed site `{site['name']}` has log-probabilities of shape {shape} where one "
            f"per record, ({n},), is expected; check its plates and the shape of its parameters."
        )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _innermost(fn: Any) -> Any:
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return fn


@partial(jax.jit, static_argnums=0)
def _predicted(density: Density, positions: Array, arrays: Any) -> Predicted | None:
    """The model's own quantities to judge chains by, at each position; None if it has none."""

    def at(draw: tuple[Array, Array]) -> Predicted | None:
        key, position = draw
        return density.model.predictive(key, density.constrain(position, arrays), arrays)

    keys = jax.random.split(jax.random.key(0), len(positions))
    predicted: Predicted | None = jax.lax.map(at, (keys, positions))
    return predicted


@partial(jax.jit, static_argnums=0)
def _drawn(density: Density, keys: Array, arrays: Any) -> tuple[dict[str, Array], Array]:
    """`Density.prior_draws`, compiled whole."""

    def at(key: Array) -> tuple[dict[str, Array], Array]:
        seeded = handlers.seed(density.model.function, key)
        trace = handlers.trace(seeded).get_trace(**density._arguments(arrays))
        values = {name: jnp.asarray(trace[name]["value"]) for name in density.shapes}
        return values, density._position(trace)

    drawn: tuple[dict[str, Array], Array] = jax.lax.map(at, keys)
    return drawn


@kept(constants=1)
def loglik_at(density: Density, positions: Array, arrays: Any) -> Array:
    """Record log-likelihoods (draws, n) at positions (draws, d)."""
    loglik: Array = jax.lax.map(lambda q: density.record_loglik(q, arrays), positions)
    return loglik


def kept_inside_bounds(
    model: OutcomeModel, generated: Mapping[str, Any], again: Callable[[int], Mapping[str, Any]]
) -> dict[str, NDArray[Any]]:
    """Generated arrays with every record inside the model's bounds (`OutcomeModel.inside`).

    Records outside are drawn again (`again` gets the number of the attempt), which gives the law
    within the bounds. What is outside after `MOST_DRAWS` is left to `restore`, and put on a bound.
    """
    values = {name: np.asarray(array) for name, array in generated.items()}
    for attempt in range(1, MOST_DRAWS):
        inside = model.inside(values)
        if inside is None or inside.all():
            break
        for name, array in again(attempt).items():
            values[name] = np.where(inside, values[name], np.asarray(array))
    return values
