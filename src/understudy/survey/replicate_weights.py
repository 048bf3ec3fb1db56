"""Make replicate weights from strata, PSUs and fpc.

A replicate weight is the design weight times a factor that all records of a PSU share. The
makers return these factors, (PSUs, replicates), each so that the variance over replicates
of a total is the textbook one, V = sum_h (1 - f_h) n_h/(n_h - 1) sum_c (z_hc - zbar_h)^2:
exactly for BRR, Fay and the jackknife, on average over the random choices for the two
bootstraps. Inside every stratum the factors of a replicate add up to n_h.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Column
from understudy.survey.design import Design, Replicates
from understudy.survey.hadamard import hadamard, hadamard_of_order
from understudy.survey.survey import NO_RECORDS, Survey

__public__ = ("add_replicates",)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Maker = Literal["brr", "fay", "jk1", "jkn", "bootstrap", "preston"]

DEFAULT_DRAWS = 200
MOST_JACKKNIFE = 2000  # a jackknife has a replicate per PSU; beyond this the file explodes


@dataclass(frozen=True)
class FirstStage:
    """Who was sampled in the first stage."""

    psu: Ints  # (records,) number of each record's PSU
    stratum: Ints  # (PSUs,) number of each PSU's stratum
    fraction: Floats  # (strata,) sampled fraction f_h, 0 without fpc

    @property
    def counts(self) -> Ints:
        """n_h, the number of sampled PSUs in each stratum."""
        return np.bincount(self.stratum, minlength=len(self.fraction))


def add_replicates(
    survey: Survey,
    kind: Maker,
    replicates: int | None = None,
    fay: float | None = None,
    seed: int | None = None,
    prefix: str = "rep_",
) -> Survey:
    """The same survey with replicate weights `rep_1`, `rep_2`, ... and a design that uses them.

    "brr" and "fay" need two PSUs in every stratum; "jk1" a design without strata; "jkn",
    "bootstrap" (Rao and Wu) and "preston" (half-samples, T §2.4) take any. The two
    bootstraps draw `replicates` times (200 by default) by a `seed`; BRR takes the
    smallest balanced number by default; a jackknife has one per PSU. A stratum with one PSU is
    refused, unless the design says lonely_psu="certainty": then its weights do not vary.
    The records are read into memory.

    The bootstraps carry centre="mean", which with their scale 1/(R - 1) is unbiased. T's
    formula, 1/R around the full-sample estimate, has the same expectation.
    """
    design = survey.design
    _check_request(survey, kind, replicates, fay, seed, prefix)
    frame = survey.raw.to_polars()
    stage = first_stage(frame, design)
    _check_lonely(stage, design)
    spec = Replicates(prefix=prefix, kind="brr")
    if kind in ("brr", "fay"):
        factors = balanced_factors(stage.stratum, stage.fraction, fay or 0.0, replicates)
        if kind == "fay":
            spec = Replicates(prefix=prefix, kind="fay", fay=fay)
    elif kind in ("jk1", "jkn"):
        factors, coefficients = jackknife_factors(stage.stratum, stage.fraction)
        if kind == "jk1" and not stage.fraction.any():
            spec = Replicates(prefix=prefix, kind="jk1")
        else:  # the fpc lives in the coefficients
            spec = Replicates(prefix=prefix, kind="jkn", coefficients=tuple(coefficients.tolist()))
    else:
        draw = bootstrap_factors if kind == "bootstrap" else half_sample_factors
        rng = np.random.default_rng(seed)
        factors = draw(stage.stratum, stage.fraction, replicates or DEFAULT_DRAWS, rng)
        spec = Replicates(prefix=prefix, kind="bootstrap", centre="mean")
    weight = frame[design.weight].cast(pl.Float64).to_numpy()
    names = [f"{prefix}{r}" for r in range(1, factors.shape[1] + 1)]
    columns = [pl.Series(name, weight * factors[stage.psu, r]) for r, name in enumerate(names)]
    codebook = survey._codebook
    if codebook is not None:
        for name in names:
            codebook = codebook.with_column(Column(name, role="replicate"))
    return Survey(frame.with_columns(columns), replace(design, replicates=spec), codebook)


def balanced_factors(
    stratum: Ints, fraction: Floats, fay: float = 0.0, replicates: int | None = None
) -> Floats:
    """BRR, and Fay's milder form: of two PSUs one gains what the other loses.

    Factors 1 + g_h a_hr and 1 - g_h a_hr, g_h = (1 - rho) sqrt(1 - f_h). a_hr is row h + 1
    of a Hadamard matrix of order R > H, so that the cross products of different strata
    cancel: V = 1/(R (1 - rho)^2) sum_r (theta_r - theta)^2. Without fpc and rho the factors
    are 2 and 0; the fpc shrinks them, where R survey would drop it.
    """
    counts = np.bincount(stratum, minlength=len(fraction))
    paired = counts == 2
    if not ((counts == 1) | paired).all() or not paired.any():
        raise Refused(
            "Balanced repeated replication needs two PSUs in every stratum; use kind='jkn' or "
            "'bootstrap', or pair the PSUs into finer strata."
        )
    needed = int(paired.sum()) + 1
    signs = hadamard(needed) if replicates is None else hadamard_of_order(replicates)
    if signs is None or len(signs) < needed:
        raise Refused(
            f"There is no balanced set of {replicates} replicates for {needed - 1} strata; "
            f"leave the number out, or ask for {len(hadamard(needed))}."
        )
    row = np.zeros(len(counts), dtype=np.int64)
    row[paired] = np.arange(1, needed)
    side = np.where(_position_in_stratum(stratum) == 0, 1.0, -1.0)
    size = np.where(paired, (1 - fay) * np.sqrt(1 - fraction), 0.0)
    return np.asarray(1 + (size[stratum] * side)[:, None] * signs[row[stratum]])


def jackknife_factors(stratum: Ints, fraction: Floats) -> tuple[Floats, Floats]:
    """JKn, and JK1 where there is one stratum: drop a PSU, spread its weight over its stratum.

    Factor 0 for the PSU, n_h/(n_h - 1) for the others of its stratum, 1 elsewhere;
    coefficient (1 - f_h)(n_h - 1)/n_h. Strata that add no variance (one certain PSU, or
    f_h = 1) have no replicates.
    """
    counts = np.bincount(stratum, minlength=len(fraction))
    dropped = np.flatnonzero((counts > 1)[stratum] & (fraction < 1)[stratum])
    if len(dropped) > MOST_JACKKNIFE:
        raise Refused(
            f"A jackknife would need {len(dropped)} replicates, one per PSU; use "
            "kind='bootstrap', or declare the PSUs if the design has them."
        )
    if len(dropped) < 2:
        raise Refused("A jackknife needs at least two PSUs in a stratum that is not a census.")
    n = counts[stratum[dropped]].astype(np.float64)
    same = stratum[:, None] == stratum[dropped][None, :]
    factors = np.where(same, n / (n - 1), 1.0)
    factors[dropped, np.arange(len(dropped))] = 0.0
    return factors, (1 - fraction[stratum[dropped]]) * (n - 1) / n


def bootstrap_factors(
    stratum: Ints, fraction: Floats, replicates: int, rng: np.random.Generator
) -> Floats:
    """Rao and Wu (1988): n_h - 1 PSUs drawn with replacement in every stratum.

    Factor 1 - lambda + lambda n_h/(n_h - 1) t_hc, t_hc the number of times that PSU c was
    drawn, lambda = sqrt(1 - f_h). The variance of sum_c t_hc z_hc is (n_h - 1)/n_h
    sum_c (z_hc - zbar_h)^2, times lambda^2 (n_h/(n_h - 1))^2 the textbook variance.
    """

    def factors(n: int, f: float) -> Floats:
        drawn = rng.multinomial(n - 1, np.full(n, 1 / n), size=replicates).T
        shrink = np.sqrt(1 - f)
        return np.asarray(1 - shrink + shrink * n / (n - 1) * drawn)

    return _stratum_by_stratum(stratum, fraction, replicates, factors)


def half_sample_factors(
    stratum: Ints, fraction: Floats, replicates: int, rng: np.random.Generator
) -> Floats:
    """Preston (2009), first stage: half of the PSUs drawn without replacement (T §2.4).

    n* = floor(n_h/2), lambda = sqrt(n* (1 - f_h)/(n_h - n*)), factor 1 - lambda + lambda
    n_h/n* for a drawn PSU and 1 - lambda for the others. For even n_h without fpc lambda is
    1: weights are doubled or zero, as T describes it. For odd n_h, lambda^2 =
    (n_h - 1)/(n_h + 1): the undrawn keep a small weight. Why this lambda: the sum of the
    drawn z has variance n* (1 - n*/n_h) s^2, so that of the replicate's total is
    lambda^2 (n_h/n*)^2 n* (1 - n*/n_h) s^2 = (1 - f_h) n_h s^2, the textbook variance.
    The weights add up to the same total in every replicate if the PSUs of a stratum have
    equal weight totals, and on average otherwise.
    """

    def factors(n: int, f: float) -> Floats:
        half = n // 2
        drawn = rng.permuted(np.tile(np.arange(n)[:, None] < half, replicates), axis=0)
        shrink = np.sqrt(half * (1 - f) / (n - half))
        return np.asarray(1 - shrink + shrink * n / half * drawn)

    return _stratum_by_stratum(stratum, fraction, replicates, factors)


def first_stage(frame: pl.DataFrame, design: Design) -> FirstStage:
    """Number the PSUs and strata of a file and read its fpc (counts, or fractions up to 1)."""
    if not frame.height:
        raise Refused(NO_RECORDS)
    for name in (design.strata, design.psu, design.fpc):
        if name is not None and frame[name].null_count():
            raise Refused(f"The design column `{name}` is missing for some records; repair it.")
    records = np.arange(frame.height)
    stratum = _numbered(frame, [design.strata]) if design.strata else np.zeros_like(records)
    psu = records
    if design.psu:
        psu = _numbered(frame, [n for n in (design.strata, design.psu) if n is not None])
        if not design.nest and psu.max() > _numbered(frame, [design.psu]).max():
            raise Refused(
                f"The same PSU number in `{design.psu}` occurs in several strata; if numbering "
                "starts again in each stratum, say nest=True, or else correct the PSU column."
            )
    first = np.unique(psu, return_index=True)[1]
    of_psu = stratum[first]
    counts = np.bincount(of_psu)
    if design.fpc is None:
        return FirstStage(psu, of_psu, np.zeros(len(counts)))
    fpc = frame[design.fpc].cast(pl.Float64).to_numpy()
    by_stratum = fpc[np.unique(stratum, return_index=True)[1]]
    if not np.allclose(fpc, by_stratum[stratum], rtol=1e-9):
        raise Refused(
            f"The fpc `{design.fpc}` varies inside a stratum; give every record of a stratum "
            "the same value."
        )
    fraction = by_stratum if fpc.max() <= 1 else counts / by_stratum
    if not ((fraction > 0) & (fraction <= 1 + 1e-9)).all():
        raise Refused(
            f"The fpc `{design.fpc}` must be above 0 and must not say that more PSUs were sampled "
            "than there are; correct it."
        )
    return FirstStage(psu, of_psu, np.minimum(fraction, 1.0))


def _stratum_by_stratum(
    stratum: Ints, fraction: Floats, replicates: int, factors: Callable[[int, float], Floats]
) -> Floats:
    """Factors (n_h, R) of every stratum with two or more PSUs, put together; else 1."""
    out = np.ones((len(stratum), replicates))
    order = np.argsort(stratum, kind="stable")
    counts = np.bincount(stratum, minlength=len(fraction))
    for members, f in zip(np.split(order, np.cumsum(counts)[:-1]), fraction, strict=True):
        if len(members) > 1 and f < 1:
            out[members] = factors(len(members), float(f))
    return out


def _position_in_stratum(stratum: Ints) -> Ints:
    """0 for the first PSU of its stratum, 1 for the second, and so on."""
    order = np.argsort(stratum, kind="stable")
    counts = np.bincount(stratum)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    position = np.empty(len(stratum), dtype=np.int64)
    position[order] = np.arange(len(stratum)) - starts
    return position


def _numbered(frame: pl.DataFrame, names: list[str]) -> Ints:
    """Dense numbers for the distinct rows of some columns, in their order."""
    ranked = frame.select(pl.struct(names).rank("dense").cast(pl.Int64) - 1)
    return np.asarray(ranked.to_series().to_numpy())


def _check_lonely(stage: FirstStage, design: Design) -> None:
    lonely = int(((stage.counts == 1) & (stage.fraction < 1)).sum())
    if lonely and design.lonely_psu != "certainty":
        raise Refused(
            f"{lonely} strata have one sampled PSU, so replicates cannot vary there; merge "
            "strata, or say lonely_psu='certainty' if these PSUs were taken with certainty."
        )


def _check_request(
    survey: Survey,
    kind: str,
    replicates: int | None,
    fay: float | None,
    seed: int | None,
    prefix: str,
) -> None:
    design = survey.design
    if kind not in get_args(Maker):
        raise UnknownName("kind of replicate weights", kind, get_args(Maker))
    if design.weight is None:
        raise Refused("Replicate weights are made from a weight; name it in the Design.")
    if design.replicates is not None:
        raise Refused("The survey already has replicate weights; use a Design without them.")
    if (fay is not None) != (kind == "fay") or not 0 <= (fay or 0) < 1:
        raise Refused("Fay's factor `fay`, in [0, 1), goes with kind='fay' and only with it.")
    if kind in ("brr", "fay", "jkn") and design.strata is None:
        raise Refused(f"kind='{kind}' needs strata; use 'jk1' or 'bootstrap' without them.")
    if kind == "jk1" and design.strata is not None:
        raise Refused("kind='jk1' is for a design without strata; use 'jkn'.")
    if kind in ("jk1", "jkn") and replicates is not None:
        raise Refused("A jackknife has one replicate per PSU; leave `replicates` out.")
    if kind in ("bootstrap", "preston"):
        if seed is None:
            raise Refused(f"kind='{kind}' draws at random; give a `seed` so that it can be redone.")
        if replicates is not None and replicates < 2:
            raise Refused("A replicate variance needs at least two replicates.")
    taken = [c for c in survey.columns if re.fullmatch(re.escape(prefix) + r"\d+", c)]
    if taken:
        raise Refused(
            f"The file already has a column `{taken[0]}`; give another `prefix` for the "
            "replicate weights."
        )
