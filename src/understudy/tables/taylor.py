"""Variance of totals and ratios by Taylor linearisation (methods of R survey and T §2.3).

    V = sum_h (1 - f_h) n_h/(n_h - 1) sum_c (z_hc - zbar_h)^2

z_i = d_i w_i y_i for a total and d_i w_i (y_i - R x_i)/X for a ratio R = Y/X (a mean is the
ratio with x = 1); z_hc is the sum over PSU c of stratum h. A domain keeps the full design:
PSUs without a record in it count with z = 0.

The database returns one row per stratum, PSU and cell with sums u = sum w (y - R0 x) and
v = sum w x; R0, the overall ratio, is subtracted first so that squares of large numbers do
not cancel. Where every record is its own PSU, a row holds all records of a stratum and cell
and brings their sums of squares about the row's mean, merged here without cancellation.

Where the weights of every stratum add up to its public size N_h (post-stratification on the
strata), z_i is replaced by its residual z_i - w_i Z_h/N_h, Z_h the stratum's sum of z: w (1_g -
p_hg) for a count (methods §5; R survey's postStratify).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.design import LonelyPsu

ROUNDING = 1e-13  # what cancels to less of the sum of squares than this is zero
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Strata:
    """Facts of each stratum: sampled PSUs n_h, how many of them have weight, and the sampled
    fraction f_h."""

    psus: Floats  # (strata,)
    weighing: Floats  # (strata,)
    fraction: Floats  # (strata,)
    lonely_psu: LonelyPsu = "fail"

    @property
    def df(self) -> float:
        """PSUs minus strata, of those with weight, as R survey counts them."""
        return float(self.weighing.sum() - (self.weighing > 0).sum())

    @property
    def lonely(self) -> NDArray[np.bool_]:
        """Strata with one PSU that was not taken with certainty (f_h < 1)."""
        return np.asarray((self.psus == 1) & (self.fraction < 1))


def check_strata(strata: Strata) -> None:
    if np.any(strata.fraction > 1 + 1e-9):
        raise Refused(
            "The fpc says that a stratum's population has fewer PSUs than were sampled; "
            "give the number of PSUs in the population, or the sampled fraction."
        )
    if strata.lonely_psu == "fail" and strata.lonely.any():
        raise Refused(
            "A stratum has only one PSU, so its variance cannot be estimated; merge strata, or "
            'choose lonely_psu="certainty", "adjust" or "average" in the design.'
        )


@dataclass(frozen=True)
class RowWeights:
    """Sums of the weights of all records of a row, and products with u and v about the means."""

    w: Floats
    ww: Floats
    uw: Floats
    vw: Floats


@dataclass(frozen=True)
class Rows:
    """Sums per stratum, PSU and cell, for one statistic. All arrays are (rows,)."""

    stratum: Ints
    psu: Ints | None  # None: every record is its own PSU
    records: Floats
    touched: NDArray[np.bool_]  # whether the row has a record that the statistic uses
    u: Floats
    v: Floats
    uu: Floats  # sums of squares and products about the row's means; zero where PSUs exist
    uv: Floats
    vv: Floats
    weights: RowWeights | None = None  # given where stratum sizes are public


@dataclass(frozen=True)
class DomainEstimates:
    """Estimates of one statistic in each domain. All arrays are (domains,)."""

    value: Floats
    variance: Floats
    limits: tuple[Floats, Floats] | None = None  # of an interval of the statistic's own
    notes: tuple[str, ...] = ()  # one for each domain, "" where there is nothing to say
    records: Floats | None = None  # how many records the estimate rests on
    effect: Floats | None = None  # the design effect, where it was asked for


def taylor(
    rows: Rows, domain: Ints, n_domains: int, strata: Strata, pivot: float | None
) -> DomainEstimates:
    """Estimate and variance in every domain; `domain[r]` is -1 for rows outside all domains.

    `pivot` is R0 for ratios and None for totals.
    """
    inside = domain >= 0
    where = domain[inside]
    sum_u = _sum_by(where, rows.u[inside], n_domains)
    if pivot is None:
        value, shift, scale = sum_u, np.zeros(n_domains), np.ones(n_domains)
    else:
        sum_v = _sum_by(where, rows.v[inside], n_domains)
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(sum_v != 0, sum_u / sum_v, np.nan)
        value, scale = pivot + shift, np.where(sum_v != 0, sum_v, np.nan)
    delta, size = shift[where], scale[where]
    z = (rows.u[inside] - delta * rows.v[inside]) / size
    within = rows.uu[inside] - 2 * delta * rows.uv[inside] + delta**2 * rows.vv[inside]
    within = np.maximum(within, 0.0) / size**2
    if rows.weights is not None:
        with_w = (rows.weights.uw[inside] - delta * rows.weights.vw[inside]) / size
        variance = calibrated_variance(
            rows, rows.weights, inside, z, within, with_w, where, n_domains, strata
        )
    else:
        variance = stratified_variance(
            z,
            within,
            rows.records[inside],
            where,
            rows.stratum[inside],
            None if rows.psu is None else rows.psu[inside],
            n_domains,
            strata,
        )
    if strata.lonely_psu == "average":
        touched = np.zeros((n_domains, len(strata.psus)), dtype=bool)
        used = inside & rows.touched
        touched[domain[used], rows.stratum[used]] = True
        variance *= average_factor(touched, strata)
    variance[np.isnan(value)] = np.nan
    return DomainEstimates(value, variance)


def stratified_variance(
    z: Floats,
    within: Floats,
    records: Floats,
    domain: Ints,
    stratum: Ints,
    psu: Ints | None,
    n_domains: int,
    strata: Strata,
) -> Floats:
    """V of the module's docstring, for each domain, from rows of z (rows,)."""
    n_strata = len(strata.psus)
    pair = domain * n_strata + stratum
    if psu is not None:
        n_psus = int(psu.max(initial=0)) + 1
        cluster, row_cluster = np.unique(pair * n_psus + psu, return_inverse=True)
        z = _sum_by(row_cluster, z, len(cluster))
        pair = cluster // n_psus
        records, within = np.ones(len(cluster)), np.zeros(len(cluster))
    shape = (n_domains, n_strata)
    size = n_domains * n_strata
    total = _sum_by(pair, z, size).reshape(shape)
    present = _sum_by(pair, records, size).reshape(shape)
    mean = total / strata.psus
    deviation = z / records - mean.reshape(-1)[pair]
    about_mean = _sum_by(pair, within + records * deviation**2, size).reshape(shape)
    about_mean += (strata.psus - present) * mean**2
    return _sum_over_strata(about_mean, total**2, strata)


