"""The design record by record: the covariance of sums whose terms lie in memory.

    V = sum_h n_h/(n_h - 1) sum_c (1 - f_c) (z_hc - zbar_h)(z_hc - zbar_h)' + later stages

z_hc is the sum of the linearised values over PSU c of stratum h. f_c is the sampled fraction of
the stratum, or the PSU's own inclusion probability where PSUs were drawn with unequal ones
(`pps="brewer"`; R survey's pps="brewer"). "hartley-rao" is the Yates-Grundy form with their joint
probabilities: 1 - f_c becomes 1 - f_c + S_h/n_h - fbar_h, S_h the stratum's sum of squared
probabilities over its population; with S_h estimated by the sample it is Brewer's. A later stage
adds the same sum within each unit above it, times the fractions of the stages above (R survey's
multistage).

Where weights were calibrated on x, z = w e is first replaced by w (e - x'b), b the regression of
e on x by the weight before calibration (Deville and Sarndal 1992; R survey's calibrate), or by w
itself where the former is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.design import Design, LonelyPsu
from understudy.survey.formula import formula_columns
from understudy.survey.replicate_weights import first_stage
from understudy.survey.survey import Survey
from understudy.tables.replicates import replicate_covariance, replicate_degrees
from understudy.tables.taylor import Strata, average_factor, check_strata

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
COLLINEAR = 1e-9  # of the largest column: what calibration columns add beyond the others


@dataclass(frozen=True)
class SampledUnits:
    """Who was sampled at one stage."""

    of_record: Ints  # (records,) number of each record's unit
    stratum: Ints  # (units,) number of each unit's stratum
    counts: Floats  # (strata,) sampled units
    fraction: Floats  # (units,) sampled fraction, or inclusion probability
    remaining: Floats  # (units,) what 1 - f_c stands for
    above: Floats  # (units,) product of the fractions of the stages above

    def covariance(self, z: Floats, lonely_psu: LonelyPsu) -> Floats:
        """(p, p) from (records, p) terms."""
        totals = _sums(self.of_record, z, len(self.stratum))
        means = _sums(self.stratum, totals, len(self.counts)) / self.counts[:, None]
        deviation = totals - means[self.stratum]
        n = self.counts[self.stratum]
        factor = np.where(n > 1, self.remaining * n / np.maximum(n - 1, 1), 0.0) * self.above
        alone = self.alone
        if lonely_psu == "adjust":
            deviation[alone] = totals[alone]
            factor[alone] = (self.remaining * self.above)[alone]
        return np.asarray((deviation * factor[:, None]).T @ deviation)

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Units that are the only ones of their stratum, and were not taken with certainty."""
        return np.asarray((self.counts[self.stratum] == 1) & (self.fraction < 1))


