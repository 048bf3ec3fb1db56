"""A model of an amount that may be topcoded, or not be an amount at all (a hurdle).

Each record has a kind: an amount, or one of the piles (models/piles.py). With p_k the probability
of kind k given the model's predictors (log p_k/p_0 = x_i c_k) a record contributes

    an amount         log p_0 + f_i
    topcoded          log p_0 + log P(amount_i >= topcode, and the rest of the record)
    a point           log p_k + log of the density of the rest of the record
    below 0           the same + log N(log |y_i|; m, s^2)

where f_i is the log-likelihood of the model that is wrapped, and the rest is what it has beside the
amount: the design weight, for FBS. A record without an amount is one whose amount is not seen, and
its rest may be shifted (by a number for each kind). All terms are of one record, so that record
weights, bounds, clips and claims hold as they are.

The observed site of the wrapped model is a distribution. `log_tail` is its log-probability of at
least so much (by its `cdf`, if it has none), `log_rest` its log-density of a record without its
amount (0, if it has none).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
from jax import Array
from jax.scipy.special import ndtr
from numpy.typing import NDArray
from numpyro.distributions import constraints
from numpyro.primitives import Messenger

from understudy.errors import Refused
from understudy.models.balanced import balanced_normals
from understudy.models.contract import Arrays, Columns, array_column
from understudy.models.piles import AMOUNT, TOPCODED, Piles
from understudy.models.wrapped import Wrapped
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey

INTERCEPT_SCALE, SLOPE_SCALE = 2.5, 1.0  # of the logits of kinds, as in BetaRegression
SHIFT_SCALE = 1.0  # of what a kind adds to the rest of a record
LOSS_SCALE = 10.0  # of the logarithm of an amount below 0: T's scale of coefficients


@dataclass(frozen=True)
class Piled(Wrapped, abstract=True):
    """A model whose outcome has declared piles."""

    piles: Piles

    def shown_values(self) -> tuple[float, ...]:
        top = () if self.piles.top is None else (self.piles.top,)
        return (*self.piles.points, *top)

    @property
    def outcome(self) -> str:
        return self.base.sensitive[0]

    @property
    def targets(self) -> tuple[str, ...]:
        loss = () if self.piles.lowest is None else ("loss",)
        return (*self.base.targets, "kind", *loss)

    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        frame = survey.frame()
        if self.outcome not in frame.columns or not frame[self.outcome].dtype.is_numeric():
            return self.base.prepare(survey, like)  # refused
        values = frame[self.outcome].cast(pl.Float64).to_numpy()
        kinds = self.piles.kinds(values)
        stand_in = pl.lit(self.base.possible_value(self.outcome, survey.codebook))
        seen = pl.when(pl.Series(kinds <= AMOUNT)).then(self.outcome).otherwise(stand_in)
        dtype = frame[self.outcome].dtype
        amounts = frame.with_columns(seen.cast(dtype).alias(self.outcome))
        stood_in = Survey(amounts, survey.design, survey.codebook)
        arrays = {**self.base.prepare(stood_in, like), "kind": kinds}
        if self.piles.lowest is not None:
            arrays["loss"] = np.log(np.where(kinds == self.piles.loss, -values, 1.0))
        return arrays

    def check_records(self, arrays: Arrays) -> None:
        seen = arrays["kind"] == AMOUNT
        if not seen.any():
            raise Refused(f"No record has an amount of `{self.outcome}` beside special values.")
        own = self._own(arrays)
        self.base.check_records({name: array[seen] for name, array in own.items()})

    def function(self, kind: Any = None, loss: Any = None, **arrays: Any) -> None:
        n = arrays["n"] if self.takes_record_count else len(arrays["X"])
        probabilities = self._log_probabilities(arrays.get("X", jnp.ones((n, 1))))
        shifts = self._shifts()
        law = self._loss_law()
        if kind is None:
            self._generated(n, probabilities, shifts, law, arrays)
            return
        group = jnp.maximum(kind, AMOUNT)  # a topcoded record has an amount
        with _Seen(kind, self.piles.top is not None):
            self.observe(arrays, {name: shift[group] for name, shift in shifts.items()})
        with numpyro.plate("record", n):
            numpyro.factor("kind", jnp.take_along_axis(probabilities, group[:, None], 1)[:, 0])
            if law is not None:
                below = kind == self.piles.loss
                numpyro.factor("loss", jnp.where(below, law.log_prob(loss), 0.0))

    def _log_probabilities(self, X: Any) -> Array:
        """log p_k of all kinds, (n, 1 + apart)."""
        if not self.piles.apart:
            return jnp.zeros((X.shape[0], 1))
        spread = jnp.full((X.shape[1], self.piles.apart), SLOPE_SCALE).at[0].set(INTERCEPT_SCALE)
        odds = X @ numpyro.sample("pile_odds", dist.Normal(0.0, spread).to_event(2))
        return jax.nn.log_softmax(jnp.pad(odds, ((0, 0), (1, 0))), axis=1)

    def _shifts(self) -> dict[str, Array]:
        """What each kind adds to what a record has beside its amount; nothing for an amount."""
        beside = self.base.targets[1:]
        if not (beside and self.piles.apart):
            return {}
        law = dist.Normal(0.0, SHIFT_SCALE).expand([len(beside), self.piles.apart])
        shift = jnp.pad(numpyro.sample("pile_shift", law.to_event(2)), ((0, 0), (1, 0)))
        return dict(zip(beside, shift, strict=True))

    def _loss_law(self) -> Any:
        """The law of log |y| below 0."""
        if self.piles.lowest is None:
            return None
        centre = numpyro.sample("loss_centre", dist.Normal(0.0, LOSS_SCALE))
        half_t = dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 1.0))
        return dist.Normal(centre, numpyro.sample("loss_spread", half_t))

    def _generated(
        self,
        n: int,
        probabilities: Array,
        shifts: Mapping[str, Array],
        law: Any,
        arrays: dict[str, Any],
    ) -> None:
        cell = arrays.get("cell", jnp.zeros(n, dtype=jnp.int64))
        level = ndtr(balanced_normals(numpyro.prng_key(), cell, 1))
        below = jnp.cumsum(jnp.exp(probabilities), axis=1)[:, :-1]
        kind = (level > below).sum(axis=1)
        if "cell" in arrays:  # and the amounts are balanced among the records of a kind
            arrays = {**arrays, "cell": crossed(cell, kind)}
        self.generate(arrays, {name: shift[kind] for name, shift in shifts.items()})
        numpyro.deterministic("kind", kind)
        if law is not None:
            numpyro.deterministic("loss", law.sample(numpyro.prng_key(), (n,)))

    def inside(self, generated: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_] | None:
        kept, kinds = self.base.inside(generated), np.asarray(generated["kind"])
        inside = None if kept is None else kept | (kinds != AMOUNT)
        if self.piles.lowest is None:
            return inside
        most = np.log(-self.piles.lowest)
        far = (kinds == self.piles.loss) & (np.asarray(generated["loss"]) > most)
        return np.asarray(~far if inside is None else inside & ~far)

    def restore(self, generated: Mapping[str, NDArray[Any]], survey: Survey) -> Columns:
        column = survey.codebook[self.outcome]
        exact = replace(column, type="continuous", rounding=None)
        codebook = survey.codebook.with_column(exact)
        columns = self.base.restore(generated, Survey(survey.raw, survey.design, codebook))
        amounts = columns[self.outcome].cast(pl.Float64).to_numpy()
        losses = -np.exp(generated["loss"]) if "loss" in generated else None
        values = self.piles.values(np.asarray(generated["kind"]), amounts, losses)
        return {**columns, self.outcome: array_column(values, self.outcome, survey)}

    def units(self, codebook: Codebook) -> str:
        return (
            f"{self.base.units(codebook)}, and log-probabilities of `{self.outcome}` {self.piles}"
        )

    def bounded_target(self, codebook: Codebook) -> NoReturn:  # noqa: ARG002
        raise Refused(
            f"A perturbed histogram has no bins for the special values of `{self.outcome}`; use "
            "another mechanism, or take `special` out of its codebook."
        )

    def rough_start(
        self, arrays: Arrays, alpha: NDArray[np.float64], chain: int
    ) -> dict[str, Any] | None:
        """A rough fit of the wrapped model to the amounts alone, and kinds by their shares."""
        seen = np.asarray(arrays["kind"]) <= AMOUNT
        own = self._own(arrays)
        first = self.base.rough_start(own, alpha * seen, chain)
        if first is None:
            return None
        K = np.shape(arrays["X"])[1] if "X" in arrays else 1
        kinds = np.maximum(arrays["kind"], AMOUNT)
        counts = 0.5 + np.bincount(kinds, minlength=1 + self.piles.apart)
        odds = np.zeros((K, self.piles.apart))
        odds[0] = np.log(counts[1:] / counts[0])
        beside = self.base.targets[1:]
        if self.piles.apart:
            first["pile_odds"] = odds
        if self.piles.apart and beside:
            first["pile_shift"] = np.zeros((len(beside), self.piles.apart))
        if self.piles.lowest is not None:
            losses = arrays["loss"][kinds == self.piles.loss]
            first["loss_centre"] = np.mean(losses) if len(losses) else np.log(-self.piles.lowest)
            first["loss_spread"] = 1.0
        return first

    def start_scale(
        self, parameters: Mapping[str, Any], arrays: Arrays, alpha: NDArray[np.float64]
    ) -> dict[str, Any]:
        kinds = np.maximum(arrays["kind"], AMOUNT)
        scale = self.base.start_scale(parameters, self._own(arrays), alpha * (kinds == AMOUNT))
        weight = 1.0 + np.bincount(kinds, alpha, 1 + self.piles.apart)[1:]
        if self.piles.apart:
            scale |= {"pile_odds": 1 / np.sqrt(weight), "pile_shift": 1 / np.sqrt(weight)}
        if self.piles.lowest is not None:
            scale |= {
                "loss_centre": 1 / np.sqrt(weight[-1]),
                "loss_spread": 1 / np.sqrt(weight[-1]),
            }
        return scale

    def _own(self, arrays: Arrays) -> Arrays:
        return {name: array for name, array in arrays.items() if name not in ("kind", "loss")}


def crossed(cell: Array, kind: Array) -> Array:
    """A number for each cell of each kind, below the number of records."""
    order = jnp.lexsort((kind, cell))
    at, of = cell[order], kind[order]
    new = jnp.concatenate([jnp.zeros(1, bool), (at[1:] != at[:-1]) | (of[1:] != of[:-1])])
    return jnp.zeros_like(cell).at[order].set(jnp.cumsum(new))


class _Seen(Messenger):  # type: ignore[misc]
    """Lets the wrapped model see of every record what its kind shows."""

    def __init__(self, kind: Array, topcodes: bool) -> None:
        self.kind, self.topcodes = kind, topcodes
        super().__init__(fn=None)

    def process_message(self, message: dict[str, Any]) -> None:
        if message["type"] == "sample" and message["is_observed"]:
            message["fn"] = SeenDensity(message["fn"], self.kind, self.topcodes)


class SeenDensity(dist.Distribution):  # type: ignore[misc]
    """The log-density of amounts, of all amounts from a topcode on, or of the rest of a record."""

    support = constraints.real

    def __init__(self, whole: Any, kind: Array, topcodes: bool) -> None:
        while isinstance(whole, dist.ExpandedDistribution):  # by a plate
            whole = whole.base_dist
        self.whole, self.kind, self.topcodes = whole, kind, topcodes
        super().__init__(batch_shape=jnp.shape(kind), event_shape=whole.event_shape)

    def log_prob(self, value: Array) -> Array:
        seen = self.whole.log_prob(value)
        if self.topcodes:
            seen = jnp.where(self.kind == TOPCODED, _log_tail(self.whole, value), seen)
        return jnp.where(self.kind > AMOUNT, _log_rest(self.whole, value), seen)


def _log_tail(law: Any, value: Array) -> Any:
    own = getattr(law, "log_tail", None)
    return jnp.log1p(-law.cdf(value)) if own is None else own(value)


def _log_rest(law: Any, value: Array) -> Any:
    own = getattr(law, "log_rest", None)
    return 0.0 if own is None else own(value)
