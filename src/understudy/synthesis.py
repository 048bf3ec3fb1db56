"""synthesize(): m synthetic surveys, and exactly what they promise.

survey -> model.prepare -> mechanism.release -> model.restore -> surveys with a claim
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.claim import Claim
from understudy.dp.record_bounds import RecordBounds
from understudy.errors import Refused, UnknownName
from understudy.fitting.continuation import MOST
from understudy.fitting.diagnostics import Diagnostics
from understudy.fitting.fitter import ModelFitter, missing_values, without_missing
from understudy.fitting.nuts import Settings
from understudy.fitting.posterior import Posterior
from understudy.mechanisms.categorical import CategoricalSynthesis, synthesize_categorical
from understudy.mechanisms.contract import FixedWeights, Generated, Mechanism
from understudy.models.contract import Model
from understudy.models.multinomial import Multinomial
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey

IN_ORDER = (
    "Records stand in the order of the confidential file, and that order is not covered: publish "
    "them in another one, unless it says nothing"
)
Missing = Literal["refuse", "drop", "model"]
Failed = Literal["refuse", "report"]


@dataclass(frozen=True, eq=False)
class Synthesis:
    """What `synthesize` gives back.

    For publication: `datasets`, `claim` and, where the claim is not of kind `risk`, `draws`, the
    parameters that each data set was made from. Everything else was computed from the
    confidential data and stays inside (methods §1).
    """

    datasets: list[Survey]
    claim: Claim
    draws: list[dict[str, Any]] = field(repr=False)
    record_weights: NDArray[np.float64] = field(repr=False)
    bounds: RecordBounds = field(repr=False)
    posterior: Posterior | None = field(repr=False)
    weights: FixedWeights | None = field(repr=False)
    dropped: int = 0

    @property
    def record_bounds(self) -> NDArray[np.float64]:
        """Each record's largest |contribution| over the draws of the released fit, (n,)."""
        return self.bounds.contribution

    @property
    def censored(self) -> int:
        """How many records were clipped at one draw or more."""
        return self.bounds.censored

    @property
    def diagnostics(self) -> Diagnostics | None:
        """Of the released fit; None for a mechanism without one (PerturbedHistogram)."""
        return None if self.posterior is None else self.posterior.diagnostics


@overload
def synthesize(
    survey: Survey,
    model: Model,
    mechanism: Mechanism,
    datasets: int = 1,
    seed: int = 0,
    *,
    draws: int = 2000,
    chains: int = 4,
    warmup: int = 500,
    target_acceptance: float = 0.8,
    missing: Missing = "refuse",
    diagnostics: Failed = "refuse",
    progress: bool | None = None,
) -> Synthesis: ...


@overload
def synthesize(
    survey: Survey, model: Multinomial, mechanism: Any, datasets: int = 1, seed: int = 0
) -> CategoricalSynthesis: ...


def synthesize(
    survey: Survey,
    model: Model | Multinomial,
    mechanism: Any,
    datasets: int = 1,
    seed: int = 0,
    *,
    draws: int = 2000,
    chains: int = 4,
    warmup: int = 500,
    target_acceptance: float = 0.8,
    missing: Missing = "refuse",
    diagnostics: Failed = "refuse",
    progress: bool | None = None,
) -> Synthesis | CategoricalSynthesis:
    """Synthetic versions of a survey: sensitive columns are replaced, public ones kept.

    m = `datasets` data sets come from m distinct posterior draws, and `epsilon` of the mechanism
    is the total over them. `draws` are kept over all `chains`. `missing` says what becomes of
    records without a sensitive value: "refuse"; "drop" them (`result.dropped` counts them); or
    "model", which treats the value as blank when fitting and synthesizes it like the others.
    `diagnostics` says what becomes of a fit whose chains do not agree: it is refused, or, under a
    mechanism without epsilon only, kept ("report"), and the claim says so.
    The same seed and version give the same bytes, except under noise from OpenDP, which has no
    seed (PerturbedHistogram, two-stage). Keep the seed of a release secret.

    A Multinomial model goes with Modips, Marginals or Unweighted: its columns are synthesized
    whole, from a table of counts, and the arguments after `seed` do not concern it.
    """
    if isinstance(model, Multinomial):
        return synthesize_categorical(survey, model, mechanism, datasets, seed)
    _refuse_arguments(survey, model, mechanism, datasets, seed, draws, missing)
    if diagnostics not in get_args(Failed):
        raise UnknownName("way with failed diagnostics", str(diagnostics), get_args(Failed))
    tolerant = diagnostics == "report"
    if tolerant and mechanism.has_epsilon:
        raise Refused(
            "A claim with epsilon rests on diagnostics that pass; diagnostics='report' is for "
            "mechanisms of kind `risk`."
        )
    settings = Settings(
        draws, chains, warmup, target_acceptance, most_thinning=2 if tolerant else MOST,
        tolerant=tolerant,
    )  # fmt: skip
    model = model.for_survey(survey)
    _refuse_columns(survey, model, mechanism)
    kept, filled, lacking, dropped = _settle_missing(survey, model, missing)
    fitter = ModelFitter(
        model,
        filled,
        model.prepare(filled),
        lacking,
        settings,
        seed,
        _conditions(survey, model, missing),
        progress,
    )
    released = mechanism.release(fitter, datasets)
    fitted = released.fitted
    return Synthesis(
        [_synthetic(kept, model, arrays) for arrays in released.generated],
        released.claim,
        released.draws,
        released.record_weights,
        released.bounds,
        fitted if isinstance(fitted, Posterior) else None,
        released.weights,
        dropped,
    )


