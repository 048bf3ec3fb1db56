"""C §4 and §5 as computations: which mechanisms, on which data, and what is written down.

A row is one mechanism on one database: its record bound, how many records it truncated or
censored, and how near its one synthetic data set is to the confidential one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.censoring.mathematicians import mathematicians, published_mathematicians
from understudy_studies.framework import Row, Vector
from understudy_studies.shared_fits import SharedFits, shared_fits

Key = tuple[str, float | None, float]  # mechanism by its name in C (or ours), epsilon, c1

EPSILONS = (5.0, 4.0, 3.0)
REFERENCE_EPSILONS = (3.0, 1.0, 0.5)
DOWNSCALED = (4.0, 0.8)  # epsilon and c1 of C §4.4
SHAPES = (0.5, 3.0)  # of the simulated outcome, C §4.1
FIGURE_1_SHAPES, FIGURE_1_EPSILON = (0.5, 2.0), 1.6
EARLIER_LEVEL = 0.96  # salaries of the application's earlier survey, relative to the later one
QUANTILES = {"median": 0.5, "q15": 0.15, "q90": 0.9}
NUMBERS = ("bound", "count", "u_m", "u_a", "mean", "median", "q15", "q90")
UNREFITTED = "Weighted-e unrefitted"  # another reading of C §2.2
DECLARED = (300_000.0, 500_000.0, 1_000_000.0)  # upper bounds of salary, for Weighted's bound
NAMES = {"PH": "PH √n"}  # the histogram's bins, where rows are named for a reader
CODEBOOK = us.Codebook({"y": us.Column("y", "sensitive", bounds=(0.0, 1.0))})
SAMPLER = us.SamplerSettings(draws=1000, chains=2, warmup=300)


@dataclass(frozen=True)
class CensoringDesign:
    """Sizes of the study. The paper does not say how many posterior draws its bounds rest on."""

    n: int = 2000
    application_n: int = 1601
    predictors: str = "gender + age + weeks"
    sampler: us.SamplerSettings = SAMPLER


# All parts of the study, in two minutes.
QUICK = CensoringDesign(300, 300, "gender + weeks", us.SamplerSettings(1000, 2, 200))


def mechanisms(
    reference: us.Survey | None, epsilons: tuple[float, ...], downscaled: bool
) -> dict[Key, us.Mechanism]:
    """Every mechanism of the comparison, in the order of the paper's figures; those that need a
    reference only where there is one."""
    listed: dict[Key, us.Mechanism] = {
        ("Unweighted", None, 1.0): us.Unweighted(),
        ("Weighted", None, 1.0): us.Weighted(),
    }
    for epsilon in epsilons:
        listed |= {
            ("Weighted-e", epsilon, 1.0): us.WeightedE(epsilon),
            (UNREFITTED, epsilon, 1.0): us.WeightedE(epsilon, reading="unrefitted"),
            ("Censor_w", epsilon, 1.0): us.Censored(epsilon),
            ("Censor_uw", epsilon, 1.0): us.Censored(epsilon, weighted=False),
            ("PH", epsilon, 1.0): us.PerturbedHistogram(epsilon, "sqrt"),
            ("PH ln n", epsilon, 1.0): us.PerturbedHistogram(epsilon, "log"),
        }
    if reference is not None:
        listed |= {
            ("ReferenceCensored", epsilon, 1.0): us.ReferenceCensored(epsilon, reference)
            for epsilon in REFERENCE_EPSILONS
        }
    if downscaled:
        epsilon, c1 = DOWNSCALED
        listed |= {
            ("Weighted", None, c1): us.Weighted(c1=c1),
            ("Weighted-e", epsilon, c1): us.WeightedE(epsilon, c1=c1),
            (UNREFITTED, epsilon, c1): us.WeightedE(epsilon, c1=c1, reading="unrefitted"),
            ("Censor_w", epsilon, c1): us.Censored(epsilon, c1=c1),
        }
    return listed


def simulated(shapes: tuple[float, float], n: int, rng: np.random.Generator) -> us.Survey:
    return us.Survey(pl.DataFrame({"y": rng.beta(*shapes, n)}), codebook=CODEBOOK)


def replicate(design: CensoringDesign, seed: int, number: int) -> Row:
    """One database of C §4.1 and a reference of the same size, through all mechanisms."""
    rng = np.random.default_rng([seed, number])
    survey, reference = (simulated(SHAPES, design.n, rng) for _ in range(2))
    fitter = shared_fits(survey, us.Beta("y"), design.sampler, int(rng.integers(2**62)))
    rows, _ = compare(fitter, survey, "y", mechanisms(reference, EPSILONS, downscaled=True))
    return {"replicate": number, "rows": rows}


def application(
    design: CensoringDesign, seed: int, data: Path | None = None, columns: Path | None = None
) -> Row:
    """C §5: the rows of Table 2, the salaries of every synthetic data set, and Weighted's bound
    under other declared bounds of salary.

    The reference of ReferenceCensored is an earlier survey: other persons, salaries 4 % lower. A
    file that is given has none.
    """
    earlier = None
    if data is not None:
        survey = published_mathematicians(data, columns)
    else:
        survey = mathematicians(design.application_n, seed)
        earlier = mathematicians(design.application_n, seed + 1, EARLIER_LEVEL)
    model = us.BetaRegression("salary", design.predictors)
    fitter = shared_fits(survey, model, design.sampler, seed)
    rows, columns_made = compare(
        fitter, survey, "salary", mechanisms(earlier, (5.0,), downscaled=False)
    )
    made = {name: values.tolist() for name, values in columns_made.items()}
    weighted = next(row for row in rows if row["mechanism"] == "Weighted")
    declared = declared_bounds(design, survey, seed, weighted["bound"])
    return {"rows": rows, "salaries": made, "declared": declared}


def declared_bounds(
    design: CensoringDesign, survey: us.Survey, seed: int, own: float | None
) -> list[Row]:
    """Weighted's bound where the same salaries are scaled to [0, 1] by another upper bound; `own`
    is that of the survey's."""
    salary = survey.codebook["salary"]
    assert salary.bounds is not None
    largest = float(survey.frame(["salary"])["salary"].max())  # type: ignore[arg-type]
    rows = [{"upper": salary.bounds[1], "bound": own}]
    for upper in DECLARED:
        if upper <= largest or upper == salary.bounds[1]:
            continue
        book = survey.codebook.with_column(replace(salary, bounds=(0.0, upper)))
        scaled = us.Survey(survey.frame(), survey.design, book)
        model = us.BetaRegression("salary", design.predictors)
        try:
            released = us.Weighted().release(shared_fits(scaled, model, design.sampler, seed), 1)
        except us.Refused:  # failed diagnostics: nothing is released
            continue
        bound = released.bounds
        rows.append({"upper": upper, "bound": None if bound is None else bound.overall})
    return sorted(rows, key=lambda row: row["upper"])


