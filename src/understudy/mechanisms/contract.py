"""The mechanism contract: what every mechanism says about itself, and what it does.

It says: kind of claim, relation, whether its noise is seeded, its number of fits, what it
synthesizes, its epsilon, and its settings with their meaning (declarations.py). Nothing of this is
listed anywhere else.

What it does with a model of an outcome given public columns, in this order:

1. `prepare`: settle record weights, reference and limit (perhaps with earlier fits);
2. the fit: the density log prior + sum_i contribution_i, contribution_i =
   clip(alpha_i (f_i(theta) - f_i(theta_ref)), -limit, limit), which is each row of the table in
   methods §3 (alpha = 1, no reference and an infinite limit give the posterior itself); where the
   survey has units, the fitter sums a unit's contributions before it clips them;
3. `claim`: what may be said about the m draws.

With a model of whole rows it does one thing, `release_rows`: noisy counts from the confidential
ones, and their claim. What it gives is an output (outputs/), of which records are made by whoever
has it: in a release by a process that never had the confidential file.

Mechanisms know nothing of samplers: they ask a `Fitter`, which `understudy.fitting` provides, or
`RowCounts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.claim import RECORD, Claim, ClaimKind, Relation
from understudy.declarations import Declared
from understudy.dp.accounting import Cost
from understudy.dp.histogram import Bins, HistogramDraw
from understudy.dp.record_weights import PlacedBounds, PlacedWeights, linear_weights
from understudy.errors import Refused
from understudy.mechanisms.outputs.outcome_draws import OutcomeOutput, ParameterDraws
from understudy.survey.survey import Survey

if TYPE_CHECKING:
    from understudy.dp.binned_counts import BinnedValues, NoisyBins
    from understudy.dp.clipped_moments import ExactCellSums, NoisyCellSums
    from understudy.dp.record_bounds import RecordBounds
    from understudy.mechanisms.outputs.cell_draws import RowsOutput
    from understudy.mechanisms.outputs.file_tables import FileTables
    from understudy.mechanisms.row_counts import RowCounts
    from understudy.mechanisms.whole_file.file_counts import FileCounts
    from understudy.models.contract import Model, OutcomeModel

__public__ = ("Mechanism", "Terms", "plain_terms")

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Clips = tuple[tuple[float, float], ...]  # low and high of each sensitive column
HandsOut = Literal["draws", "rows"]
# an outcome given public columns, which stay as they are; whole rows of categories; whole files
Synthesizes = Literal["outcome", "rows", "rows or file", "outcome or file", "outcome, rows or file"]


@dataclass(frozen=True)
class Terms:
    """What the sampled density needs beside the model.

    `alpha` and `reference_loglik` have shape (n,), or () where records are elsewhere: then `placed`
    are their weights, if they differ. A finite `prior_scale` replaces the model's prior by a normal
    one around `prior_centre` (d,), on the unconstrained scale. `reference` (d,)
    is the position at which records have `reference_loglik`, where there is one.
    """

    alpha: Vector
    reference_loglik: Vector
    limit: float = inf
    prior_centre: Vector | None = None
    prior_scale: float = inf
    reference: Vector | None = None
    placed: PlacedWeights | None = None


EXACT_DRAWS = (
    "Each set of parameters is an exact draw from its density, independent of the others; the "
    "sampler (MCMC) only approaches this, and the release was made after its diagnostics had passed"
)
ADDED_UP = "The contributions of one `{unit}`'s records were added up before they were limited"
NOT_PASSED = (
    "The sampler's diagnostics had not passed; the data holder released nevertheless, and how well "
    "the files keep the confidential data's features is shown by measures of utility alone"
)


class Fitted(Protocol):
    """A fit as a mechanism sees it."""

    @property
    def positions(self) -> Matrix: ...  # (draws, d), all chains

    @property
    def bounds(self) -> RecordBounds: ...

    def check(self) -> None: ...  # refuses on failed diagnostics

    def parameters(self, number: int) -> list[dict[str, Any]]: ...  # of distinct draws


class Fitter(Protocol):
    """One model on one database, ready to be fitted under any terms."""

    @property
    def model(self) -> OutcomeModel: ...

    @property
    def survey(self) -> Survey: ...  # the records that are fitted, on their published scale

    @property
    def n(self) -> int: ...

    @property
    def unit(self) -> str: ...  # what claims are for: `record`, or the column of the unit

    @property
    def units(self) -> NDArray[np.int32] | None: ...  # of each record; None where it is its own

    @property
    def present(self) -> NDArray[np.bool_]: ...  # False: value missing or density infinite

    @property
    def tolerant(self) -> bool: ...  # failed diagnostics are reported where no epsilon is claimed

    @property
    def settings(self) -> Hashable: ...  # of the sampler

    @property
    def weighs_proposals(self) -> bool: ...  # clipped posteriors have a fast sampler of their own

    @property
    def conditions(self) -> tuple[str, ...]: ...  # of every claim about this database

    def fit(self, terms: Terms, stage: str, start: Matrix | None = None) -> Fitted: ...

    def record_loglik(self, position: Vector) -> Vector: ...

    def bounds_over(self, positions: Matrix) -> Vector: ...  # max |f_i|, inf where not present

    def on(self, survey: Any, purpose: str) -> Fitter: ...  # the same model on another survey

    def rehearsing(self, fast: bool) -> Fitter: ...  # chains that must agree soon; public chance

    def resampled(self, n: int, number: int) -> Fitter: ...  # on n of its records, by public chance

    def on_guess(self, number: int) -> Fitter: ...  # on records of the public guess; 0: the guess

    @property
    def sensitive_values(self) -> Matrix: ...  # (records, columns)

    def refuse_source(self, values: Matrix, purpose: str) -> None: ...  # if they are its own

    def check_histogram(self, alone: bool = False) -> None: ...  # refused where there can be none

    def on_histogram(self, epsilon: float, bins: Bins) -> Fitter: ...  # on a private histogram

    def histogram(self, epsilon: float, bins: Bins) -> HistogramDraw: ...

    @property
    def has_moments(self) -> bool: ...  # whether sums, squares and products suffice for the model

    def cell_sums_within(self, clip: Clips | None) -> ExactCellSums: ...

    def binned_values(  # refused where there is no one bounded variable
        self, bins: int | Literal["auto"], epsilon: float
    ) -> BinnedValues: ...

    def given_noisy(
        self, seen: ExactCellSums | BinnedValues, noisy: NoisyCellSums | NoisyBins, datasets: int
    ) -> NoisyDraws: ...


@dataclass(frozen=True, eq=False)  # equal only to itself: it holds arrays
class FixedWeights:
    """A weight function of one record's own values, fixed on a historical file (C §4.5).

    A record's bound is taken over the historical posterior's draws, then mapped linearly with
    the historical least and largest bound. It depends on no other record of the new file, which is
    why `source`, the sensitive values that it was fixed on, must not be the new file's.
    """

    positions: Matrix = field(repr=False)
    low: float
    high: float
    c1: float = 1.0
    c2: float = 0.0
    source: Matrix | None = field(default=None, repr=False)

    def __call__(self, fitter: Fitter) -> Vector:
        bounds = fitter.bounds_over(self.positions)
        return linear_weights(bounds, self.c1, self.c2, self.low, self.high)


def weights_from(fitter: Fitter, fitted: Fitted, c1: float, c2: float) -> FixedWeights:
    """The linear weight function that an unweighted fit suggests."""
    bounds = fitted.bounds.loglik
    if isinstance(bounds, PlacedBounds):
        return FixedWeights(fitted.positions, bounds.low, bounds.high, c1, c2)
    finite = bounds[np.isfinite(bounds)]
    if len(finite) == 0:
        raise Refused(
            "Every record has an infinite log-likelihood; check the outcome's bounds or units."
        )
    return FixedWeights(
        fitted.positions, float(finite.min()), float(finite.max()), c1, c2, fitter.sensitive_values
    )


@dataclass(frozen=True)
class NoisyDraws:
    """Parameters for each data set, drawn given noisy sums, and whether the chains agreed."""

    parameters: list[dict[str, Any]]
    passed: bool


@dataclass(frozen=True)
class Prepared:
    """What `prepare` settles: the terms, where chains start, and what the claim must add."""

    terms: Terms
    start: Matrix | None = None
    fitted: Fitted | None = None
    weights: FixedWeights | None = None
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rehearsed:
    """A mechanism with all that a rehearsal settles, the seconds that its fits and their rehearsal
    take (None where nothing was rehearsed), and what it settled, in words."""

    mechanism: Mechanism
    seconds: float | None = None
    settled: str = ""


@dataclass(frozen=True)
class Released:
    """What a mechanism gives to `synthesize`; all but the claim and the output stays inside."""

    output: OutcomeOutput
    claim: Claim
    record_weights: Vector
    bounds: RecordBounds | None = None
    fitted: Fitted | None = None
    weights: FixedWeights | None = None


@dataclass(frozen=True)
class ReleasedRows:
    """What a mechanism gives for a model of whole rows: noisy counts, from which anyone can make
    records, and the claim about them."""

    output: RowsOutput
    claim: Claim


@dataclass(frozen=True)
class ReleasedFile:
    """What a mechanism gives for a model of a whole file: noisy tables, from which anyone can make
    records, and the claim about them; and what each record counted, where not 1."""

    output: FileTables
    claim: Claim
    record_weights: Vector | None = None


class Mechanism(Declared, ABC, abstract=True):
    """A way to release draws of a model, and what may be promised about them."""

    @property
    @abstractmethod
    def claims(self) -> ClaimKind:
        """The kind of its claims."""

    @property
    @abstractmethod
    def relation(self) -> Relation:
        """Which neighbouring databases its epsilon speaks of."""

    @property
    @abstractmethod
    def seeded(self) -> bool:
        """Whether the same seed gives the same bytes; noise from OpenDP has no seed."""

    @property
    @abstractmethod
    def fits(self) -> int:
        """How many fits it makes at most, for the forecast of time."""

    @property
    @abstractmethod
    def synthesizes(self) -> Synthesizes:
        """An outcome given public columns, or whole rows."""

    @property
    @abstractmethod
    def hands_out(self) -> HandsOut:
        """What its claim is about, and all that leaves the inside: the draws that its output holds,
        or the rows that were made of them. Where nothing is claimed (`risk`) these are the rows."""

    @property
    @abstractmethod
    def epsilon(self) -> float | None:
        """Total over all data sets, as known before any fit; None where it is not."""

    @property
    @abstractmethod
    def delta(self) -> float:
        """Total over all data sets; 0 for a pure epsilon."""

    @property
    def needs_records(self) -> bool:
        """Whether it must have every record in memory, for record weights or bounds, or whether
        what it needs of them are sums and extremes, which are made where they are (on disk, on
        Spark), as counts of rows and files are."""
        return self.synthesizes == "outcome"

    def __init_subclass__(cls, abstract: bool = False, **rest: Any) -> None:
        super().__init_subclass__(abstract=abstract, **rest)
        if abstract:
            return
        does = str(cls.synthesizes)
        own_way = cls.release is not Mechanism.release
        three_parts = cls.prepare is not Mechanism.prepare and cls.claim is not Mechanism.claim
        if "outcome" in does and not (own_way or three_parts):
            raise TypeError(f"{cls.__name__} synthesizes outcomes; it needs `prepare` and `claim`")
        if "rows" in does and cls.release_rows is Mechanism.release_rows:
            raise TypeError(f"{cls.__name__} synthesizes rows; it needs `release_rows`")
        if "file" in does and cls.release_file is Mechanism.release_file:
            raise TypeError(f"{cls.__name__} synthesizes whole files; it needs `release_file`")

    def cost(self) -> Cost | None:
        """What a ledger counts before any fit, over all data sets, for one record.

        A mechanism whose noise is accounted for by rho returns that. None where no guarantee is
        stated beforehand.
        """
        if self.epsilon is None or self.claims in ("risk", "local"):
            return None
        # a double counts as the decimal that it was written as, which is what the claim shows
        epsilon, delta = Fraction(repr(float(self.epsilon))), Fraction(repr(float(self.delta)))
        return Cost((self.relation,), epsilon, delta)

    def check_sources(self, fitter: Fitter) -> None:
        """Refused, before anything is paid, where a setting holds records from which something is
        taken (a reference, a weight function, also of a mechanism among the settings) and they are
        the fitter's own."""
        for name, value in vars(self).items():
            purpose = "the reference" if name == "reference" else "the record weights"
            if isinstance(value, Mechanism):
                value.check_sources(fitter)
            elif isinstance(value, FixedWeights) and value.source is not None:
                fitter.refuse_source(value.source, purpose)
            elif isinstance(value, Survey):
                fitter.on(value, purpose)

    def check_counts(self, counts: RowCounts | FileCounts) -> None:
        """Refused, before anything is paid, where counts would rest on something that is not
        declared, or do not go with the settings; nothing by default."""

    def rehearsed(self, fitter: Fitter, datasets: int) -> Rehearsed:  # noqa: ARG002
        """Settle, before anything is paid and on records that cost nothing, what the fits need to
        end well; refused where nothing would. Of the fitter's own records it may use the number and
        the public columns."""
        return Rehearsed(self)

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:
        """Record weights, reference and limit for this database."""
        raise NotImplementedError

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:
        """The claim about `datasets` draws, with the mechanism's own conditions."""
        raise NotImplementedError

    def release_rows(self, counts: RowCounts, datasets: int) -> ReleasedRows:
        """Noisy counts, and the claim about them."""
        raise NotImplementedError

    def release_file(self, counts: FileCounts, datasets: int) -> ReleasedFile:
        """The noisy tables of a whole file, and the claim about them."""
        raise NotImplementedError

    def forecast(self, model: Model, survey: Survey, datasets: int) -> list[str]:  # noqa: ARG002
        """Sentences on what its noise will do, before anything is spent; none by default."""
        return []

    def release(self, fitter: Fitter, datasets: int) -> Released:
        prepared = self.prepare(fitter, datasets)
        fitted = prepared.fitted or fitter.fit(prepared.terms, "release", prepared.start)
        draws_are = EXACT_DRAWS
        try:
            fitted.check()
        except Refused:
            # a claim without epsilon does not rest on exact draws; every other one does
            if self.claims != "risk" or not fitter.tolerant:
                raise
            draws_are = NOT_PASSED
        draws = tuple(fitted.parameters(datasets))
        claim = self.claim(prepared, fitted, datasets)
        summed = [] if fitter.unit == RECORD else [ADDED_UP.format(unit=fitter.unit)]
        return Released(
            ParameterDraws(draws),
            about(fitter, claim, [*summed, draws_are]),
            prepared.terms.alpha,
            fitted.bounds,
            fitted,
            prepared.weights,
        )


def about(fitter: Fitter, claim: Claim, conditions: Sequence[str] = ()) -> Claim:
    """The claim for the fitter's unit, with the conditions of every claim about its database
    first."""
    united = tuple(dict.fromkeys([*fitter.conditions, *conditions, *claim.conditions]))
    return replace(claim, conditions=united, unit=fitter.unit)


def plain_terms(
    fitter: Fitter, alpha: Vector | PlacedWeights | None = None, limit: float = inf
) -> Terms:
    """Terms without a reference; absent records weigh 0 whatever alpha says."""
    if isinstance(alpha, PlacedWeights):
        return Terms(np.ones(()), np.zeros(()), limit, placed=alpha)
    weights = np.where(fitter.present, 1.0 if alpha is None else alpha, 0.0)
    return Terms(weights, np.zeros_like(weights), limit)


def checked_share(value: float, name: str) -> float:
    """A number strictly between 0 and 1, or refused."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise Refused(f"`{name}` must be a number between 0 and 1.")
    return float(value)