def calibrated_variance(
    rows: Rows,
    weights: RowWeights,
    inside: NDArray[np.bool_],
    z: Floats,
    within: Floats,
    with_w: Floats,
    domain: Ints,
    n_domains: int,
    strata: Strata,
) -> Floats:
    """V with the residuals z_i - w_i Z_h/N_h; they add up to 0 in every stratum.

    z, within (sums of squares about the row's mean), with_w (products with w) and domain are of
    the rows inside; records outside a domain have the residual -w_i Z_h/N_h.
    """
    n_strata = len(strata.psus)
    shape, size = (n_domains, n_strata), n_domains * n_strata
    pair = domain * n_strata + rows.stratum[inside]
    share = _sum_by(pair, z, size).reshape(shape) / _sum_by(rows.stratum, weights.w, n_strata)
    if rows.psu is None:
        p = share.reshape(-1)[pair]
        records = rows.records
        squares = weights.ww + weights.w**2 / records
        mean = (z - p * weights.w[inside]) / records[inside]
        about = within - 2 * p * with_w + p**2 * weights.ww[inside] + records[inside] * mean**2
        whole = within + z**2 / records[inside]
        units = records[inside]
        every, seen = _sum_by(rows.stratum, squares, n_strata), squares[inside]
    else:
        n_psus = int(rows.psu.max(initial=0)) + 1
        of_psu = _sum_by(rows.psu, weights.w, n_psus)
        stratum_of = np.zeros(n_psus, dtype=np.int64)
        stratum_of[rows.psu] = rows.stratum
        cluster, member = np.unique(pair * n_psus + rows.psu[inside], return_inverse=True)
        pair, psu = cluster // n_psus, cluster % n_psus
        total = _sum_by(member, z, len(cluster))
        about = (total - share.reshape(-1)[pair] * of_psu[psu]) ** 2
        whole = total**2
        units = np.ones(len(cluster))
        every, seen = _sum_by(stratum_of, of_psu**2, n_strata), of_psu[psu] ** 2
    about = np.where(about > ROUNDING * whole, about, 0.0)  # a public size has no variance at all
    outside = np.maximum(every - _sum_by(pair, seen, size).reshape(shape), 0.0)
    outside[_sum_by(pair, units, size).reshape(shape) == strata.psus] = 0.0
    about_mean = np.maximum(_sum_by(pair, about, size), 0.0).reshape(shape) + share**2 * outside
    return _sum_over_strata(about_mean, np.zeros(shape), strata)


def _sum_by(group: Ints, values: Floats, size: int) -> Floats:
    return np.bincount(group, values, size).astype(np.float64)


def _sum_over_strata(about_mean: Floats, squared_total: Floats, strata: Strata) -> Floats:
    """Strata (last axis) added with their factors; lonely PSUs by the rule, as R survey does."""
    several = strata.psus > 1
    factor = np.zeros(len(strata.psus))
    factor[several] = (1 - strata.fraction[several]) * (
        strata.psus[several] / (strata.psus[several] - 1)
    )
    variance = about_mean @ factor
    if strata.lonely_psu == "adjust":
        # Centred on the mean of all PSUs, which is 0 for a linearised ratio; R survey leaves
        # it at 0 for totals too.
        lonely = np.where(strata.lonely, 1 - strata.fraction, 0.0)
        variance = variance + squared_total @ lonely
    return np.asarray(variance, dtype=np.float64)


def average_factor(touched: NDArray[np.bool_], strata: Strata) -> Floats:
    """H/(H - L): lonely strata get the average variance of the others.

    H and L count the strata and the lonely strata that a domain touches (last axis), as in
    R survey.
    """
    all_strata = touched.sum(axis=-1)
    others = (touched & ~strata.lonely).sum(axis=-1)
    if np.any((others == 0) & (all_strata > 0)):
        raise Refused(
            "Every stratum of a domain has only one PSU, so there is no variance to average; "
            "merge strata."
        )
    return np.asarray(all_strata / np.maximum(others, 1), dtype=np.float64)
