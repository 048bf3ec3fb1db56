"""Where models are worth it: tables of real files from models, noisy moments and whole files.

    python bench/models_worth.py [--folder ../shared/data] [--only CE] [--seconds 600]

Each file of FILES is a population: a sample is the confidential file, as many other records are the
past file, and what is true is known. A run is one model under one mechanism at one epsilon: count
and mean of the outcome in the cells of two columns, relative root mean squared error over cells
with FEWEST expected records or more, beside that of the sample itself; how many 95 % intervals
cover; U_m of the outcome; processor seconds. Runs are rows of docs/results/models/runs.csv, cheap
ones first; a stopped command goes on, and `--seconds` stops it by itself. What a mechanism refuses
is a row with its words, and so is what would take longer than MOST_SECONDS, by a run before it.
Then `python -m bench.models_worth_page` makes the page.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy.errors import Refused

KEPT = Path(__file__).resolve().parents[1] / "docs" / "results" / "models" / "runs.csv"
EPSILONS = (3.0, 1.0, 10.0, 0.5)  # in the order in which they are run
FEWEST = 30
MOST_SECONDS = 300.0  # processor time of a run; a slower model and mechanism is not run again
DELTA = 1e-9
Frame = pl.DataFrame


@dataclass(frozen=True)
class File:
    """A population: y by the columns a and b, with weights w."""

    path: str
    y: str
    by: tuple[str, str]
    weight: str  # or, where `sized`, what the chance to be drawn is the root of
    n: int
    sized: bool = False


FILES = {
    "CE": File("ce_half_a.parquet", "TOTEXPCQ", ("REGION", "SEX"), "FINLWT21", 3_000),
    "ACS Hawaii": File("acs2018_person_hi.parquet", "PINCP", ("SEX", "CIT"), "PWGTP", 3_000),
    "ACS Rhode Island": File("acs2018_person_ri.parquet", "PINCP", ("SEX", "CIT"), "PWGTP", 3_000),
    "NHANES II": File("nhanes2_samplics.csv", "zinc", ("region", "race"), "finalwgt", 3_000),
    "NAMCS": File("namcs2019_surveytable.csv", "AGE", ("SEX", "MSA"), "PATWT", 3_000),
    "api": File("apipop.csv", "enroll", ("stype", "awards"), "api.stu", 1_000, sized=True),
}


@dataclass(frozen=True)
class Run:
    """A row of the results; None where there is no number."""

    file: str
    n: int
    cells: int
    model: str
    mechanism: str
    epsilon: float | None
    replicate: int
    outcome: str = "skipped"  # or released, or refused
    words: str = ""
    counts: float | None = None  # relative RMSE
    means: float | None = None
    own_counts: float | None = None  # of the sample
    own_means: float | None = None
    covered: float | None = None  # share of intervals, both statistics
    U_m: float | None = None
    seconds: float | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return self.file, self.model, self.mechanism, self.epsilon, self.replicate


NAMES = [field.name for field in fields(Run)]
# model, mechanism, whether it has an epsilon; cheap ones first, each part at all epsilons
PLANNED = (
    (("WholeFile", "Marginals", True),),
    (
        *(("FBS", name, False) for name in ("Unweighted", "Weighted")),
        ("FBS", "NoisyMoments", True),
    ),
    (
        *(("FBP", name, False) for name in ("Unweighted", "Weighted")),
        ("FBP", "NoisyMoments", True),
        *((model, "past file", True) for model in ("FBS", "FBP")),
    ),
    (
        *((model, "no history", True) for model in ("FBS", "FBP")),
        *(("Beta", name, False) for name in ("Unweighted", "Weighted")),
        *(("Beta", name, True) for name in ("NoisyMoments", "past file", "no history")),
    ),
    (
        *(("Mixture", name, False) for name in ("Unweighted", "Weighted")),
        *(("Mixture", name, True) for name in ("NoisyMoments", "past file", "no history")),
    ),
)
NOT_RUN = {
    ("Mixture", "past file"): "a clipped mixture is left to NUTS: hours of processor time",
    ("Mixture", "no history"): "a clipped mixture is left to NUTS: hours of processor time",
}


@cache
def population(name: str, folder: Path) -> Frame:
    """Columns y, a, b, w, size; the outermost thousandths of y are drawn in to declared bounds."""
    file, path = FILES[name], folder / FILES[name].path
    names = [file.y, *file.by, file.weight]
    if path.suffix == ".parquet":
        frame = pl.read_parquet(path, columns=names)
    else:
        frame = pl.read_csv(path, columns=names, infer_schema_length=None, null_values="NA")
    frame = frame.drop_nulls().filter(pl.col(file.y) > 0, pl.col(file.weight) > 0)
    weight, equal = pl.col(file.weight).cast(pl.Float64), pl.lit(1.0)
    y = pl.col(file.y).cast(pl.Float64)
    low, high = (float(frame[file.y].quantile(q) or 1.0) for q in (0.001, 0.999))
    return frame.select(
        y=y.clip(low, high),
        a=pl.col(file.by[0]).cast(pl.String),
        b=pl.col(file.by[1]).cast(pl.String),
        w=equal if file.sized else weight,
        size=weight if file.sized else equal,
    )


def codebook_of(whole: Frame, n: int, sizes: float) -> us.Codebook:
    """What would be declared: bounds a tenth wider, a guess of two digits, levels."""
    low, high = float(whole["y"].min()) * 0.9, float(whole["y"].max()) * 1.1  # type: ignore[arg-type]
    typical = float(f"{whole['y'].median():.1g}")
    spread = float(f"{(whole['y'].quantile(0.75) - whole['y'].quantile(0.25)) / 1.35:.1g}")  # type: ignore[operator]
    usual = sizes / n
    columns = {
        "y": us.Column(
            "y", "sensitive", "continuous", bounds=(low, high), typical=typical, spread=spread,
            grid="log", blanks=False,
        ),
        "w": us.Column("w", "weight", bounds=(usual / 50, usual * 50), grid="log", blanks=False),
    } | {
        by: us.Column(
            by, type="categorical", levels=tuple(sorted(whole[by].unique())), blanks=False
        )
        for by in ("a", "b")
    }  # fmt: skip
    return us.Codebook(columns, population_size=sizes)


def drawn(name: str, folder: Path, replicate: int) -> tuple[us.Survey, us.Survey, Frame]:
    """The confidential file, a past one that shares no record with it, and the population."""
    whole, n = population(name, folder), FILES[name].n
    n = min(n, len(whole) // 3)
    rng = np.random.default_rng([replicate, len(whole)])
    chances = whole["size"].sqrt().to_numpy()
    chances = chances / chances.sum()
    rows = rng.choice(len(whole), 2 * n, replace=False, p=chances)
    codebook = codebook_of(whole, n, float(whole["w"].sum()))
    weights = whole["w"].to_numpy() / (n * chances)
    samples = [
        us.Survey(
            whole[part.tolist()].drop("size").with_columns(w=pl.Series(weights[part])),
            us.Design(weight="w"),
            codebook,
        )
        for part in (rows[:n], rows[n:])
    ]
    return samples[0], samples[1], whole


def model_of(name: str, survey: us.Survey) -> us.Model:
    if name == "WholeFile":
        return us.WholeFile(["y", "a", "b", "w"])
    if name == "Beta":
        return us.Beta("y")
    if name == "Mixture":
        return us.Mixture("y", "a + b", 5, "prior", typical=survey.codebook["y"].typical)
    return getattr(us, name)("y", "a + b")  # type: ignore[no-any-return]


def mechanism_of(name: str, epsilon: float | None, past: us.Survey) -> us.Mechanism:
    if epsilon is None:
        return us.Unweighted() if name == "Unweighted" else us.Weighted()
    if name == "Marginals":
        return us.Marginals(epsilon, DELTA)
    if name == "NoisyMoments":
        return us.NoisyMoments(epsilon)
    return us.ReferenceCensored(epsilon, past if name == "past file" else "none")


def table(survey: us.Survey | list[us.Survey]) -> Frame:
    combine = None if isinstance(survey, us.Survey) else "partial"
    return us.tabulate(survey, ["count", "mean(y)"], ["a", "b"], combine=combine)


def true_cells(whole: Frame, n: int) -> Frame:
    """Weighted count and mean of every cell with enough expected records."""
    w = pl.col("w")
    cells = whole.group_by("a", "b").agg(
        pl.len(), count=w.sum(), mean=(w * pl.col("y")).sum() / w.sum()
    )
    cells = cells.filter(pl.col("len") * n / len(whole) >= FEWEST)
    return pl.concat(
        cells.select("a", "b", statistic=pl.lit(text), truth=name)
        for text, name in (("count", "count"), ("mean(y)", "mean"))
    )


def judged(made: Frame, truth: Frame) -> tuple[float, float, float]:
    """Relative RMSE of counts and means, and the share of intervals that cover; a cell without a
    record is off by all of it."""
    both = truth.join(made, on=["a", "b", "statistic"], how="left").with_columns(
        error=(pl.col("estimate") / pl.col("truth") - 1).fill_null(-1.0).fill_nan(-1.0),
        inside=pl.col("truth").is_between("lower", "upper").fill_null(value=False),
    )
    errors = [
        float(np.sqrt((both.filter(statistic=text)["error"].to_numpy() ** 2).mean()))
        for text in ("count", "mean(y)")
    ]
    return errors[0], errors[1], float(both["inside"].to_numpy().mean())


def compute(planned: Run, folder: Path) -> Run:
    survey, past, whole = drawn(planned.file, folder, planned.replicate)
    truth = true_cells(whole, survey.n)
    own = judged(table(survey), truth)
    facts = asdict(planned) | {
        "cells": truth.height // 2,
        "own_counts": own[0],
        "own_means": own[1],
    }
    facts["n"] = survey.n
    begun = time.process_time()
    try:
        files = us.synthesize(
            survey,
            model_of(planned.model, survey),
            mechanism_of(planned.mechanism, planned.epsilon, past),
            5 if planned.mechanism in ("NoisyMoments", "Marginals") else 3,
            seed=planned.replicate,
            progress=False,
        ).datasets
    except Refused as refusal:
        seconds = time.process_time() - begun
        return Run(**facts | {"outcome": "refused", "words": str(refusal), "seconds": seconds})
    seconds = time.process_time() - begun
    counts, means, covered = judged(table(files), truth)
    y, w = (survey.frame()[name].to_numpy() for name in ("y", "w"))
    apart = np.mean([
        us.ecdf_distance(y, file.frame()["y"].to_numpy(), w, file.frame()["w"].to_numpy())[0]
        for file in files
    ])  # fmt: skip
    return Run(
        **facts
        | {"outcome": "released", "counts": counts, "means": means, "covered": covered}
        | {"U_m": float(apart), "seconds": seconds}
    )


def planned_runs(replicates: int) -> Iterator[Run]:
    """Cheap mechanisms of every file come before dear ones of any."""
    for replicate in range(replicates):
        for part in PLANNED:
            for epsilon in EPSILONS:
                for model, mechanism, spends in part:
                    if not spends and epsilon != EPSILONS[0]:
                        continue
                    asked = epsilon if spends else None
                    words = NOT_RUN.get((model, mechanism), "")
                    for name, file in FILES.items():
                        yield Run(name, file.n, 0, model, mechanism, asked, replicate, words=words)


def too_slow(planned: Run, done: dict[tuple[Any, ...], Run]) -> str:
    """Why it is not run, where an earlier run of the same kind took too long."""
    for run in done.values():
        alike = (run.model, run.mechanism) == (planned.model, planned.mechanism)
        if alike and (run.seconds or 0.0) > MOST_SECONDS:
            return f"{run.file} took {run.seconds:.0f} seconds of processor time"
    return ""


def read_runs(path: Path = KEPT) -> list[Run]:
    if not path.exists():
        return []
    texts = ("file", "model", "mechanism", "outcome", "words")
    whole = ("n", "cells", "replicate")
    rows = []
    with path.open(encoding="utf-8", newline="") as kept:
        for row in csv.DictReader(kept):
            values: dict[str, Any] = {}
            for name in NAMES:
                value = row[name]
                number = None if value == "" else int(value) if name in whole else None
                values[name] = value if name in texts else number
                if name not in texts and name not in whole and value != "":
                    values[name] = float(value)
            rows.append(Run(**values))
    return rows


def keep(run: Run, path: Path = KEPT) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as kept:
        writer = csv.writer(kept, lineterminator="\n")
        if new:
            writer.writerow(NAMES)
        values = asdict(run).values()
        writer.writerow(f"{v:.4g}" if isinstance(v, float) else v for v in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("../shared/data"))
    parser.add_argument("--replicates", type=int, default=1)
    parser.add_argument("--only", choices=list(FILES))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    asked = parser.parse_args()
    done = {run.key: run for run in read_runs()}
    for planned in planned_runs(asked.replicates):
        if planned.key in done or asked.only not in (None, planned.file):
            continue
        if time.process_time() > asked.seconds:
            break
        words = planned.words or too_slow(planned, done)
        run = Run(**asdict(planned) | {"words": words}) if words else compute(planned, asked.folder)
        done[run.key] = run
        keep(run)
        print(*(getattr(run, name) for name in NAMES), flush=True)


if __name__ == "__main__":
    main()
