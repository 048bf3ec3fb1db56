"""synthesize(): m synthetic surveys, and exactly what they promise.

survey -> fitter or counts -> mechanism.release -> an output and its claim    (has the records)
output + public columns, codebook -> synthetic surveys                        (has not)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.chance import Chance, Seed, chance_of
from understudy.claim import Claim
from understudy.dp.account import PayingAccount, said_of_account
from understudy.envelope import Envelope
from understudy.errors import Refused
from understudy.fitting.fit_settings import Failed, FitSettings, Missing
from understudy.fitting.missing import settle_missing
from understudy.internal_mark import marked
from understudy.mechanisms.contract import FixedWeights, HandsOut, Mechanism, Rehearsed
from understudy.mechanisms.outputs.cell_draws import OwnTables, RowsOutput, surveys_of
from understudy.mechanisms.outputs.outcome_draws import made_ready
from understudy.mechanisms.outputs.output import Ground, MechanismOutput
from understudy.mechanisms.record_needs import need_of_memory
from understudy.mechanisms.row_counts import RowCounts
from understudy.mechanisms.whole_file.file_counts import FileCounts
from understudy.models.contract import FileModel, Model, OutcomeModel, RowsModel
from understudy.publication import (
    Publication,
    file_conditions,
    file_ground,
    outcome_conditions,
    outcome_ground,
    rows_conditions,
    rows_ground,
    said_of_chance,
)
from understudy.survey.survey import Survey
from understudy.synthesis_checks import (
    check_claim,
    refuse_arguments,
    refuse_columns,
    refuse_pair,
    settled,
)
from understudy.tables.cross_table import CrossTable
from understudy.tables.units import unit_of

if TYPE_CHECKING:
    from understudy.dp.record_bounds import RecordBounds
    from understudy.fitting.diagnostics import Diagnostics
    from understudy.fitting.posterior import Posterior

__public__ = ("Synthesis", "fit_in_place", "synthesize")


OUTSIDE = "outside"  # the chance by which records are made, apart from that of fits and choices
MADE_INSIDE = (
    "Records were made where the confidential file was open, by the mechanism: its proof must "
    "cover the rows themselves"
)


@dataclass(frozen=True, eq=False)
class Synthesis:
    """What `synthesize` gives back.

    For publication: `datasets`, `claim` and, where the mechanism hands out draws, `draws`: the
    parameters or noisy tables that each data set is made of (`envelope`). Everything else was
    computed from the confidential data and stays inside (methods §1). What a mechanism without a
    fit does not have is None; `tables` are the data sets as counts of cells, for models of whole
    rows; `parts` are the results that a mixed synthesis was made from.
    """

    claim: Claim
    output: MechanismOutput = field(repr=False)
    ground: Ground = field(repr=False)  # what records are made of beside the output
    chance: Chance = field(repr=False)  # by which they are made
    hands_out: HandsOut
    record_weights: NDArray[np.float64] = field(repr=False)
    bounds: RecordBounds | None = field(default=None, repr=False)
    posterior: Posterior | None = field(default=None, repr=False)
    diagnostics: Diagnostics | None = field(default=None, repr=False)  # of the released fit
    weights: FixedWeights | None = field(default=None, repr=False)
    parts: tuple[Synthesis, ...] = field(default=(), repr=False)
    dropped: int = 0
    rows_correspond: bool = True  # whether row i of a data set stands for record i
    for_studies: bool = False  # its seed could be guessed: `release` does not publish from it

    @cached_property
    def datasets(self) -> list[Survey]:
        """The synthetic surveys, made when they are first asked for. The inside of a release asks
        only where rows are handed out."""
        if isinstance(self.output, RowsOutput):
            return surveys_of(self.tables, self.ground)
        return self.output.datasets(self.ground, self.chance)

    @cached_property
    def tables(self) -> list[CrossTable]:
        """The data sets as counts of cells; none but for a model of whole rows."""
        rows = isinstance(self.output, RowsOutput)
        return self.output.tables(self.ground, self.chance) if rows else []  # type: ignore[attr-defined]

    @cached_property
    def draws(self) -> list[dict[str, Any]]:
        """What each data set is made of; none where counts are shown by rows alone."""
        hidden = self.hands_out == "rows" and isinstance(self.output, RowsOutput)
        return [] if hidden else self.output.draws()

    @property
    def synthesized(self) -> tuple[str, ...]:
        """The columns of the data sets that were drawn."""
        return tuple(n for n in self.datasets[0].columns if n not in self.ground.public.columns)

    @property
    def envelope(self) -> Envelope:
        """What goes out of the inside: the claim and the mechanism's output, or the rows that were
        made of it. With the public columns and the codebook it makes every data set."""
        if self.hands_out == "draws":
            return Envelope(self.claim, self.output.names, tuple(self.draws))
        drawn = list(self.synthesized)
        rows = tuple(dataset.raw.select(drawn).to_polars() for dataset in self.datasets)
        return Envelope(self.claim, rows=rows)

    @property
    def categories(self) -> Synthesis | None:
        """Of a mixed synthesis: the part that made the categories."""
        return self.parts[0] if self.parts else None

    @property
    def regressions(self) -> list[Synthesis]:
        """Of a mixed synthesis: the part of each regression, in order."""
        return list(self.parts[1:])

    @property
    def record_bounds(self) -> NDArray[np.float64]:
        """Each record's largest |contribution| over the draws of the released fit, (n,)."""
        if self.bounds is None:
            raise Refused(
                "Record bounds exist only where a posterior or a histogram was released of records "
                "in memory."
            )
        return self.bounds.contribution

    @property
    def censored(self) -> int:
        """How many records were clipped at one draw or more."""
        return 0 if self.bounds is None else self.bounds.censored


