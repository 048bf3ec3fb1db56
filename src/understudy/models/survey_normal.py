"""What FBS and FBP share: log outcomes and the log weight, given public predictors (T §2).

The weight column of the design is sensitive too, and synthesized. Its unit is N/n, with public
n and N. `tables` says for which estimator the synthetic files are made (docs/decisions/010):
"recommended" files give good tables by plain weighted estimation; "paper" files follow T §2.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Self, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.models.contract import Arrays, Columns, OutcomeModel, array_column
from understudy.models.design_matrix import design_matrix
from understudy.models.gaussian import GaussianModel, cell_numbers
from understudy.models.public_totals import (
    PublicTotals,
    public_totals,
    scaled_weights,
    weight_unit,
)
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.survey import Survey

LEAST_SPREAD = 1e-6  # of a logarithm given the predictors: weights of six digits vary more
SMALLEST_EIGENVALUE = 1e-10  # below it the predictors count as collinear
TablesKind = Literal["recommended", "paper"]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class SurveyNormal(GaussianModel, abstract=True):
    """`weight` and `totals` are filled in from the survey's design and codebook."""

    needs_records = False  # its moments are sums
    describes: ClassVar[Literal["sample", "population"]]  # whose law the outcomes have

    outcome: Annotated[str | tuple[str, ...], "The columns that are synthesized."]
    predictors: Annotated[str, "A formula over public columns."]
    population: Annotated[
        float | None, "Public size of the population, if not in the codebook."
    ] = None
    tables: Annotated[TablesKind, "recommended or paper: for which estimator files are made."] = (
        "recommended"
    )
    weight: str | None = None
    totals: PublicTotals | None = None
    limits: tuple[tuple[float, float] | None, ...] = ()

    def __post_init__(self) -> None:
        names = (self.outcome,) if isinstance(self.outcome, str) else tuple(self.outcome)
        if not names or len(set(names)) < len(names):
            raise Refused('Name each outcome once, such as "salary" or ["salary", "bonus"].')
        object.__setattr__(self, "outcome", names)
        if self.tables not in get_args(TablesKind):
            raise UnknownName("kind of tables", str(self.tables), get_args(TablesKind))
        size = self.population
        if size is not None and not (isinstance(size, (int, float)) and 0 < size < np.inf):
            raise Refused(
                "`population`, the public size of the population, must be a number above 0."
            )

    @property
    def outcomes(self) -> tuple[str, ...]:
        return tuple(self.outcome)

    @property
    def sensitive(self) -> tuple[str, ...]:
        return self.outcomes if self.weight is None else (*self.outcomes, self.weight)

    @property
    def targets(self) -> tuple[str, ...]:
        named = tuple(f"y{k}" for k in range(len(self.outcomes)))
        return named if self.weight is None else (*named, "w")

    def published_design(self, design: Design) -> Design:
        weight = () if design.weight is None else (design.weight,)
        return design.published((*self.outcomes, *weight))

    def for_survey(self, survey: Survey) -> OutcomeModel:
        return self.bound_to(survey)

    def bound_to(self, survey: Survey) -> Self:
        """The model with the survey's weight, public totals and declared bounds."""
        name = survey.design.weight
        if name is None:
            raise Refused(
                f"{type(self).__name__} synthesizes the design weight too; name it, as in "
                'Design(weight="w").'
            )
        if self.published_design(survey.design) != survey.design:
            raise Refused(
                "Replicate weights, probabilities of PSUs, later stages and weights before "
                "calibration give the confidential weights away; leave these columns and their "
                "keys out of the design of the survey that is synthesized."
            )
        if not survey.raw[name].type().is_floating():
            raise Refused(
                f"The weight `{name}` holds whole numbers, and synthetic weights are not whole; "
                "store it as decimals (cast it to float64)."
            )
        if name in self.outcomes:
            raise Refused(f"`{name}` is the weight; it is synthesized with the outcomes anyway.")
        limits = tuple(_declared_bounds(survey.codebook, outcome) for outcome in self.outcomes)
        totals = public_totals(survey, self.population)
        return replace(self, weight=name, totals=totals, limits=limits)

    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        weight, totals = self._bound()
        X = design_matrix(survey, self.predictors, self.sensitive, like)
        if is_collinear(X):
            raise self.collinear()
        frame = survey.frame(list(self.sensitive))
        arrays: Arrays = {"X": X, "cell": cell_numbers(X)}
        for k, name in enumerate(self.outcomes):
            arrays[f"y{k}"] = _logs(frame[name])
        arrays["w"] = _logs(frame[weight]) - np.log(weight_unit(totals, survey.n))
        return arrays

    def check_records(self, arrays: Arrays) -> None:
        for name, key in zip(self.sensitive, self.targets, strict=True):
            if _follows(arrays[key], arrays["X"]):
                raise self.follows(name)

    def collinear(self) -> Refused:
        return Refused(
            f"The predictors `{self.predictors}` are collinear: a column repeats others, or a "
            "combination of levels has no records; leave a term out or merge levels."
        )

    def follows(self, name: str) -> Refused:
        return Refused(
            f"`{name}` follows from the predictors `{self.predictors}`: it is the same for "
            "all records that share them, and there is no spread that the model could fit. "
            "Leave out the predictor that decides it, or use a model of the outcome alone "
            "or `WholeFile`, and keep the column as collected if it is public."
        )

    def inside(self, generated: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_] | None:
        """Outcomes within their declared bounds; T's own files know of none."""
        if self.tables == "paper" or not any(self.limits):
            return None
        kept = np.ones(len(generated["y0"]), dtype=bool)
        for k, limits in enumerate(self.limits):
            if limits is not None:
                values = np.exp(np.asarray(generated[f"y{k}"], dtype=np.float64))
                kept &= (limits[0] <= values) & (values <= limits[1])
        return kept

    def restore(self, generated: Mapping[str, NDArray[Any]], survey: Survey) -> Columns:
        weight, _ = self._bound()
        log_weight = np.asarray(generated["w"], dtype=np.float64)
        scaled = pl.Series(weight, scaled_weights(log_weight, survey, self.file_totals))
        return {**self.restored_outcomes(generated, survey), weight: scaled}

    def restored_outcomes(self, generated: Mapping[str, NDArray[Any]], like: Survey) -> Columns:
        """The outcomes as columns, in the units and types of a survey like theirs."""
        columns = {}
        for k, name in enumerate(self.outcomes):
            limits = self.limits[k] if self.limits and self.tables != "paper" else None
            values = np.exp(generated[f"y{k}"])
            values = values if limits is None else np.clip(values, *limits)
            columns[name] = array_column(values, name, like)
        return columns

    @property
    def file_totals(self) -> PublicTotals:
        """What the weights of a synthetic file add up to."""
        _, totals = self._bound()
        return PublicTotals(totals.size) if self.tables == "paper" else totals

    def units(self, codebook: Codebook) -> str:  # noqa: ARG002
        weight, totals = self._bound()
        logs = ", ".join(f"log {name}" for name in self.outcomes)
        return (
            f"Log-likelihoods are of {logs} and log({weight} n/N), with the public number of "
            f"records n and size of the population N = {totals.size:,.10g}"
        )

    def rests_on(self, survey: Survey) -> dict[str, str]:  # noqa: ARG002
        return {}

    def bounded_target(self, codebook: Codebook) -> NoReturn:  # noqa: ARG002
        raise Refused(
            f"A perturbed histogram stands for one variable; {type(self).__name__} has the weight "
            "beside its outcome."
        )

    def gaussian_values(self, arrays: Mapping[str, Any]) -> list[Vector]:
        return [np.asarray(arrays[name]) for name in self.targets]

    def clipped_range(
        self, clip: Sequence[tuple[float, float]] | None, survey: Survey
    ) -> tuple[Vector, Vector]:
        """Low and high (d,) of `gaussian_data`'s Y, from public bounds of the columns in their own
        units: those that are given, or the codebook's."""
        _, totals = self._bound()
        if clip is not None and len(clip) != len(self.sensitive):
            raise Refused(
                f"`clip` needs a pair of numbers for each of {', '.join(self.sensitive)}."
            )
        known: Sequence[tuple[float, float] | None] = clip or [
            _declared_bounds(survey.codebook, name) for name in self.sensitive
        ]
        arrays: dict[str, Any] = {"X": np.zeros((2, 1))}
        for name, target, bounds in zip(self.sensitive, self.targets, known, strict=True):
            if bounds is None or not 0 < bounds[0] < bounds[1] < np.inf:
                raise Refused(
                    f"Sums of log {name} need public bounds above 0 to clip its values to; declare "
                    f"`bounds` of `{name}` in the codebook, or give `clip`."
                )
            arrays[target] = np.log(np.asarray(bounds, dtype=np.float64))
        arrays["w"] = arrays["w"] - np.log(weight_unit(totals, survey.n))
        Y = self.gaussian_data(arrays)[1]
        return Y.min(axis=0), Y.max(axis=0)

    def _bound(self) -> tuple[str, PublicTotals]:
        if self.weight is None or self.totals is None:
            raise Refused(
                "The model does not know its survey yet; call `model.for_survey(survey)`."
            )
        return self.weight, self.totals


