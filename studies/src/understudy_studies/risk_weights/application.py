"""R §2.3, §3.2 and supplement §7 as computations: family incomes by the mixture synthesizer.

Each synthesizer is fitted once and its results are one file, so that a stopped study goes on.
Chains are judged on predictive quantities (see `Mixture`); a fit that does not pass is kept and
shown with what failed, because this is a study and nothing is released from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import Row, Vector, stored
from understudy_studies.risk_weights.incomes import KNOWN, PREDICTORS, REGRESSION
from understudy_studies.risk_weights.simulation import (
    AGAIN,
    CONSTANT_MARGINAL,
    CONSTANT_PAIRWISE,
    SYNTHESIZER,
)
from understudy_studies.shared_fits import shared_fits

RADIUS = 0.2  # R: what the survey's program deems close
INTRUDER: Row = {"known": KNOWN, "radius": RADIUS, "small_patterns": "merge"}
TOPCODED = 0.06
APART = 1000  # between the seeds of two synthesizers: shared random numbers would hide noise
STATISTICS: tuple[str | float, ...] = ("mean", "median", 0.9)
MARGINAL, PAIRWISE, THREE_WAY, FOUR_WAY = "Marginal", "Pairwise", "3-way", "4-way"
SAMPLER = us.SamplerSettings(2000, 4, 400, most_thinning=8)


@dataclass(frozen=True)
class ApplicationDesign:
    """Sizes. n = None takes all records of the file; the generated file then has R's 6,208."""

    n: int | None = None
    components: int = 10
    predictors: str = PREDICTORS
    datasets: int = 20
    sampler: us.SamplerSettings = SAMPLER


# All parts of the study, in two minutes.
QUICK = ApplicationDesign(300, 2, "gender", 5, us.SamplerSettings(400, 2, 150, most_thinning=1))


def synthesizers(fitter: us.ModelFitter) -> dict[str, us.Mechanism]:
    """R's seven synthesizers, and the controls."""
    marginal, pairwise = us.MarginalRisk(**INTRUDER), us.PairwiseRisk(**INTRUDER)
    means = [float(risk.settle(fitter)[0].mean()) for risk in (marginal, pairwise)]
    return {
        SYNTHESIZER: us.Unweighted(),
        AGAIN: us.Unweighted(),
        MARGINAL: marginal,
        PAIRWISE: pairwise,
        CONSTANT_PAIRWISE: us.ConstantWeight(means[1]),
        CONSTANT_MARGINAL: us.ConstantWeight(means[0]),
        THREE_WAY: us.QWayRisk(**INTRUDER, q=3),
        FOUR_WAY: us.QWayRisk(**INTRUDER, q=4),
        "Pairwise c=1.5": us.PairwiseRisk(**INTRUDER, c=1.5),
        "Pairwise g=0.1": us.PairwiseRisk(**INTRUDER, g=0.1),
    }


def application(design: ApplicationDesign, survey: us.Survey, seed: int, folder: Path) -> list[Row]:
    """Results of every synthesizer, the data themselves and topcoding, computed or read."""
    folder.mkdir(parents=True, exist_ok=True)
    model = us.Mixture("income", design.predictors, design.components, zero_by=("earner",))
    fitter = shared_fits(survey, model, design.sampler, seed)
    data = stored(folder / "data.json", lambda: _baseline(survey, seed))
    results = [data, {"name": "Topcoding", **data["topcoded"]}]
    for number, (name, mechanism) in enumerate(synthesizers(fitter).items()):
        path = folder / f"{name.lower().replace(' ', '-').replace(',', '')}.json"
        own = seed + APART * number
        compute = partial(synthesized, design, model, survey, own, name, mechanism)
        results.append(stored(path, compute))
    return results


