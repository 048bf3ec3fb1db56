"""The sentences of the page about paper C. They put numbers into words and compute none."""

from __future__ import annotations

import polars as pl

from understudy_studies.censoring.mechanisms import CensoringDesign
from understudy_studies.censoring.tables import by_mechanism

Tables = dict[str, pl.DataFrame]

MECHANISMS = (
    "Unweighted: the plain posterior. No promise; the level that a synthesizer without privacy "
    "reaches.",
    "Weighted: risky records count less (weight alpha). Its epsilon is computed on this file and "
    "holds only as files grow large (asymptotic).",
    "Weighted-e: as Weighted, and records that still weigh more than ε/2 are dropped. Asymptotic.",
    "Censor_uw and Censor_w: each record's log-likelihood (without or with weights) is cut off at "
    "-ε/2 and ε/2. Strict for fixed weights. The paper computes Censor_w's weights from the same "
    "file, which the promise does not cover: `understudy audit` finds a loss of 15 at a claim of "
    "1.",
    "PH: a histogram with noise, with √n or ln n bins. Strict.",
    "ReferenceCensored, ours: what is cut off is the gain over a fixed reference, here another "
    "sample of the same size. Strict; it needs such a reference, which the paper's mechanisms do "
    "not.",
)

RELATION = (
    "One epsilon is not like another. For the posterior mechanisms it compares a record with the "
    "same record left blank; for the histogram it compares a record with any other record. Under "
    "one and the same relation the histogram has half the epsilon of the others: PH at ε 5 stands "
    "beside Censor_w at ε 2.5. The paper compares them at equal labels, and so do these figures "
    "(docs/proofs/perturbed-histogram.md)."
)

BOUNDS = (
    "The record bound is the largest log-likelihood contribution of any record at any posterior "
    "draw; twice the bound is epsilon. Weighted-e should stay below ε/2 and does not always. The "
    "censored ones cannot exceed it."
)

COUNTS = (
    "Weighted-e drops records, the others cut their contribution at one posterior draw or more. "
    "The paper's number stands in brackets where it prints one."
)

UTILITY = (
    "Both measures compare the distribution functions (ECDFs) of the synthetic and the "
    "confidential file; 0 is perfect. Look first at Unweighted: nothing can be expected to be much "
    "nearer. The paper prints no numbers for these figures."
)


APPLICATION = (
    "The paper uses 1601 doctorate holders in mathematics from a public file that is not part of "
    "this project. Here is a simulated file with the published facts (number of records, levels, "
    "range of weeks; mean, median, 15th and 90th quantile of salary), bounds declared as 0 to "
    "500,000 dollars. One synthetic file per mechanism, so differences of a few percent are "
    "chance. The reference of ReferenceCensored is a simulated earlier survey of other persons "
    "with salaries 4 percent lower."
)

TITLES = {
    2: "Figure 2. Record bounds; the upright mark is ε/2.",
    3: "Figure 3.",
    4: "Figure 4.",
    5: "Figures 5 and 16, epsilon 5.",
    6: "Figure 6. Record bounds without and with downscaling, epsilon 4.",
    7: "Figure 7, downscaling.",
    8: "Figure 8, downscaling.",
    10: "Figures 2 and 10. Record bounds; the upright mark is ε/2.",
    11: "Figure 11, epsilon 5.",
    12: "Figures 12 and 17, epsilon 5.",
    13: "Figures 13 and 18.",
    14: "Figures 14 and 19.",
    15: "Figures 15 and 20.",
    21: "Figure 21, downscaling.",
    22: "Figure 22, downscaling.",
    23: "Figure 23, downscaling.",
    24: "Figure 24, downscaling.",
}


def caption(number: int, quantity: str) -> str:
    shown = "" if "bounds" in TITLES[number] else f" {quantity[0].upper()}{quantity[1:]}."
    return f"{TITLES[number]}{shown} ReferenceCensored is added."


