"""Influence beside the measures over partitions, on the same pairs of files and at equal epsilon.

Confidential files are drawn with replacement and chances by size: from V's population, from V's
with other smallest sizes, from normal values, and from real files taken as populations. Synthetic
files are a second such sample, or normal values with the moments of the unweighted sample (V's
biased synthesis), with the weights of a second sample or, as in V, with equal ones. Answers are the
package's own; their noise has no seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import Row, Vector
from understudy_studies.verification.replicate import CLIP, VerificationDesign, study_population
from understudy_studies.verification.roc import measured

STATISTICS = {
    "total": "total(y)",
    "mean": "mean(y)",
    "median": "quantile(y, 0.5)",
    "slope": "y ~ x0",
}
# what real files are called, their outcome and predictor, and the size, or weight, of a unit
FILES = {
    "apipop.csv": ("schools", "api00", "meals", "enroll"),
    "acs2018_person_hi.parquet": ("incomes, Hawaii", "PINCP", "AGEP", "PWGTP"),
    "ce_half_a.parquet": ("incomes, CE", "FINCBTAX", "AGE", "FINLWT21"),
}
WEIGHTS = ("PWGTP", "FINLWT21")
SYNTHESES = ("faithful", "biased", "faithful, equal weights", "biased, equal weights")
PAPER = "V, sizes 0 to 10"
MOST = 1_000_000  # units of a population: draws are with replacement


@dataclass(frozen=True)
class Units:
    """A population: what draws its units, an outcome and a predictor."""

    size: Vector
    reached: Vector
    y: Vector
    x0: Vector
    weighted: bool = True


@dataclass(frozen=True)
class Setting:
    """One line of the study: pairs of files, and what is asked about them."""

    varied: str
    population: str
    n: int
    epsilon: str
    synthesis: str = SYNTHESES[0]
    estimands: tuple[str, ...] = ("mean", "median", "slope")


def settings(design: VerificationDesign, real: Path | None) -> Iterator[Setting]:
    """Population, n, epsilon and weights, one after the other; then V's figures."""
    n, epsilon = design.influence_sizes[0], design.epsilon
    calm = sizes_named(design.roc_smallest)
    names = [PAPER, calm, "normal", *(FILES[name][0] for name in (FILES if real else ()))]
    yield from (Setting("population", name, n, epsilon) for name in names)
    yield from (Setting("records", calm, size, epsilon) for size in design.influence_sizes[1:])
    yield from (Setting("epsilon", calm, n, other) for other in design.influence_epsilons)
    yield from (Setting("weights", sizes_named(z), n, epsilon) for z in design.influence_smallest)
    for size in design.whole_sizes:
        for synthesis in SYNTHESES:
            yield Setting("figures", PAPER, size, epsilon, synthesis, ("total", "mean"))


def sizes_named(smallest: float) -> str:
    return f"V, sizes {smallest:g} to 10"


@lru_cache(maxsize=8)
def units_of(name: str, n: int, seed: int, real: Path | None) -> Units:
    if name.startswith("V"):
        drawn = study_population(n, seed, float(name.split()[2]))
        return Units(drawn.z, drawn.reached, drawn.x, drawn.z)
    if name == "normal":
        values = np.random.default_rng([seed, 5]).normal(size=(3, n))
        reached = np.arange(1.0, n + 1)
        return Units(np.ones(n), reached, values[0] + values[1], values[1], weighted=False)
    file = next(file for file, about in FILES.items() if about[0] == name)
    path, columns = Path(real or "") / file, list(FILES[file][1:])
    if not path.is_file():
        raise us.Refused(f"There is no file `{path}`; check the folder, or leave it out.")
    parquet = path.suffix == ".parquet"
    frame = pl.read_parquet(path) if parquet else pl.read_csv(path, infer_schema_length=None)
    y, x0, last = frame.select(pl.col(columns).cast(pl.Float64, strict=False)).drop_nulls()
    size = (1 / last.clip(1) if last.name in WEIGHTS else last + 1).to_numpy()
    return Units(size, np.cumsum(size), y.to_numpy(), x0.to_numpy())


@lru_cache(maxsize=64)
def truth_of(estimand: str, name: str, n: int, seed: int, real: Path | None) -> float:
    units = units_of(name, n, seed, real)
    return estimate(estimand, us.ArrayFile({"y": units.y, "x0": units.x0}, np.ones(len(units.y))))


@lru_cache
def question_of(estimand: str) -> Any:
    frame = pl.DataFrame({"y": [1.0, 2.0], "x0": [0.0, 1.0]})
    question = us.influence_questions(STATISTICS[estimand], [us.Survey(frame, us.Design())])[0]
    if estimand != "slope":
        return question
    equation: Any = question.equation
    return replace(question, equation=replace(equation, wanted=(1,)), names=("x0",))


def influence_repeat(
    real: Path | None, design: VerificationDesign, seed: int, number: int
) -> dict[str, Any]:
    """The answers of repeat `number`, as rows."""
    rng = np.random.default_rng([seed, 6, number])
    rows = []
    for setting in settings(design, real):
        population = (setting.population, min(design.population, MOST), seed, real)
        units = units_of(*population)
        for _ in range(1 if setting.varied == "figures" else design.influence_pairs):
            files = _files(units, setting, rng)
            for estimand in setting.estimands:
                truth = truth_of(estimand, *population)
                made = _answers(setting, estimand, truth, files, design, rng)
                rows += [asdict(setting) | {"estimand": estimand} | row for row in made]
    for row in rows:
        del row["estimands"]
    return {"replicate": number, "influence": rows}


