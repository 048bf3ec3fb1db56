"""How often a clipped release fails after its payment: rehearsed releases of many files.

    python bench/rehearsals.py [--simulated 200] [--real 50] [--folder ../shared/data]

Each run is a release under ReferenceCensored with a past file of the same kind, alpha by rehearsal,
on another file, with another number of records, budget and number of data sets, all drawn from the
run's number. What may come of it: `released`; `refused`, by the rehearsal, before anything would be
paid; `failed`, by the diagnostics, after it. Bars: at most 1 % fail and 5 % are refused, and the
rehearsal's forecast of seconds is right within a factor of two. Runs are kept in
build/rehearsals.jsonl, and a stopped command goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us
from understudy.errors import Refused
from understudy.fitting.fit_settings import FitSettings
from understudy.publication import Publication
from understudy.synthesis import ready_outcome

KEPT = Path(__file__).resolve().parents[1] / "build" / "rehearsals.jsonl"
TAILS = ("normal", "t with 4 df", "long lower tail", "two groups")
MODELS = ("FBS", "FBP", "BetaRegression", "NegativeBinomial", "Beta")
GAUSSIAN = ("FBS", "FBP")
EPSILONS, FILES = (1.0, 3.0, 10.0), (1, 3)
SIZES, OFTEN = (300, 1_000, 3_000, 15_000), (0.3, 0.3, 0.3, 0.1)  # large ones take long
STATES = ("acs2018_person_hi.parquet", "acs2018_person_ri.parquet")
# file, outcome, predictors, weight
REAL = (
    *((state, name, ("SEX", "CIT"), "PWGTP") for state in STATES for name in ("WAGP", "PINCP")),
    *((state, "JWMNP", ("SEX",), "PWGTP") for state in STATES),
    ("ce_half_a.parquet", "TOTEXPCQ", ("REGION", "SEX"), "FINLWT21"),
    ("ce_half_a.parquet", "FINCBTAX", ("REGION",), "FINLWT21"),
    ("ce_half_a.parquet", "SALARYX", ("SEX",), "FINLWT21"),
    ("nhanes2_samplics.csv", "zinc", ("region", "race"), "finalwgt"),
    ("namcs2019_surveytable.csv", "AGE", ("SEX", "MSA"), "PATWT"),
)


def errors(tail: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Of variance about 1."""
    if tail == "t with 4 df":
        return rng.standard_t(4, n) / np.sqrt(2.0)
    if tail == "long lower tail":
        return 0.8 * rng.standard_normal(n) - (rng.random(n) < 0.08) * rng.exponential(2.0, n)
    if tail == "two groups":
        return 0.6 * rng.standard_normal(n) + np.where(rng.random(n) < 0.3, 1.1, -0.5)
    return rng.standard_normal(n)


def survey_of(columns: dict[str, object], bounds: tuple[float, float]) -> us.Survey:
    """`y` by the other columns, which are public, with weight `w`."""
    facts = {
        name: us.Column(name, type="categorical", levels=tuple(sorted(set(values))))
        for name, values in columns.items()
        if name not in ("y", "w")
    }
    facts["y"] = us.Column("y", role="sensitive", bounds=bounds)
    facts["w"] = us.Column("w", role="weight", bounds=(1e-3, 1e9))
    return us.Survey(pl.DataFrame(columns), us.Design(weight="w"), us.Codebook(facts))


def simulated(model: str, tail: str, n: int, off: float, rng: np.random.Generator) -> us.Survey:
    field, sex = rng.integers(0, 5, n), rng.integers(0, 2, n)
    signal = 0.15 * field - 0.2 * sex + 0.5 * errors(tail, n, rng) + np.log1p(off)
    if model == "NegativeBinomial":
        rate = rng.gamma(2.0, 0.5, n)
        y, bounds = rng.poisson(6.0 * np.exp(signal) * rate).astype(float), (0.0, 10_000.0)
    elif model in GAUSSIAN:
        y, bounds = np.exp(11.0 + signal), (1.0, 1e9)
    else:
        y, bounds = 100.0 / (1.0 + np.exp(-signal)), (0.0, 100.0)
    columns = {
        "field": np.array(list("abcde"))[field],
        "sex": np.array(["f", "m"])[sex],
        "y": y,
        "w": np.exp(rng.normal(3.0, 0.4, n)),
    }
    return survey_of(columns, bounds)


def read(path: Path, names: list[str]) -> pl.DataFrame:
    if path.suffix == ".parquet":
        frame = pl.read_parquet(path, columns=names)
    else:
        frame = pl.read_csv(path, columns=names, infer_schema_length=None, null_values="NA")
    return frame.drop_nulls().filter(pl.col(names[0]) > 0)