def alt(name: str, tables: Tables) -> str:
    """What a figure shows, in words and its main numbers."""
    if name == "figure-01":
        return f"Densities of the two parameters. {parameters(tables)}"
    if name == "figure-09":
        return "Density of salary in each synthetic file, drawn over the confidential density."
    number = int(name[-2:])
    table, statistic = {
        2: ("bounds", "mean"), 6: ("bounds", "mean"), 10: ("bounds", "mean"),
        3: ("utility", "mean U_m"), 21: ("utility", "mean U_m"),
        4: ("utility", "mean U_a"), 7: ("utility", "mean U_a"),
        5: ("statistics", "median"), 15: ("statistics", "median"), 23: ("statistics", "median"),
        8: ("statistics", "q15"), 11: ("statistics", "q15"), 13: ("statistics", "q15"),
        12: ("statistics", "q90"), 14: ("statistics", "q90"), 24: ("statistics", "q90"),
        22: ("statistics", "mean"),
    }[number]  # fmt: skip
    means = [f"{row} {found[statistic][0]:.3g}" for row, found in by_mechanism(tables[table])]
    return f"Violin plots over replicates, one row per mechanism. Means: {'; '.join(means)}."


def summary(tables: Tables, rows: pl.DataFrame) -> tuple[str, ...]:
    near = dict(by_mechanism(tables["utility"]))
    touched = dict(by_mechanism(tables["table-1"]))
    bounds = dict(by_mechanism(tables["bounds"]))
    number = rows["replicate"].n_unique()

    def u(row: str) -> str:
        return f"{near[row]['mean U_m'][0]:.3f}" if row in near else "not released"

    def span(row: str) -> str:
        found = bounds.get(row)
        return f"{found['min'][0]:.1f} to {found['max'][0]:.1f}" if found else "nothing released"

    def mean_count(row: str) -> str:
        return f"{touched[row]['mean'][0]:.0f}" if row in touched else "none"

    return (
        "A confidential file is replaced by one drawn from a statistical model. Two questions: "
        "how much can the new file give away about one person (epsilon; smaller is safer), and "
        f"how far is it from the old one? This page reruns paper C over {number} simulated files.",
        "U_m is the largest gap between the two distributions. Without any privacy it is "
        f"{u('Unweighted')}. The paper's best strict mechanism, Censor_w, has "
        f"{u('Censor_w, ε 5')} at epsilon 5 and {u('Censor_w, ε 3')} at epsilon 3. "
        "ReferenceCensored, which also knows another sample, has "
        f"{u('ReferenceCensored, ε 3')} at epsilon 3, {u('ReferenceCensored, ε 1')} at 1 and "
        f"{u('ReferenceCensored, ε 0.5')} at 0.5.",
        f"Beside the paper's numbers: record bounds of {span('Unweighted')} unweighted (paper: "
        f"around 7.5 to 15) and {span('Weighted')} weighted (2 to 3.5); records censored by "
        f"Censor_uw {mean_count('Censor_uw, ε 5')}, {mean_count('Censor_uw, ε 4')} and "
        f"{mean_count('Censor_uw, ε 3')} at epsilon 5, 4 and 3 (247, 419 and 809).",
        "These are close. Two things are not: the counts of Weighted-e and Censor_w, which are "
        "smaller here than in the paper, and the histogram, which does better here with √n bins. "
        "The end of the page says what is known about the reasons.",
    )


def parameters(tables: Tables) -> str:
    found = {
        (line["density"], line["parameter"]): (line["mean"], line["sd"])
        for line in tables["figure-1"].iter_rows(named=True)
    }

    def of(density: str, parameter: str) -> str:
        if (density, parameter) not in found:
            return "not released"
        mean, spread = found[density, parameter]
        return f"{mean:.3f} (sd {spread:.4f})"

    said = [
        f"{greek}: posterior {of('posterior', name)}, Censor_uw {of('censored', name)}, "
        f"ReferenceCensored {of('reference-censored', name)}"
        for greek, name in (("φ", "phi"), ("λ", "lambda"))
    ]
    return f"Mean and spread of {'; '.join(said)}."


def figure_1(tables: Tables) -> str:
    return (
        "Censoring moves the posterior far from where the data put it; cut off around a reference "
        f"instead, it stays. {parameters(tables)} The paper's figure also shows the censored "
        "posterior flatter than the posterior. It names neither the parameter nor whether the "
        "example is weighted; here are both parameters, unweighted, and the shift is what one sees."
    )


def application(tables: Tables) -> str:
    found = dict(by_mechanism(tables["table-2"]))

    def of(row: str) -> str:
        value = found[row]["max-ECDF"][0] if row in found else None
        return "nothing" if value is None else f"{value:.3f}"

    return (
        f"{APPLICATION} The Beta regression itself misses the shape of these salaries: Unweighted "
        f"has max-ECDF {of('Unweighted')}, and ReferenceCensored at ε 0.5 has "
        f"{of('ReferenceCensored, ε 0.5')}. The histogram with √n bins has {of('PH √n, ε 5')}, but "
        "it knows nothing of gender, age and weeks: in its file salary does not go with them, "
        "which these measures do not see."
    )


