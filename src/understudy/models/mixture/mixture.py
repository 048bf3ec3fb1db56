"""Mixture of regressions for a skewed income (R supplement §1): a truncated Dirichlet process.

log y_i ~ sum_k pi_k N(x_i beta_k, sigma_k^2), pi ~ Dirichlet(gamma/K), gamma ~ Gamma(1, 1),
beta_kr ~ N(0, s_r^2), s_r and sigma_k half-t(3, 0, 1). z is summed out. What R leaves open, or
what we do otherwise:
- Coefficients of one component are independent (R: correlated, LKJ(1)); s_r is shared by all
  components, as in R.
- log y is taken less log(typical), so that an intercept near 0 means a typical income. R's own
  zero-mean prior needs an intercept scale of 10, and components without records then generate
  absurd incomes when z is drawn from pi.
- sigma_k and s_r have floors: tied incomes would make the posterior improper. That of sigma_k
  is 0.2, R's radius of closeness. With a lower one, each chain finds another small set of
  records that some regression fits within a few percent, never leaves it (R-hat 1.36 against
  1.11 at n = 6,334), and synthesizes those incomes nearly as they are.
- Sampling is in whitened coordinates theta = L beta, with X'X/n = L'L (public): nearly
  uncorrelated.
- Where the codebook declares bounds, generated sizes are cut off there: a half-t sigma_k lets a
  wide component generate incomes that nobody has.
- Zero and negative incomes are never dropped: see `HurdleMixture`.

Labels switch and components empty and fill, so parameters have no R-hat worth the name. Chains
start apart, each from its own run of EM, and are judged on what generates the data
(`mixture_judged`). They are Gibbs sweeps (`mixture_gibbs`), or NUTS where anything is clipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log
from typing import Annotated, Any, Literal, get_args

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
from annotated_types import Interval
from jax import Array
from numpy.typing import NDArray
from numpyro.distributions.transforms import LowerCholeskyAffine

from understudy.errors import Refused, UnknownName
from understudy.models.contract import Arrays, Columns, GibbsModel, Predicted
from understudy.models.design_matrix import design_matrix, whitening
from understudy.models.mixture.gibbs import (
    State,
    mixture_data,
    mixture_parameters,
    mixture_state,
    sweep,
)
from understudy.models.mixture.hurdle import LARGEST_SIZE, HalfT, Hurdle, HurdleMixture
from understudy.models.mixture.judged import generating_quantities
from understudy.models.mixture.start import em_start
from understudy.models.outcome import SingleOutcome
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey

Assignments = Literal["posterior", "prior"]
Zero = Literal["hurdle", "public"]
SIGMA_FLOOR = 0.2
SPREAD_FLOOR = 0.02
GROUP = " number of the group"  # a name that no column has
DEEPEST_TREE = 6  # measured: longer trajectories give fewer effective draws per gradient


@dataclass(frozen=True)
class Mixture(SingleOutcome, GibbsModel):
    """`Mixture("income", "gender + age + region", components=10)`.

    `assignments="posterior"` draws a record's component given its own confidential value (R
    supplement eq. 7): the synthetic value then depends on the record beyond the parameters, so it
    goes with mechanisms of kind `risk` only. `"prior"` draws it from pi, for any claim.
    `zero="hurdle"` synthesizes whether an income is positive, zero or negative, with shares of
    zero by the public columns `zero_by`; `"public"` declares that category public and keeps it.
    `typical` is a public guess of the middle income; without it, `"posterior"` takes the median,
    and `"prior"` refuses, because a claim must not rest on the records.
    """

    deepest_tree = DEEPEST_TREE

    outcome: Annotated[str, "The column that is synthesized."]
    predictors: Annotated[str, "A formula over public columns."]
    components: Annotated[int, "Largest number of components.", Interval(ge=1, le=1_000)] = 10
    assignments: Annotated[Assignments, "posterior (kind risk only) or prior."] = "posterior"
    zero: Annotated[Zero, "How zero and negative values are modelled."] = "hurdle"
    zero_by: Annotated[tuple[str, ...], "Columns that the hurdle depends on."] = ()
    typical: Annotated[float | None, "A public typical value of the outcome."] = None

    def __post_init__(self) -> None:
        by = (self.zero_by,) if isinstance(self.zero_by, str) else tuple(self.zero_by)
        object.__setattr__(self, "zero_by", by)
        count = self.components
        if isinstance(count, bool) or not isinstance(count, int) or count < 2:
            raise Refused("`components` must be a whole number of at least 2; R's is 10.")
        for name, value, allowed in (
            ("assignments", self.assignments, get_args(Assignments)),
            ("zero", self.zero, get_args(Zero)),
        ):
            if value not in allowed:
                raise UnknownName(f"choice of `{name}`", str(value), allowed)
        if self.typical is not None and not (isfinite(self.typical) and self.typical > 0):
            raise Refused("`typical` must be a finite number above 0.")

    def given_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*super().given_columns(), *self.zero_by]))

    @property
    def generates_from_records(self) -> bool:
        return self.assignments == "posterior"

    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        y = _outcome(survey, self.outcome)
        self._refuse_outside(y, (like or survey).codebook)
        X = design_matrix(survey, self.predictors, self.sensitive, like)
        own = X if like is None else design_matrix(like, self.predictors, self.sensitive)
        L, typical = whitening(own), self._typical(like or survey)
        rows = np.linalg.solve(L.T, X.T)
        arrays: Arrays = {
            "Q": rows.T,
            "rows": np.ascontiguousarray(rows, dtype=np.float32),
            "L": L,
            "centre": np.asarray(log(typical)),
            "groups": one_hot_groups(survey, self.zero_by, like),
            "largest": self._largest_sizes((like or survey).codebook, typical),
            "losses": np.asarray(float(self._losses_possible(like or survey))),
            "y": y,
        }
        if self.zero == "public":
            arrays["sign"] = np.sign(y)
        if self.assignments == "posterior":
            arrays["confidential"] = y.copy()
        return arrays

    def function(
        self,
        Q: Any,
        rows: Any,
        L: Any,
        centre: Any,
        groups: Any,
        largest: Any,
        losses: Any,
        y: Any = None,
        sign: Any = None,
        confidential: Any = None,
    ) -> None:
        K, R = self.components, Q.shape[1]
        concentration = numpyro.sample("gamma", dist.Gamma(1.0, 1.0))
        share = numpyro.sample("share", dist.Dirichlet(jnp.full(K, 1.0 / K) * concentration))
        sigma = numpyro.sample("sigma", HalfT(SIGMA_FLOOR, (K,)).to_event(1))
        spread = numpyro.sample("spread", HalfT(SPREAD_FLOOR, (R,)).to_event(1))
        beta = dist.Normal(0.0, spread).expand([K, R]).to_event(1)
        whitened = dist.TransformedDistribution(beta, LowerCholeskyAffine(jnp.zeros(R), L))
        theta = numpyro.sample("theta", whitened.to_event(1))
        loss = self._loss()
        nobody = jnp.asarray(0.0)
        at_zero, negative = jnp.zeros(groups.shape[1]), nobody
        if self.zero == "hurdle":
            at_zero = numpyro.sample(
                "zero", dist.Beta(0.5, 0.5).expand([groups.shape[1]]).to_event(1)
            )
            # share of losses among all; 0 where the codebook says that there are none
            negative = losses * numpyro.sample("negative", dist.Beta(0.5, 0.5))
        law = HurdleMixture(
            theta, sigma, jnp.log(share), Hurdle(at_zero, groups, negative), loss, centre, largest,
            rows if y is not None else Q.T, sign, confidential if y is None else None,
        )  # fmt: skip
        with numpyro.plate("record", Q.shape[0]):
            numpyro.sample("y", law, obs=y)

    @staticmethod
    def _loss() -> tuple[Array, Array]:
        """Mean and standard deviation of log(-y / typical) of a negative income."""
        mean = numpyro.sample("loss_mean", dist.Normal(0.0, 2.0))
        return mean, numpyro.sample("loss_sigma", HalfT(SIGMA_FLOOR))

    def restore(self, generated: Mapping[str, NDArray[Any]], survey: Survey) -> Columns:
        values = np.asarray(generated["y"], dtype=np.float64)
        bounds = self._declared_bounds(survey.codebook)
        return super().restore(
            {"y": values if bounds is None else np.clip(values, *bounds)}, survey
        )

    def known(self, survey: Survey) -> Columns:
        """The sign, where it is public: the declared bound of that sign, or 1."""
        if self.zero != "public":
            return {}
        low, high = self._declared_bounds(survey.codebook) or (-inf, inf)
        ends = [b if isfinite(b) and b else sign for b, sign in ((low, -1.0), (high, 1.0))]
        sign = np.sign(_outcome(survey, self.outcome))
        values = np.where(sign < 0, ends[0], np.where(sign > 0, ends[1], 0.0))
        return {self.outcome: pl.Series(self.outcome, values)}

    def units(self, codebook: Codebook) -> str:  # noqa: ARG002
        scale = "its median" if self.typical is None else f"{self.typical:g}"
        size = f"Log-likelihoods are of log(|{self.outcome}| / {scale})"
        if self.zero == "public":
            return (
                f"{size}; whether `{self.outcome}` is positive, zero or negative is public and kept"
            )
        return f"{size} and of whether `{self.outcome}` is positive, zero or negative"

    def start(self, arrays: Arrays, alpha: NDArray[np.float64], chain: int = 0) -> dict[str, Any]:
        """Parameters to start from: the components by EM, everything else at a middle value."""
        y = np.asarray(arrays["y"])
        positive = y > 0
        if (positive & (alpha > 0)).sum() <= self.components:
            raise Refused(
                f"`{self.outcome}` has too few positive values with a weight for "
                f"{self.components} components."
            )
        size = np.log(y[positive]) - float(arrays["centre"])
        Q, L = np.asarray(arrays["Q"]), np.asarray(arrays["L"])
        mode = em_start(Q[positive], size, alpha[positive], self.components, SIGMA_FLOOR, chain)
        beta = np.linalg.solve(L, mode.theta.T).T
        groups = np.asarray(arrays["groups"])
        zero = (groups.T @ (y == 0) + 0.5) / (groups.sum(axis=0) + 1.0)
        return {
            "gamma": np.asarray(1.0),
            "share": mode.share,
            "sigma": mode.sigma,
            "spread": np.maximum(np.sqrt((beta**2).mean(axis=0)), 2 * SPREAD_FLOOR),
            "theta": mode.theta,
            "zero": zero,
            "negative": np.asarray(((y < 0).sum() + 0.5) / (len(y) + 1.0)),
            "loss_mean": np.asarray(-1.0),
            "loss_sigma": np.asarray(1.0),
        }

    def start_scale(
        self, parameters: Mapping[str, Any], arrays: Arrays, alpha: NDArray[np.float64]
    ) -> dict[str, Any]:
        """Standard deviations as if each component's records were known to be its own."""
        y = np.asarray(arrays["y"])
        sigma, share = parameters["sigma"], parameters["share"]
        records = share * alpha[y > 0].sum()
        typical_spread = float(np.mean(parameters["spread"]))
        precision = 1.0 / typical_spread**2 + records / sigma**2
        zero = parameters["zero"]
        at_zero = (alpha @ np.asarray(arrays["groups"])) * zero * (1.0 - zero)
        return {
            "share": 1.0 / np.sqrt(records[:-1] + 0.2),
            "sigma": sigma / (sigma - SIGMA_FLOOR) / np.sqrt(2.0 * records + 1.0),
            "spread": 1.0 / np.sqrt(2.0 * self.components),
            "theta": 1.0 / np.sqrt(precision)[:, None],
            "zero": 1.0 / np.sqrt(at_zero + 0.5),
            "negative": 1.0 / np.sqrt(alpha @ (y < 0) + 0.5),
            "loss_mean": 1.0 / np.sqrt(0.25 + alpha @ (y < 0)),
            "loss_sigma": 1.0 / np.sqrt(1.0 + 2.0 * (alpha @ (y < 0))),
        }

    def gibbs_data(self, arrays: Arrays, alpha: NDArray[np.float64]) -> dict[str, Any]:
        return mixture_data(arrays, alpha, (SIGMA_FLOOR, SPREAD_FLOOR))

    def gibbs_state(self, parameters: Mapping[str, Any]) -> State:
        return mixture_state(parameters)

    def gibbs_sweep(self, key: Array, state: State, data: Any, weighted: bool) -> State:
        return sweep(key, state, data, weighted)

    def gibbs_parameters(self, key: Array, state: State, data: Any) -> dict[str, Array]:
        return mixture_parameters(key, state, data)

    def predictive(
        self, key: Array, parameters: Mapping[str, Array], arrays: Mapping[str, Any]
    ) -> Predicted:
        numbers, variance = generating_quantities(key, parameters, arrays)
        if self.zero == "hurdle":
            zero, records = parameters["zero"], arrays["groups"].sum(axis=0)
            names = [f"zero[{g}]" for g in range(zero.shape[0])]
            numbers |= dict(zip(names, zero, strict=True))
            if variance is not None:
                variance |= dict(zip(names, zero * (1.0 - zero) / records, strict=True))
        return Predicted(numbers, variance)

    def _typical(self, survey: Survey) -> float:
        if self.typical is not None:
            return float(self.typical)
        if self.assignments == "prior":
            raise Refused(
                f"Give `typical`, a public guess of the middle `{self.outcome}`; with "
                "assignments='prior' nothing may be taken from the records."
            )
        y = _outcome(survey, self.outcome)
        if not (y > 0).any():
            raise Refused(f"`{self.outcome}` has no positive value; this model needs some.")
        return float(np.median(y[y > 0]))

    def _losses_possible(self, survey: Survey) -> bool:
        bounds = self._declared_bounds(survey.codebook)
        if bounds is not None:
            return bounds[0] < 0
        if self.assignments == "prior":
            return True  # whether there are losses is a fact of the records
        return bool((_outcome(survey, self.outcome) < 0).any())

    def _largest_sizes(self, codebook: Codebook, typical: float) -> NDArray[np.float64]:
        """log(bound / typical) of a positive and of a negative income."""
        low, high = self._declared_bounds(codebook) or (-inf, inf)
        sizes = [log(abs(b) / typical) if isfinite(b) and b else LARGEST_SIZE for b in (high, low)]
        return np.minimum(sizes, LARGEST_SIZE)

    def _declared_bounds(self, codebook: Codebook) -> tuple[float, float] | None:
        column = codebook.columns.get(self.outcome)
        declared = column is not None and column.declared("bounds")
        return column.bounds if column is not None and declared else None

    def _refuse_outside(self, y: NDArray[np.float64], codebook: Codebook) -> None:
        bounds = self._declared_bounds(codebook)
        if bounds is not None and ((y < bounds[0]) | (y > bounds[1])).any():
            raise Refused(
                f"`{self.outcome}` has values outside the declared bounds {bounds[0]:g} to "
                f"{bounds[1]:g}; declare wider bounds, or correct the file."
            )


