"""The table of the MODIPS study, in the digits that are shown, and the facts of its page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from understudy_studies.acs_modips.pairs import EPSILON
from understudy_studies.acs_modips.population import TWELVE
from understudy_studies.acs_modips.replicate import DATASETS, PRIOR, RELATIONS, class_bias
from understudy_studies.framework import Row

NEAR = 0.02  # relative distance of RMSEs that are called the same
SMALL_PRIOR = 0.05  # another prior than the report's, for the question of its last conclusion

COLUMNS = {
    "method": "{name}",
    "relation": "{relation}",
    "epsilon": "{epsilon:.4g}",
    "mean |bias|": "{bias:.3f}",
    "closed form": "{closed_form:.3f}",
    "away": "{away:.1f}",
    "RMSE": "{rmse:.3f}",
    "report's RMSE": "{rmse_report:.3f}",
    "coverage": "{coverage:.3f}",
    "empty = covered": "{coverage_report:.3f}",
    "empty": "{empty:.4f}",
    "empty in one set": "{empty_sets:.4f}",
}


def study_table(means: pl.DataFrame) -> pl.DataFrame:
    rows = [[cell.format(**row) for cell in COLUMNS.values()] for row in means.to_dicts()]
    table = pl.DataFrame(rows, schema=list(COLUMNS), orient="row")
    return table.with_columns(pl.all().replace({"": None, "inf": None, "-0.0": "0.0"}))


def facts(classes: pl.DataFrame, means: pl.DataFrame, pairs: Sequence[Row]) -> Row:
    """Numbers of each method, and whether they agree with report M's."""
    ori, ms, *private = means.to_dicts()
    true, cells = classes.filter(name="ORI").select("true", "cells")

    def at(methods: Sequence[Row], power: float) -> Row:
        """The method whose epsilon is nearest to e to this power."""
        return min(methods, key=lambda method: abs(np.log(method["epsilon"]) - power))

    def other_prior(method: Row) -> float:
        """Mean |bias| under another prior, by the closed form."""
        bias = class_bias(true, cells, SMALL_PRIOR, method["scale"])
        return float(np.average(np.abs(bias), weights=cells))

    def modips(relation: str) -> Row:
        """MODIPS under one relation, by epsilon, beside ORI and MS."""
        methods = [method for method in private if method["relation"] == relation]
        low, high = (at(methods, power) for power in (1.0, 2.0))
        away = abs(methods[-1]["rmse"] - ms["rmse"])
        return {
            "all": methods,
            "low": low,
            "high": high,
            "reached": away < NEAR * ms["rmse"],
            "over": min(method["coverage"] for method in (ori, ms, *methods)) > 0.95,
            "other_prior": [other_prior(method) for method in (ms, high)],
        }

    return {
        "ori": ori,
        "ms": ms,
        "datasets": DATASETS,
        "relations": [modips(relation) for relation in RELATIONS],
        "worst": means["away"].abs().max(),
        "prior": PRIOR,
        "small_prior": SMALL_PRIOR,
        "columns": len(TWELVE),
        "pair_epsilon": EPSILON,
        "pairs": pl.DataFrame(pairs),
    }
