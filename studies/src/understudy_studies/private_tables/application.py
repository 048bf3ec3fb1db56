"""T's application (§3): the public use file that the user has, or one of its shape.

T takes employed doctorate holders of 40 to 44 years from the Survey of Doctorate Recipients 2017:
n = 10,355, and weights that tell nearly nothing. The file is not part of this package; `--data` and
`--columns` give it (survey_file.py). A simulated one stands in for it. Its cell sizes and mean
salaries are the "Sample" columns of T's Tables 2 and 3; salaries are lognormal around them. The
size measure hardly depends on salary (T: correlation of salary and weight .09), and varies by
lognormal noise.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import Row
from understudy_studies.private_tables.cells import ALL, FIELDS, GENDERS, CellTable
from understudy_studies.private_tables.paper_files import paper_files
from understudy_studies.private_tables.replicate import (
    MODELS,
    RECORDS,
    STATISTICS,
    Plan,
    released_rows,
    unweighted_bounds,
)
from understudy_studies.private_tables.tables import printed_table
from understudy_studies.survey_file import mapped_file

SALARY_SCALE, SIZE_SCALE, DEPENDENCE = 0.55, 0.5, -0.09


def application_survey(seed: int = 1, n: int = RECORDS) -> us.Survey:
    """The simulated stand-in for the Survey of Doctorate Recipients' public use file."""
    rng = np.random.default_rng([seed, 2017])
    inner = (pl.col("field") != ALL) & (pl.col("gender") != ALL)  # field by field, men first
    sizes, means = (printed_table(n).filter(inner)["Sample_est"].to_numpy() for n in (2, 3))
    cells = sizes.astype(np.int64)
    field = np.repeat(np.repeat(FIELDS, len(GENDERS)), cells)
    gender = np.repeat(np.tile(GENDERS, len(FIELDS)), cells)
    deviation = SALARY_SCALE * rng.standard_normal(cells.sum())
    salary = np.exp(np.repeat(np.log(means), cells) - SALARY_SCALE**2 / 2 + deviation)
    size = np.exp(DEPENDENCE * deviation + SIZE_SCALE * rng.standard_normal(cells.sum()))
    drawn = us.stratified_pps(field, size, us.proportional_allocation(field, n), rng)
    persons = pl.DataFrame({"field": field, "gender": gender, "salary": salary})
    fields = persons.group_by("field", maintain_order=True).agg(pl.len().cast(pl.Float64))
    book = replace(
        us.doctorate_codebook(),
        population_size=float(persons.height),
        population_by={"field": dict(fields.iter_rows())},
    )
    weighted = persons[drawn.index].with_columns(pl.Series("weight", drawn.weight))
    return us.Survey(weighted, us.Design(weight="weight", strata="field"), book)


def published_survey(data: Path, columns: Path | None) -> us.Survey:
    """The file that was given. Sizes of the population are its own sums of weights, by field too,
    as T's tables have them: T's FBS adds up to the sample's 125,199."""
    frame, mapping = mapped_file(data, columns, ("field", "gender", "salary", "weight"))
    frame = frame.with_columns(pl.col("field").cast(pl.Int64, strict=False))
    cells = frame.group_by("field", "gender").len()
    wanted = pl.DataFrame({"field": FIELDS}).join(pl.DataFrame({"gender": GENDERS}), how="cross")
    if cells.height != wanted.join(cells, on=["field", "gender"]).height or cells.height != 16:
        raise us.Refused(
            "T's tables have fields 1 to 8 and the genders Male and Female, and records in each of "
            "the 16 cells; give [field] and [gender] of the mapping these levels."
        )
    if frame["salary"].min() <= 0 or frame["weight"].min() <= 0:  # type: ignore[operator]
        raise us.Refused(
            "Salaries and weights must be above 0; name the codes that are not in `missing`."
        )
    book, weight = us.doctorate_codebook(), pl.col("weight").sum()
    low, high = mapping["salary"].get("bounds", book["salary"].bounds)
    salary = replace(book["salary"], bounds=(float(low), float(high)))
    fields = frame.group_by("field", maintain_order=True).agg(weight)
    book = replace(
        book.with_column(salary),
        population_size=float(frame["weight"].sum()),
        population_by={"field": dict(fields.iter_rows())},
    )
    return us.Survey(frame, us.Design(weight="weight", strata="field"), book)


def application(plan: Plan, seed: int, survey: us.Survey) -> Row:
    """One release by each method, T's Tables 2 and 3: rows, and record bounds.

    The files of FBS and FBP are tabulated by the recommended formulas and by the paper's.
    """
    by, bound = ["field", "gender"], plan.bounds[0]
    tables = {"Sample": us.tabulate(survey, STATISTICS, by=by, margins=True)}
    noisy = us.laplace_table(survey, STATISTICS, by, 6 * bound, seed=seed).table
    tables["Laplace"] = noisy.with_columns(se="replicate_se")
    bounds = {}
    for name, model in MODELS.items():
        result = us.synthesize(survey, model, us.Weighted(bound=bound), 3, seed, draws=plan.draws)
        files, paper = result.datasets, paper_files(result, model, survey, 3, seed)
        tables[name] = us.tabulate(files, STATISTICS, by=by, margins=True, combine="partial")
        key = (name, "Weighted", 0.0, 3, "paper")
        rows = pl.concat(released_rows(key, CellTable(survey.frame()), paper))
        tables[f"{name} paper"] = rows.filter(formulas="paper")
        bounds[f"{name}_bounds"] = result.record_bounds.tolist()
        bounds[f"{name}_unweighted"] = unweighted_bounds(result).tolist()
    columns = ["field", "gender", "statistic", "estimate", "se"]
    methods = [t.select(columns).with_columns(method=pl.lit(k)) for k, t in tables.items()]
    return {"rows": pl.concat(methods).to_dict(as_series=False), "bounds": bounds}