def synthesize(
    survey: Survey,
    model: Model,
    mechanism: Mechanism,
    datasets: int = 1,
    seed: Seed = None,
    *,
    draws: int = 2000,
    chains: int = 4,
    warmup: int = 500,
    target_acceptance: float = 0.8,
    missing: Missing = "refuse",
    diagnostics: Failed = "refuse",
    progress: bool | None = None,
    account: PayingAccount | None = None,
) -> Synthesis:
    """Synthetic versions of a survey: sensitive columns are replaced, public ones kept.

    m = `datasets` data sets come from m distinct posterior draws, and `epsilon` of the mechanism
    is the total over them. `draws` are kept over all `chains`. `missing` says what becomes of
    records without a sensitive value: "refuse"; "drop" them (`result.dropped` counts them); or
    "model", which treats the value as blank when fitting and synthesizes it like the others.
    `diagnostics` says what becomes of a fit whose chains do not agree: it is refused, or, under a
    mechanism without epsilon only, kept ("report"), and the claim says so.
    `seed` None draws a secret one from the operating system. A passed one must be at least 16
    random bytes and stay secret, and the claim says so; a whole number makes a result for
    studies (`result.for_studies`). The same seed and version give the same bytes, except under
    noise from OpenDP, which has no seed (PerturbedHistogram, two-stage).

    A mechanism with an epsilon of its own is charged to `account` (`LedgerAccount`) before anything
    is drawn; without one the claim says that it was not charged to any ledger.

    A model of whole rows (Multinomial) is drawn from a table of counts: nothing is fitted, and the
    arguments after `seed` do not concern it.

    Of a survey on Spark, files of whole rows and whole files are made by its workers, and stay
    there: `tabulate` asks them, and `write_survey` lets them write a folder. The records are those
    that would be made here.
    """
    fit = FitSettings(draws, chains, warmup, target_acceptance, missing, diagnostics, progress)
    chance = chance_of(seed)
    publication = Publication(account=account)
    result = synthesize_for(publication, survey, model, mechanism, datasets, chance, fit)
    if survey.on_cluster:
        result = replace(result, ground=replace(result.ground, cluster=survey.raw))
    _ = result.datasets
    return result


def fit_in_place(
    survey: Survey,
    model: Model,
    mechanism: Mechanism,
    datasets: int = 1,
    seed: Seed = None,
    *,
    draws: int = 2000,
    chains: int = 4,
    account: PayingAccount | None = None,
) -> Synthesis:
    """FBS or FBP fitted where the records are: no column of records comes to this process.

    The survey's table may be a file under DuckDB or a table of Spark. Mechanisms: Unweighted,
    Weighted, NoisyMoments, and ReferenceCensored with a reference that is in memory. Draws and
    claims are those of `synthesize`, but for rounding. Data sets are made when they are asked for,
    from the draws and the public columns, in the order of these columns' values: block by block
    into a file in the scratch folder, or by Spark's workers, where they stay; `write_survey` puts
    them where they belong.
    """
    publication, fit = Publication(account=account), FitSettings(draws, chains)
    if not isinstance(model, OutcomeModel):
        refuse_arguments(survey, model, mechanism, datasets)
        raise Refused(
            f"{type(model).__name__} is counted where the records are by `synthesize`; a fit in "
            "place is for FBS and FBP."
        )
    return synthesize_for(
        publication, survey, model, mechanism, datasets, chance_of(seed), fit, in_place=True
    )


