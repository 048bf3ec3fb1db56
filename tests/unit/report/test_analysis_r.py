"""The R program of the public page, run by R, against `tabulate` and `regress`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from release_samples import CODEBOOK, sample, whole_rows

from understudy.corrected_table import Corrections, plan_corrections
from understudy.report.analysis import r_example
from understudy.report.public_facts import PublicFacts
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design, Replicates, Stage
from understudy.survey.misfit import Misfit
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey
from understudy.tables.influence.unit_sums import GRID
from understudy.tables.regress import regress
from understudy.tables.tabulate import tabulate

NUMBERS = ["estimate", "se", "df", "lower", "upper"]


# R and its survey package are loaded once, and each program attaches it and has its own variables.
PROGRAMS = """
invisible(loadNamespace("survey"))
folders <- file("stdin", "r")
repeat {
  cat("ready\\n", file = stderr())
  folder <- readLines(folders, 1)
  if (length(folder) == 0) break
  setwd(folder)
  fault <- tryCatch({
    source("program.R", local = new.env(parent = globalenv()))
    ""
  }, error = conditionMessage)
  writeLines(fault, "fault.txt")
  if ("package:survey" %in% search()) detach("package:survey")
}
"""


class R:
    """One process of R that runs programs as they are asked for."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen(
            [program, "-e", PROGRAMS],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        self.works = self.ready()

    def ready(self) -> bool:
        """Whether R came back; it says so after each program, among its warnings."""
        assert self.process.stderr is not None
        return any(line == "ready\n" for line in self.process.stderr)

    def run(self, folder: Path) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        assert self.ready()
        assert (folder / "fault.txt").read_text().strip() == ""


@pytest.fixture(scope="module")
def rscript() -> Iterator[R]:
    program = shutil.which("Rscript")
    if program is not None:
        with (r := R(program)).process:
            if r.works:
                yield r
                return
    reason = "R with its survey package is not installed; run scripts/test-components r"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def run(rscript: R, of: PublicFacts, datasets: list[Survey], folder: Path) -> None:
    """The files of the release, the program beside them, and its two tables as CSV."""
    (folder / "synthetic").mkdir()
    for number, survey in enumerate(datasets, start=1):
        write_survey(survey, folder / "synthetic" / f"{number}.csv")
    program = r_example(of, len(datasets)) + 'write.csv(table, "table.csv", row.names = FALSE)\n'
    program += 'if (exists("coefficients") && is.data.frame(coefficients))\n'
    program += '  write.csv(coefficients, "coefficients.csv", row.names = FALSE)\n'
    (folder / "program.R").write_text(program, encoding="utf-8")
    rscript.run(folder)


def same(theirs: pl.DataFrame, ours: pl.DataFrame, keys: list[str]) -> None:
    ours = ours.with_columns(pl.col(keys).cast(pl.String))
    theirs = theirs.with_columns(pl.col(keys).cast(pl.String))
    both = ours.join(theirs, on=keys, how="left", suffix="_r", maintain_order="left")
    assert both.height == ours.height == theirs.height
    for name in NUMBERS:
        a, b = (both[c].cast(pl.Float64).to_numpy() for c in (name, f"{name}_r"))
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9, err_msg=name)


def read(path: Path) -> pl.DataFrame:
    return pl.read_csv(
        path, null_values=["NA"], schema_overrides=dict.fromkeys(NUMBERS, pl.Float64)
    )


def test_partial_synthesis_with_strata_and_every_statistic(rscript: R, tmp_path: Path) -> None:
    statistics = (
        "count",
        "total(salary)",
        "mean(salary)",
        'proportion(gender == "f")',
        "ratio(salary / weight)",
        "quantile(salary, 0.5)",
    )
    of = sample(n=300)
    public = of.facts(asked_statistics=statistics, by=("field",))
    run(rscript, public, of.datasets, tmp_path)
    ours = tabulate(of.datasets, statistics, ["field"], combine="partial")
    same(read(tmp_path / "table.csv"), ours, ["field", "statistic"])
    fitted = regress(of.datasets, "log(salary) ~ C(field) + C(gender)", combine="partial")
    theirs = read(tmp_path / "coefficients.csv")
    assert theirs["term"].to_list() == ["(Intercept)", "field2", "field3", "genderm"]
    for name in NUMBERS:
        np.testing.assert_allclose(theirs[name], fitted[name], rtol=1e-6, err_msg=name)


