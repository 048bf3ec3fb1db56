"""All of T: private tables of counts and mean salaries from survey microdata, repeated.

Each replicate draws a sample of n = 1000 from one population (T §4.1), fits FBS and FBP, tunes
them to bounds 1.8 and 3.4, makes m = 1, 3, 5, 10 data sets, and tabulates them by the paper's
and by the recommended formulas, beside the sample itself and a Laplace table. Censored and
ReferenceCensored, which T does not have, stand beside them.

Samples are systematic in random order. T's footnote 2 draws with replacement, which it calls close
to this at such small fractions; a second sample of each replicate is drawn so. A third is
systematic in the order of the file, men before women in every field, which spreads the sample over
gender: with it the coverage that T prints for its FBS counts comes out, with the others not.

T does not say whether its limits are by t or by 1.96; both are computed. Record weights are linear
in the bounds, and for T's Tables 4 and 5 also inverse to them, as T §1.4.1 prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import Row, Vector
from understudy_studies.private_tables.cells import (
    CELL_COLUMNS,
    CellTable,
    Variance,
    combined,
    with_limits,
)
from understudy_studies.private_tables.paper_files import paper_files, weight_pictures

Key = tuple[str, str, float, int, str]  # of METHOD
METHOD = {
    "model": pl.String, "mechanism": pl.String, "epsilon": pl.Float64, "m": pl.Int64,
    "formulas": pl.String,
}  # fmt: skip
PREDICTORS = "C(field) + gender"
MODELS = {"FBS": us.FBS("salary", PREDICTORS), "FBP": us.FBP("salary", PREDICTORS)}
STATISTICS, BY = ("count", "mean(salary)"), ["field", "gender"]
SHORT_WARMUP = 100  # of clipped fits: chains start among the reference's draws, in their units
RECORDS = 10_355  # of T's application
DRIFT = 1.10  # the drifted reference's salaries are 10 % too high
NORMAL = "paper, 1.96"  # the paper's formulas, limits by 1.96 where "paper" has them by t
# how a sample of a field is drawn, other than systematically in random order: positions by pi
SELECTIONS: dict[str, Callable[[Vector, np.random.Generator], Any]] = {
    "with replacement": lambda pi, rng: rng.choice(len(pi), round(pi.sum()), p=pi / pi.sum()),
    "file order": lambda pi, rng: us.systematic_pps(pi, rng).index,
}


@dataclass(frozen=True)
class Plan:
    """What a study runs; the defaults are T's."""

    n: int = 1000
    bounds: tuple[float, ...] = (1.8, 3.4)
    datasets: tuple[int, ...] = (1, 3, 5, 10)
    epsilon: float = 10.8  # of the mechanisms beside Weighted, over three data sets
    reference_epsilons: tuple[float, ...] = (10.8, 3.0, 1.0)
    corrected_bounds: tuple[float, ...] = (1.8, 0.5)  # of files that are corrected, or are not
    noise_repeats: int = 40  # of noise on the table itself
    draws: int = 1000
    application_records: int = RECORDS


