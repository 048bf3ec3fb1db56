"""How the sample was drawn: design weight, strata, PSU, fpc, or replicate weights."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from understudy.errors import Refused, UnknownName

__public__ = ("Design", "Replicates", "Stage")

ReplicateKind = Literal["brr", "fay", "jk1", "jkn", "bootstrap", "sdr"]
LonelyPsu = Literal["fail", "certainty", "adjust", "average"]
Unequal = Literal["brewer", "hartley-rao"]


@dataclass(frozen=True)
class Replicates:
    """Replicate weights: their columns, how they were made, and so how they are combined.

    Give `columns`, or a `prefix` that is followed by digits in the file (`PWGTP` for
    PWGTP1..PWGTP80). `coefficients` are the JKn factors (one per replicate, as R survey's
    `rscales`); the other kinds know theirs. `centre` says what the squared deviations are
    taken from: the full-sample estimate (as SAS, Census and `mse=TRUE` in R) or the mean of
    the replicates (R's and Stata's default).
    """

    columns: Annotated[Sequence[str] | None, "Their columns."] = None
    prefix: Annotated[str | None, "Or what their names begin with, digits after it."] = None
    kind: Annotated[ReplicateKind, "How they were made."] = "bootstrap"
    fay: Annotated[float | None, "Fay's factor."] = None
    coefficients: Annotated[Sequence[float] | None, "The factors of JKn."] = None
    centre: Annotated[Literal["estimate", "mean"], "What deviations are from."] = "estimate"

    def __post_init__(self) -> None:
        if (self.columns is None) == (self.prefix is None):
            raise Refused("Replicates need either `columns` or a `prefix`, and not both.")
        if self.kind not in get_args(ReplicateKind):
            raise UnknownName("kind of replicate weights", self.kind, get_args(ReplicateKind))
        if (self.fay is not None) != (self.kind == "fay") or not 0 <= (self.fay or 0) < 1:
            raise Refused("Fay's factor `fay`, in [0, 1), goes with kind='fay' and only with it.")
        if (self.coefficients is not None) != (self.kind == "jkn"):
            raise Refused(
                "`coefficients`, one per replicate ((n_h - 1)/n_h of the stratum where a PSU was "
                "dropped), go with kind='jkn' and only with it."
            )
        for name in ("columns", "coefficients"):
            if (listed := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(listed))

    def matching(self, columns: Iterable[str], full_weight: str) -> tuple[str, ...]:
        """The replicate columns of a file, in the order of their numbers."""
        present = list(columns)
        if self.columns is not None:
            for name in self.columns:
                if name not in present:
                    raise UnknownName("replicate weight column", name, present)
            replicates = tuple(self.columns)
        else:
            pattern = re.compile(re.escape(self.prefix or "") + r"(\d+)")
            numbered = [(int(m[1]), name) for name in present if (m := pattern.fullmatch(name))]
            replicates = tuple(name for _, name in sorted(numbered))
            if not replicates:
                raise Refused(
                    f"No column is named `{self.prefix}` followed by digits; "
                    "check the replicate prefix, or list the columns."
                )
        if full_weight in replicates:
            raise Refused(
                f"The replicate weights include the full weight `{full_weight}` itself; "
                "list the replicate columns without it."
            )
        if len(replicates) < 2:
            raise Refused("A replicate variance needs at least two replicate weights.")
        if self.coefficients is not None and len(self.coefficients) != len(replicates):
            raise Refused(
                f"There are {len(replicates)} replicate weights but {len(self.coefficients)} "
                "JKn coefficients; give one for each."
            )
        return replicates


@dataclass(frozen=True)
class Stage:
    """A later stage of sampling: its units, their strata within the unit above, and its fpc (the
    number of units there, or the sampled fraction)."""

    unit: Annotated[str, "Column of the units."]
    fpc: Annotated[str, "Column with their number in the unit above, or the sampled fraction."]
    strata: Annotated[str | None, "Column of the strata within the unit above."] = None


@dataclass(frozen=True)
class Design:
    """Names of the columns that say how the sample was drawn.

    `fpc` is the number of PSUs in the stratum's population, or the sampled fraction if no
    value is above 1. `nest=True` says that PSU numbers start again in every stratum.
    `lonely_psu` decides about a stratum with one sampled PSU: refuse (default), let it
    contribute nothing ("certainty"), centre it on the mean of all PSUs ("adjust"), or give
    it the average variance of the other strata ("average"); the names are R survey's.
    `variance_weight` is a second weight, from which variances are computed while estimates use
    `weight`: a synthetic file has smoothed weights for estimates, and the drawn ones beside them.

    `stages` are the later stages, whose variance counts where the first one has an fpc. `pps` says
    that PSUs were drawn with unequal probabilities without replacement, which `fpc` then holds:
    "brewer", or "hartley-rao" with the stratum's sum of squared probabilities over its population
    in the column `square_sum`. `calibrated` is a formula of the columns that the weights were
    calibrated on ("sex + C(region) + income"), and `base_weight` the weight before, if it is known.
    """

    weight: Annotated[str | None, "Column of the design weight."] = None
    strata: Annotated[str | None, "Column of the strata."] = None
    psu: Annotated[str | None, "Column of the primary sampling units."] = None
    fpc: Annotated[
        str | None, "Column with the stratum's number of PSUs, or the sampled fraction."
    ] = None
    replicates: Annotated[
        Replicates | None, "prefix or columns, kind, fay, coefficients, centre."
    ] = None
    lonely_psu: Annotated[LonelyPsu, "fail, certainty, adjust or average."] = "fail"
    nest: Annotated[bool, "Whether PSU numbers start again in every stratum."] = False
    stages: Annotated[
        Sequence[Stage], "Later stages, each with unit, fpc and strata: [[design.stages]]."
    ] = ()
    pps: Annotated[
        Unequal | None,
        "brewer or hartley-rao: unequal probabilities, in `fpc`, without replacement.",
    ] = None
    square_sum: Annotated[
        str | None, "For hartley-rao: the stratum's sum of squared probabilities."
    ] = None
    calibrated: Annotated[
        str | None, "Formula of the columns that the weights were calibrated on."
    ] = None
    base_weight: Annotated[str | None, "The weight before calibration, if it is known."] = None
    variance_weight: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        self._check_variance()
        if self.lonely_psu not in get_args(LonelyPsu):
            raise UnknownName("rule for a lonely PSU", self.lonely_psu, get_args(LonelyPsu))
        named = [name for name in (self.weight, self.strata, self.psu) if name is not None]
        if len(set(named)) < len(named):
            raise Refused("Weight, strata and PSU must be three different columns.")
        if self.replicates is not None and self.weight is None:
            raise Refused("Replicate weights need the full-sample `weight` beside them.")
        if self.variance_weight is not None and (self.weight is None or self.replicates):
            raise Refused(
                "A `variance_weight` needs a `weight` beside it, and no replicate weights."
            )

    def _check_variance(self) -> None:
        if self.stages and (self.psu is None or self.fpc is None):
            raise Refused(
                "Later stages add to the variance only where the first one has a `psu` and an "
                "`fpc`; name both, or leave the stages out."
            )
        if self.pps is not None and self.pps not in get_args(Unequal):
            raise UnknownName("variance of unequal probabilities", self.pps, get_args(Unequal))
        if self.pps is not None and self.fpc is None:
            raise Refused("`pps` needs the PSUs' inclusion probabilities; name them as `fpc`.")
        if (self.square_sum is not None) != (self.pps == "hartley-rao"):
            raise Refused("`square_sum` goes with pps='hartley-rao' and only with it.")
        if self.base_weight is not None and self.calibrated is None:
            raise Refused(
                "`base_weight` is the weight before calibration; say by `calibrated` on what."
            )
        if self.calibrated is not None and self.weight is None:
            raise Refused("A calibrated design needs the calibrated `weight`.")

    @property
    def by_records(self) -> bool:
        """Whether its variance needs every record: sums by PSU and stratum are not enough."""
        return self.replicates is None and bool(self.stages or self.pps or self.calibrated)

    @property
    def named(self) -> dict[str, str]:
        """The columns that the design names one by one, with what they are in words."""
        listed = self.replicates.columns if self.replicates is not None else None
        every = [
            (self.weight, "design weight"),
            (self.variance_weight, "design weight for variances"),
            (self.strata, "strata"),
            (self.psu, "sampling units"),
            (self.fpc, "finite population correction"),
            *((name, "replicate weight") for name in listed or ()),
            (self.square_sum, "sum of squared probabilities"),
            (self.base_weight, "weight before calibration"),
            *((stage.fpc, "finite population correction") for stage in self.stages),
            *((stage.unit, "sampling units") for stage in self.stages),
            *((stage.strata, "strata") for stage in self.stages),
            *((name, "calibration") for name in self.calibrated_on),
        ]
        words: dict[str, str] = {}
        for name, role in every:
            if name is not None:
                words.setdefault(name, role)
        return words

    @property
    def calibrated_on(self) -> tuple[str, ...]:
        """The columns that the weights were calibrated on."""
        if self.calibrated is None:
            return ()
        from understudy.survey.formula import formula_columns  # loads a library that is large

        return tuple(formula_columns(self.calibrated))

    def published(self, synthesized: Collection[str]) -> Design:
        """The design of files in which these columns are synthetic.

        Weights that were calibrated on one of them do not meet its total any more. The weight
        before calibration stays inside, and so does the population's sum of squares: variances
        are computed from the calibrated weight, and by Brewer's estimate of that sum.

        Where the weight itself is synthetic, what would give the old one away stays inside too:
        replicate weights, the PSUs' probabilities and the sizes of later stages. Without these the
        variance is that of PSUs drawn with replacement, and of weights that are not calibrated.
        """
        if self.weight in synthesized:
            tells = bool(self.pps or self.stages)
            return Design(
                self.weight,
                self.strata,
                self.psu,
                None if tells else self.fpc,
                lonely_psu=self.lonely_psu,
                nest=self.nest,
                variance_weight=self.variance_weight,
            )
        meets = not set(self.calibrated_on) & set(synthesized)
        return replace(
            self,
            calibrated=self.calibrated if meets else None,
            base_weight=None,
            square_sum=None,
            pps=None if self.pps is None else "brewer",
        )

    @property
    def classifying(self) -> tuple[str, ...]:
        """Those of them that need not be numbers: strata, units, and what weights rest on."""
        names = [self.strata, self.psu]
        names += [name for stage in self.stages for name in (stage.unit, stage.strata)]
        return tuple(name for name in (*names, *self.calibrated_on) if name is not None)

    def columns(self, available: Iterable[str]) -> tuple[str, ...]:
        """All design columns, checked against the columns of a file."""
        present = list(available)
        named = list(self.named)
        for name in named:
            if name not in present:
                raise UnknownName("design column", name, present)
        if self.replicates is not None and self.weight is not None:
            named += self.replicates.matching(present, self.weight)
        return tuple(dict.fromkeys(named))
