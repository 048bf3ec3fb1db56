"""R §2.3, §3.2 and supplement §7 as computations: family incomes by the mixture synthesizer.

Each synthesizer is fitted once and its results are one file, so that a stopped study goes on.
Chains are judged on predictive quantities (see `Mixture`); a fit that does not pass is kept and
shown with what failed, because this is a study and nothing is released from it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
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
from understudy_studies.shared_fits import fitter_of

RADIUS = 0.2  # R: what the survey's program deems close
INTRUDER: Row = {"known": KNOWN, "radius": RADIUS, "small_patterns": "merge"}
TOPCODED = 0.06
APART = 1000  # between the seeds of two synthesizers: shared random numbers would hide noise
STATISTICS: tuple[str | float, ...] = ("mean", "median", 0.9)
MARGINAL, PAIRWISE = "Marginal", "Pairwise"


@dataclass(frozen=True)
class ApplicationDesign:
    """Sizes. n = None takes all records of the file; the generated file then has R's 6,208."""

    n: int | None = None
    components: int = 10
    predictors: str = PREDICTORS
    datasets: int = 20
    draws: int = 2000
    chains: int = 4
    warmup: int = 400
    most_thinning: int = 8

    @property
    def settings(self) -> us.SamplerSettings:
        return us.SamplerSettings(
            self.draws, self.chains, self.warmup, most_thinning=self.most_thinning
        )


# All parts of the study, in two minutes.
QUICK = ApplicationDesign(
    n=300, components=2, predictors="gender", datasets=5, draws=400, chains=2, warmup=150,
    most_thinning=1,
)  # fmt: skip


def synthesizers(alpha: dict[str, Vector]) -> dict[str, us.Mechanism]:
    """R's five synthesizers, and the controls."""
    return {
        SYNTHESIZER: us.Unweighted(),
        AGAIN: us.Unweighted(),
        MARGINAL: us.MarginalRisk(**INTRUDER),
        PAIRWISE: us.PairwiseRisk(**INTRUDER),
        CONSTANT_PAIRWISE: us.ConstantWeight(float(alpha[PAIRWISE].mean())),
        CONSTANT_MARGINAL: us.ConstantWeight(float(alpha[MARGINAL].mean())),
        "Pairwise c=1.5": us.PairwiseRisk(**INTRUDER, c=1.5),
        "Pairwise g=0.1": us.PairwiseRisk(**INTRUDER, g=0.1),
    }


def application(design: ApplicationDesign, survey: us.Survey, seed: int, folder: Path) -> list[Row]:
    """Results of every synthesizer, the data themselves and topcoding, computed or read."""
    folder.mkdir(parents=True, exist_ok=True)
    model = us.Mixture("income", design.predictors, design.components, zero_by=("earner",))
    fitter = fitter_of(us.ModelFitter, survey, model, design.settings, seed)
    alpha = {
        MARGINAL: us.MarginalRisk(**INTRUDER).settle(fitter)[0],
        PAIRWISE: us.PairwiseRisk(**INTRUDER).settle(fitter)[0],
    }
    results = [stored(folder / "data.json", lambda: _baseline(survey, seed))]
    for number, (name, mechanism) in enumerate(synthesizers(alpha).items()):
        path = folder / f"{name.lower().replace(' ', '-').replace(',', '')}.json"
        run = _Run(design, model, survey, seed + APART * number, name, mechanism)
        results.append(stored(path, run.compute))
    return results


@dataclass(frozen=True)
class _Run:
    design: ApplicationDesign
    model: us.Mixture
    survey: us.Survey
    seed: int
    name: str
    mechanism: us.Mechanism

    def compute(self) -> Row:
        began, cpu = perf_counter(), process_time()
        fitter = fitter_of(us.ModelFitter, self.survey, self.model, self.design.settings, self.seed)
        terms = self.mechanism.prepare(fitter, self.design.datasets).terms
        fitted = shown(fitter.fit(terms, "release", self._starts(fitter, terms.alpha)))
        draws = us.ParameterDraws(tuple(fitted.parameters(self.design.datasets)))
        generated = fitter.generated(draws)
        sets = [
            self.model.restore(columns, self.survey)["income"].to_numpy() for columns in generated
        ]
        result = measured(self.survey, sets, self.seed)
        return {
            "name": self.name,
            **result,
            "weights": np.round(terms.alpha, 5).tolist(),
            "seconds": perf_counter() - began,
            "cpu seconds": process_time() - cpu,
            "convergence": convergence(fitted),
        }

    def _starts(self, fitter: us.ModelFitter, alpha: Vector) -> Vector:
        """A start for each chain. The second unweighted run must not have those of the first:
        what slow chains remember of their start would make the two agree too well."""
        arrays, chains = fitter.safe_arrays, range(self.design.chains)
        starts = [self.model.start(arrays, alpha, self.seed + chain) for chain in chains]
        return np.stack([np.asarray(fitter.density.unconstrain(start, arrays)) for start in starts])


