"""How the sample was drawn: design weight, strata, PSU, fpc, or replicate weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

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

    columns: Sequence[str] | None = None
    prefix: str | None = None
    kind: ReplicateKind = "bootstrap"
    fay: float | None = None
    coefficients: Sequence[float] | None = None
    centre: Literal["estimate", "mean"] = "estimate"

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
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))

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

    unit: str
    fpc: str
    strata: str | None = None


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

    weight: str | None = None
    strata: str | None = None
    psu: str | None = None
    fpc: str | None = None
    replicates: Replicates | None = None
    lonely_psu: LonelyPsu = "fail"
    nest: bool = False
    stages: Sequence[Stage] = ()
    pps: Unequal | None = None
    square_sum: str | None = None
    calibrated: str | None = None
    base_weight: str | None = None
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
    def named(self) -> tuple[str, ...]:
        """The columns that the design names one by one."""
        listed = self.replicates.columns if self.replicates is not None else None
        names = (
            self.weight, self.variance_weight, self.strata, self.psu, self.fpc, *(listed or ())
        )  # fmt: skip
        stages = [stage.fpc for stage in self.stages]
        every = (*names, self.square_sum, self.base_weight, *stages, *self.classifying)
        return tuple(dict.fromkeys(name for name in every if name is not None))

    @property
    def classifying(self) -> tuple[str, ...]:
        """Those of them that need not be numbers: strata, units, and what weights rest on."""
        names = [self.strata, self.psu]
        names += [name for stage in self.stages for name in (stage.unit, stage.strata)]
        if self.calibrated is not None:
            from understudy.survey.formula import formula_columns  # loads a library that is large

            names += formula_columns(self.calibrated)
        return tuple(name for name in names if name is not None)

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
