"""What could an answer tell me? V §5 in closed form, without data.

Steps 1-5 of the paper simulate: for every assumed (tau, sigma) of the confidential file,
M partition estimates are drawn from N(tau, M sigma^2), and the answer is computed, many
times. Here the distribution is written down instead: every measure declares its own (`law`).

As in V, partition estimates scatter independently about the assumed estimate, so their mean
varies by sigma. In a file whose own estimate is exactly tau they are tied to it: there the
discrepancy answer is somewhat sharper than planned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from understudy.declarations import OWN, own_class
from understudy.errors import Refused, UnknownName
from understudy.ledger.epsilon import exact_epsilon, parse_epsilon
from understudy.verify.catalogue import own_catalogue, packaged
from understudy.verify.measure import Interval, Measure, QuestionTerms
from understudy.verify.mistakes import in_our_words
from understudy.verify.query import FEWEST_PARTITIONS, MOST_PARTITIONS
from understudy.verify.question_fields import field_types, question_fields

__public__ = ("plan",)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """One row per assumed (estimate, se) of the confidential file.

    `inside`: whether that estimate is within the tolerance. `median_low`, `median_mid`,
    `median_high`: the 5 %, 50 % and 95 % points of the posterior median that would be
    reported (r for agreement, the discrepancy itself for discrepancy). `noisy_mean` and
    `noisy_sd`: of the noisy answer before post-processing, on the same scale.
    `says_inside`: the chance that the answer's verdict is "inside" (posterior median of r,
    or probability of being inside, at least one half); `says_right`: that it is true.
    """

    table: pl.DataFrame
    measured_by: Measure
    estimate: float
    se: float
    tolerance: float  # half width for the whole file, in units of the estimate

    @property
    def measure(self) -> str:
        return self.measured_by.name

    def figure(self) -> str:
        """The plan as an SVG text."""
        from understudy.verify.plan_figure import draw_plan

        return draw_plan(self)


def plan(
    estimate: float,
    se: float,
    *,
    epsilon: str | float = "1",
    measure: str = "discrepancy",
    partitions: int | None = None,
    tolerance: float = 2.0,
    tolerance_kind: Literal["se", "percent"] = "se",
    interval: Interval = "adjusted",
    noise: str | None = None,
    estimates: Sequence[float] | None = None,
    ses: Sequence[float] | None = None,
    **settings: float,
) -> Plan:
    """The exact sampling distribution of an answer over assumed confidential results.

    `estimate` and `se` are the synthetic ones; `estimates` and `ses` the assumed
    confidential ones (default: 20 estimates to twice the tolerance on both sides, 20
    standard errors from half to twice the synthetic one). `measure` can be one of your own,
    `mine.py:Mine`. `settings` are the measure's own, such as `clip` of discrepancy.
    """
    by = _measure(measure, settings)
    spend = float(exact_epsilon(parse_epsilon(epsilon))) if isinstance(epsilon, str) else epsilon
    count = partitions or by.partitions
    _check({"se": se, "epsilon": spend, "tolerance": tolerance}, estimate, count, by.divides)
    if noise is not None and noise not in by.noises:
        raise UnknownName(f"noise of the measure `{by.name}`", noise, by.noises)
    width = tolerance * se if tolerance_kind == "se" else tolerance / 100 * abs(estimate)
    terms = QuestionTerms(estimate, se, width, count, spend, interval, noise or by.noises[0])
    return plan_of(by, terms, estimates, ses)


def plan_of(
    by: Measure,
    terms: QuestionTerms,
    estimates: Sequence[float] | None = None,
    ses: Sequence[float] | None = None,
) -> Plan:
    """The same for a question in numbers, which has a standard error."""
    if message := by.refusal(terms):
        raise Refused(message)
    estimate, se, width = terms.estimate, terms.se or 0.0, terms.tolerance
    centres = np.linspace(-2 * width, 2 * width, 20) + estimate if estimates is None else estimates
    spreads = np.geomspace(se / 2, 2 * se, 20) if ses is None else ses
    taus, sigmas = _grid(centres, spreads)
    reports = by.law(terms, taus - estimate, sigmas)
    inside = np.abs(taus - estimate) <= width * (1 + 1e-12)
    right = np.where(inside, reports["says_inside"], 1 - reports["says_inside"])
    columns = {"estimate": taus, "se": sigmas, "inside": inside, **reports, "says_right": right}
    return Plan(pl.DataFrame(columns), by, estimate, se, width)


def _measure(name: str, settings: dict[str, Any]) -> Measure:
    measures = packaged().measures
    if OWN in str(name):  # refused where a server would refuse it
        measures = own_catalogue(measures=[name]).measures
        kind = own_class(name, Measure, "measure")
    elif name in measures:
        kind = measures[name]
    else:
        raise UnknownName("measure", str(name), measures)
    every = {field for other in measures.values() for field in question_fields(other)}
    for field in settings:
        if field not in every:
            raise UnknownName("setting of a plan", field, every)
    types = field_types(kind)
    return kind(**{f: _valid(f, v, types[f]) for f, v in settings.items() if f in types})


def _valid(name: str, value: Any, hint: Any) -> Any:
    """A setting within the range that the measure declares for questions."""
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        mistake = {**error.errors(include_url=False)[0], "loc": (name,)}
        raise Refused(in_our_words(mistake, lambda _: ()).message) from None


def _grid(
    estimates: Sequence[float] | Floats, ses: Sequence[float] | Floats
) -> tuple[Floats, Floats]:
    centres, spreads = np.asarray(estimates, dtype=float), np.asarray(ses, dtype=float)
    for values in (centres, spreads):
        if values.ndim != 1 or not 1 <= len(values) <= 200 or not np.all(np.isfinite(values)):
            raise Refused("The assumed results are lists of 1 to 200 finite numbers.")
    if np.any(spreads <= 0):
        raise Refused("An assumed standard error must be above 0.")
    taus, sigmas = np.meshgrid(centres, spreads, indexing="ij")
    return taus.ravel(), sigmas.ravel()


def _check(above_zero: dict[str, float], estimate: float, count: int, divides: bool) -> None:
    wrong = [n for n, value in above_zero.items() if not (math.isfinite(value) and value > 0)]
    if wrong or not math.isfinite(estimate):
        name = wrong[0] if wrong else "estimate"
        raise Refused(f"`{name}` must be a finite number{' above 0' if wrong else ''}.")
    if divides and not FEWEST_PARTITIONS <= count <= MOST_PARTITIONS:
        raise Refused(f"Partitions must be from {FEWEST_PARTITIONS} to {MOST_PARTITIONS}.")
