"""The fields of page.md.j2: numbers in words, and what each figure shows. They compute nothing."""

from __future__ import annotations

from typing import Any

import polars as pl

from understudy_studies.censoring.figures import NAMES, VIOLINS
from understudy_studies.censoring.replicate import CensoringDesign
from understudy_studies.censoring.tables import by_mechanism, grid

Tables = dict[str, pl.DataFrame]

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
# the table and the statistic whose means say what a violin plot of a column shows
SHOWN = {
    "bound": ("bounds", "mean"),
    "u_m": ("utility", "mean U_m"),
    "u_a": ("utility", "mean U_a"),
}


def fields(tables: Tables, rows: pl.DataFrame, design: CensoringDesign) -> dict[str, Any]:
    """Everything the template asks for."""
    near, touched, bounds, applied = (
        dict(by_mechanism(tables[name])) for name in ("utility", "table-1", "bounds", "table-2")
    )

    def u_m(row: str) -> str:
        return f"{near[row]['mean U_m'][0]:.3f}" if row in near else "not released"

    def u_a(row: str) -> str:
        return f"{near[row]['mean U_a'][0]:.4f}" if row in near else "–"

    def pair(before: str, after: str) -> str:
        both = before in near and after in near
        return f"{u_a(before)} before, {u_a(after)} after" if both else "not released"

    def bound(row: str) -> str:
        known = bounds.get(row)
        return f"{known['min'][0]:.1f} to {known['max'][0]:.1f}" if known else "nothing released"

    def count(row: str) -> str:
        return f"{touched[row]['mean'][0]:.0f}" if row in touched else "none"

    def counts(mechanism: str) -> str:
        known = [touched.get(f"{mechanism}, ε {e}") for e in (5, 4, 3)]
        ours, paper = (
            "/".join("–" if row is None else f"{row['mean'][column]:.0f}" for row in known)
            for column in (0, 1)
        )
        return f"{ours} here, {paper} in the paper"

    def of(row: str, what: str, style: str, none: str = "–") -> str:
        value = applied[row][what][0] if row in applied else None
        return none if value is None else style.format(value)

    refused = rows["refused"].drop_nulls().len() if "refused" in rows.columns else 0
    return {
        "design": design,
        "replicates": rows["replicate"].n_unique(),
        "refused": refused,
        "tried": rows.filter(pl.col("mechanism") != "Data").height,
        "u_m": u_m,
        "u_a": u_a,
        "pair": pair,
        "bound": bound,
        "count": count,
        "counts": counts,
        "of": of,
        "parameters": parameters(tables["figure-1"]),
        "caption": caption,
        "alt": lambda number: alt(number, tables),
        "ours": lambda caption, name, style: grid(caption, tables[name], f"{name}.csv", style),
    }


def caption(number: int) -> str:
    quantity = NAMES[VIOLINS[f"figure-{number:02d}"][0]]
    shown = "" if "bounds" in TITLES[number] else f" {quantity[0].upper()}{quantity[1:]}."
    return f"{TITLES[number]}{shown} ReferenceCensored is added."


def alt(number: int, tables: Tables) -> str:
    """What a figure shows, in words and its main numbers."""
    column = VIOLINS[f"figure-{number:02d}"][0]
    table, statistic = SHOWN.get(column, ("statistics", column))
    means = [f"{row} {known[statistic][0]:.3g}" for row, known in by_mechanism(tables[table])]
    return f"Violin plots over replicates, one row per mechanism. Means: {'; '.join(means)}."


def parameters(table: pl.DataFrame) -> str:
    """Mean and spread of both parameters under each density of Figure 1."""
    known = {(row["density"], row["parameter"]): row for row in table.iter_rows(named=True)}

    def of(density: str, parameter: str) -> str:
        if (density, parameter) not in known:
            return "not released"
        row = known[density, parameter]
        return f"{row['mean']:.3f} (sd {row['sd']:.4f})"

    texts = [
        f"{greek}: posterior {of('posterior', name)}, Censor_uw {of('censored', name)}, "
        f"ReferenceCensored {of('reference-censored', name)}"
        for greek, name in (("φ", "phi"), ("λ", "lambda"))
    ]
    return f"Mean and spread of {'; '.join(texts)}."