def test_whole_rows_where_a_file_lacks_a_cell(rscript: R, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    book = Codebook(
        {
            "net region": Column("net region", "sensitive", "categorical"),
            "works": Column("works", "sensitive", "categorical", missing=(-9,)),
        }
    )
    datasets = []
    for k in range(5):
        region = rng.choice(["north", "süd", "rare"], 200, p=[0.5 - 0.05 * k, 0.5, 0.05 * k])
        works = rng.choice([0, 1, -9], 200, p=[0.4, 0.5, 0.1])
        datasets.append(
            Survey(pl.DataFrame({"net region": region, "works": works}), Design(), book)
        )
    statistics, by = ("count", "proportion(works == 1)"), ("net region",)
    ours = tabulate(datasets, statistics, list(by), combine="partial")
    public = whole_rows(n=60).facts(
        columns=tuple(book.columns),
        synthesized=tuple(book.columns),
        asked_statistics=statistics,
        by=by,
        design=Design(),
        codebook=book,
    )
    run(rscript, public, datasets, tmp_path)
    same(read(tmp_path / "table.csv"), ours, ["net region", "statistic"])
    assert not (tmp_path / "coefficients.csv").exists()


def test_what_the_fit_of_a_whole_file_adds_in_groups_of_unequal_size(
    rscript: R, tmp_path: Path
) -> None:
    """By two columns: one level is rarer than its noise, and others have most of the records."""
    rng = np.random.default_rng(5)
    levels = {"region": ("east", "north", "south"), "sex": ("f", "m")}
    schools = ("basic", "middle", "high")
    known = Misfit(
        (("region", "sex", "pay"), ("region", "sex", "school")), (0.5, 1.0, 2.0), (3.0, 4.0, 5.0)
    )
    columns = {n: Column(n, "sensitive", "categorical", levels=v) for n, v in levels.items()}
    columns["school"] = Column("school", "sensitive", "categorical", levels=schools)
    columns["pay"] = Column("pay", "sensitive", "continuous")
    book = Codebook(columns, misfit=known, design_effect=1.5)
    datasets = []
    for _ in range(2):
        values = {
            "region": rng.choice(levels["region"], 300, p=[0.75, 0.2, 0.05]),
            "sex": rng.choice(levels["sex"], 300),
            "pay": rng.normal(10, 2, 300),
            "school": rng.choice(schools, 300, p=[0.5, 0.4, 0.1]),
        }
        datasets.append(Survey(pl.DataFrame(values), Design(), book))
    shares = ('proportion(school == "high")', "proportion(pay > 11)")
    statistics, by = ("count", "total(pay)", "mean(pay)", *shares), tuple(levels)
    public = whole_rows(n=60).facts(
        columns=tuple(columns), synthesized=tuple(columns), asked_statistics=statistics, by=by,
        design=Design(), codebook=book,
    )  # fmt: skip
    run(rscript, public, datasets, tmp_path)
    ours = tabulate(datasets, statistics, list(by), combine="partial")
    same(read(tmp_path / "table.csv"), ours, [*by, "statistic"])


def test_one_file_with_replicate_weights(rscript: R, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    of = sample(n=120, m=1)
    frame = of.datasets[0].frame()
    flips: Any = {
        f"rep{k}": frame["weight"] * pl.Series(rng.choice([0.5, 1.5], frame.height))
        for k in range(1, 13)
    }
    frame = frame.with_columns(**flips)
    design = Design(weight="weight", replicates=Replicates(prefix="rep", kind="fay", fay=0.5))
    survey = Survey(frame, design, CODEBOOK)
    public = of.facts(design=design, by=())
    run(rscript, public, [survey], tmp_path)
    ours = tabulate([survey], of.statistics, combine="partial")
    same(read(tmp_path / "table.csv"), ours, ["statistic"])


DESIGNS = {
    "later stage": Design("w", "h", "p", "N", nest=True, stages=[Stage("s", "M")]),
    "strata of the later stage alone": Design("w", psu="u", fpc="f", stages=[Stage("s", "g", "k")]),
    "unequal probabilities": Design("w", psu="u", fpc="pi", pps="brewer", stages=[Stage("s", "M")]),
    "calibrated": Design("w", "h", "p", nest=True, calibrated="1 + C(k) + x"),
}


@pytest.mark.parametrize("case", DESIGNS)
def test_designs_whose_variance_needs_every_record(rscript: R, tmp_path: Path, case: str) -> None:
    rng = np.random.default_rng(12)
    h, p, s, _ = np.meshgrid(range(3), range(6), range(4), range(3), indexing="ij")
    u = h * 6 + p
    columns = {"h": h, "p": p, "u": u, "s": s, "k": s % 2, "N": 20 + h, "M": 9 + p}
    frame = pl.DataFrame({name: values.ravel() for name, values in columns.items()}).with_columns(
        w=pl.Series(rng.uniform(5, 9, u.size)),
        x=pl.Series(rng.normal(5, 1, u.size)),
        f=pl.lit(0.2),
        g=pl.lit(0.3),
        pi=0.1 + pl.col("u") / 40,
        salary=pl.Series(rng.normal(40, 4, u.size)) + 3 * pl.col("u"),
    )
    book = Codebook({"salary": Column("salary", "sensitive", "continuous")})
    survey = Survey(frame, DESIGNS[case], book)
    statistics, by = ("count", "mean(salary)", "total(x)"), ("k",)
    public = sample(n=60, m=1).facts(
        columns=tuple(frame.columns),
        synthesized=("salary",),
        asked_statistics=statistics,
        by=by,
        design=DESIGNS[case],
        codebook=book,
    )
    run(rscript, public, [survey], tmp_path)
    ours = tabulate([survey], statistics, list(by), combine="partial")
    same(read(tmp_path / "table.csv"), ours, ["k", "statistic"])


def test_public_stratum_sizes(rscript: R, tmp_path: Path) -> None:
    """Weights that add up to public sizes: R post-stratifies where `tabulate` does."""
    of = sample(n=200, m=2)
    public = of.facts()
    strata = str(public.design.strata)
    sizes = dict.fromkeys(of.datasets[0].frame()[strata].unique().sort(), 1000.0)
    book = replace(public.codebook, population_by={strata: sizes})
    weight = 1000.0 * pl.col("weight") / pl.col("weight").sum().over(strata)
    surveys = [
        Survey(dataset.frame().with_columns(weight=weight), public.design, book)
        for dataset in of.datasets
    ]
    public = replace(public, codebook=book, by=("gender",))
    run(rscript, public, surveys, tmp_path)
    ours = tabulate(surveys, public.statistics, by="gender", combine="partial")
    plain = [Survey(survey.frame(), public.design) for survey in surveys]
    without = tabulate(plain, public.statistics, by="gender", combine="partial")
    assert ours["se"].to_list() != pytest.approx(without["se"].to_list(), rel=1e-3)
    same(read(tmp_path / "table.csv"), ours, ["gender", "statistic"])


def test_the_program_of_a_corrected_release_makes_the_column_released(
    rscript: R, tmp_path: Path
) -> None:
    """Corrections cannot be made again from the files; the program says so, and what it makes
    stands beside the corrected estimates in tables.csv."""
    of, asked = sample(n=300), Corrections(1.0)
    statistics = ("count", "mean(salary)")
    public = of.facts(asked_statistics=statistics, by=("field",), corrections=asdict(asked))
    assert [statistic.text for statistic in public.corrected_statistics] == list(statistics)
    plan = plan_corrections(
        of.datasets, public.statistics, public.corrected_statistics, public.by, asked
    )
    table = plan.table(np.full(len(plan.keys), GRID, dtype=np.int64), False, "partial")
    assert (table["estimate"] - table["released"]).abs().min() > 0
    program = r_example(public, len(of.datasets))
    assert "# count, mean(salary) were corrected by noisy sums" in program
    run(rscript, public, of.datasets, tmp_path)
    ours = tabulate(of.datasets, statistics, ["field"], combine="partial")
    keys = ["field", "statistic"]
    both = ours.cast({"field": pl.String}).join(table, on=keys, how="left", maintain_order="left")
    np.testing.assert_allclose(both["released"], ours["estimate"], rtol=1e-9)
    same(read(tmp_path / "table.csv"), ours, ["field", "statistic"])
