"""All of T: private tables of counts and mean salaries from survey microdata, repeated.

Each replicate draws a sample of n = 1000 from one population (T §4.1), fits FBS and FBP, tunes
them to bounds 1.8 and 3.4, makes m = 1, 3, 5, 10 data sets, and tabulates them by the paper's
and by the recommended formulas, beside the sample itself and a Laplace table. Censored and
ReferenceCensored, which T does not have, stand beside them.

Samples are systematic in random order; T's footnote 2 draws with replacement, which it calls close
to this at such small fractions. A second sample of each replicate is systematic in the order of the
file, men before women in every field, which spreads the sample over gender: with it the coverage
that T prints for its FBS counts comes out, with the first it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

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

Key = tuple[str, str, float, int, str]  # model, mechanism, epsilon, m, formulas
PREDICTORS = "C(field) + gender"
MODELS = {"FBS": us.FBS("salary", PREDICTORS), "FBP": us.FBP("salary", PREDICTORS)}
STATISTICS = ("count", "mean(salary)")
SHORT_WARMUP = 100  # of clipped fits: chains start among the reference's draws, in their units
RECORDS = 10_355  # of T's application
DRIFT = 1.10  # the drifted reference's salaries are 10 % too high


@dataclass(frozen=True)
class Plan:
    """What a study runs; the defaults are T's."""

    n: int = 1000
    bounds: tuple[float, ...] = (1.8, 3.4)
    datasets: tuple[int, ...] = (1, 3, 5, 10)
    epsilon: float = 10.8  # of the mechanisms beside Weighted, over three data sets
    reference_epsilons: tuple[float, ...] = (10.8, 3.0, 1.0)
    draws: int = 1000
    other_mechanisms: bool = True
    file_order: bool = True
    application_records: int = RECORDS  # 0 leaves the application out


# All parts of the study, in two minutes.
QUICK = Plan(
    n=300,
    bounds=(1.8,),
    datasets=(1, 3),
    reference_epsilons=(3.0,),
    draws=800,
    application_records=300,
)


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
    survey, reference = (_survey(us.doctorate_sample(persons, plan.n, rng)) for _ in range(2))
    sample = Sample(survey, plan, number)
    table = sample.table
    rows = [*sample_rows(survey, table, "none"), *_laplace_rows(sample)]
    facts: Row = {"refused": []}
    pictures: dict[str, Vector] = {}
    for name, model in MODELS.items():
        for bound in plan.bounds:
            most = max(plan.datasets)
            result = sample.synthesize(model, us.Weighted(bound=bound), most)
            facts[f"{name} {bound}"] = float(result.record_bounds.max())
            facts[f"{name} unweighted"] = float(unweighted_bounds(result).max())
            files = {
                "recommended": [_columns(dataset) for dataset in result.datasets],
                "paper": paper_files(result, model, survey, most, number),
            }
            for m in plan.datasets:
                for formulas, made in files.items():
                    key = (name, "Weighted", 2 * m * bound, m, formulas)
                    rows += released_rows(key, table, made[:m])
            if number == 0 and bound == plan.bounds[0]:
                pictures |= {f"{name}_bounds": result.record_bounds}
                pictures |= {f"{name}_unweighted": unweighted_bounds(result)}
                pictures |= weight_pictures(model, result, files["paper"][0], survey)
        if plan.other_mechanisms:
            rows += _other_rows(name, model, sample, reference, facts)
    if plan.file_order:
        ordered = _survey(sample_in_file_order(persons, plan.n, rng))
        rows += _file_order_rows(Sample(ordered, plan, number))
    frame = pl.concat(rows).select(pl.lit(number, pl.Int64).alias("replicate"), pl.all())
    drawn = {name: values.tolist() for name, values in pictures.items()}
    return {"rows": frame.to_dict(as_series=False), "facts": facts, "pictures": drawn}


def rows_of(key: Key, statistic: str, cells: pl.DataFrame) -> pl.DataFrame:
    """One row per cell, with the method and the statistic before it."""
    model, mechanism, epsilon, m, formulas = key
    return cells.select(
        pl.lit(model).alias("model"),
        pl.lit(mechanism).alias("mechanism"),
        pl.lit(float(epsilon)).alias("epsilon"),
        pl.lit(m, pl.Int64).alias("m"),
        pl.lit(formulas).alias("formulas"),
        pl.lit(statistic).alias("statistic"),
        pl.all(),
    )


def sample_rows(survey: us.Survey, table: CellTable, mechanism: str) -> list[pl.DataFrame]:
    """The tables of the sample itself."""
    own, df = _columns(survey), float(survey.n - 8)
    key = ("Sample", mechanism, 0.0, 1, "recommended")
    estimates = (table.counts(own["w"]), table.means(own["y"], own["w"]))
    return [
        rows_of(key, statistic, combined([cells], df))
        for statistic, cells in zip(STATISTICS, estimates, strict=True)
    ]


