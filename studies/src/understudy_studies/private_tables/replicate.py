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
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import understudy as us
from understudy_studies.private_tables.cells import (
    CELLS,
    CellTable,
    Intervals,
    Variance,
    combined,
)
from understudy_studies.private_tables.file_order import sample_in_file_order
from understudy_studies.private_tables.paper_files import paper_files, weight_pictures

Floats = NDArray[np.float64]
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
    application_records=800,
)


@lru_cache(maxsize=1)
def study_population(seed: int) -> pl.DataFrame:
    return us.doctorate_population(np.random.default_rng(seed))


def replicate(plan: Plan, seed: int, number: int) -> dict[str, Any]:
    """The rows of one sample: all methods, statistics and cells; its bounds; what is drawn."""
    rows, facts, pictures = one_replicate(study_population(seed), plan, seed, number)
    drawn = {name: values.tolist() for name, values in pictures.items()}
    return {"rows": rows.to_dict(as_series=False), "facts": facts, "pictures": drawn}


def one_replicate(
    persons: pl.DataFrame, plan: Plan, seed: int, number: int
) -> tuple[pl.DataFrame, dict[str, Any], dict[str, Floats]]:
    """The rows of one sample: all methods, statistics and cells; its bounds; what is drawn."""
    rng = np.random.default_rng([seed, number])
    survey, reference = (_survey(us.doctorate_sample(persons, plan.n, rng)) for _ in range(2))
    table = CellTable(survey.frame())
    rows = list(_plain_rows(survey, table, plan, number))
    facts: dict[str, Any] = {"refused": []}
    pictures: dict[str, Floats] = {}
    for name, model in MODELS.items():
        for bound in plan.bounds:
            most = max(plan.datasets)
            result = _synthesize(survey, model, us.Weighted(bound=bound), most, number, plan)
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
            rows += _other_rows(name, model, survey, reference, table, plan, number, facts)
    if plan.file_order:
        rows += _file_order_rows(persons, plan, number, rng)
    return _frame(rows, number), facts, pictures


def _plain_rows(
    survey: us.Survey, table: CellTable, plan: Plan, number: int
) -> Iterator[tuple[Any, ...]]:
    own = _columns(survey)
    df = float(survey.n - 8)
    tables = {
        "count": combined([table.counts(own["w"])], df),
        "mean(salary)": combined([table.means(own["y"], own["w"])], df),
    }
    for statistic, intervals in tables.items():
        yield ("Sample", "none", 0.0, 1, "recommended", statistic, intervals)
    noisy = us.laplace_table(
        survey, STATISTICS, ["field", "gender"], plan.epsilon, seed=number
    ).table
    order = pl.DataFrame({"field": [f for f, _ in CELLS], "gender": [g for _, g in CELLS]})
    for statistic in STATISTICS:
        part = noisy.filter(pl.col("statistic") == statistic)
        part = order.join(part, on=["field", "gender"], how="left", maintain_order="left")
        value = part["estimate"].to_numpy()
        for formulas, column in (("paper", "replicate_se"), ("recommended", "se")):
            se = part[column].to_numpy()
            intervals = Intervals(value, se, value - 1.96 * se, value + 1.96 * se)
            yield ("Laplace", "Laplace", plan.epsilon, 1, formulas, statistic, intervals)


def released_rows(
    key: tuple[str, str, float, int, str], table: CellTable, files: list[dict[str, Floats]]
) -> list[tuple[Any, ...]]:
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
        (*key, "count", combined(counts, df, normal=own)),
        (*key, "mean(salary)", combined(means, df)),
    ]


def _file_order_rows(
    persons: pl.DataFrame, plan: Plan, number: int, rng: np.random.Generator
) -> list[tuple[Any, ...]]:
    """T's tables, m = 3, where the sample was selected in the order of the file."""
    survey = _survey(sample_in_file_order(persons, plan.n, rng))
    table, own = CellTable(survey.frame()), _columns(survey)
    df, bound = float(survey.n - 8), plan.bounds[0]
    key: tuple[Any, ...] = ("Sample", "none, file order", 0.0, 1, "recommended")
    rows: list[tuple[Any, ...]] = [
        (*key, "count", combined([table.counts(own["w"])], df)),
        (*key, "mean(salary)", combined([table.means(own["y"], own["w"])], df)),
    ]
    for name, model in MODELS.items():
        result = _synthesize(survey, model, us.Weighted(bound=bound), 3, number, plan)
        made = paper_files(result, model, survey, 3, number)
        rows += released_rows((name, "Weighted, file order", 6 * bound, 3, "paper"), table, made)
    return rows


def _other_rows(
    name: str,
    model: us.Model,
    survey: us.Survey,
    reference: us.Survey,
    table: CellTable,
    plan: Plan,
    number: int,
    facts: dict[str, Any],
) -> list[tuple[Any, ...]]:
    """Censored, and ReferenceCensored with a good and with a drifted reference; m = 3."""
    drifted = _survey(reference.frame().with_columns(pl.col("salary") * DRIFT))
    tried: dict[str, us.Mechanism] = {"Censored": us.Censored(plan.epsilon)}
    for epsilon in plan.reference_epsilons:
        tried[f"ReferenceCensored {epsilon:g}"] = us.ReferenceCensored(
            epsilon, reference, prior_scale=0.5
        )
    tried["ReferenceCensored 3 drifted"] = us.ReferenceCensored(3.0, drifted, prior_scale=0.5)
    rows: list[tuple[Any, ...]] = []
    for label, mechanism in tried.items():
        try:
            result = _synthesize(survey, model, mechanism, 3, number, plan, 2, SHORT_WARMUP)
        except us.Refused as refusal:
            facts["refused"].append(f"{name} {label}: {refusal}")
            continue
        epsilon = float(result.claim.epsilon or 0.0)
        files = [_columns(dataset) for dataset in result.datasets]
        rows += released_rows((name, label, epsilon, 3, "recommended"), table, files)
    return rows


def _synthesize(
    survey: us.Survey,
    model: us.Model,
    mechanism: us.Mechanism,
    datasets: int,
    seed: int,
    plan: Plan,
    chains: int = 4,
    warmup: int = 300,
) -> us.Synthesis:
    return us.synthesize(
        survey, model, mechanism, datasets, seed,
        draws=plan.draws, chains=chains, warmup=warmup, progress=False,
    )  # fmt: skip


def unweighted_bounds(result: us.Synthesis) -> Floats:
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


def _columns(survey: us.Survey) -> dict[str, Floats]:
    frame = survey.frame(["salary", "weight"])
    return {"y": frame["salary"].to_numpy(), "w": frame["weight"].to_numpy()}


def _frame(rows: list[tuple[Any, ...]], number: int) -> pl.DataFrame:
    """One row per method, statistic and cell."""
    parts = []
    for model, mechanism, epsilon, m, formulas, statistic, intervals in rows:
        parts.append(
            pl.DataFrame(
                {
                    "field": [f for f, _ in CELLS],
                    "gender": [g for _, g in CELLS],
                    "estimate": intervals.value,
                    "se": intervals.se,
                    "lower": intervals.lower,
                    "upper": intervals.upper,
                }
            ).select(
                pl.lit(number, pl.Int64).alias("replicate"),
                pl.lit(model).alias("model"),
                pl.lit(mechanism).alias("mechanism"),
                pl.lit(float(epsilon)).alias("epsilon"),
                pl.lit(m, pl.Int64).alias("m"),
                pl.lit(formulas).alias("formulas"),
                pl.lit(statistic).alias("statistic"),
                pl.all(),
            )
        )
    return pl.concat(parts)