def real(source: tuple, n: int, rng: np.random.Generator, folder: Path) -> list[us.Survey]:
    """Two files that share no record, the past one first."""
    file, outcome, predictors, weight = source
    frame = read(folder / file, [outcome, *predictors, weight])
    n = min(n, len(frame) // 2)
    order = rng.permutation(len(frame))[: 2 * n]
    levels = {name: frame[name].unique().len() for name in predictors}
    frame = frame.select(
        pl.col(outcome).cast(pl.Float64).alias("y"),
        pl.col(weight).cast(pl.Float64).alias("w"),
        *(pl.col(name).cast(pl.String).alias(f"x{k}") for k, name in enumerate(levels)),
    )
    highest = 10.0 * float(frame["y"].max())  # type: ignore[arg-type]
    whole = survey_of({name: frame[name].to_list() for name in frame.columns}, (0.5, highest))
    return [
        us.Survey(frame[part.tolist()], whole.design, whole.codebook)
        for part in (order[:n], order[n:])
    ]


def run(kind: str, number: int, folder: Path) -> dict[str, object]:
    rng = np.random.default_rng([number, kind == "real"])
    epsilon, datasets = float(rng.choice(EPSILONS)), int(rng.choice(FILES))
    facts: dict[str, object] = {"kind": kind, "run": number, "epsilon": epsilon, "m": datasets}
    if kind == "real":
        name = str(rng.choice(GAUSSIAN))
        source = REAL[rng.integers(len(REAL))]
        n = int(rng.choice(SIZES, p=OFTEN))
        past, file = real(source, n, rng, folder)
        predictors = " + ".join(c for c in file.columns if c.startswith("x"))
        facts |= {"file": source[0], "y": source[1], "n": file.n}
    else:
        name, tail = str(rng.choice(MODELS, p=(0.3, 0.2, 0.2, 0.2, 0.1))), str(rng.choice(TAILS))
        n, off = int(rng.choice(SIZES, p=OFTEN)), float(rng.choice([0, 0.1]))
        n = n if name in GAUSSIAN else min(n, 3_000)
        past, file = simulated(name, tail, n, off, rng), simulated(name, tail, n, 0.0, rng)
        predictors = "field + sex"
        facts |= {"tail": tail, "off": off, "n": n}
    model = us.Beta("y") if name == "Beta" else getattr(us, name)("y", predictors)
    if name in GAUSSIAN:
        model = replace(model, population=round(past.frame(["w"])["w"].sum()))
    begun, clock = time.process_time(), time.perf_counter()
    facts |= {"model": name, "outcome": "refused", "words": "", "settled": "", "forecast": None}
    asked = file, model, us.ReferenceCensored(epsilon, past), datasets
    try:  # a release rehearses by itself, and takes what was rehearsed for the same file before
        rehearsed = ready_outcome(Publication(), *asked, FitSettings(progress=False)).rehearsed
        facts |= {"settled": rehearsed.settled, "forecast": rehearsed.seconds, "outcome": "failed"}
        us.synthesize(*asked, seed=number, progress=False)
        facts["outcome"] = "released"
    except Refused as refusal:
        facts["words"] = str(refusal)
    cpu, took = time.process_time() - begun, time.perf_counter() - clock
    return facts | {"cpu": round(cpu, 1), "took": round(took, 1)}


def run_of(asked: tuple[str, int, Path]) -> dict[str, object]:
    return run(*asked)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulated", type=int, default=200)
    parser.add_argument("--real", type=int, default=50)
    parser.add_argument("--folder", type=Path, default=Path("../shared/data"))
    asked = parser.parse_args()
    KEPT.parent.mkdir(exist_ok=True)
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    done = {(past["kind"], past["run"]): past for past in map(json.loads, lines)}
    numbers = {"real": asked.real, "simulated": asked.simulated}
    wanted = [(kind, k) for kind, number in numbers.items() for k in range(number)]
    wanted.sort(key=lambda each: each[1] / numbers[each[0]])  # both at a time
    missing = [(*each, asked.folder) for each in wanted if each not in done]
    # a process that compiled hundreds of programs may get no more memory for another
    with get_context("spawn").Pool(1, maxtasksperchild=10) as pool:
        for facts in pool.imap(run_of, missing):
            done[facts["kind"], facts["run"]] = facts
            with open(KEPT, "a", encoding="utf-8") as kept:
                kept.write(json.dumps(facts) + "\n")
    for kind, number in numbers.items():
        of_kind = [done[kind, k] for k in range(number)]
        print(kind, dict(Counter(str(past["outcome"]) for past in of_kind)), flush=True)
        print(f"  {np.quantile([past['cpu'] for past in of_kind], [0, 0.5, 1])} CPU seconds")
        right = [past for past in of_kind if past["outcome"] == "released"]
        ratios = np.array([past["took"] / past["forecast"] for past in right])
        within = np.mean((ratios > 0.5) & (ratios < 2.0))
        print(f"  took {ratios.min():.2f} to {ratios.max():.2f} of the forecast, {within:.3f} in 2")


if __name__ == "__main__":
    main()
