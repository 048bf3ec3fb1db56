"""The same statistics from the confidential and the synthetic data, side by side (C §4.3, §5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.survey import Survey
from understudy.tables.computation import computation
from understudy.tables.tabulate import tabulate

__public__ = ("compare",)

Vector = NDArray[np.float64]
ArrayStatistic = Callable[[Vector], float]

# What C reports; quantiles of arrays interpolate linearly (R's type 7).
OF_ARRAYS: dict[str, ArrayStatistic] = {
    "mean": lambda values: float(np.mean(values)),
    "median": lambda values: float(np.median(values)),
    "quantile 0.15": lambda values: float(np.quantile(values, 0.15)),
    "quantile 0.9": lambda values: float(np.quantile(values, 0.9)),
}


@computation()
def compare(
    confidential: Any,
    synthetic: Any,
    statistics: str | Sequence[str] | Mapping[str, ArrayStatistic] | None = None,
    by: str | Sequence[str] = (),
) -> pl.DataFrame:
    """One row per statistic (and cell): confidential, synthetic, difference, ratio.

    Two kinds of input:
    - surveys: `synthetic` is a Survey or a list of them, `statistics` texts such as
      "mean(salary)" or "quantile(salary, 0.15)", estimated with the design by `tabulate`;
    - arrays of one variable: `synthetic` is an array or a list of arrays; mean, median, 15th
      and 90th quantile, or `statistics` as names with functions of an array.

    Several synthetic data sets enter by the mean of their estimates. difference is synthetic
    minus confidential; ratio is synthetic / confidential, null where that is not defined. The
    frame is computed from the confidential data: it belongs to the internal report.
    """
    if isinstance(confidential, Survey):
        table = _of_surveys(confidential, synthetic, statistics, by)
    else:
        table = _of_arrays(confidential, synthetic, statistics, by)
    original, made = pl.col("confidential"), pl.col("synthetic")
    return table.with_columns(
        difference=made - original,
        ratio=pl.when(original != 0).then(made / original),
    )


def _of_surveys(
    confidential: Survey, synthetic: Any, statistics: Any, by: str | Sequence[str]
) -> pl.DataFrame:
    if statistics is None or isinstance(statistics, Mapping):
        raise Refused('Name the statistics to compare, such as ["mean(x)", "quantile(x, 0.9)"].')
    sets = [synthetic] if isinstance(synthetic, Survey) else list(synthetic)
    names = [by] if isinstance(by, str) else list(by)
    key = [*names, "statistic"]
    original = tabulate(confidential, statistics, by=names)
    each = tabulate(sets, statistics, by=names, combine="none")
    # a cell that one of the sets lacks is not averaged over the others
    made = each.group_by(key).agg(
        pl.when(pl.len() == len(sets)).then(pl.col("estimate").mean()).alias("synthetic")
    )
    return (
        original.select(*key, pl.col("estimate").alias("confidential"))
        .join(made, on=key, how="left", nulls_equal=True, maintain_order="left")
        .select(*key, "confidential", "synthetic")
    )


def _of_arrays(
    confidential: Any, synthetic: Any, statistics: Any, by: str | Sequence[str]
) -> pl.DataFrame:
    if by:
        raise Refused("Arrays have no columns to compare by; give surveys.")
    functions = OF_ARRAYS if statistics is None else statistics
    if not isinstance(functions, Mapping):
        raise Refused(
            "For arrays the statistics are names with functions of an array; strings such as "
            '"mean(x)" are for surveys.'
        )
    original = _values(confidential)
    if isinstance(synthetic, (list, tuple)) and synthetic and np.ndim(synthetic[0]) == 1:
        sets = [_values(array) for array in synthetic]
    else:
        sets = [_values(synthetic)]
    return pl.DataFrame(
        {
            "statistic": list(functions),
            "confidential": [float(function(original)) for function in functions.values()],
            "synthetic": [
                float(np.mean([function(array) for array in sets]))
                for function in functions.values()
            ],
        }
    )


def _values(values: Any) -> Vector:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise Refused("Compare one variable: one-dimensional arrays, none of them empty.")
    if np.isnan(array).any():
        raise Refused("There are missing values; drop them on both sides before comparing.")
    return array