def synthesize_for(
    publication: Publication,
    survey: Survey,
    model: Model,
    mechanism: Mechanism,
    datasets: int,
    chance: Chance,
    fit: FitSettings,
    coding: Survey | None = None,
    in_place: bool = False,
) -> Synthesis:
    """`synthesize`, with a claim that speaks of this publication; no data set is made yet.

    `coding` decides the encoding of predictors that are not public (models/declared_grid.py).
    `in_place`: an outcome is fitted where its records are, as it always is on a cluster.
    """
    refuse_arguments(survey, model, mechanism, datasets)
    refuse_pair(model, mechanism)
    if survey.on_cluster and (needed := need_of_memory(model, mechanism)):
        raise Refused(needed)
    with marked():  # from here on the records are looked at
        if isinstance(model, RowsModel):
            result = _synthesize_rows(publication, survey, model, mechanism, datasets, chance)
        elif isinstance(model, FileModel):
            result = _synthesize_file(publication, survey, model, mechanism, datasets, chance)
        elif isinstance(model, OutcomeModel):
            result = _synthesize_outcome(
                publication, survey, model, mechanism, datasets, chance, fit, coding, in_place
            )
        else:
            raise Refused(
                "A model must describe an outcome (OutcomeModel) or whole rows (RowsModel)."
            )
    check_claim(mechanism, result.claim, survey)
    _check_output(mechanism, result)
    return _said_of_chance(_said_of_rows(result), chance)


def _said_of_chance(result: Synthesis, chance: Chance) -> Synthesis:
    """With what must be said of the seed; counts with noise of their own need none."""
    if result.posterior is None and chance.source == "system":
        return result
    claim = said_of_chance(result.claim, chance)
    return replace(result, claim=claim, for_studies=chance.for_studies)


@dataclass(frozen=True, eq=False)
class Ready:
    """A model of an outcome that nothing stands against: the fit can be paid for."""

    fitter: Any  # a ModelFitter, or a PlacedFitter of records that stay where they are
    ground: Ground
    dropped: int
    rehearsed: Rehearsed
    rows_correspond: bool = True


def ready_outcome(
    publication: Publication,
    survey: Survey,
    model: OutcomeModel,
    mechanism: Mechanism,
    datasets: int,
    fit: FitSettings,
    coding: Survey | None = None,
    chance: Chance | None = None,
    in_place: bool = False,
) -> Ready:
    """All that can be refused of an outcome before it is paid for; and its rehearsal."""
    if survey.on_cluster or in_place:
        return _ready_in_place(publication, survey, model, mechanism, datasets, fit, chance)
    from understudy.fitting.fitter import ModelFitter  # JAX, which whole files do not need

    fit = settled(fit, mechanism, datasets)
    model = model.for_survey(survey)
    refuse_columns(survey, model, mechanism)
    kept, filled, lacking, dropped = settle_missing(survey, model, fit.missing)
    arrays = model.prepare(filled, like=coding)
    model.check_records(arrays)
    conditions = outcome_conditions(survey, model, fit.missing, publication)
    records = (model, filled, arrays, lacking)
    fitter = ModelFitter(*records, fit.sampler, chance_of(chance), conditions, fit.progress, coding)
    if mechanism.claims != "risk":
        mechanism.check_sources(fitter)
    ground = outcome_ground(kept, filled, model, look_inside=mechanism.claims == "risk")
    if mechanism.hands_out == "draws" and not publication.given_drawn:
        bound, stood_in = made_ready(ground)
        bound.prepare(stood_in)
    return Ready(fitter, ground, dropped, mechanism.rehearsed(fitter, datasets))


def _ready_in_place(
    publication: Publication,
    survey: Survey,
    model: OutcomeModel,
    mechanism: Mechanism,
    datasets: int,
    fit: FitSettings,
    chance: Chance | None,
) -> Ready:
    """The same for records that stay where they are: their rows are not those of the files."""
    from understudy.in_place import placed_fitter, why_not_in_place

    fit = settled(fit, mechanism, datasets)
    if refusal := why_not_in_place(survey, model, mechanism, fit, publication.given_drawn):
        raise Refused(refusal)
    model, apart = model.for_survey(survey), replace(publication, in_order=False)
    refuse_columns(survey, model, mechanism)
    ground = outcome_ground(survey, survey, model, look_inside=False, in_place=True)
    fitter: Any = placed_fitter(apart, survey, model, mechanism, fit, chance_of(chance))
    mechanism.check_sources(fitter)
    rehearsed = mechanism.rehearsed(fitter, datasets)
    return Ready(fitter, ground, 0, rehearsed, rows_correspond=False)