# All parts of the study, in two minutes.
QUICK = Plan(
    n=300, bounds=(1.8,), datasets=(1, 3), reference_epsilons=(3.0,), corrected_bounds=(1.8,),
    noise_repeats=2, draws=800, application_records=300,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sample:
    """One sample of a replicate, with its cells."""

    survey: us.Survey
    plan: Plan
    number: int

    @cached_property
    def table(self) -> CellTable:
        return CellTable(self.survey.frame())

    def synthesize(
        self, model: us.Model, mechanism: us.Mechanism, datasets: int, chains: int = 4,
        warmup: int = 300,
    ) -> us.Synthesis:  # fmt: skip
        return us.synthesize(
            self.survey, model, mechanism, datasets, self.number,
            draws=self.plan.draws, chains=chains, warmup=warmup, progress=False,
        )  # fmt: skip


@lru_cache(maxsize=1)
def study_population(seed: int) -> pl.DataFrame:
    return us.doctorate_population(np.random.default_rng(seed))


def replicate(plan: Plan, seed: int, number: int) -> Row:
    """The rows of one sample: all methods, statistics and cells; its bounds; what is drawn."""
    persons = study_population(seed)
    rng = np.random.default_rng([seed, number])
    survey, reference = (survey_of(us.doctorate_sample(persons, plan.n, rng)) for _ in range(2))
    sample = Sample(survey, plan, number)
    rows = [*sample_rows(sample, "none"), *laplace_rows(sample, plan.epsilon)]
    facts: Row = {"refused": []}
    pictures: dict[str, Vector] = {}
    for name, model in MODELS.items():
        for bound in plan.bounds:
            most = max(plan.datasets)
            result = sample.synthesize(model, us.Weighted(bound=bound), most)
            unweighted = unweighted_bounds(result)
            facts[f"{name} {bound}"] = float(result.record_bounds.max())
            facts[f"{name} unweighted"] = float(unweighted.max())
            files = {
                "recommended": [columns_of(dataset) for dataset in result.datasets],
                "paper": paper_files(result, model, survey, most, number),
            }
            for m in plan.datasets:
                for formulas, made in files.items():
                    key = (name, "Weighted", 2 * m * bound, m, formulas)
                    rows += released_rows(key, sample.table, made[:m])
            if number == 0 and bound == plan.bounds[0]:
                pictures[f"{name}_bounds"] = result.record_bounds
                pictures[f"{name}_unweighted"] = unweighted
                pictures |= weight_pictures(model, result, files["paper"][0], survey)
        rows += _other_rows(name, model, sample, reference, facts["refused"])
    inverse = us.Weighted(bound=plan.bounds[0], map="inverse")
    rows += paper_rows(sample, "Weighted, inverse map", inverse)
    for selection in SELECTIONS:
        other = Sample(survey_of(selected(persons, plan.n, rng, selection)), plan, number)
        rows += sample_rows(other, f"none, {selection}")
        weighted = us.Weighted(bound=plan.bounds[0])
        rows += paper_rows(other, f"Weighted, {selection}", weighted)
    drawn = {name: values.tolist() for name, values in pictures.items()}
    return numbered(number, rows) | {"facts": facts, "pictures": drawn}


def numbered(number: int, rows: list[pl.DataFrame]) -> Row:
    """The rows of a replicate, as they are stored."""
    frame = pl.concat(rows).select(pl.lit(number, pl.Int64).alias("replicate"), pl.all())
    return {"rows": frame.to_dict(as_series=False)}


def rows_of(key: Key, statistic: str, cells: pl.DataFrame) -> pl.DataFrame:
    """One row per cell, with the method and the statistic before it."""
    method = pl.DataFrame([key], METHOD, orient="row").with_columns(statistic=pl.lit(statistic))
    return method.join(cells, how="cross")


def sample_rows(sample: Sample, mechanism: str) -> list[pl.DataFrame]:
    """The tables of the sample itself."""
    own, df = columns_of(sample.survey), float(sample.survey.n - 8)
    key = ("Sample", mechanism, 0.0, 1, "recommended")
    counts, means = sample.table.counts(own["w"]), sample.table.means(own["y"], own["w"])
    return [
        rows_of(key, "count", combined([counts], df)),
        rows_of(key, "mean(salary)", combined([means], df)),
    ]


def laplace_rows(sample: Sample, epsilon: float) -> Iterator[pl.DataFrame]:
    noisy = us.laplace_table(sample.survey, STATISTICS, BY, epsilon, seed=sample.number).table
    for statistic in STATISTICS:
        part = CELL_COLUMNS.join(
            noisy.filter(statistic=statistic), on=BY, how="left", maintain_order="left"
        )
        for formulas, column in (("paper", "replicate_se"), ("recommended", "se")):
            cells = with_limits(part["estimate"].to_numpy(), part[column].to_numpy(), 1.96)
            yield rows_of(("Laplace", "Laplace", epsilon, 1, formulas), statistic, cells)


def released_rows(key: Key, table: CellTable, files: list[dict[str, Vector]]) -> list[pl.DataFrame]:
    """Tables of m files. The recommended formulas are plain weighted estimation with public
    stratum sizes, as `tabulate` does it. The paper's are weighted estimation by strata for FBS;
    for FBP (T §2.3) counts have no strata and means no weights (margins by the number of records,
    which fits T's Table 3). They come with limits by t, and again by 1.96."""
    df = float(table.inside.shape[1] - 8)
    paper = key[4] == "paper"
    own = paper and key[0] == "FBP"
    by_strata: Variance = "strata" if paper else "known sizes"
    counts = [table.counts(file["w"], "whole" if own else by_strata) for file in files]
    means = [
        table.means(file["y"], np.ones_like(file["w"]) if own else file["w"], by_strata)
        for file in files
    ]
    return [
        rows_of((*key[:4], formulas), statistic, combined(tables, df, normal=formulas == NORMAL))
        for formulas in ((key[4], NORMAL) if paper else (key[4],))
        for statistic, tables in zip(STATISTICS, (counts, means), strict=True)
    ]


def paper_rows(sample: Sample, label: str, mechanism: us.Mechanism) -> list[pl.DataFrame]:
    """T's Tables 4 and 5, m = 3, where one thing is read differently."""
    rows = []
    for name, model in MODELS.items():
        result = sample.synthesize(model, mechanism, 3)
        made = paper_files(result, model, sample.survey, 3, sample.number)
        key = (name, label, 6 * sample.plan.bounds[0], 3, "paper")
        rows += released_rows(key, sample.table, made)
    return rows


def selected(
    persons: pl.DataFrame, n: int, rng: np.random.Generator, selection: str
) -> pl.DataFrame:
    """field, gender, salary, weight of n persons; `persons` has the column `size` too, and lists
    men before women in every field. A person who is drawn twice is two records. A field is drawn
    again where one gender is missing, as happens in small samples: its mean would not exist."""
    sizes = us.proportional_allocation(persons["field"].to_numpy(), n)
    parts: list[pl.DataFrame] = []
    for (field,), members in persons.group_by("field", maintain_order=True):
        pi = us.inclusion_probabilities(members["size"].to_numpy(), sizes[field])
        gender = members["gender"]
        drawn = SELECTIONS[selection](pi, rng)
        while gender[drawn].n_unique() < gender.n_unique():
            drawn = SELECTIONS[selection](pi, rng)
        chosen: pl.DataFrame = members.select("field", "gender", "salary")[drawn]
        parts.append(chosen.with_columns(pl.Series("weight", 1.0 / pi[drawn])))
    return pl.concat(parts)


def _other_rows(
    name: str, model: us.Model, sample: Sample, reference: us.Survey, refused: list[str]
) -> list[pl.DataFrame]:
    """Censored, and ReferenceCensored with a good and with a drifted reference; m = 3."""
    drifted = survey_of(reference.frame().with_columns(pl.col("salary") * DRIFT))
    referred = partial(us.ReferenceCensored, prior_scale=0.5)
    tried: dict[str, us.Mechanism] = {"Censored": us.Censored(sample.plan.epsilon)}
    for epsilon in sample.plan.reference_epsilons:
        tried[f"ReferenceCensored {epsilon:g}"] = referred(epsilon, reference)
    tried["ReferenceCensored 3 drifted"] = referred(3.0, drifted)
    rows: list[pl.DataFrame] = []
    for label, mechanism in tried.items():
        try:
            result = sample.synthesize(model, mechanism, 3, chains=2, warmup=SHORT_WARMUP)
        except us.Refused as refusal:
            refused.append(f"{name} {label}: {refusal}")
            continue
        key = (name, label, float(result.claim.epsilon or 0.0), 3, "recommended")
        rows += released_rows(key, sample.table, [columns_of(made) for made in result.datasets])
    return rows


def unweighted_bounds(result: us.Synthesis) -> Vector:
    """Record bounds of the first, unweighted fit: the weight function remembers its draws."""
    weights, posterior = result.weights, result.posterior
    if weights is None or posterior is None:
        raise us.Refused("This mechanism has no unweighted fit.")
    loglik, n = posterior.density.record_loglik, posterior.density.n
    plain = (np.ones(n), np.zeros(n))  # weights, and no reference
    return us.record_bounds(loglik, weights.positions, posterior.arrays, *plain).loglik


def survey_of(frame: pl.DataFrame) -> us.Survey:
    return us.Survey(frame, us.Design(weight="weight", strata="field"), us.doctorate_codebook())


def columns_of(survey: us.Survey) -> dict[str, Vector]:
    frame = survey.frame(["salary", "weight"])
    return {"y": frame["salary"].to_numpy(), "w": frame["weight"].to_numpy()}
