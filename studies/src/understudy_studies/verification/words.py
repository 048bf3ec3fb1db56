"""What the page of the verification study says, from its numbers; nothing is said in advance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from understudy_studies.verification.published import (
    ADJUSTED,
    CLAIMS,
    TRUE_TOTAL,
    UNWEIGHTED_TOTAL,
)
from understudy_studies.verification.replicate import VerificationDesign

CLOSE = 0.1  # a mean median so near to r_full leads an analyst to the same conclusion

ROC = (
    "An analyst has one pair of files and wants to know one thing: is the confidential estimate "
    "inside the tolerance? Over many pairs, each measure is read as a test of that. An AUC of 0.5 "
    "is a coin, 1 is certainty. Both measures cost the same epsilon. Agreement counts parts of the "
    "file inside an interval that is widened for parts, so a discrepancy of the whole file up to "
    "the widened interval hardly moves it; the discrepancy is an estimate of the difference "
    "itself, with noise and clipping."
)
AUC_DESIGNS = (
    "The same from the repeats of the paper's designs, with equal blocks: fewer pairs, so larger "
    "standard errors. A dash says that fewer than ten pairs were inside, or outside."
)
CHOICES = (
    "The paper deals equal blocks, for which only replacing a record is protected, and adds "
    "Laplace noise. The server deals by a keyed hash, which protects adding and removing, and adds "
    "geometric noise held in 0..M. Under the hash a part's total has the factor M, and its size "
    "varies; where the population's size is public the server uses the mean times that size."
)
CLIPS = (
    "The discrepancy of a part is clipped at c sqrt(M) synthetic standard errors; the noise grows "
    "with c. The server's default is c = 2, chosen before this study; the table shows what other "
    "choices would have given."
)
BEYOND = (
    "The weighted median of x and the slope of the weighted regression of x on z, with parts "
    "fitted by the server's own code and synthetic data from a simple random sample."
)
DIFFERENCES = (
    "The paper does not say how it draws a sample with chances proportional to z. Here it is "
    "systematic along a random order. E[1/z] is infinite in this population, so another design "
    "gives other numbers.",
    "N(z + 5, 2) is read with variance 2, as the paper writes N(mean, s²) elsewhere.",
    "The variance of the synthetic total is N² (1 - n0/N) s0²/n0; the paper prints (1 - n0)/N.",
    "Posterior medians are exact, from the mixture of Betas that the paper's Gibbs sampler draws "
    "from; in the figures they stand on the paper's Laplace noise, drawn by OpenDP.",
)


@dataclass(frozen=True)
class Facts:
    """The numbers that the words are about."""

    repeats: int
    pairs: int
    tau: float
    unweighted: float  # mean of the biased synthetic totals
    settings: pl.DataFrame  # summary of equal blocks
    auc: pl.DataFrame
    bounded: pl.DataFrame  # AUC in the population without extreme weights
    conditions: pl.DataFrame  # the normal setting beside both populations

    def of(self, estimand: str, synthesis: str, interval: str) -> pl.DataFrame:
        return self.settings.filter(estimand=estimand, synthesis=synthesis, interval=interval)


def facts(
    found: Sequence[dict[str, Any]],
    equal: pl.DataFrame,
    tables: dict[str, pl.DataFrame],
    design: VerificationDesign,
) -> Facts:
    biased = equal.filter(estimand="total", synthesis="biased")
    return Facts(
        repeats=len(found),
        pairs=len(found) * design.roc_pairs,
        tau=float(found[0]["tau"]),
        unweighted=float(np.mean(biased["centre"].to_numpy())),
        settings=tables["summary"].filter(partitioning="equal"),
        auc=tables["auc"],
        bounded=tables["auc-bounded"],
        conditions=tables["auc-conditions"],
    )


def summary(known: Facts) -> list[str]:
    """What came out, first and plainly."""
    far, near = (_gap(known.of("total", "faithful", name)) for name in ("fixed", "adjusted"))
    biased = known.settings.filter(synthesis="biased", interval="adjusted")["median"]
    return [
        "Does an answer tell whether the confidential estimate is inside the tolerance? At equal "
        f"epsilon, without extreme weights, the discrepancy has an AUC of "
        f"{_areas(known.bounded, 'discrepancy')} and agreement, the paper's measure, of "
        f"{_areas(known.bounded, 'agreement')} (totals and means, all tolerances, equal blocks). "
        f"In the paper's population the figures are {_areas(known.auc, 'discrepancy')} and "
        f"{_areas(known.auc, 'agreement')}"
        + (
            ": there a few records with huge weights decide, and clipping, which protects them, "
            "hides what they do."
            if _typical(known.auc, "discrepancy") < _typical(known.bounded, "discrepancy")
            else "."
        ),
        f"On average over many files the paper's finding holds: posterior medians lie {near:.2f} "
        f"from r_full with adjusted intervals and {far:.2f} with fixed ones (totals, mean over "
        f"{len(known.of('total', 'faithful', 'fixed'))} settings). "
        f"With biased synthesis the mean medians are {range_of(biased)}.",
    ]


def fixed(known: Facts) -> str:
    part = known.of("total", "faithful", "fixed")
    below = int((part["median"] < part["r_full"]).sum())
    return (
        f"The paper: the medians are always much smaller than r_full. Ours: the mean median is "
        f"below r_full in {below} of {len(part)} settings, by {_gap(part):.2f} on average. A part "
        "has a larger error than the file, and a fixed interval does not know."
    )


def adjusted(known: Facts) -> str:
    part = known.of("total", "faithful", "adjusted")
    near = int(((part["median"] - part["r_full"]).abs() <= CLOSE).sum())
    above = int((part["median"] > part["r_full"]).sum())
    return (
        f"The mean median lies within {CLOSE:g} of r_full in {near} of {len(part)} settings, "
        f"{_gap(part):.2f} from it on average, above it in {above}. The boxes are wide all the "
        "same: one answer says much less than their mean."
    )


def biased(known: Facts) -> str:
    part = known.of("total", "biased", "adjusted")
    return (
        f"Synthetic data from the unweighted sample have a mean total of "
        f"{known.unweighted / 1e6:.1f} million (paper: around {UNWEIGHTED_TOTAL / 1e6:.0f} "
        f"million) where the true one is {known.tau:,.0f} (paper: {TRUE_TOTAL:,}). The paper: "
        f"r_full and the medians are close to 0. Ours: r_full is {range_of(part['r_full'])}, the "
        f"mean medians are {range_of(part['median'])}. A median cannot be 0: with no part inside "
        "and this noise the posterior still has its middle above it."
    )


def means(known: Facts) -> str:
    gaps = [_gap(known.of("mean", "faithful", name)) for name in ("fixed", "adjusted")]
    return (
        f"For means the mean median lies {gaps[0]:.2f} from r_full with fixed and {gaps[1]:.2f} "
        "with adjusted intervals. The paper does not show fixed intervals for means; the numbers "
        "are in the table of all settings."
    )


def beside(known: Facts, alpha: float) -> tuple[str, str, str, str]:
    """r_full and mean medians of Figure 2 at one alpha, each with the paper's words."""
    part = known.of("total", "faithful", "adjusted").filter(alpha=alpha)
    said = ADJUSTED.get(alpha, ("–", "–"))
    return range_of(part["r_full"]), said[0], range_of(part["median"]), said[1]