def _synthesize_outcome(
    publication: Publication,
    survey: Survey,
    model: OutcomeModel,
    mechanism: Mechanism,
    datasets: int,
    chance: Chance,
    fit: FitSettings,
    coding: Survey | None,
    in_place: bool,
) -> Synthesis:
    from understudy.dp.record_bounds import RecordBounds
    from understudy.fitting.posterior import Posterior

    ready = ready_outcome(
        publication, survey, model, mechanism, datasets, fit, coding, chance, in_place
    )
    paid = publication.paid(survey, [mechanism])
    released = ready.rehearsed.mechanism.release(ready.fitter, datasets)
    fitted = released.fitted if isinstance(released.fitted, Posterior) else None
    return Synthesis(
        said_of_account(released.claim, paid),
        released.output,
        ready.ground,
        chance.of(OUTSIDE),
        mechanism.hands_out,
        released.record_weights,
        released.bounds if isinstance(released.bounds, RecordBounds) else None,
        fitted,
        None if fitted is None else fitted.diagnostics,
        released.weights,
        dropped=ready.dropped,
        rows_correspond=ready.rows_correspond,
    )


def ready_rows(
    publication: Publication,
    survey: Survey,
    model: RowsModel,
    mechanism: Mechanism,
    chance: Chance | None = None,
) -> RowCounts:
    """All that can be refused of whole rows before they are paid for."""
    unit = None if mechanism.claims == "risk" else unit_of(survey)
    counts = RowCounts(model, survey, chance, rows_conditions(survey, model, publication), unit)
    _ = counts.occupied
    mechanism.check_counts(counts)
    return counts


def _synthesize_rows(
    publication: Publication,
    survey: Survey,
    model: RowsModel,
    mechanism: Mechanism,
    datasets: int,
    chance: Chance,
) -> Synthesis:
    """Whole records from counts; rows come in the order of their cells."""
    counts = ready_rows(publication, survey, model, mechanism, chance)
    paid = publication.paid(survey, [mechanism])
    released = mechanism.release_rows(counts, datasets)
    return Synthesis(
        said_of_account(released.claim, paid),
        released.output,
        rows_ground(survey, model),
        chance.of(OUTSIDE),
        mechanism.hands_out,
        np.broadcast_to(1.0, counts.occupied.n),
        rows_correspond=False,
    )


def ready_file(
    publication: Publication,
    survey: Survey,
    model: FileModel,
    mechanism: Mechanism,
    chance: Chance | None = None,
) -> FileCounts:
    """All that can be refused of a whole file before it is paid for."""
    unit = None if mechanism.claims == "risk" else unit_of(survey)
    conditions = file_conditions(publication)
    counts = FileCounts(model.for_survey(survey), survey, chance, conditions, unit)
    counts.check()
    mechanism.check_counts(counts)
    return counts


def _synthesize_file(
    publication: Publication,
    survey: Survey,
    model: FileModel,
    mechanism: Mechanism,
    datasets: int,
    chance: Chance,
) -> Synthesis:
    """A whole file from noisy tables: what is made from them sees no record, but for public columns
    that are kept."""
    counts = ready_file(publication, survey, model, mechanism, chance)
    paid = publication.paid(survey, [mechanism])
    released = mechanism.release_file(counts, datasets)
    return Synthesis(
        said_of_account(released.claim, paid),
        released.output,
        file_ground(survey, counts.model, look_inside=mechanism.claims == "risk"),
        chance.of(OUTSIDE),
        mechanism.hands_out,
        released.record_weights
        if released.record_weights is not None
        else np.broadcast_to(1.0, survey.n),
        rows_correspond=False,
    )


def _check_output(mechanism: Mechanism, result: Synthesis) -> None:
    """A mechanism whose rows were made inside must say so in its class."""
    if isinstance(result.output, OwnTables) and result.hands_out == "draws":
        raise Refused(
            f"{type(mechanism).__name__} gives records instead of the noisy counts that they are "
            'made of; give CellCounts, or set `hands_out = "rows"` in the class, and the claim '
            "says so."
        )


def _said_of_rows(result: Synthesis) -> Synthesis:
    """The claim with what must be said of rows that were made inside."""
    if result.hands_out == "draws" or result.claim.kind == "risk":
        return result
    claim = replace(result.claim, conditions=(*result.claim.conditions, MADE_INSIDE))
    return replace(result, claim=claim)
