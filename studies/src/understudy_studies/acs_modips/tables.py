"""The tables of the MODIPS study: every method's figures, and the distances of two-way tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.acs_modips.pairs import PairDistance
from understudy_studies.acs_modips.replicate import RELATIONS, Summary, of_relation

HEAD = (
    *("method", "relation", "epsilon", "mean |bias|", "closed form", "away", "RMSE"),
    *("report's RMSE", "coverage", "empty = covered", "empty", "empty in one set"),
)
BIAS, EMPTY = slice(3, 8), slice(8, 12)  # columns of the two tables of each relation


def study_table(summaries: Sequence[Summary]) -> pl.DataFrame:
    """A row for each method, in the digits that are shown."""
    rows = [[cell or None for cell in _row(summary)] for summary in summaries]
    return pl.DataFrame(rows, schema=dict.fromkeys(HEAD, pl.String), orient="row")


def relation_grids(summaries: Sequence[Summary]) -> list[us.Grid]:
    """Two tables for each relation; ORI and MS stand in each, to compare with."""
    grids = []
    for relation in RELATIONS:
        every = [_row(summary) for summary in (*summaries[:2], *of_relation(summaries, relation))]
        names = [f"epsilon {row[2]}" if row[2] else row[0] for row in every]
        for part, what in ((BIAS, "bias and RMSE in records"), (EMPTY, "coverage and empty cells")):
            rows = tuple((name, *row[part]) for name, row in zip(names, every, strict=True))
            caption = f"MODIPS under {relation} by epsilon (total), ORI and MS: {what}."
            grids.append(us.Grid(caption, (relation, *HEAD[part]), rows, "study.csv"))
    return grids


def pair_grid(pairs: Sequence[PairDistance]) -> us.Grid:
    rows = tuple(
        (
            pair.method,
            pair.claim,
            *(f"{d:.4f}" for d in (pair.one_file, pair.mean_file, pair.worst)),
        )
        for pair in pairs
    )
    header = ("method", "claim", "one set", "mean of sets", "worst pair")
    caption = "Total variation over pairs: single data sets, their average, the worst pair."
    return us.Grid(caption, header, rows)


def _row(summary: Summary) -> tuple[str, ...]:
    method = summary.method
    return (
        method.name,
        method.relation,
        f"{method.epsilon:.4g}" if np.isfinite(method.epsilon) else "",
        *(f"{value:.3f}" for value in (summary.mean("bias"), summary.closed_form)),
        f"{round(summary.away, 1) + 0.0:.1f}",  # without a minus before 0
        *(f"{summary.mean(what):.3f}" for what in ("rmse", "rmse_report", "coverage")),
        f"{summary.coverage_report:.3f}",
        f"{summary.empty:.4f}",
        f"{summary.empty_sets:.4f}",
    )