def one_hot_groups(
    survey: Survey, columns: Sequence[str], like: Survey | None = None
) -> NDArray[np.float64]:
    """(n, groups): which combination of public columns a record has; one group without columns."""
    if not columns:
        return np.ones((survey.n, 1))
    for name in columns:
        if name not in survey.columns:
            raise UnknownName("column of `zero_by`", name, survey.columns)
    names = list(columns)
    levels = (like or survey).frame(names).unique().sort(names).with_row_index(GROUP)
    joined = survey.frame(names).join(levels, on=names, how="left", maintain_order="left")
    if joined[GROUP].null_count():
        raise Refused(
            "`zero_by` has combinations that the confidential survey does not have; both surveys "
            "need the same."
        )
    return np.asarray(np.eye(levels.height)[joined[GROUP].to_numpy()])


def _outcome(survey: Survey, outcome: str) -> NDArray[np.float64]:
    if outcome not in survey.columns:
        raise UnknownName("outcome column", outcome, survey.columns)
    values = survey.frame([outcome])[outcome]
    if not values.dtype.is_numeric():
        raise Refused(f"The outcome `{outcome}` is not numeric; a mixture needs numbers.")
    numbers = np.array(values.cast(pl.Float64).to_numpy())
    if np.isnan(numbers).any():
        raise Refused(f"`{outcome}` has missing values; choose `missing='drop'` or `'model'`.")
    return numbers