def downscaling(tables: Tables) -> str:
    near = dict(by_mechanism(tables["utility"]))

    def pair(before: str, after: str) -> str:
        if before not in near or after not in near:
            return "not released"
        first, second = near[before]["mean U_a"][0], near[after]["mean U_a"][0]
        return f"{first:.4f} before, {second:.4f} after"

    return (
        "Multiplying all weights by 0.8 lowers the bounds, so that less must be cut. Mean U_a at "
        f"epsilon 4: Weighted {pair('Weighted', 'Weighted, c1 0.8')}; Weighted-e "
        f"{pair('Weighted-e, ε 4', 'Weighted-e, ε 4, c1 0.8')}; Censor_w "
        f"{pair('Censor_w, ε 4', 'Censor_w, ε 4, c1 0.8')}. The paper sees all three improve."
    )


def differences(tables: Tables) -> tuple[str, ...]:
    touched = dict(by_mechanism(tables["table-1"]))
    near = dict(by_mechanism(tables["utility"]))
    applied = dict(by_mechanism(tables["table-2"]))

    def counts(mechanism: str) -> str:
        found = [touched.get(f"{mechanism}, ε {e}") for e in (5, 4, 3)]
        ours = "/".join("–" if one is None else f"{one['mean'][0]:.0f}" for one in found)
        paper = "/".join("–" if one is None else f"{one['mean'][1]:.0f}" for one in found)
        return f"{ours} here, {paper} in the paper"

    def u_a(row: str) -> str:
        return f"{near[row]['mean U_a'][0]:.4f}" if row in near else "–"

    def of(row: str, what: str, style: str) -> str:
        value = applied[row][what][0] if row in applied else None
        return "–" if value is None else style.format(value)

    return (
        f"Counts at epsilon 5/4/3, means. Weighted-e: {counts('Weighted-e')}. Censor_w: "
        f"{counts('Censor_w')}. The definitions are the ones that the paper prints: a record "
        "counts when its weighted log-likelihood exceeds ε/2 at one draw or more. Under them a "
        "weight can only lower a contribution, so one expects Censor_w to touch fewer records than "
        "Censor_uw; in the paper's Table 1 its median at epsilon 4 is higher (425 against 419). "
        "The paper may count otherwise than it says; nothing was tuned here to meet it.",
        f"The histogram. With √n bins its mean U_a at epsilon 5 is {u_a('PH √n, ε 5')}, with ln n "
        f"bins {u_a('PH ln n, ε 5')}; Censor_w has {u_a('Censor_w, ε 5')}. The paper calls its "
        "histogram worse than almost all others and does not say how many bins it has. That fits "
        "ln n bins, and so does its column in Table 2 (15th quantile 30,108; here "
        f"{of('PH ln n, ε 5', '15th Q', '{:,.0f}')} with ln n and "
        f"{of('PH √n, ε 5', '15th Q', '{:,.0f}')} with √n bins). The bins' width, not the noise, "
        "is what makes it bad.",
        f"The application's bounds. Weighted has {of('Weighted', 'Lipschitz', '{:.2f}')} here and "
        "2.62 in the paper. A bound is set by the most extreme record, and the simulated file "
        "shares the published summaries with the real one, not its extremes. Read Table 2 as a "
        "comparison between mechanisms.",
        "Bounds and counts are maxima over posterior draws and grow with their number, which the "
        "paper does not state.",
    )


def computed(design: CensoringDesign, rows: pl.DataFrame) -> tuple[str, ...]:
    number = rows["replicate"].n_unique()
    refused = rows["refused"].drop_nulls().len() if "refused" in rows.columns else 0
    released = rows.filter(pl.col("mechanism") != "Data").height - refused
    return (
        f"{number} replicates (paper: 100) of n = {design.n} records from Beta(0.5, 3); each with "
        "a second sample of the same size as the reference. One synthetic file per mechanism.",
        f"{design.draws} posterior draws from {design.chains} chains after {design.warmup} "
        "iterations of warm-up. A mechanism whose diagnostics fail releases nothing: "
        f"{refused} of {released + refused} here.",
        "Within a replicate the mechanisms share their first fit and the random numbers of the "
        "synthetic file, which makes their comparison sharper and changes no distribution.",
        'The scale of ReferenceCensored is chosen on the reference alone (scale="auto").',
        "Everything here was computed from (simulated) confidential data. Of real data such a page "
        "would be internal.",
    )
