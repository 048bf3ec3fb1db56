"""Stata keeps the estimate under each replicate weight in 32 bits (unless told `double`), so its
BRR standard errors differ from the sixth digit on. With that rounding ours are its figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from understudy.survey.design import Design, Replicates
from understudy.survey.survey import Survey
from understudy.tables.collect import collect
from understudy.tables.linear import replicated_values
from understudy.tables.replicates import replicate_variance
from understudy.tables.statistic import LinearStatistic, parse_statistics

# As Stata prints them for NHANES II: about the replicates' mean, and (`mse`) about the estimate.
STATA = {"age": (0.3013406, None), "height": (0.14663, None), "weight": (0.1656452, 0.1656454)}


def test_statas_figures_are_ours_with_its_rounding(shared_data: Path) -> None:
    spec = Replicates(prefix="brr_", kind="brr")
    design = Design(weight="finalwgt", replicates=spec)
    frame = pl.read_parquet(shared_data / "nhanes2brr_samplics.parquet")
    measured = pl.col("height", "weight").cast(pl.Float32).cast(pl.Float64)  # as Stata has it
    survey = Survey(frame.with_columns(measured), design)
    statistics = [
        statistic
        for statistic in parse_statistics([f"mean({name})" for name in STATA], survey.columns)
        if isinstance(statistic, LinearStatistic)
    ]
    sums = collect(survey, [each.linear(survey.table) for each in statistics], [], None)
    for j, (about_mean, about_estimate) in enumerate(STATA.values()):
        values = replicated_values(sums, j, np.zeros(1, dtype=np.int64), 1)
        in_32_bits = values[:, 1:].astype(np.float32).astype(np.float64)
        for centre, printed in (("mean", about_mean), ("estimate", about_estimate)):
            if printed is not None:
                variance, _ = replicate_variance(
                    values[:, 0], in_32_bits, replace(spec, centre=centre)
                )
                assert np.sqrt(variance[0]) == pytest.approx(printed, abs=5.1e-8)