class ShownPosterior(us.Posterior):
    """A fit that a release may refuse; the study takes its draws and shows what failed."""

    def spaced(self, number: int) -> Vector:
        return self.positions[(np.arange(1, number + 1) * len(self.positions)) // number - 1]


def shown(fitted: us.Posterior) -> ShownPosterior:
    return ShownPosterior(*(getattr(fitted, field.name) for field in fields(fitted)))


def convergence(fitted: us.Posterior) -> Row:
    """R-hat and bulk ESS of the predictive quantities, by how much the means of the chains
    differ, and what stands against the fit."""
    checks = fitted.diagnostics
    by_chain = fitted.density.judged(fitted.chains, fitted.arrays)[1].mean(axis=1)
    apart = np.ptp(by_chain, axis=0)
    numbers = zip(checks.coordinates, apart, checks.rhat, checks.ess_bulk, strict=True)
    quantities = [
        {"quantity": name, "chains apart": round(float(a), 5), "R-hat": round(float(r), 4),
         "bulk ESS": round(float(e), 1)}
        for name, a, r, e in numbers
    ]  # fmt: skip
    return {"quantities": quantities, "failures": checks.failures, "chains": checks.chains,
            "draws": checks.draws, "thinning": checks.thinning,
            "divergences": checks.divergences}  # fmt: skip


def measured(survey: us.Survey, sets: list[Vector], seed: int) -> Row:
    """U_m and U_a, intervals, the regression of R, and every record's risk."""
    frame = survey.frame()
    y = frame["income"].to_numpy()
    surveys = [frame.with_columns(income=pl.Series(incomes)) for incomes in sets]
    risk = us.identification_risk(frame, surveys, known=KNOWN, target="income", radius=RADIUS)
    distance = np.array([us.ecdf_distance(y, incomes) for incomes in sets]).mean(axis=0)
    rng = np.random.default_rng([seed, len(sets)])
    made = [us.Survey(table) for table in surveys]
    return {
        "U_m": float(distance[0]),
        "U_a": float(distance[1]),
        "intervals": _intervals(sets, made, rng),
        "risk": np.round(risk, 6).tolist(),
    }


def _baseline(survey: us.Survey, seed: int) -> Row:
    """The confidential file, and the same file topcoded."""
    frame = survey.frame()
    y = frame["income"].to_numpy()
    rng = np.random.default_rng(seed)
    risk = us.identification_risk(frame, known=KNOWN, target="income", radius=RADIUS)
    after, coded = us.topcoding_risk(
        frame, known=KNOWN, target="income", share=TOPCODED, radius=RADIUS
    )
    distance = us.ecdf_distance(y, coded.values)
    return {
        "name": "Data",
        "intervals": _intervals([y], [survey], rng),
        "risk": np.round(risk, 6).tolist(),
        "income": y.tolist(),
        "topcoded": {"risk": np.round(after, 6).tolist(), "share": coded.share,
                     "U_m": distance[0], "U_a": distance[1]},
    }  # fmt: skip


def _intervals(sets: list[Vector], surveys: list[us.Survey], rng: np.random.Generator) -> list[Row]:
    rows = [
        {"statistic": i.statistic, "estimate": i.estimate, "lower": i.lower, "upper": i.upper}
        for i in us.bootstrap_intervals(sets, STATISTICS, rng=rng, replicates=200)
    ]
    combine = "partial" if len(surveys) > 1 else None
    coefficients = us.regress(
        surveys if len(surveys) > 1 else surveys[0], REGRESSION, combine=combine
    )
    line = coefficients.filter(pl.col("term").str.starts_with("earner")).row(0, named=True)
    rows.append({"statistic": "earner 2"} | {k: line[k] for k in ("estimate", "lower", "upper")})
    return rows