def findings(known: Facts) -> tuple[str, ...]:
    """Each claim of the paper, and whether these numbers bear it out."""
    good = known.of("total", "faithful", "adjusted")
    far = known.of("total", "faithful", "fixed")
    low = known.settings.filter(synthesis="biased", interval="adjusted")
    average = known.of("mean", "faithful", "adjusted")
    sizes = _steps(good, "n_k", ["alpha", "M"], "median")
    falls = int((sizes <= 0.01).sum())
    by_m = good.group_by("alpha", "n_k", maintain_order=True)
    moves = by_m.agg(move=pl.col("median").max() - pl.col("median").min())["move"]
    narrows = _steps(good, "M", ["alpha", "n_k"], "median_sd")
    most = float(np.max(moves.to_numpy()))
    return (
        f"{CLAIMS['fixed']} Ours: below r_full in {int((far['median'] < far['r_full']).sum())} of "
        f"{len(far)}.",
        f"{CLAIMS['adjusted']} Ours: {_gap(good):.2f} apart on average, {_worst(good):.2f} at "
        "most.",
        f"{CLAIMS['size']} Ours: from one n_k to the next the mean median falls, or stays within "
        f"0.01, in {falls} of {len(sizes)} steps.",
        f"{CLAIMS['partitions']} Ours: the mean median moves by at most {most:.2f} over M, and "
        f"its sd falls in {int((narrows < 0).sum())} of {len(narrows)} steps.",
        f"{CLAIMS['biased']} Ours: medians {range_of(low['median'])}.",
        f"{CLAIMS['mean']} Ours: {_gap(average):.2f} apart on average, {_worst(average):.2f} at "
        "most.",
    )