class DesignRecords:
    """The design columns of a survey in memory, and the covariance that they give."""

    def __init__(self, survey: Survey, sizes_met: bool = False) -> None:
        self.survey, self.design = survey, survey.design
        self.sizes_met = sizes_met  # the weights of every stratum add up to its public size
        names = list(self.design.columns(survey.columns))
        survey.refuse_on_cluster("This variance")
        self.frame = survey.frame(names) if names else pl.DataFrame({"": np.zeros(survey.n)})

    @property
    def n(self) -> int:
        return self.frame.height

    @cached_property
    def weight(self) -> Floats:
        name = self.design.weight
        return np.ones(self.n) if name is None else self._numbers(name)

    @cached_property
    def replicates(self) -> tuple[str, ...]:
        spec, weight = self.design.replicates, self.design.weight
        if spec is None or weight is None:
            return ()
        return spec.matching(self.survey.columns, weight)

    @cached_property
    def replicate_weights(self) -> Floats:
        """(records, R)"""
        return np.column_stack([self._numbers(name) for name in self.replicates])

    @cached_property
    def df(self) -> float:
        """The design's degrees of freedom: PSUs minus strata, of those with weight."""
        if self.replicates:
            return replicate_degrees(self.survey, self.replicates)
        first = self.stages[0]
        weighing = np.unique(first.of_record[self.weight > 0])
        return float(len(weighing) - len(np.unique(first.stratum[weighing])))

    def covariance(self, z: Floats) -> Floats:
        """The covariance of the sums of (records, p) terms w e."""
        if self.replicates and self.design.replicates is not None:
            e = z / np.where(self.weight > 0, self.weight, np.inf)[:, None]
            replicated = e.T @ self.replicate_weights
            return replicate_covariance(z.sum(axis=0), replicated, self.design.replicates)
        if self.sizes_met:
            z = self._about_strata(z)
        if self.design.calibrated is not None:
            z = self._residuals(z)
        rule = self.design.lonely_psu
        covariance = sum(
            (stage.covariance(z, rule) for stage in self.stages), np.zeros((z.shape[1],) * 2)
        )
        if rule == "average":
            first = self.stages[0]
            alone = np.zeros(len(first.counts), dtype=bool)
            alone[first.stratum[first.alone]] = True
            strata = Strata(first.counts, first.counts, np.where(alone, 0.0, 1.0), rule)
            covariance = covariance * average_factor(np.ones(len(alone), dtype=bool), strata)
        return np.asarray(covariance)

    @cached_property
    def stages(self) -> list[SampledUnits]:
        design = self.design
        stages = [self._first()]
        above = stages[0]
        for stage in design.stages:
            below = self._below(above, stage.unit, stage.strata, stage.fpc)
            if below.alone.any() and design.lonely_psu in ("fail", "average"):
                raise Refused(
                    f"A unit has only one sampled `{stage.unit}`, so its variance cannot be "
                    'estimated; choose lonely_psu="certainty" or "adjust" in the design, or leave '
                    "the stage out."
                )
            stages.append(below)
            above = below
        return stages

    def _first(self) -> SampledUnits:
        design = self.design
        unequal = design.pps is not None
        equal = Design(design.weight, design.strata, design.psu, nest=design.nest)
        sampled = first_stage(self.frame, equal if unequal else design)
        counts = sampled.counts.astype(np.float64)
        fraction = sampled.fraction[sampled.stratum]
        if unequal and design.fpc is not None:
            fraction = self._of_units(design.fpc, sampled.psu, len(sampled.stratum), "PSU")
            if not ((fraction > 0) & (fraction <= 1)).all():
                raise Refused(
                    f"With `pps` the column `{design.fpc}` holds inclusion probabilities, above 0 "
                    "and at most 1; correct it."
                )
        remaining = 1 - fraction
        if design.square_sum is not None:
            squares = self._of_units(design.square_sum, sampled.psu, len(fraction), "PSU")
            mean = _sums(sampled.stratum, fraction[:, None], len(counts))[:, 0] / counts
            n = counts[sampled.stratum]
            remaining = 1 - fraction + squares / n - mean[sampled.stratum]
        units = SampledUnits(
            sampled.psu, sampled.stratum, counts, fraction, remaining, np.ones(len(fraction))
        )
        alone = np.zeros(len(counts), dtype=bool)
        alone[units.stratum[units.alone]] = True
        check_strata(Strata(counts, counts, np.where(alone, 0.0, 1.0), design.lonely_psu))
        return units

    def _below(self, above: SampledUnits, unit: str, strata: str | None, fpc: str) -> SampledUnits:
        """The units of a later stage; strata are those of the column within each unit above."""
        for name in (unit, fpc, strata):
            if name is not None and self.frame[name].null_count():
                raise Refused(f"The design column `{name}` is missing for some records; repair it.")
        upper = pl.Series("above", above.of_record)
        keys = [upper] if strata is None else [upper, self.frame[strata].alias("strata")]
        stratum = _numbered(keys)
        of_record = _numbered([pl.Series("stratum", stratum), self.frame[unit].alias("unit")])
        units = int(of_record.max()) + 1
        of_unit, parent = np.zeros((2, units), dtype=np.int64)
        of_unit[of_record], parent[of_record] = stratum, above.of_record
        counts = np.bincount(of_unit).astype(np.float64)
        size = self._of_units(fpc, stratum, len(counts), "unit above")
        fraction = size if size.max() <= 1 else counts / size
        if not ((fraction > 0) & (fraction <= 1 + 1e-9)).all():
            raise Refused(
                f"The fpc `{fpc}` must be above 0 and must not say that more units were sampled "
                "than there are; correct it."
            )
        f = np.minimum(fraction, 1.0)[of_unit]
        before = (above.above * above.fraction)[parent]
        return SampledUnits(of_record, of_unit, counts, f, 1 - f, before)

    def _of_units(self, name: str, of_record: Ints, units: int, what: str) -> Floats:
        """A column that has the same value for all records of a unit."""
        values = self._numbers(name)
        if np.isnan(values).any():
            raise Refused(f"The design column `{name}` is missing for some records; repair it.")
        by_unit = np.zeros(units)
        by_unit[of_record] = values
        if not np.allclose(values, by_unit[of_record], rtol=1e-9):
            raise Refused(f"`{name}` varies inside of a {what}; give all its records one value.")
        return by_unit

    def _residuals(self, z: Floats) -> Floats:
        """w (e - x'b) from w e."""
        basis, scale = self._calibration
        e = np.where(scale[:, None] > 0, z / np.where(scale > 0, scale, 1.0)[:, None], 0.0)
        return np.asarray((e - basis @ (basis.T @ e)) * scale[:, None])

    def _about_strata(self, z: Floats) -> Floats:
        """w (e - ebar_h), ebar_h the weighted mean of the stratum."""
        first = self.stages[0]
        stratum, strata = first.stratum[first.of_record], len(first.counts)
        weight = np.bincount(stratum, self.weight, strata)
        mean = _sums(stratum, z, strata) / np.where(weight > 0, weight, 1.0)[:, None]
        return np.asarray(z - self.weight[:, None] * mean[stratum])

    @cached_property
    def _calibration(self) -> tuple[Floats, Floats]:
        """An orthonormal basis of the calibration columns times sqrt(d), and g sqrt(d), where d is
        the weight before calibration and g = w/d."""
        design = self.design
        d = self.weight if design.base_weight is None else self._numbers(design.base_weight)
        if not (np.isfinite(d) & (d >= 0)).all():
            raise Refused(
                f"The weight `{design.base_weight}` must be known and not negative for all records."
            )
        root = np.sqrt(d)
        g = np.divide(self.weight, d, out=np.zeros_like(d), where=d > 0)
        X = calibration_matrix(self.frame, design.calibrated or "1")
        basis, triangle, _ = scipy.linalg.qr(X * root[:, None], mode="economic", pivoting=True)
        sizes = np.abs(np.diag(triangle))
        return basis[:, sizes > COLLINEAR * max(float(sizes.max(initial=0.0)), 1e-300)], g * root

    def _numbers(self, name: str) -> Floats:
        return self.frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy()