def _refuse_arguments(
    survey: Any, model: Any, mechanism: Any, datasets: Any, seed: Any, draws: Any, missing: Any
) -> None:
    if not isinstance(survey, Survey):
        raise Refused("`survey` must be a Survey; make one with `Survey(frame)` or `read_survey`.")
    if not isinstance(model, Model):
        raise Refused("`model` must be a model, such as Beta(...), or `from_numpyro(function)`.")
    if not isinstance(mechanism, Mechanism):
        raise Refused("`mechanism` must be a mechanism, such as Censored(epsilon=3).")
    if not _whole(datasets) or datasets < 1:
        raise Refused("`datasets` must be a whole number of at least 1.")
    if not _whole(seed) or not 0 <= seed < 2**63:
        raise Refused("`seed` must be a whole number from 0 to 2^63 - 1.")
    if _whole(draws) and datasets > draws:
        raise Refused(
            f"{datasets} data sets need as many distinct draws, and only {draws} are kept; raise "
            "`draws` or ask for fewer data sets."
        )
    if missing not in get_args(Missing):
        raise UnknownName("way with missing values", str(missing), get_args(Missing))


def _refuse_columns(survey: Survey, model: Model, mechanism: Mechanism) -> None:
    for name in model.sensitive:
        if name not in survey.columns:
            raise UnknownName("sensitive column", name, survey.columns)
    for column in survey.codebook:
        left_out = column.role == "sensitive" and column.name not in model.sensitive
        if left_out and column.declared("role"):
            raise Refused(
                f"Column `{column.name}` is declared sensitive, and the model does not synthesize "
                "it; model it too, or leave it out of the survey."
            )
    if model.generates_from_records and mechanism.has_epsilon:
        raise Refused(
            "This model draws each record's component given its own confidential value, which no "
            "claim with epsilon covers; use assignments='prior', or a mechanism of kind `risk`."
        )
    if mechanism.formal:
        drafted = survey.codebook.not_declared(model.rests_on(survey))
        if drafted:
            raise Refused(
                f"A formal claim rests on `{drafted[0]}`, which is not declared; declare it in the "
                "codebook from what is public."
            )


def _settle_missing(
    survey: Survey, model: Model, missing: Missing
) -> tuple[Survey, Survey, NDArray[np.bool_], int]:
    """(survey to be published from, survey to be fitted, which values are placeholders, dropped)"""
    lacking = missing_values(survey, model.sensitive)
    if not lacking.any():
        return survey, survey, lacking, 0
    if missing == "refuse":
        raise Refused(
            f"{', '.join(f'`{name}`' for name in model.sensitive)} has missing values; choose "
            "`missing='drop'` or `missing='model'`."
        )
    if missing == "model" and model.generates_from_records:
        raise Refused(
            "A record without a value has no component of its own; use assignments='prior', or "
            "`missing='drop'`."
        )
    if missing == "drop":
        kept, dropped = without_missing(survey, model.sensitive)
        return kept, kept, np.zeros(kept.n, dtype=bool), dropped
    if lacking.all():
        raise Refused("No record has all its sensitive values; there is nothing to learn from.")
    frame = survey.frame()
    stand_in = frame.row(int(np.argmin(lacking)), named=True)  # weighs 0 in every fit
    absent = pl.Series(lacking)
    filled = frame.with_columns(
        pl.when(absent).then(pl.lit(stand_in[name], frame[name].dtype)).otherwise(name).alias(name)
        for name in model.sensitive
    )
    return survey, Survey(filled, survey.design, survey.codebook), lacking, 0


def _conditions(survey: Survey, model: Model, missing: Missing) -> tuple[str, ...]:
    kept = [name for name in survey.columns if name not in model.sensitive]
    columns = f" and the columns {', '.join(kept)}" if kept else ""
    conditions = [
        model.units(survey.codebook),
        IN_ORDER,
        f"The number of records{columns} are public: published as they are, and not covered"
        if kept
        else "The number of records is public",
    ]
    if missing == "drop":
        conditions.append(
            "Records without a sensitive value were left out first; which and how many they were "
            "is not covered"
        )
    if missing == "model":
        conditions.append(
            "A missing sensitive value counts as blank, and is synthesized like any other"
        )
    return tuple(conditions)


def _synthetic(survey: Survey, model: Model, generated: Generated) -> Survey:
    """The survey with its sensitive columns replaced; column order, types and design as before."""
    frame = survey.raw.to_polars()
    columns = model.restore(generated, survey)
    new = frame.with_columns(columns[name].cast(frame[name].dtype) for name in model.sensitive)
    return Survey(new, survey.design, _public_codebook(survey.codebook, model.sensitive))


def _public_codebook(codebook: Codebook, sensitive: tuple[str, ...]) -> Codebook:
    """The codebook without facts that were drafted from the confidential values."""
    for name in sensitive:
        if name not in codebook:
            continue
        column = codebook[name]
        codebook = codebook.with_column(
            replace(
                column,
                bounds=None if "bounds" in column.drafted else column.bounds,
                levels=None if "levels" in column.drafted else column.levels,
            )
        )
    return codebook


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
