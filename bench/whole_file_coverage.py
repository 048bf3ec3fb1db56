"""Whether 95 % intervals from whole files cover: repeated samples, n = 10,000, epsilon 3.

    python bench/whole_file_coverage.py [--replicates 20] [--population doctorates]
    python bench/whole_file_coverage.py --population clusters
    python bench/whole_file_coverage.py --population persons (or households, or patients)
    python bench/whole_file_coverage.py --population acs2018_person_hi.parquet [--columns 8]
    python bench/whole_file_coverage.py --population nhanes2brr_samplics.parquet --columns 16

Populations: T's doctorate recipients, sampled with probabilities proportional to size (weights are
drawn with the rest); simulated persons in clusters, of which a tenth are sampled, 100 persons each,
with a twentieth of the budget for the design effect; simulated persons (simulated_persons.py),
households and patients (simulated_surveys.py); or ACS persons as the Census ships them, or the
persons of NHANES II, taken as a population and sampled with replacement. Each replicate is a
sample, five files by WholeFile and Marginals at (3, 1e-9), and tables by `tabulate`: counts,
proportions and means in cells with 30 expected records or more.
Prints coverage with its Monte Carlo error (over replicates), by statistic and number of by-columns,
of released files with and without the published misfit (--alone: with it only, in less time) and of
the samples themselves, and how wide intervals are beside the sample's own (the median over cells of
the ratio); exits 1 outside .93 to .97 by more than two such errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
from simulated_persons import CATEGORIES, persons_codebook, simulated_persons
from simulated_persons import NUMBERS as PERSONS_NUMBERS
from simulated_surveys import Simulated, households, patients

import understudy as us
from understudy.demo.doctorates import to_totals
from understudy.survey.codebook import Codebook, Column

FEWEST = 30  # expected records of a cell that is looked at
WANTED = (0.93, 0.97)
PAIRS = 10  # of categories of simulated households and patients, that tables are made by
ACS = (
    "AGEP", "SEX", "MAR", "SCHL", "ESR", "RAC1P", "PINCP", "WKHP",
    "COW", "CIT", "DIS", "HICOV", "MIL", "MIG", "NATIVITY", "WAGP",
)  # fmt: skip
NHANES = (
    "age", "sex", "race", "region", "hlthstat", "height", "weight", "bpsystol",
    "smsa", "heartatk", "diabetes", "hsizgp", "bpdiast", "tcresult", "hgb", "iron",
)  # fmt: skip
NUMBERS = {"AGEP": (0, 99), "WKHP": (1, 99), "PINCP": (-20_000, 800_000), "WAGP": (0, 800_000)}
NUMBERS |= {"age": (20, 74), "height": (130, 210), "weight": (30, 180), "bpsystol": (60, 300)}
NUMBERS |= {"bpdiast": (30, 150), "tcresult": (80, 850), "hgb": (6, 21), "iron": (15, 330)}
MEASURES = {"height": 0.5, "weight": 0.5, "hgb": 0.1}  # not whole numbers: their rounding
# whom the questions are put to, by the dictionary of the file; hours and class of worker are also
# empty for those who did not work
SKIPS = {
    "SCHL": "AGEP >= 3", "ESR": "AGEP >= 16", "PINCP": "AGEP >= 15", "WKHP": "AGEP >= 16",
    "COW": "AGEP >= 16", "MIL": "AGEP >= 17", "MIG": "AGEP >= 1", "WAGP": "AGEP >= 15",
}  # fmt: skip
ALSO_EMPTY = ("WKHP", "COW", "hlthstat", "heartatk", "diabetes")

Draw = Callable[[np.random.Generator, int], us.Survey]


def doctorates() -> tuple[pl.DataFrame, list[str], list[tuple[str, ...]], Draw]:
    persons = us.doctorate_population(np.random.default_rng(1))
    codebook = us.doctorate_codebook()
    for name in ("field", "gender", "salary"):
        facts = {"grid": "log"} if name == "salary" else {}
        column = replace(codebook[name], role="sensitive", blanks=False, **facts)
        codebook = codebook.with_column(column)
    weight = replace(codebook["weight"], bounds=(1.0, 500.0), grid="log")
    codebook = codebook.with_column(weight)

    def draw(rng: np.random.Generator, n: int) -> us.Survey:
        frame = to_totals(us.doctorate_sample(persons, n, rng))
        return us.Survey(frame, us.Design(weight="weight", strata="field"), codebook)

    statistics = ["count", "mean(salary)", 'proportion(gender == "Female")']
    return persons.drop("size"), statistics, [("field", "gender")], draw


def clusters() -> tuple[pl.DataFrame, list[str], list[tuple[str, ...]], Draw]:
    rng = np.random.default_rng(7)
    psus, size = 1000, 400
    stratum = np.arange(psus) % 4
    psu = np.repeat(np.arange(psus), size)
    shared = rng.normal(size=(4, psus))[:, psu]
    parts = np.array([0.05, 0.02, 0.1, 0.0])[:, None]  # of the variance, between clusters
    latent = np.sqrt(parts) * shared + np.sqrt(1 - parts) * rng.normal(size=shared.shape)
    latent[1] = 0.6 * latent[1] + 0.4 * latent[0]
    frame = pl.DataFrame(
        {
            "psu": psu,
            "h": stratum[psu],
            "y": np.rint(50 + 10 * latent[0] + 2 * stratum[psu]).clip(0, 120).astype(int),
            "x": np.rint(60 + 12 * latent[3]).clip(0, 120).astype(int),
            "a": np.digitize(latent[1], [-0.8, 0.0, 0.8]),
            "b": np.digitize(latent[2], [-0.5, 1.2]),
            "c": np.digitize(latent[3], [0.5]),
        }
    )
    facts = {
        name: Column(name, "sensitive", "categorical", levels=tuple(range(count)), blanks=False)
        for name, count in (("h", 4), ("a", 4), ("b", 3), ("c", 2))
    }
    for name in ("y", "x"):
        facts[name] = Column(name, "sensitive", "integer", bounds=(0, 120), blanks=False)
    codebook = Codebook(facts | {"psu": Column("psu", "psu", "integer")})

    def draw(rng: np.random.Generator, n: int) -> us.Survey:
        strata = [
            rng.choice(np.flatnonzero(stratum == h), n // 400, replace=False) for h in range(4)
        ]
        chosen = np.concatenate(strata)
        rows = (chosen[:, None] * size + rng.integers(0, size, (chosen.size, 100))).ravel()
        return us.Survey(frame[rows], us.Design(strata="h", psu="psu"), codebook)

    statistics = ["count", "mean(y)", "mean(x)", "proportion(b == 2)"]
    return frame.drop("psu"), statistics, [("a", "c"), ("a", "b"), ("h", "a"), ("h", "c")], draw


def persons() -> tuple[pl.DataFrame, list[str], list[tuple[str, ...]], Draw]:
    frame, codebook = simulated_persons(), persons_codebook()

    def draw(rng: np.random.Generator, n: int) -> us.Survey:
        return us.Survey(frame[rng.integers(0, frame.height, n)], us.Design(), codebook)

    statistics = ["count", *(f"mean({name})" for name in PERSONS_NUMBERS), 'proportion(sex == "1")']
    return frame, statistics, list(combinations(CATEGORIES, 2)), draw


def drawn_from(made: Simulated) -> tuple[
    pl.DataFrame, list[str], list[tuple[str, ...]], Draw
]:  # fmt: skip
    pairs = list(combinations(made.categories, 2))
    if len(pairs) > PAIRS:
        pairs = [pairs[k] for k in np.random.default_rng(0).permutation(len(pairs))[:PAIRS]]

    def draw(rng: np.random.Generator, n: int) -> us.Survey:
        rows = rng.integers(0, made.frame.height, n)
        return us.Survey(made.frame[rows], us.Design(), made.codebook)

    level = made.codebook[made.categories[0]]
    statistics = ["count", *(f"mean({name})" for name in made.numbers)]
    statistics.append(f'proportion({level.name} == "{level.levels[0]}")')  # type: ignore[index]
    return made.frame, statistics, pairs, draw


def persons_of(path: Path, columns: int) -> tuple[
    pl.DataFrame, list[str], list[tuple[str, ...]], Draw
]:  # fmt: skip
    names = (ACS if path.stem.startswith("acs") else NHANES)[:columns]
    frame = pl.read_parquet(path, columns=list(names))
    facts: dict[str, Column] = {}
    for name in names:
        blanks, skip = name in ALSO_EMPTY, SKIPS.get(name, "")
        if name not in NUMBERS:
            frame = frame.with_columns(pl.col(name).cast(pl.Int64).cast(pl.String))
            levels = tuple(sorted(frame[name].drop_nulls().unique()))
            facts[name] = Column(name, "sensitive", "categorical", levels=levels, blanks=blanks)
        else:
            step = 10.0 if name in ("PINCP", "WAGP") else MEASURES.get(name)
            kind = "continuous" if name in MEASURES else "integer"
            facts[name] = Column(
                name, "sensitive", kind, bounds=NUMBERS[name], blanks=blanks, rounding=step,
                special=(0.0,) if name in ("PINCP", "WAGP") else (),
                grid=(-20_000, -5_000, -1_000, 0, *np.geomspace(500, 800_000, 60).round(-1))
                if name == "PINCP" else None,
            )  # fmt: skip
        facts[name] = replace(facts[name], applies_when=skip)
    codebook = Codebook(facts)
    categories = [name for name in names if name not in NUMBERS]
    pairs = list(combinations(categories, 2))
    chosen = np.random.default_rng(0).permutation(len(pairs))[:8]

    def draw(rng: np.random.Generator, n: int) -> us.Survey:
        return us.Survey(frame[rng.integers(0, frame.height, n)], us.Design(), codebook)

    statistics = ["count", *(f"mean({name})" for name in names if name in NUMBERS)]
    sex = facts[names[1]]
    statistics.append(f'proportion({sex.name} == "{sex.levels[0]}")')  # type: ignore[index]
    return frame, statistics, [pairs[k] for k in chosen], draw


def _with(file: us.Survey, **facts: object) -> us.Survey:
    return us.Survey(file.raw, file.design, replace(file.codebook, **facts))


def table(survey: us.Survey | list[us.Survey], statistics: list[str], by: tuple[str, ...]):
    combine = None if isinstance(survey, us.Survey) else "partial"
    made = us.tabulate(survey, statistics, list(by), margins=True, combine=combine, n=True)
    return made.rename(dict(zip(by, ("a", "b"), strict=True))).with_columns(by=pl.lit("/".join(by)))


def covered(made: pl.DataFrame, truth: pl.DataFrame, number: int, how: str) -> pl.DataFrame:
    both = made.join(truth, on=["by", "a", "b", "statistic"], how="inner")
    both = both.filter((pl.col("expected") >= FEWEST) & (pl.col("se") > 0))
    margins = (pl.col("a") == "All").cast(pl.Int8) + (pl.col("b") == "All").cast(pl.Int8)
    return both.select(
        "a", "b", "by", "statistic",
        columns=2 - margins,
        inside=(pl.col("lower") <= pl.col("truth")) & (pl.col("upper") >= pl.col("truth")),
        square=((pl.col("estimate") - pl.col("truth")) / pl.col("se")) ** 2,
        width=pl.col("upper") - pl.col("lower"),
        out=pl.col("statistic").str.starts_with("prop")
        & ((pl.col("lower") < 0) | (pl.col("upper") > 1)),
        replicate=pl.lit(number),
        how=pl.lit(how),
    ).unique(["a", "b", "statistic", "by"])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--population", default="doctorates")
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="released files as they are")
    asked = parser.parse_args()
    own = asked.population == "doctorates"
    simulated = {
        "doctorates": doctorates, "clusters": clusters, "persons": persons,
        "households": lambda: drawn_from(households()), "patients": lambda: drawn_from(patients()),
    }  # fmt: skip
    population, statistics, tables, draw = (
        simulated[asked.population]()
        if asked.population in simulated
        else persons_of(Path(asked.population), asked.columns)
    )
    share = 0.05 if asked.population == "clusters" else 0.0
    whole = us.Survey(population, us.Design(), Codebook())
    # without weights a file's counts are those of the sample
    scale = 1.0 if own else asked.records / population.height
    truth = pl.concat([table(whole, statistics, by) for by in tables]).select(
        "by", "a", "b", "statistic",
        truth=pl.when(pl.col("statistic") == "count").then(pl.col("estimate") * scale)
        .otherwise(pl.col("estimate")),
        expected=pl.col("n") * (asked.records / population.height),
    )  # fmt: skip
    results = []
    Path("build").mkdir(exist_ok=True)
    for number in range(asked.replicates):
        survey = draw(np.random.default_rng([asked.seed, number]), asked.records)
        mechanism = us.Marginals(asked.epsilon, 1e-9, clusters=share)
        files = us.synthesize(survey, us.WholeFile(), mechanism, datasets=5).datasets
        ways: dict[str, us.Survey | list[us.Survey]] = {"sample": survey, "released": files}
        if not asked.alone:
            ways["without misfit"] = [_with(f, misfit=None) for f in files]
        if share and not asked.alone:
            lacking = [_with(f, design_effect=None, design_effects={}) for f in files]
            ways["without design effect"] = lacking
        for how, chosen in ways.items():
            made = pl.concat([table(chosen, statistics, by) for by in tables])
            results.append(covered(made, truth, number, how))
        rows = pl.concat(results)
        rows.write_parquet(Path("build") / f"coverage-{Path(asked.population).stem}.parquet")
    print(summary(rows))
    outside = rows.filter(pl.col("how") == "released")["out"].sum()
    print(f"{outside} intervals of proportions leave [0, 1]")
    released = summary(rows).filter((pl.col("how") == "released") & (pl.col("statistic") == "all"))
    low, high = (released["coverage"] + sign * 2 * released["error"] for sign in (1, -1))
    if (low < WANTED[0]).any() or (high > WANTED[1]).any() or outside:
        raise SystemExit(1)


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    cell = ["replicate", "by", "a", "b", "statistic"]
    own = rows.filter(pl.col("how") == "sample").select(*cell, of_sample="width")
    rows = rows.join(own, on=cell, how="left", nulls_equal=True)
    rows = rows.with_columns(wider=pl.col("width") / pl.col("of_sample"))
    kinds = rows.with_columns(pl.col("statistic").str.replace(r"\(.*", ""))
    kinds = pl.concat([kinds, kinds.with_columns(statistic=pl.lit("all"), columns=pl.lit(9))
                       .cast({"columns": kinds["columns"].dtype})])  # fmt: skip
    each = kinds.group_by("how", "statistic", "columns", "replicate").agg(
        pl.col("inside").mean(), pl.col("square").mean(), pl.col("wider").median(), pl.len()
    )
    return (
        each.group_by("how", "statistic", "columns")
        .agg(
            coverage=pl.col("inside").mean().round(3),
            error=(pl.col("inside").std() / pl.len().sqrt()).round(3),
            square=pl.col("square").mean().round(2),
            wider=pl.col("wider").mean().round(2),
            cells=pl.col("len").mean().round(0).cast(pl.Int64),
        )
        .sort("how", "statistic", "columns")
    )


if __name__ == "__main__":
    with pl.Config(tbl_rows=60):
        main()
