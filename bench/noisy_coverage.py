"""Whether 95 % intervals from files of noisy moments cover, in repeated samples.

    python bench/noisy_coverage.py [--samples 20] [--only FBS FBP wide BetaRegression ...]

Populations of 100,000: T's doctorate recipients, sampled with probabilities proportional to size,
for FBS and FBP, with bounds that hold nearly all values, and for FBS ("wide") also with the
codebook's own; a share and a number of visits by two columns for BetaRegression and
NegativeBinomial, sampled at random. A sample of 1,000 has epsilon 3, one of 10,000 epsilon 1, and
each five files under NoisyMoments, combined as partial synthesis. Counts (where weights are drawn)
and means are looked at in cells with 30 expected records or more. Prints, for each model and size,
coverage with its Monte Carlo error over samples, that of the samples themselves, and processor
seconds of a release.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from whole_file_coverage import covered, summary, table

import understudy as us
from understudy.demo.doctorates import to_totals

SIZES = {1_000: 3.0, 10_000: 1.0}  # records: epsilon
PERSONS = 100_000
SALARIES, WEIGHTS = (13_224.0, 483_975.0), (0.2, 4.05)  # dollars; N/n
FIELDS = 6


@dataclass(frozen=True)
class Case:
    population: pl.DataFrame
    by: tuple[str, str]
    statistics: list[str]
    model: us.OutcomeModel
    draw: Callable[[np.random.Generator, int], us.Survey]


def doctorates(name: str) -> Case:
    persons = us.doctorate_population(np.random.default_rng(1))

    def draw(rng: np.random.Generator, n: int) -> us.Survey:
        sample = to_totals(us.doctorate_sample(persons, n, rng))
        codebook = us.doctorate_codebook()
        if name != "wide":
            low, high = (times * PERSONS / n for times in WEIGHTS)
            codebook = codebook.with_column(replace(codebook["salary"], bounds=SALARIES))
            codebook = codebook.with_column(replace(codebook["weight"], bounds=(low, high)))
        return us.Survey(sample, us.Design(weight="weight", strata="field"), codebook)

    model = (us.FBP if name == "FBP" else us.FBS)("salary", "field + gender")
    return Case(persons, ("field", "gender"), ["count", "mean(salary)"], model, draw)


def simulated(name: str) -> Case:
    rng = np.random.default_rng(2)
    field = rng.choice(FIELDS, PERSONS, p=np.arange(1, 7) / 21)
    sex = rng.integers(0, 2, PERSONS)
    signal = 0.2 * (field - 2.5) - 0.4 * sex
    if name == "BetaRegression":
        mean = 1 / (1 + np.exp(-signal))
        y, facts = rng.beta(8 * mean, 8 * (1 - mean)), {"bounds": (0.0, 1.0)}
    else:
        y = rng.poisson(3 * np.exp(signal) * rng.gamma(2.0, 0.5, PERSONS))
        facts = {"bounds": (0, 60), "type": "integer"}
    persons = pl.DataFrame({"field": field, "sex": sex, "y": y})
    codebook = us.Codebook(
        {
            "field": us.Column("field", "public", "categorical", levels=tuple(range(FIELDS))),
            "sex": us.Column("sex", "public", "categorical", levels=(0, 1)),
            "y": us.Column("y", "sensitive", **facts),
        }
    )

    def draw(rng: np.random.Generator, n: int) -> us.Survey:
        return us.Survey(persons[rng.integers(0, PERSONS, n)], us.Design(), codebook)

    model = getattr(us, name)("y", "field + sex")
    return Case(persons, ("field", "sex"), ["mean(y)"], model, draw)


CASES: dict[str, Callable[[str], Case]] = {
    "FBS": doctorates,
    "FBP": doctorates,
    "wide": doctorates,
    "BetaRegression": simulated,
    "NegativeBinomial": simulated,
}


def of_samples(case: Case, n: int, epsilon: float, samples: int) -> tuple[pl.DataFrame, float]:
    """Which intervals cover, and the processor seconds of a release."""
    whole = us.Survey(case.population, us.Design(), us.Codebook())
    truth = table(whole, case.statistics, case.by).select(
        "by", "a", "b", "statistic", truth="estimate", expected=pl.col("n") * (n / PERSONS)
    )
    rows, begun = [], time.process_time()
    for number in range(samples):
        survey = case.draw(np.random.default_rng([n, number]), n)
        mechanism = us.NoisyMoments(epsilon)
        files = us.synthesize(survey, case.model, mechanism, datasets=5, progress=False).datasets
        for how, chosen in (("sample", survey), ("released", files)):
            rows.append(covered(table(chosen, case.statistics, case.by), truth, number, how))
    return pl.concat(rows), (time.process_time() - begun) / samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    asked = parser.parse_args()
    for name in asked.only:
        case = CASES[name](name)
        for n, epsilon in SIZES.items():
            rows, seconds = of_samples(case, n, epsilon, asked.samples)
            print(f"{name}, n = {n:,}, epsilon {epsilon:g}: {seconds:.1f} CPU s a release")
            print(summary(rows).sort("how", "statistic", "columns"), flush=True)


if __name__ == "__main__":
    with pl.Config(tbl_rows=60):
        main()