def calibration_matrix(frame: pl.DataFrame, formula: str) -> Floats:
    """The columns of a calibration formula, (records, k)."""
    names = formula_columns(formula)
    for name in names:
        if frame[name].null_count():
            raise Refused(
                f"The calibration column `{name}` is missing for some records; give them a value."
            )
    from formulaic import Formula  # with pandas: loaded where there is a formula
    from formulaic.errors import FormulaicError

    columns = frame.select(names) if names else pl.DataFrame({"": np.zeros(frame.height)})
    try:
        matrix = Formula(formula).get_model_matrix(columns.to_pandas(), na_action="ignore")
    except (FormulaicError, ValueError, TypeError, KeyError) as error:
        first = str(error).splitlines()[0] if str(error) else "it is not understood"
        raise Refused(f"The calibration formula `{formula}` cannot be used: {first}") from None
    X = np.asarray(matrix, dtype=np.float64)
    if not np.isfinite(X).all():
        raise Refused(f"The calibration formula `{formula}` gives values that are not finite.")
    return X


def _sums(group: Ints, values: Floats, size: int) -> Floats:
    """(size, p) sums of the rows of each group."""
    return np.column_stack(
        [np.bincount(group, values[:, j], size) for j in range(values.shape[1])]
    ).astype(np.float64)


def _numbered(columns: list[pl.Series]) -> Ints:
    """Dense numbers for the distinct rows of some columns, in their order."""
    frame = pl.DataFrame(columns)
    ranked = frame.select(pl.struct(frame.columns).rank("dense").cast(pl.Int64) - 1)
    return np.asarray(ranked.to_series().to_numpy())
