"""The table of the MODIPS study, in the digits that are shown, and the facts of its page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from understudy_studies.acs_modips.pairs import EPSILON
from understudy_studies.acs_modips.population import TWELVE
from understudy_studies.acs_modips.replicate import (
    DATASETS,
    PRIOR,
    RELATIONS,
    Summary,
    class_bias,
    of_relation,
)
from understudy_studies.framework import Row

NEAR = 0.02  # relative distance of RMSEs that are called the same
SMALL_PRIOR = 0.05  # another prior than the report's, for the question of its last conclusion

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
        *(f"{summary.mean(what):.3f}" for what in ("rmse", "rmse_report")),
        *(f"{summary.mean(what):.3f}" for what in ("coverage", "coverage_report")),
        *(f"{summary.mean(what):.4f}" for what in ("empty", "empty_sets")),
    )


def facts(summaries: Sequence[Summary], pairs: Sequence[Row]) -> Row:
    """Numbers of each method, and whether they agree with report M's."""
    ori, ms = summaries[:2]
    return {
        "ori": ori,
        "ms": ms,
        "datasets": DATASETS,
        "relations": [_relation(of_relation(summaries, each), ori, ms) for each in RELATIONS],
        "worst": max(abs(summary.away) for summary in summaries),
        "added": ori.cells.sum() / 2 / ori.size,
        "prior": PRIOR,
        "small_prior": SMALL_PRIOR,
        "columns": len(TWELVE),
        "pair_epsilon": EPSILON,
        "pairs": pl.DataFrame(pairs),
    }


def _relation(private: Sequence[Summary], ori: Summary, ms: Summary) -> Row:
    """MODIPS under one relation, by epsilon, beside ORI and MS."""
    low, high = (_nearest(private, power) for power in (1.0, 2.0))
    coverage, rmse = [summary.mean("coverage") for summary in private], ms.mean("rmse")
    return {
        "first": private[0],
        "low": low,
        "high": high,
        "last": private[-1],
        "reached": abs(private[-1].mean("rmse") - rmse) < NEAR * rmse,
        "over": min(ori.mean("coverage"), ms.mean("coverage"), *coverage) > 0.95,
        "coverage": coverage,
        "lenient": [summary.mean("coverage_report") for summary in private],
        "other_prior": [_bias(method, SMALL_PRIOR) for method in (ms, high)],
    }


def _nearest(private: Sequence[Summary], power: float) -> Summary:
    return min(private, key=lambda summary: abs(np.log(summary.method.epsilon) - power))


def _bias(summary: Summary, prior: float) -> float:
    """Mean |bias| under another prior, by the closed form."""
    bias = class_bias(summary.true, summary.cells, prior, summary.method.scale)
    return float(np.average(np.abs(bias), weights=summary.cells))