def synthesized(
    design: ApplicationDesign,
    model: us.Mixture,
    survey: us.Survey,
    seed: int,
    name: str,
    mechanism: us.Mechanism,
) -> Row:
    """What one synthesizer achieves, its weights, and how its chains did."""
    began, cpu = perf_counter(), process_time()
    fitter = shared_fits(survey, model, design.sampler, seed)
    terms, arrays = mechanism.prepare(fitter, design.datasets).terms, fitter.safe_arrays
    # A start for each chain. The second unweighted run must not have those of the first: what slow
    # chains remember of their start would make the two agree too well.
    chains = range(design.sampler.chains)
    starts = [model.start(arrays, terms.alpha, seed + chain) for chain in chains]
    positions = [np.asarray(fitter.density.unconstrain(start, arrays)) for start in starts]
    fitted = fitter.fit(terms, "release", np.stack(positions))
    # Spaced as for a release, which may refuse this fit: the study shows what failed.
    ends = np.arange(1, design.datasets + 1) * len(fitted.positions) // design.datasets - 1
    named = {k: v.reshape(-1, *v.shape[2:])[ends] for k, v in fitted.draws.items()}
    draws = us.ParameterDraws(
        tuple({k: v[number] for k, v in named.items()} for number in range(design.datasets))
    )
    files = [model.restore(columns, survey) for columns in fitter.generated(draws)]
    return {
        "name": name,
        **measured(survey, [file["income"].to_numpy() for file in files], seed),
        "weights": np.round(terms.alpha, 5).tolist(),
        "seconds": perf_counter() - began,
        "cpu seconds": process_time() - cpu,
        "convergence": convergence(fitted),
    }


def convergence(fitted: us.Posterior) -> Row:
    """R-hat and bulk ESS of the predictive quantities, by how much the means of the chains differ
    and users' standard errors are too small for it at most, and what stands against the fit."""
    checks = fitted.diagnostics
    assert checks.shortfall is not None  # records' own components are judged on files
    by_chain = fitted.density.judged(fitted.chains, fitted.arrays)[1].mean(axis=1)
    quantities = pl.DataFrame(
        {
            "quantity": checks.coordinates,
            "chains apart": np.ptp(by_chain, axis=0).round(5),
            "R-hat": checks.rhat.round(4),
            "bulk ESS": checks.ess_bulk.round(1),
            "error short by": checks.shortfall.round(4),
        }
    )
    names = ("failures", "misses", "chains", "draws", "thinning", "divergences")
    known = {name: getattr(checks, name) for name in names}
    return {"quantities": quantities.to_dicts(), **known}


def measured(survey: us.Survey, sets: list[Vector], seed: int) -> Row:
    """U_m and U_a, intervals, the regression of R, and every record's risk."""
    frame = survey.frame()
    y = frame["income"].to_numpy()
    files = [frame.with_columns(income=pl.Series(incomes)) for incomes in sets]
    risk = us.identification_risk(frame, files, known=KNOWN, target="income", radius=RADIUS)
    distance = np.array([us.ecdf_distance(y, incomes) for incomes in sets]).mean(axis=0)
    rng = np.random.default_rng([seed, len(sets)])
    coefficients = us.regress([us.Survey(file) for file in files], REGRESSION, combine="partial")
    return {
        "U_m": float(distance[0]),
        "U_a": float(distance[1]),
        "intervals": _intervals(sets, coefficients, rng),
        "risk": np.round(risk, 6).tolist(),
    }


def _baseline(survey: us.Survey, seed: int) -> Row:
    """The confidential file, and the same file topcoded."""
    frame = survey.frame()
    y = frame["income"].to_numpy()
    rng, coefficients = np.random.default_rng(seed), us.regress(survey, REGRESSION)
    risk = us.identification_risk(frame, known=KNOWN, target="income", radius=RADIUS)
    after, coded = us.topcoding_risk(
        frame, known=KNOWN, target="income", share=TOPCODED, radius=RADIUS
    )
    distance = us.ecdf_distance(y, coded.values)
    return {
        "name": "Data",
        "intervals": _intervals([y], coefficients, rng),
        "risk": np.round(risk, 6).tolist(),
        "income": y.tolist(),
        "topcoded": {"risk": np.round(after, 6).tolist(), "share": coded.share,
                     "U_m": distance[0], "U_a": distance[1]},
    }  # fmt: skip


def _intervals(
    sets: list[Vector], coefficients: pl.DataFrame, rng: np.random.Generator
) -> list[Row]:
    limits = ("estimate", "lower", "upper")
    drawn = us.bootstrap_intervals(sets, STATISTICS, rng=rng, replicates=200)
    rows = [{name: getattr(each, name) for name in ("statistic", *limits)} for each in drawn]
    earner = coefficients.filter(pl.col("term").str.starts_with("earner"))
    return [*rows, {"statistic": "earner 2", **earner.select(limits).row(0, named=True)}]
