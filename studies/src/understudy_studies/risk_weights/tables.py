"""The tables of the study of paper R: ours beside the published numbers, with their spread."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10, sqrt
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import (
    Row,
    Tables,
    Vector,
    beside_published,
    in_lines,
    published,
)
from understudy_studies.page import number
from understudy_studies.risk_weights import application as ce
from understudy_studies.risk_weights import simulation as nb

MEASURES = ("U_m", "U_a", "mean risk", "riskiest", "rising", "max risk", "IQR")
RISE = 0.25  # R's highlighted records in the application
HEADS = {"riskiest": "riskiest 1 %", "rising": f"rise by {nb.RISE:g}"}

NEAR = 1.05  # an R-hat that is no proof, but no alarm for a study
# the synthesizers that the page speaks of, by the part they play
INCOMES = {
    "synthesizer": nb.SYNTHESIZER,
    "again": nb.AGAIN,
    "marginal": ce.MARGINAL,
    "pairwise": ce.PAIRWISE,
    "three_way": ce.THREE_WAY,
    "four_way": ce.FOUR_WAY,
    "constant_marginal": nb.CONSTANT_MARGINAL,
    "constant_pairwise": nb.CONSTANT_PAIRWISE,
}
COUNTS = {**INCOMES, "marginal": nb.marginal(nb.HARD), "pairwise": nb.PAIRWISE, "data": "Data"}
CONSTANT = {"marginal": "constant_marginal", "pairwise": "constant_pairwise"}

SIMULATION_ECDF = published("risk-weights", "simulation-ecdf")  # U_m and U_a
APPLICATION_ECDF = published("risk-weights", "application-ecdf")
TABLE_6 = published("risk-weights", "table-6")  # mean and median with limits
TABLE_4 = published("risk-weights", "table-4")
RISK_IQR = dict(published("risk-weights", "risk-iqr").iter_rows())  # §3.2.1


def simulation_tables(rows: pl.DataFrame, simulated: Sequence[Row]) -> Tables:
    """Every table of the simulated counts."""
    return {
        "simulation-table-5": simulation_ecdf(rows),
        "simulation-risk": simulation_risk(rows),
        "simulation-table-6": table_6(simulated),
        "simulation-rows": rows,
    }


def application_tables(applied: Sequence[Row]) -> Tables:
    """Every table of the incomes."""
    return {
        "application-table-7": application_ecdf(applied),
        "application-risk": application_risk(applied),
        "application-table-4": application_intervals(applied),
        "application-table-2": top_ten(applied, largest=False),
        "application-table-3": top_ten(applied, largest=True),
        "convergence": convergence_table(applied),
    }


def simulation_ecdf(rows: pl.DataFrame) -> pl.DataFrame:
    """R Table 5 and supplement Table 2: U_m and U_a over the simulated files."""
    made = rows.drop_nulls("U_m").unique(["replicate", "name"], maintain_order=True)
    ours = over_files(made.rename({"name": "synthesizer"}), ["synthesizer"], ["U_m", "U_a"])
    return beside_published(ours, SIMULATION_ECDF, "measure")


def simulation_risk(rows: pl.DataFrame) -> pl.DataFrame:
    """Risk at r = 15 % with the controls: mean, the riskiest percent, records that rise."""
    hard = rows.filter(radius=nb.HARD).rename({"name": "synthesizer"})
    return over_files(hard, ["synthesizer"], MEASURES[2:])


def table_6(results: Sequence[Row]) -> pl.DataFrame:
    """R Table 6: estimate and interval length of mean and median by L."""
    rows = pl.DataFrame([row for result in results for row in result["table 6"]])
    keys = ["synthesizer", "L", "statistic"]
    ours = over_files(rows.rename({"name": "synthesizer"}), keys, ["estimate", "length"])
    length = (pl.col("upper") - pl.col("lower")).round(2)
    return beside_published(ours, TABLE_6.select(*keys, "estimate", length=length), "measure")


def over_files(rows: pl.DataFrame, keys: list[str], measures: Sequence[str]) -> pl.DataFrame:
    """Median and the 5 and 95 % quantiles of each measure over the simulated files."""
    lines = in_lines(rows.select(*keys, *measures), keys, "measure", "value").drop_nulls("value")
    shares = {"median": 0.5, "5 %": 0.05, "95 %": 0.95}
    return lines.group_by(*keys, "measure", maintain_order=True).agg(
        **{name: pl.col("value").quantile(share, "linear") for name, share in shares.items()}
    )


def application_ecdf(results: Sequence[Row]) -> pl.DataFrame:
    """R Table 7, supplement Tables 1 and 3, with the controls and topcoding."""
    ours = pl.DataFrame(
        [{"synthesizer": r["name"], "U_m": r["U_m"], "U_a": r["U_a"]} for r in results[1:]]
    )
    joined = ours.join(
        APPLICATION_ECDF, on="synthesizer", how="left", maintain_order="left", suffix=" published"
    )
    return joined.select("synthesizer", "U_m", "U_m published", "U_a", "U_a published")


def risks_of(results: Sequence[Row]) -> dict[str, Vector]:
    """Each record's risk in the data, topcoded, and under every synthesizer."""
    return {result["name"]: np.asarray(result["risk"]) for result in results}


