"""The facts of the page: what each synthesizer achieves, and what of it the controls bear out."""

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
# the synthesizers that the page speaks of, by the part they play
INCOMES = {
    "synthesizer": ce.SYNTHESIZER,
    "again": ce.AGAIN,
    "marginal": ce.MARGINAL,
    "pairwise": ce.PAIRWISE,
    "constant_marginal": ce.CONSTANT_MARGINAL,
    "constant_pairwise": ce.CONSTANT_PAIRWISE,
}
COUNTS = {**INCOMES, "marginal": nb.marginal(nb.HARD), "pairwise": nb.PAIRWISE, "data": "Data"}
CONSTANT = {"marginal": "constant_marginal", "pairwise": "constant_pairwise"}

Row = dict[str, Any]


def facts(tables: dict[str, pl.DataFrame], files: int, applied: Sequence[Row]) -> Row:
    """Everything the template asks for, apart from what the run was told."""
    fits = [fit_facts(result) for result in applied[1:]]
    return {
        "files": files,
        "counts": count_facts(tables["simulation-table-5"], tables["simulation-risk"]),
        "incomes": income_facts(tables["application-table-7"], tables["application-risk"]),
        "fits": fits,
        "failed": sum(fit["failed"] for fit in fits),
        "apart": max(fit["apart"] for fit in fits),
        "near_limit": NEAR,
        "internal": us.INTERNAL,
        "whole": lambda name, caption: as_grid(caption, tables[name], f"{name}.csv"),
        "spread": lambda name, caption: by_synthesizer(caption, tables[name], f"{name}.csv"),
    }


def count_facts(ecdf: pl.DataFrame, risk: pl.DataFrame) -> Row:
    """Simulated counts: medians over the files, and rises beyond 9 of 10 files of the control."""

    def lines(table: pl.DataFrame, measure: str) -> dict[str, Row]:
        rows = {row["synthesizer"]: row for row in table.filter(measure=measure).to_dicts()}
        return {part: rows[name] for part, name in COUNTS.items() if name in rows}

    rising = lines(risk, "rising")
    noise = rising["again"]
    return {
        "u_m": {part: row["median"] for part, row in lines(ecdf, "U_m").items()},
        "mean_risk": {part: row["median"] for part, row in lines(risk, "mean risk").items()},
        "names": COUNTS,
        "rise": nb.RISE,
        "rising": rising,
        "above": [COUNTS[part] for part in CONSTANT if rising[part]["median"] > noise["95 %"]],
        "below": [COUNTS[part] for part in CONSTANT if rising[part]["median"] < noise["5 %"]],
    }


def income_facts(ecdf: pl.DataFrame, risk: pl.DataFrame) -> Row:
    """Incomes. There is one file, so two unweighted runs measure the noise."""

    def values(table: pl.DataFrame, column: str) -> dict[str, Any]:
        by_name = dict(table.select("synthesizer", column).iter_rows())
        return {part: by_name[name] for part, name in INCOMES.items()}

    u = values(ecdf, "U_m")
    top, rising = values(risk, "riskiest 1 %"), values(risk, "rising by 0.25")
    noise = abs(top["synthesizer"] - top["again"])
    plain, control = min(top["synthesizer"], top["again"]), rising["again"]

    def differs(part: str, other: int) -> bool:
        """Counts as rough Poisson numbers."""
        return bool(abs(rising[part] - other) > 2 * sqrt(rising[part] + other))

    below = [p for p in CONSTANT if rising[p] < control and differs(p, control)]
    first, second, third = sorted(u[part] for part in ("synthesizer", *CONSTANT))
    return {
        "u_m": u,
        "ordered": u["synthesizer"] < u["pairwise"] < u["marginal"],
        "gap": min(second - first, third - second),
        "top": top,
        "protected": max(top[part] for part in CONSTANT) < plain - noise,
        # one difference of two runs knows the noise badly: ask for twice as much
        "beyond": [INCOMES[p] for p, own in CONSTANT.items() if top[p] < top[own] - 2 * noise],
        "rising": rising,
        "above": [INCOMES[p] for p in CONSTANT if rising[p] > control and differs(p, control)],
        "below": [INCOMES[p] for p in below],
        "below_constant": [
            INCOMES[p]
            for p in below
            if rising[p] < (own := rising[CONSTANT[p]]) and differs(p, own)
        ],
    }


def fit_facts(result: Row) -> Row:
    """How far the chains of one fit converged, over its predictive quantities."""
    fit = result["convergence"]
    lines = fit["quantities"]
    return {
        "name": result["name"],
        "failed": bool(fit["failures"]),
        "chains": fit["chains"],
        "draws": fit["draws"],
        "divergences": fit["divergences"],
        "near": sum(float(line["R-hat"]) < NEAR for line in lines),
        "quantities": len(lines),
        "worst": max(lines, key=lambda line: float(line["R-hat"])),
        "least": min(lines, key=lambda line: float(line["bulk ESS"])),
        # by how much the means of the chains differ in the distribution function, at most
        "apart": max(float(q["chains apart"]) for q in lines if q["quantity"].startswith("F(")),
        "seconds": result["seconds"],
        "cpu_seconds": result.get("cpu seconds"),
    }