def _files(units: Units, setting: Setting, rng: np.random.Generator) -> list[us.ArrayFile]:
    """The confidential file and the synthetic one."""
    n, total = setting.n, len(units.y)

    def weighted() -> us.ArrayFile:
        # in order, which is quicker to look up; parts are dealt out at random later
        rows = np.searchsorted(units.reached, np.sort(rng.uniform(0, units.reached[-1], n)))
        weight = units.reached[-1] / (n * units.size[rows]) if units.weighted else np.ones(n)
        return us.ArrayFile({"y": units.y[rows], "x0": units.x0[rows]}, weight)

    confidential = weighted()
    kind, _, equal = setting.synthesis.partition(", ")
    y = confidential.values["y"]
    if not equal:
        synthetic = weighted()
    else:
        drawn = units.y[rng.integers(total, size=n)] if kind == "faithful" else y
        synthetic = us.ArrayFile({"y": drawn}, np.full(n, total / n))
    if kind == "biased":
        values = {"y": rng.normal(y.mean(), y.std(), n)}
        synthetic = us.ArrayFile(values, synthetic.weight)
    return [confidential, synthetic]


def _answers(
    setting: Setting, estimand: str, truth: float, files: Sequence[us.ArrayFile],
    design: VerificationDesign, rng: np.random.Generator,
) -> list[Row]:  # fmt: skip
    """One row for each tolerance, of one estimand and pair."""
    confidential, synthetic = (
        us.ArrayFile(
            {"y": file.values["y"], **({"x0": file.values["x0"]} if estimand == "slope" else {}),
             **({"z": np.ones(file.units)} if estimand == "mean" else {})}, file.weight,
        )
        for file in files
    )  # fmt: skip
    reply = us.simulated_influence(
        question_of(estimand), confidential, [synthetic], float(setting.epsilon)
    )
    plan, se = reply.plan, float(reply.plan.prepared.sampling_se[0])
    m, micro = design.roc_partitions, us.parse_epsilon(setting.epsilon)
    label = np.arange(confidential.units) % m
    rng.shuffle(label)
    full, parts = estimate(estimand, confidential), parts_of(estimand, confidential, label, m)
    steps = us.discrepancy_steps(parts, reply.released, CLIP * sqrt(m) * se).sum()
    low, high = reply.interval(0.95)
    about = {
        "distance": (full - reply.released) / se,
        "difference": reply.difference / se,
        "expected": float(plan.error[0]) / se,
        "heaviest": plan.prepared.heaviest,
        "advice": plan.advice,
        "covered": low <= truth <= high,
        "discrepancy": int(us.geometric_noise(2 * us.DISCREPANCY_GRID, micro)([steps])[0]),
    }
    rows = []
    figures = setting.varied == "figures"
    for alpha in design.alphas if figures else design.influence_alphas:
        ends = np.array([alpha, -alpha]) * se - reply.difference
        above, below = plan.noise.blurred_cdf(ends, reply.noise_scale, plan.prepared.cut_se[0])
        flags = us.agreement_flags(parts, reply.released, sqrt(m) * alpha * se).sum()
        agreement = int(us.geometric_noise(1, micro, (0, m))([flags])[0])
        within = {"alpha": alpha, "within": float(above - below), "agreement": agreement}
        rows.append(about | within)
    return rows


def estimate(estimand: str, file: us.ArrayFile) -> float:
    """From the whole file."""
    whole = np.zeros(file.units, dtype=np.int64)
    return float(parts_of(estimand, file, whole, 1)[0])


def parts_of(estimand: str, file: us.ArrayFile, label: Any, m: int) -> Vector:
    """The estimates of the m parts; a total's part counts m times."""
    w, y = file.weight, file.values["y"]
    if estimand in ("total", "mean"):
        top, bottom = np.bincount(label, w * y, m), np.bincount(label, w, m)
        return np.asarray(m * top if estimand == "total" else top / bottom)
    kind, levels = ("quantile", ()) if estimand == "median" else ("linear", (0,))
    columns = np.array([y, w] if estimand == "median" else [y, w, file.values["x0"]])
    tasks = [us.PartitionTask(kind, columns[:, label == k], levels=levels) for k in range(m)]
    return np.array([us.estimate_partition(task) for task in tasks])


def scores_of(rows: pl.DataFrame) -> dict[str, Vector]:
    """What orders the pairs: how near 0 an answer is, and the noisy count."""
    return {
        "influence": -rows["difference"].abs().to_numpy(),
        "discrepancy": -rows["discrepancy"].abs().cast(pl.Float64).to_numpy(),
        "agreement": rows["agreement"].cast(pl.Float64).to_numpy(),
    }


def advice_of(rows: pl.DataFrame, **setting: Any) -> str:
    """What the planner says about the first pair of a setting, before anything is paid."""
    texts = rows.filter(**setting)["advice"]
    return str(texts[0]) if len(texts) and texts[0] else "nothing"


def influence_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Areas, errors in standard errors, coverage and warnings, of every setting and tolerance."""
    keys = ["varied", "population", "synthesis", "n", "epsilon", "estimand", "alpha"]
    lines = []
    for key, part in rows.group_by(keys, maintain_order=True):
        inside = part["inside"].to_numpy()
        error = part["difference"] - part["distance"]
        about = {
            "pairs": part.height,
            "inside": float(inside.mean()),
            "error": error.abs().median(),
            "expected": part["expected"].median(),
            "covered": part["covered"].mean(),
            "heaviest": part["heaviest"].median(),
            "warned": (part["advice"] != "").mean(),
            "within": part["within"].mean(),
        }
        lines.append(dict(zip(keys, key, strict=True)) | about | measured(scores_of(part), inside))
    return pl.DataFrame(lines, infer_schema_length=None)
