"""fit_in_place(): the draws of a synthesis, and its claim, from records that stay where they are.

survey on disk or on Spark -> passes there -> mechanism.release -> draws and their claim
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from understudy.chance import Seed, chance_of
from understudy.claim import Claim
from understudy.dp.account import PayingAccount, said_of_account
from understudy.envelope import Envelope
from understudy.errors import Refused
from understudy.fitting.fit_settings import FitSettings
from understudy.internal_mark import marked
from understudy.ledger.fingerprint import identify
from understudy.mechanisms.contract import HandsOut, Mechanism
from understudy.mechanisms.outputs.outcome_draws import OutcomeOutput
from understudy.models.contract import Model
from understudy.publication import Publication, outcome_conditions, said_of_chance
from understudy.survey.survey import Survey
from understudy.synthesis import check_claim, refuse_arguments, refuse_columns, refuse_pair

if TYPE_CHECKING:
    from understudy.fitting.diagnostics import Diagnostics

__public__ = ("FittedInPlace", "fit_in_place")

NOT_COMPARED = (
    "The reference was compared with the confidential records as a whole only, since these stayed "
    "where they are: that it shares no record's values with them is the data holder's word"
)


@dataclass(frozen=True, eq=False)
class FittedInPlace:
    """`draws` are the parameters that each data set is made of. Where the mechanism hands them out
    they may be published with their claim (`envelope`); otherwise they stay inside, and so do the
    diagnostics."""

    claim: Claim
    output: OutcomeOutput = field(repr=False)
    hands_out: HandsOut
    diagnostics: Diagnostics | None = field(default=None, repr=False)
    for_studies: bool = False

    @property
    def draws(self) -> list[dict[str, Any]]:
        return self.output.draws()

    @property
    def envelope(self) -> Envelope:
        """What goes out of the inside."""
        if self.hands_out != "draws":
            raise Refused(
                "Nothing is claimed of these draws, so they are not handed out; rows that are made "
                "of them inside may be."
            )
        return Envelope(self.claim, self.output.names, tuple(self.draws))


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
) -> FittedInPlace:
    """FBS or FBP fitted where the records are: no column of records comes to this process.

    The survey's table may be a file under DuckDB or a table of Spark. Mechanisms: Unweighted,
    Weighted, NoisyMoments, and ReferenceCensored with a reference that is in memory. Draws and
    claims are those of `synthesize`, but for rounding; data sets are not made.
    """
    from understudy.fitting.placed_fitter import PlacedFitter  # JAX, which imports take long
    from understudy.fitting.placed_records import PlacedRecords
    from understudy.fitting.posterior import Posterior
    from understudy.models.survey_normal import SurveyNormal

    refuse_arguments(survey, model, mechanism, datasets)
    refuse_pair(model, mechanism)
    if datasets > draws:
        raise Refused("Each data set needs a draw of its own; ask for more draws.")
    bound = model.for_survey(survey)
    if not isinstance(bound, SurveyNormal):
        raise Refused(
            "Records can stay where they are for FBS and FBP without piles and intercepts of PSUs; "
            "WholeFile, Multinomial and tables count there too. Other models need every record for "
            "every step: read the file into memory."
        )
    mechanism.check_in_place()
    if survey.codebook.unit_column is not None:
        raise Refused("Claims for units need the records in memory; use `synthesize`.")
    refuse_columns(survey, bound, mechanism)
    fit, chance = FitSettings(draws, chains), chance_of(seed)
    publication = Publication(in_order=False, account=account)
    conditions = outcome_conditions(survey, bound, fit.missing, publication)
    references = [value for value in vars(mechanism).values() if isinstance(value, Survey)]
    if references:
        conditions = (*conditions, NOT_COMPARED)
    with marked():  # from here on the records are looked at
        for reference in references:
            _refuse_same_records(survey, reference)
        placed = PlacedRecords(bound, survey)
        placed.check()
        fitter: Any = PlacedFitter(placed, fit.sampler, chance, conditions)
        mechanism.check_sources(fitter)
        ready = mechanism.rehearsed(fitter, datasets).mechanism
        paid = publication.paid(survey, [mechanism])
        released = ready.release(fitter, datasets)
    fitted = released.fitted if isinstance(released.fitted, Posterior) else None
    claim = said_of_account(released.claim, paid)
    if fitted is not None or chance.source != "system":
        claim = said_of_chance(claim, chance)
    check_claim(mechanism, claim, survey)
    diagnostics = None if fitted is None else fitted.diagnostics
    hands_out = mechanism.hands_out
    return FittedInPlace(claim, released.output, hands_out, diagnostics, chance.for_studies)


def _refuse_same_records(survey: Survey, reference: Survey) -> None:
    """Refused where the reference is the confidential file, or half of one is in the other; what
    has only some of its values in common with it is not seen here."""
    ours, theirs = (identify(each.untyped, each.raw)[0] for each in (survey, reference))
    if ours.fingerprint == theirs.fingerprint or ours.akin(frozenset(), theirs.records):
        raise Refused(
            "The reference shares half of its records with the confidential file, or is that file; "
            "take one of other people, or of another year."
        )