def _declared_bounds(codebook: Codebook, name: str) -> tuple[float, float] | None:
    """Bounds that are not read off the records."""
    column = codebook.columns.get(name)
    return column.bounds if column is not None and column.declared("bounds") else None


def is_collinear(X: NDArray[np.float64]) -> bool:
    """Whether the columns, scaled to length 1, have a combination that all but vanishes."""
    length = np.sqrt(np.square(X).sum(axis=0))
    if not length.all():
        return True
    return bool(np.linalg.eigvalsh(X.T @ X / np.outer(length, length))[0] < SMALLEST_EIGENVALUE)


def _follows(target: Vector, X: NDArray[np.float64]) -> bool:
    """Whether least squares leave nothing of a target but rounding."""
    coefficients = np.linalg.lstsq(X, target, rcond=None)[0]
    return bool(np.std(target - X @ coefficients) < LEAST_SPREAD)


def _logs(values: pl.Series) -> Vector:
    """log of a column that must be above 0."""
    if not values.dtype.is_numeric():
        raise not_numeric(values.name)
    numbers = values.cast(pl.Float64).to_numpy()
    if not np.isfinite(numbers).all():
        raise not_finite(values.name)
    if (numbers <= 0).any():
        raise not_above_zero(values.name)
    return np.asarray(np.log(numbers))


def not_finite(name: str) -> Refused:
    return Refused(f"`{name}` has missing or infinite values; drop or impute them.")


def not_numeric(name: str) -> Refused:
    return Refused(f"`{name}` is not numeric; the model takes its logarithm.")


def not_above_zero(name: str) -> Refused:
    return Refused(
        f"`{name}` is zero or negative for some records, and the model takes its "
        "logarithm; for FBS with one outcome declare 0 among the `special` values of the "
        "column, and bounds from below 0 where amounts may be negative, or leave these records "
        "out."
    )