def compare(
    fitter: SharedFits, survey: us.Survey, outcome: str, compared: dict[Key, us.Mechanism]
) -> tuple[list[Row], dict[str, Vector]]:
    """A row for the confidential data and for each mechanism, and the values behind them."""
    values = survey.frame([outcome])[outcome].to_numpy()
    rows = [_row("Data", None, 1.0) | statistics(values)]
    columns = {"Data": values}
    weights: dict[float, Vector] = {}
    for (name, epsilon, c1), mechanism in compared.items():
        row = _row(name, epsilon, c1)
        rows.append(row)
        try:
            released = mechanism.release(fitter, 1)
        except us.Refused as refusal:
            row["refused"] = str(refusal)  # failed diagnostics: nothing is released
            continue
        generated = fitter.generated(released.output)[0]
        made = fitter.model.restore(generated, survey)[outcome].to_numpy()
        largest, mean_square = us.ecdf_distance(values, made)
        row |= {"u_m": largest, "u_a": mean_square, **statistics(made)}
        columns[label(row)] = made
        if released.fitted is None or released.bounds is None:
            continue
        row["bound"] = released.bounds.overall
        if name == "Weighted":
            weights[c1] = released.record_weights
        elif name in ("Weighted-e", UNREFITTED):
            row["count"] = int(((weights[c1] > 0) & (released.record_weights == 0)).sum())
        elif name != "Unweighted":
            row["count"] = released.bounds.censored
    return rows, columns


def _row(mechanism: str, epsilon: float | None, c1: float) -> Row:
    """A row without numbers yet; a mechanism that releases nothing stays so."""
    numbers = dict.fromkeys(NUMBERS)
    return {"mechanism": mechanism, "epsilon": epsilon, "c1": c1, **numbers, "refused": None}


def statistics(values: Vector) -> Row:
    """Mean, median, 15th and 90th quantile (C §4.3, Table 2)."""
    shares = {name: float(np.quantile(values, share)) for name, share in QUANTILES.items()}
    return {"mean": float(values.mean()), **shares}


def label(row: Row) -> str:
    """`Censor_w, ε 4, c1 0.8`: a row's name in figures and tables."""
    mechanism = str(row["mechanism"])
    parts = [NAMES.get(mechanism, mechanism)]
    if row["epsilon"] is not None:
        parts.append(f"ε {row['epsilon']:g}")
    if row["c1"] != 1:
        parts.append(f"c1 {row['c1']:g}")
    return ", ".join(parts)


def figure_1_draws(design: CensoringDesign, seed: int) -> Row:
    """Parameters under posterior, censored and reference-censored posterior (C Figure 1).

    The paper does not say whether its example is weighted; this one is not (Censor_uw).
    """
    rng = np.random.default_rng([seed, 1, 1])
    survey, reference = (simulated(FIGURE_1_SHAPES, design.n, rng) for _ in range(2))
    fitter = shared_fits(survey, us.Beta("y"), design.sampler, seed)
    frames = []
    for name, mechanism in (
        ("posterior", us.Unweighted()),
        ("censored", us.Censored(FIGURE_1_EPSILON, weighted=False)),
        ("reference-censored", us.ReferenceCensored(FIGURE_1_EPSILON, reference)),
    ):
        try:
            fitted = mechanism.release(fitter, 1).fitted
        except us.Refused:  # failed diagnostics: one curve less
            continue
        if isinstance(fitted, us.Posterior):
            drawn = {key: value.reshape(-1) for key, value in fitted.draws.items()}
            frames.append(pl.DataFrame(drawn).with_columns(density=pl.lit(name)))
    return pl.concat(frames).to_dict(as_series=False)
