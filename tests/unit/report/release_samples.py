"""Releases for the report's tests: made up quickly, without a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from understudy.claim import Claim
from understudy.report.material import (
    ChainQuality,
    CombiningRule,
    Material,
    PublicFacts,
    Records,
    RiskSettings,
)
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.file_format import released_formats
from understudy.survey.survey import Survey
from understudy.tables.statistic import parse_statistics
from understudy.tables.tabulate import tabulate

STATISTICS = ("count", "mean(salary)")
BY = ("field", "gender")
DESIGN = Design(weight="weight", strata="field")
CLAIM = Claim(
    "formal", 3.0, conditions=("The seed is kept secret", "Not claimed: x."), mechanism="Censored"
)
CODEBOOK = Codebook(
    {
        column.name: column
        for column in (
            Column("field", "stratum", "categorical", "Field of degree", (1, 2, 3)),
            Column("gender", "public", "categorical", "", ("f", "m"), {"f": "Female", "m": "Male"}),
            Column("salary", "sensitive", "continuous", "Salary", transform="log"),
            Column("weight", "weight", "continuous", "Design weight"),
        )
    }
)


def records(n: int, seed: int, like: pl.DataFrame | None = None) -> pl.DataFrame:
    """Public columns as in `like`, and fresh salaries."""
    rng = np.random.default_rng(seed)
    if like is None:
        field = np.sort(rng.integers(1, 4, n))
        like = pl.DataFrame(
            {
                "field": field,
                "gender": rng.choice(["f", "m"], n),
                "weight": rng.uniform(1.0, 9.0, n),
            }
        )
    shift = like["field"].to_numpy() * 0.2 + (like["gender"] == "m").to_numpy() * 0.1
    salary = np.exp(10.5 + shift + 0.4 * rng.standard_normal(like.height))
    return like.with_columns(pl.Series("salary", salary))


def material(n: int = 400, m: int = 3, kind: CombiningRule = "partial", **changes: Any) -> Material:
    """A release with everything: records, chains, an intruder, a regression."""
    rng = np.random.default_rng(8)
    ours = records(n, 1)
    made = [records(n, 2 + k, ours if kind == "partial" else None) for k in range(m)]
    confidential = Survey(ours, DESIGN, CODEBOOK)
    datasets = [Survey(frame, DESIGN, CODEBOOK) for frame in made]
    loglik = rng.gamma(2.0, 1.0, n)
    whole = Material(
        title="Doctorates <test>",
        model="FBS(salary ~ field + gender)",
        mechanism="Censored(epsilon=3)",
        kind=kind,
        sensitive=("salary",),
        confidential=confidential,
        datasets=datasets,
        claim=CLAIM,
        statistics=tuple(parse_statistics(STATISTICS, list(CODEBOOK.columns))),
        by=BY,
        confidential_table=tabulate(confidential, STATISTICS, BY, margins=True),
        released_table=tabulate(datasets, STATISTICS, BY, margins=True, combine=kind),
        records=Records(
            loglik,
            np.minimum(loglik, 0.5),
            rng.uniform(0.2, 1.0, n),
            0.5,
            int((loglik > 0.5).sum()),
        ),
        chains=ChainQuality(
            ("a", "b", "c"),
            np.array([1.001, 1.004, 1.002]),
            np.array([900.0, 700.0, 1200.0]),
            np.array([800.0, 650.0, 1000.0]),
            0,
            4,
            2000,
        ),
        risk=RiskSettings((BY, ("field",)), ("salary",)),
        regression="log(salary) ~ C(field) + gender",
        seed=5,
    )
    return replace(whole, **changes)


def facts(of: Material, **changes: Any) -> PublicFacts:
    """What of the release may be published."""
    m = len(of.datasets)
    whole = PublicFacts(
        title=of.title,
        claim=of.claim,
        kind=of.kind,
        files=tuple(f"synthetic/{k}.parquet" for k in range(1, m + 1)),
        formats=released_formats(["csv"], Path()),
        records=of.datasets[0].n,
        design=of.datasets[0].design,
        codebook=of.datasets[0].codebook,
        statistics=of.statistics,
        by=of.by,
        margins=True,
        table=of.released_table,
        draws=True,
        version="0.1.0",
        synthetic=of.sensitive,
    )
    return replace(whole, **changes)