def _laplace_rows(sample: Sample) -> Iterator[pl.DataFrame]:
    by, epsilon = ["field", "gender"], sample.plan.epsilon
    noisy = us.laplace_table(sample.survey, STATISTICS, by, epsilon, seed=sample.number).table
    for statistic in STATISTICS:
        part = noisy.filter(pl.col("statistic") == statistic)
        part = CELL_COLUMNS.join(part, on=by, how="left", maintain_order="left")
        for formulas, column in (("paper", "replicate_se"), ("recommended", "se")):
            cells = with_limits(part["estimate"].to_numpy(), part[column].to_numpy(), 1.96)
            yield rows_of(("Laplace", "Laplace", epsilon, 1, formulas), statistic, cells)


def released_rows(key: Key, table: CellTable, files: list[dict[str, Vector]]) -> list[pl.DataFrame]:
    """Tables of m files. The recommended formulas are plain weighted estimation with public
    stratum sizes, as `tabulate` does it. The paper's are weighted estimation by strata for FBS;
    for FBP (T §2.3) counts have no strata and means no weights (margins by the number of records,
    which fits T's Table 3)."""
    df = float(table.inside.shape[1] - 8)
    paper = key[4] == "paper"
    own = paper and key[0] == "FBP"
    kind: Variance = "whole" if own else "strata" if paper else "known sizes"
    counts = [table.counts(columns["w"], kind) for columns in files]
    weights = [np.ones_like(columns["w"]) if own else columns["w"] for columns in files]
    by_strata: Variance = "strata" if paper else "known sizes"
    means = [
        table.means(columns["y"], w, by_strata) for columns, w in zip(files, weights, strict=True)
    ]
    return [
        rows_of(key, "count", combined(counts, df, normal=own)),
        rows_of(key, "mean(salary)", combined(means, df)),
    ]


def _file_order_rows(sample: Sample) -> list[pl.DataFrame]:
    """T's tables, m = 3, where the sample was selected in the order of the file."""
    bound = sample.plan.bounds[0]
    rows = sample_rows(sample.survey, sample.table, "none, file order")
    for name, model in MODELS.items():
        result = sample.synthesize(model, us.Weighted(bound=bound), 3)
        made = paper_files(result, model, sample.survey, 3, sample.number)
        key = (name, "Weighted, file order", 6 * bound, 3, "paper")
        rows += released_rows(key, sample.table, made)
    return rows


def sample_in_file_order(persons: pl.DataFrame, n: int, rng: np.random.Generator) -> pl.DataFrame:
    """field, gender, salary, weight of n persons; `persons` has the column `size` too. Along a file
    that lists men before women in every field, systematic selection spreads over both."""
    sizes = us.proportional_allocation(persons["field"].to_numpy(), n)
    parts = []
    for (field,), members in persons.group_by("field", maintain_order=True):
        pi = us.inclusion_probabilities(members["size"].to_numpy(), sizes[field])
        drawn = us.systematic_pps(pi, rng)
        chosen = members.select("field", "gender", "salary")[drawn.index]
        parts.append(chosen.with_columns(pl.Series("weight", 1.0 / drawn.inclusion)))
    return pl.concat(parts)


def _other_rows(
    name: str, model: us.Model, sample: Sample, reference: us.Survey, facts: Row
) -> list[pl.DataFrame]:
    """Censored, and ReferenceCensored with a good and with a drifted reference; m = 3."""
    drifted = _survey(reference.frame().with_columns(pl.col("salary") * DRIFT))
    tried: dict[str, us.Mechanism] = {"Censored": us.Censored(sample.plan.epsilon)}
    for epsilon in sample.plan.reference_epsilons:
        tried[f"ReferenceCensored {epsilon:g}"] = us.ReferenceCensored(
            epsilon, reference, prior_scale=0.5
        )
    tried["ReferenceCensored 3 drifted"] = us.ReferenceCensored(3.0, drifted, prior_scale=0.5)
    rows: list[pl.DataFrame] = []
    for label, mechanism in tried.items():
        try:
            result = sample.synthesize(model, mechanism, 3, chains=2, warmup=SHORT_WARMUP)
        except us.Refused as refusal:
            facts["refused"].append(f"{name} {label}: {refusal}")
            continue
        epsilon = float(result.claim.epsilon or 0.0)
        files = [_columns(dataset) for dataset in result.datasets]
        rows += released_rows((name, label, epsilon, 3, "recommended"), sample.table, files)
    return rows


def unweighted_bounds(result: us.Synthesis) -> Vector:
    """Record bounds of the first, unweighted fit: the weight function remembers its draws."""
    weights = result.weights
    if weights is None or result.posterior is None:
        raise us.Refused("This mechanism has no unweighted fit.")

    posterior = result.posterior
    n = posterior.density.n
    bounds = us.record_bounds(
        posterior.density.record_loglik,
        weights.positions,
        posterior.arrays,
        np.ones(n),
        np.zeros(n),
    )
    return bounds.loglik


def _survey(frame: pl.DataFrame) -> us.Survey:
    return us.Survey(frame, us.Design(weight="weight", strata="field"), us.doctorate_codebook())


def _columns(survey: us.Survey) -> dict[str, Vector]:
    frame = survey.frame(["salary", "weight"])
    return {"y": frame["salary"].to_numpy(), "w": frame["weight"].to_numpy()}
