"""What the study of paper R says in words; every sentence follows from a table it is given."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import polars as pl

import understudy as us
from understudy_studies.risk_weights import application as ce
from understudy_studies.risk_weights import simulation as nb
from understudy_studies.risk_weights.tables import as_grid, by_synthesizer

NEAR = 1.05  # an R-hat that is no proof, but no alarm for a study

Row = dict[str, Any]


def fields(
    tables: dict[str, pl.DataFrame], files: int, applied: Sequence[Row], source: str, real: bool
) -> Row:
    """Everything the template asks for."""
    summary = simulation_summary(tables["simulation-table-5"], tables["simulation-risk"], files)
    summary += application_summary(
        tables["application-table-7"],
        tables["application-risk"],
        real,
        sum(bool(result["convergence"]["failures"]) for result in applied[1:]),
        len(applied) - 1,
        max(_apart(result) for result in applied[1:]),
    )
    return {
        "summary": summary,
        "files": files,
        "source": source,
        "internal": us.INTERNAL,
        "verdicts": [verdict(result) for result in applied[1:]],
        "whole": lambda name, caption: as_grid(caption, tables[name], f"{name}.csv"),
        "spread": lambda name, caption: by_synthesizer(caption, tables[name], f"{name}.csv"),
    }


def simulation_summary(ecdf: pl.DataFrame, risk: pl.DataFrame, files: int) -> list[str]:
    """What the simulated counts show: utility first, then risk against the controls."""
    pairwise, marginal = nb.PAIRWISE, nb.marginal(nb.HARD)
    u = {name: _median(ecdf, name, "U_m") for name in (nb.SYNTHESIZER, pairwise, marginal,
                                                       nb.CONSTANT_PAIRWISE)}  # fmt: skip
    order = "below" if u[pairwise] < u[marginal] else "not below"
    texts = [
        f"Simulated counts, {files} files: the largest difference of distribution functions (U_m) "
        f"is {u[pairwise]:.3f} for Pairwise and {u[marginal]:.3f} for Marginal (medians), so "
        f"Pairwise is {order} Marginal; without weights it is {u[nb.SYNTHESIZER]:.3f}, and with a "
        f"constant weight {u[nb.CONSTANT_PAIRWISE]:.3f}."
    ]
    rise = {name: _row(risk, name, "rising") for name in (marginal, pairwise, nb.AGAIN)}
    noise = rise[nb.AGAIN]
    below = [n for n in (marginal, pairwise) if rise[n]["median"] < noise["5 %"]]
    above = [n for n in (marginal, pairwise) if rise[n]["median"] > noise["95 %"]]
    texts.append(
        f"Records whose risk rises by {nb.RISE:g} (“whack-a-mole”): {rise[marginal]['median']:.0f} "
        f"under Marginal, {rise[pairwise]['median']:.0f} under Pairwise, and "
        f"{noise['median']:.0f} [{noise['5 %']:.0f}, {noise['95 %']:.0f}] when the unweighted "
        f"synthesizer is merely run again; constant weights give "
        f"{_median(risk, nb.CONSTANT_MARGINAL, 'rising'):.0f} and "
        f"{_median(risk, nb.CONSTANT_PAIRWISE, 'rising'):.0f}. "
        + _against_noise(above, below, "what the control shows in 9 of 10 files")
    )
    means = {n: _median(risk, n, "mean risk") for n in (nb.SYNTHESIZER, marginal, pairwise)}
    texts.append(
        "Mean risk is "
        + ", ".join(f"{value:.3f} ({name})" for name, value in means.items())
        + f", against {_median(risk, 'Data', 'mean risk'):.3f} in the data: synthesis itself lowers"
        " it; the weights move it little."
    )
    return texts


def application_summary(
    ecdf: pl.DataFrame, risk: pl.DataFrame, real: bool, failed: int, fits: int, apart: float
) -> list[str]:
    """What the incomes show. There is one file, so two unweighted runs measure the noise.

    `apart` is by how much the means of chains differ at most, in any F of any fit.
    """
    u = dict(zip(ecdf["synthesizer"], ecdf["U_m"], strict=True))
    ordered = u[ce.SYNTHESIZER] < u[ce.PAIRWISE] < u[ce.MARGINAL]
    by = {row["synthesizer"]: row for row in risk.iter_rows(named=True)}
    texts = [
        f"{'Survey' if real else 'Generated'} incomes: U_m is {u[ce.SYNTHESIZER]:.3f} "
        f"(Synthesizer), {u[ce.PAIRWISE]:.3f} (Pairwise), {u[ce.MARGINAL]:.3f} (Marginal); the "
        f"published order Synthesizer, Pairwise, Marginal is {'' if ordered else 'not '}"
        f"reproduced. A second unweighted run gives {u[ce.AGAIN]:.3f}, constant weights of the "
        f"same means {u[ce.CONSTANT_PAIRWISE]:.3f} and {u[ce.CONSTANT_MARGINAL]:.3f}.",
        _riskiest({name: row["riskiest 1 %"] for name, row in by.items()}),
        _rising({name: row["rising by 0.25"] for name, row in by.items()}),
    ]
    if failed:
        ranked = sorted(u[name] for name in (ce.SYNTHESIZER, ce.PAIRWISE, ce.MARGINAL))
        gap = min(ranked[1] - ranked[0], ranked[2] - ranked[1])
        texts.append(
            f"{failed} of {fits} fits of incomes do not pass the diagnostics that a release needs. "
            f"The means of their chains differ by up to {apart:.4f} in the distribution function; "
            f"the U_m of Synthesizer, Pairwise and Marginal differ by {gap:.4f} or more, so their "
            + (
                "order does not hang on it."
                if gap > apart
                else "order may hang on it: run longer chains."
            )
        )
    return texts


def _riskiest(top: dict[str, float]) -> str:
    """Whether the riskiest records are better protected than by chance or by a constant."""
    noise = abs(top[ce.SYNTHESIZER] - top[ce.AGAIN])
    plain = min(top[ce.SYNTHESIZER], top[ce.AGAIN])
    both = max(top[ce.MARGINAL], top[ce.PAIRWISE]) < plain - noise
    pairs = ((ce.MARGINAL, ce.CONSTANT_MARGINAL), (ce.PAIRWISE, ce.CONSTANT_PAIRWISE))
    # one difference of two runs knows the noise badly: ask for twice as much
    beyond = [name for name, control in pairs if top[name] < top[control] - 2 * noise]
    return (
        f"The riskiest percent of records has mean risk {top[ce.MARGINAL]:.3f} under Marginal and "
        f"{top[ce.PAIRWISE]:.3f} under Pairwise, against {top[ce.SYNTHESIZER]:.3f} and "
        f"{top[ce.AGAIN]:.3f} in two runs without weights: "
        + ("both protect them better. " if both else "not clearly better for both. ")
        + f"Constant weights of the same means give {top[ce.CONSTANT_MARGINAL]:.3f} and "
        f"{top[ce.CONSTANT_PAIRWISE]:.3f}: "
        + (
            f"{' and '.join(beyond)} {'do' if len(beyond) > 1 else 'does'} better than that by "
            "more than twice what two unweighted runs differ, so looking at risk buys something."
            if beyond
            else "the difference is less than twice that of two unweighted runs, so these data do "
            "not show that looking at risk buys more than weighting everybody down."
        )
    )


def _rising(count: dict[str, int]) -> str:
    """Rises against a second unweighted run; counts as rough Poisson numbers."""
    control = count[ce.AGAIN]

    def differs(name: str, other: int) -> bool:
        return abs(count[name] - other) > 2 * sqrt(count[name] + other)

    constant = {ce.MARGINAL: ce.CONSTANT_MARGINAL, ce.PAIRWISE: ce.CONSTANT_PAIRWISE}
    above = [n for n in constant if count[n] > control and differs(n, control)]
    below = [n for n in constant if count[n] < control and differs(n, control)]
    beyond = [n for n in below if count[n] < (own := count[constant[n]]) and differs(n, own)]
    verdict = _against_noise(above, below, "the control")
    if below and not above:
        verdict += (
            f" {_listed(beyond)} also below a constant weight of the same mean."
            if beyond
            else " Constant weights of the same means do as well: what lowers the count is less "
            "weight for everybody, not looking at risk."
        )
    return (
        f"Records that rise by 0.25: Marginal {count[ce.MARGINAL]}, Pairwise "
        f"{count[ce.PAIRWISE]}, a second unweighted run {control}, constant weights "
        f"{count[ce.CONSTANT_MARGINAL]} and {count[ce.CONSTANT_PAIRWISE]}. {verdict}"
    )


def _against_noise(above: list[str], below: list[str], limit: str) -> str:
    if above:
        return f"{_listed(above)} above {limit}: more rises than noise."
    if below:
        return f"{_listed(below)} below {limit}."
    return "That is noise: no weighted synthesizer differs from the control by more than chance."


def _listed(names: list[str]) -> str:
    return f"{' and '.join(names)} {'lie' if len(names) > 1 else 'lies'}"


def _row(table: pl.DataFrame, name: str, measure: str) -> dict[str, float]:
    rows = table.filter((pl.col("synthesizer") == name) & (pl.col("measure") == measure))
    return rows.row(0, named=True)


def _median(table: pl.DataFrame, name: str, measure: str) -> float:
    return float(_row(table, name, measure)["median"])


def verdict(result: Row) -> str:
    fit = result["convergence"]
    lines = fit["quantities"]
    worst = max(lines, key=lambda line: float(line["R-hat"]))
    least = min(lines, key=lambda line: float(line["bulk ESS"]))
    near = sum(float(line["R-hat"]) < NEAR for line in lines)
    return (
        f"{result['name']} {'does not pass' if fit['failures'] else 'passes'}: {fit['chains']} "
        f"chains, {fit['draws']} kept draws; R-hat below {NEAR} for {near} of {len(lines)} "
        f"quantities, largest {worst['R-hat']:.3f} ({worst['quantity']}); least bulk ESS "
        f"{least['bulk ESS']:.0f} ({least['quantity']}); means of the chains at most "
        f"{_apart(result):.4f} apart in F; divergent transitions: {fit['divergences']}; "
        f"{_time(result)}."
    )


def _apart(result: Row) -> float:
    """By how much the means of the chains differ in the distribution function, at most."""
    lines = [q for q in result["convergence"]["quantities"] if q["quantity"].startswith("F(")]
    return max(float(line["chains apart"]) for line in lines)


def _time(result: Row) -> str:
    """CPU seconds say more than the clock where other work shares the machine."""
    cpu = f" ({result['cpu seconds']:.0f} CPU-s)" if "cpu seconds" in result else ""
    return f"{result['seconds']:.0f} s{cpu}"
