"""Evidence: every number that the internal report shows, as one document of JSON values.

The same material gives the same bytes of `json.dumps(gather(material), sort_keys=True)`. Nothing
in it grows with the number of records. It is computed from confidential data and stays inside.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl

from understudy.drawing import INTERNAL
from understudy.fitting.diagnostics import DIVERGENT_SHARE, LARGEST_RHAT, LEAST_ESS
from understudy.report.cells import cell_summary, compared_cells
from understudy.report.closeness import coefficients, utility
from understudy.report.curves import (
    Vector,
    bound_violins,
    level_shares,
    number_curves,
    numbers_of,
    weights_by_outcome,
)
from understudy.report.fitness import fitness_evidence, sentence
from understudy.report.intruder import risk_evidence
from understudy.report.material import ChainQuality, Material, Records
from understudy.report.plain import plain
from understudy.report.sentences import summary
from understudy.survey.codebook import Codebook, Column

SCHEMA = "understudy-evidence-1"
MOST_COORDINATES = 200


def gather(material: Material) -> dict[str, Any]:
    """The evidence document of a release."""
    names = list(material.sensitive)
    codebook = material.confidential.codebook
    ours = material.confidential.frame(names)
    theirs = [dataset.frame(names) for dataset in material.datasets]
    numeric = [name for name in names if is_amount(ours[name], codebook)]
    cells = compared_cells(
        material.confidential_table, material.released_table, material.by, codebook
    )
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "mark": INTERNAL,
        "title": material.title,
        "model": material.model,
        "mechanism": material.mechanism,
        "kind": material.kind,
        "sensitive": names,
        "datasets": len(material.datasets),
        "records_in_file": material.datasets[0].n,
        "records_confidential": material.confidential.n,
        "dropped": material.dropped,
        "claim": {**json.loads(material.claim.to_json()), "text": str(material.claim)},
        "records": _records(material, ours, numeric),
        "distributions": [_numbers(name, codebook, ours, theirs) for name in numeric],
        "levels": [
            {
                "column": name,
                "label": label_of(name, codebook),
                **level_shares(ours[name], [frame[name] for frame in theirs]),
            }
            for name in names
            if name not in numeric
        ],
        "table": {
            "statistics": [statistic.text for statistic in material.statistics],
            "sums": [statistic.text for statistic in material.statistics if statistic.adds_up],
            "by": [label_of(name, codebook) for name in material.by],
            "cells": cells,
            "summary": cell_summary(cells),
        },
        "regression": coefficients(material),
        "utility": utility(material, ours, theirs, numeric),
        "risk": risk_evidence(material),
        "fitness": fitness_evidence(material, cells),
        "chains": None if material.chains is None else chain_evidence(material.chains),
    }
    document["summary"] = [sentence(document["fitness"]), *summary(document)]
    return document


def is_amount(column: pl.Series, codebook: Codebook) -> bool:
    """Whether a column is to be drawn as numbers: not when its numbers are codes of levels."""
    facts = codebook[column.name] if column.name in codebook else Column(column.name)
    return column.dtype.is_numeric() and facts.type in ("continuous", "integer")


def label_of(name: str, codebook: Codebook) -> str:
    """The codebook's label, or the name itself."""
    return (codebook[name].label if name in codebook else "") or name


def chain_evidence(chains: ChainQuality) -> dict[str, Any]:
    """R-hat and ESS: the worst over all coordinates, and each (the worst 200 if there are more)."""
    rhat, bulk, tail = (
        np.asarray(values, dtype=np.float64)
        for values in (chains.rhat, chains.ess_bulk, chains.ess_tail)
    )
    worst = np.argsort(-np.where(np.isnan(rhat), np.inf, rhat), kind="stable")[:MOST_COORDINATES]
    kept = np.sort(worst)
    failures = []
    if not np.max(rhat, initial=1.0) < LARGEST_RHAT:
        failures.append(f"the largest R-hat is not below {LARGEST_RHAT}")
    if not np.min(bulk, initial=np.inf) > LEAST_ESS:
        failures.append(f"the smallest effective sample size is not above {LEAST_ESS:.0f}")
    if chains.divergences > DIVERGENT_SHARE * chains.draws:
        failures.append(f"{chains.divergences:,} transitions diverged")
    return {
        "chains": chains.chains,
        "draws": chains.draws,
        "divergences": chains.divergences,
        "coordinates": len(rhat),
        "largest_rhat": plain(float(np.max(rhat, initial=1.0))),
        "least_ess": plain(float(np.min(bulk, initial=np.inf))),
        "least_ess_tail": plain(float(np.min(tail, initial=np.inf))),
        "limits": {"rhat": LARGEST_RHAT, "ess": LEAST_ESS},
        "failures": failures,
        "each": [
            plain(
                {
                    "coordinate": chains.coordinates[k],
                    "rhat": rhat[k],
                    "ess_bulk": bulk[k],
                    "ess_tail": tail[k],
                },
                7,
            )
            for k in kept
        ],
    }


def _records(material: Material, ours: pl.DataFrame, numeric: list[str]) -> dict[str, Any] | None:
    """Record bounds before and after, and record weights against every numeric outcome."""
    records = material.records
    if records is None:
        return None
    epsilon, m = material.claim.epsilon, len(material.datasets)
    return {
        "n": len(records.contribution),
        "limit": plain(float(records.limit)),
        # What a claim lets a record contribute to one of m draws: epsilon / (2m) (methods §3).
        "per_draw": None if epsilon is None else plain(epsilon / (2 * m)),
        "censored": int(records.censored),
        "bounds": bound_violins(records.loglik, records.contribution, float(records.limit)),
        "weights": _weights(records, ours, numeric, material.confidential.codebook),
    }


def _weights(
    records: Records, ours: pl.DataFrame, numeric: list[str], codebook: Codebook
) -> dict[str, Any]:
    weight: Vector = np.asarray(records.weight, dtype=np.float64)
    panels = []
    for name in numeric:
        outcome = ours[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        panels.append(
            {
                "column": name,
                "label": label_of(name, codebook),
                "scale": "log" if _is_log(name, codebook) and _positive(outcome) else "linear",
                **weights_by_outcome(outcome, weight),
            }
        )
    return {
        "constant": bool(np.ptp(weight) < 1e-12),
        "mean": plain(float(weight.mean())),
        "quantiles": plain(np.quantile(weight, [0.0, 0.25, 0.5, 0.75, 1.0])),
        "panels": panels,
    }


def _numbers(
    name: str, codebook: Codebook, ours: pl.DataFrame, theirs: list[pl.DataFrame]
) -> dict[str, Any]:
    return {
        "column": name,
        "label": label_of(name, codebook),
        **number_curves(
            numbers_of(ours[name]),
            [numbers_of(frame[name]) for frame in theirs],
            _is_log(name, codebook),
        ),
    }


def _is_log(name: str, codebook: Codebook) -> bool:
    return name in codebook and codebook[name].transform == "log"


def _positive(values: Vector) -> bool:
    there = values[np.isfinite(values)]
    return bool(there.size and there.min() > 0)
