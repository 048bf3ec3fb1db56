"""The table of the MODIPS study: every method's figures, in the digits that are shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from understudy_studies.acs_modips.replicate import Summary

HEAD = (
    *("method", "relation", "epsilon", "mean |bias|", "closed form", "away", "RMSE"),
    *("report's RMSE", "coverage", "empty = covered", "empty", "empty in one set"),
)


def study_table(summaries: Sequence[Summary]) -> pl.DataFrame:
    rows = [[cell or None for cell in _row(summary)] for summary in summaries]
    return pl.DataFrame(rows, schema=dict.fromkeys(HEAD, pl.String), orient="row")


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