def application_risk(results: Sequence[Row]) -> pl.DataFrame:
    """Mean, IQR, maximum, riskiest percent, share above .5, and records that rise by .25."""
    risks = risks_of(results)
    riskiest, before = nb.most_at_risk(risks["Data"]), risks[nb.SYNTHESIZER]
    rows = []
    for result, (name, risk) in zip(results, risks.items(), strict=True):
        compared = name not in ("Data", "Topcoding", nb.SYNTHESIZER)
        row = {
            "synthesizer": name,
            "mean": risk.mean(),
            "IQR": nb.iqr(risk),
            "IQR published": RISK_IQR.get(name),
            "max": risk.max(),
            "riskiest 1 %": risk[riskiest].mean(),
            "share above 0.5": (risk > 0.5).mean(),
            "rising by 0.25": us.whack_a_mole(before, risk, RISE).count if compared else None,
            "mean weight": float(np.mean(result["weights"])) if "weights" in result else None,
        }
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def application_intervals(results: Sequence[Row]) -> pl.DataFrame:
    """R Table 4 and Figure 10: estimates and intervals."""
    keys, limits = ["synthesizer", "statistic"], ["lower", "upper"]
    ours = pl.DataFrame(
        [{"synthesizer": r["name"], **line} for r in results for line in r.get("intervals", ())]
    )
    printed = TABLE_4.select(
        *keys, pl.col("estimate").alias("published"), pl.col(limits).name.prefix("published ")
    )
    return ours.join(printed, on=keys, how="left", maintain_order="left")


def top_ten(results: Sequence[Row], largest: bool) -> pl.DataFrame:
    """R Table 2 (riskiest records) or Table 3 (largest incomes); ours, then the published."""
    columns = risks_of(results)
    by = np.asarray(results[0]["income"]) if largest else columns["Data"]
    order = np.argsort(-by, kind="stable")[:10]
    printed = published("risk-weights", "table-3" if largest else "table-2")
    ours = {name: columns[name][order] for name in (*printed.columns, ce.PAIRWISE)}
    theirs = {f"{name} published": printed[name][: len(order)] for name in printed.columns}
    return pl.DataFrame({"place": np.arange(1, len(order) + 1), **ours, **theirs})


def convergence_table(results: Sequence[Row]) -> pl.DataFrame:
    """R-hat and bulk ESS of every predictive quantity of every fit."""
    return pl.DataFrame(
        [
            {"synthesizer": result["name"], **line}
            for result in results[2:]
            for line in result["convergence"]["quantities"]
        ]
    )


def by_synthesizer(caption: str, table: pl.DataFrame, file: str) -> us.Grid:
    """One line for each synthesizer, and for each measure one column: median and [5 %, 95 %],
    then the published number where the table has one."""
    names = table["synthesizer"].unique(maintain_order=True).to_list()
    header, columns = ["synthesizer"], [names]
    for measure in (name for name in MEASURES if name in set(table["measure"])):
        part = table.filter(measure=measure)
        digits = max(0, 2 - floor(log10(part["median"].abs().max() or 1.0)))  # type: ignore[arg-type]
        lines = {row["synthesizer"]: row for row in part.to_dicts()}
        header.append(HEADS.get(measure, measure))
        columns.append([_with_spread(lines.get(name), digits) for name in names])
        if "published" in part.columns:
            header.append("published")
            columns.append([number(lines.get(name, {}).get("published")) for name in names])
    return us.Grid(caption, tuple(header), tuple(zip(*columns, strict=True)), file)


def _with_spread(row: Row | None, digits: int) -> str:
    if row is None:
        return "–"
    middle, low, high = (f"{row[name]:.{digits}f}" for name in ("median", "5 %", "95 %"))
    return f"{middle} [{low}, {high}]"


def as_grid(caption: str, table: pl.DataFrame, file: str) -> us.Grid:
    """A frame as texts: four significant digits, thousands with commas."""
    body = tuple(tuple(number(value) for value in row) for row in table.iter_rows())
    return us.Grid(caption, tuple(table.columns), body, file)


def facts(tables: Tables) -> Row:
    """What each synthesizer achieves, and what of it the controls bear out."""
    return {
        "counts": count_facts(tables["simulation-table-5"], tables["simulation-risk"]),
        "internal": us.INTERNAL,
        "printed_u": dict(SIMULATION_ECDF.select("synthesizer", "U_m").iter_rows()).get,
        "whole": lambda name, caption: as_grid(caption, tables[name], f"{name}.csv"),
        "spread": lambda name, caption: by_synthesizer(caption, tables[name], f"{name}.csv"),
    }


def application_facts(tables: Tables, applied: Sequence[Row]) -> Row:
    """The same of the incomes, and how their chains did."""
    return {
        "incomes": income_facts(tables["application-table-7"], tables["application-risk"]),
        "fits": applied[2:],
        "failed": sum(bool(result["convergence"]["failures"]) for result in applied[2:]),
        "apart": apart(*applied[2:]),
        "apart_of": apart,
        "near_limit": NEAR,
    }


def apart(*results: Row) -> float:
    """By how much the means of the chains differ in the distribution function, at most."""
    lines = [line for result in results for line in result["convergence"]["quantities"]]
    return max(float(line["chains apart"]) for line in lines if line["quantity"].startswith("F("))


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
        return {part: by_name[name] for part, name in INCOMES.items() if name in by_name}

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
        "published": dict(APPLICATION_ECDF.select("synthesizer", "U_m").iter_rows()),
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