def computed(known: Facts, design: VerificationDesign) -> tuple[str, ...]:
    return (
        f"Population of {design.population:,}; parts of {_list(design.sizes)} records; "
        f"{_list(design.partitions)} parts; epsilon {design.epsilon}; {known.repeats} repeats "
        "(the paper has 200), of which each draws new confidential and synthetic files.",
        f"The ROC has {known.pairs:,} pairs of its own. The discrepancy is clipped at 2 sqrt(M) "
        "synthetic standard errors, the server's default.",
        "Estimates, flags and steps come from the server's own functions. The noise is OpenDP's "
        "and has no seed, so numbers change a little from run to run; the files do not.",
    )


def caption(number: int, estimand: str, synthesis: str, interval: str) -> str:
    data = "a simple random sample" if synthesis == "faithful" else "a biased sample"
    return (
        f"Figure {number}. r_full (red) and posterior medians of r, {interval} intervals, "
        f"population {estimand}. Synthetic data are {data}."
    )


def alt(known: Facts, which: tuple[str, str, str]) -> str:
    part = known.of(*which)
    texts = [
        f"alpha {alpha:g}: r_full {range_of(some['r_full'])}, mean medians "
        f"{range_of(some['median'])}"
        for (alpha,), some in part.group_by("alpha", maintain_order=True)
    ]
    return "Box plots of posterior medians by design. " + "; ".join(texts) + "."


def roc_of_paper(known: Facts) -> str:
    noisy, bare = (_typical(known.auc, name) for name in ("discrepancy", "no_noise"))
    clipped = bare - noisy < 0.05
    return (
        f"In the paper's population: discrepancy {_areas(known.auc, 'discrepancy')}, agreement "
        f"{_areas(known.auc, 'agreement')} (equal blocks). Without any noise the clipped "
        f"discrepancy would have {_areas(known.auc, 'no_noise')}"
        + (
            ", so it is the clip that costs here, hardly the noise: z comes near 0, a weight can "
            "be as large as the rest of its part, and what such a record does to the estimate is "
            "beyond every bound that protects it."
            if clipped
            else "."
        )
    )


def roc_bounded(known: Facts, design: VerificationDesign) -> str:
    return (
        f"The same with z from {design.roc_smallest:g} to 10, so that the largest weight is "
        f"{10 / design.roc_smallest:g} times the smallest: discrepancy "
        f"{_areas(known.bounded, 'discrepancy')}, agreement {_areas(known.bounded, 'agreement')}. "
        "Under the keyed hash a total without a public population size also carries the varying "
        "size of the parts, and clipping meets that; with a public size a total is that size "
        "times the mean, and the rows of the mean hold."
    )


def roc_caption(known: Facts, design: VerificationDesign) -> str:
    return (
        f"Epsilon {design.epsilon}, M = {design.roc_partitions}, n_k = {design.roc_size:,}, equal "
        f"blocks, {known.pairs:,} pairs of files."
    )


def roc_alt(table: pl.DataFrame) -> str:
    texts = [
        f"{row['estimand']}, alpha {row['alpha']:g}: discrepancy {row['discrepancy']:.2f}, "
        f"agreement {row['agreement']:.2f}"
        for row in table.filter(partitioning="equal").drop_nulls().iter_rows(named=True)
    ]
    return "ROC curves; areas: " + "; ".join(texts) + "."


def _areas(table: pl.DataFrame, measure: str) -> str:
    return range_of(table.filter(partitioning="equal")[measure])


def _typical(table: pl.DataFrame, measure: str) -> float:
    known = table.filter(partitioning="equal")[measure].drop_nulls().to_numpy()
    return float(known.mean()) if len(known) else float("nan")


def _gap(part: pl.DataFrame) -> float:
    return float(np.mean(np.abs(part["median"].to_numpy() - part["r_full"].to_numpy())))


def _worst(part: pl.DataFrame) -> float:
    return float(np.max(np.abs(part["median"].to_numpy() - part["r_full"].to_numpy())))


def _steps(part: pl.DataFrame, along: str, within: list[str], column: str) -> pl.Series:
    """Changes of a column from one value of `along` to the next, all else equal."""
    ordered = part.sort(along).with_columns(step=pl.col(column).diff().over(within))
    return ordered["step"].drop_nulls()


def range_of(values: pl.Series) -> str:
    known = values.drop_nulls().to_numpy()
    if not len(known):
        return "unknown"
    low, high = f"{known.min():.2f}", f"{known.max():.2f}"
    return low if low == high else f"{low} to {high}"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)
