"""Evidence: every number that the internal report shows, as one document of JSON values.

The same release gives the same bytes of `json.dumps(gather(...), sort_keys=True)`. Nothing in it
grows with the number of records. It is computed from confidential data and stays inside.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from understudy.drawing import INTERNAL
from understudy.fitting.diagnostics import LARGEST_RHAT, LEAST_ESS, Diagnostics
from understudy.report.attempts import attack_evidence
from understudy.report.cells import cell_summary, compared_cells
from understudy.report.closeness import coefficients, propensity, utility
from understudy.report.curves import (
    Vector,
    bound_violins,
    level_shares,
    number_curves,
    numbers_in,
    numbers_of,
    weights_by_outcome,
)
from understudy.report.fitness import fitness_evidence, sentence
from understudy.report.inside_facts import InsideFacts, Places
from understudy.report.intruder import risk_evidence
from understudy.report.plain import plain
from understudy.report.sentences import summary
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey

if TYPE_CHECKING:
    from understudy.synthesis import Synthesis

SCHEMA = "understudy-evidence-1"
MOST_COORDINATES = 200


def gather(
    inside: InsideFacts, result: Synthesis, released: pl.DataFrame, rules: str
) -> dict[str, Any]:
    """The evidence document of a release; `released` is the table of its files, and `rules` says
    what the codebook's rules changed in them."""
    names = list(inside.synthesized)
    survey, datasets = inside.confidential, result.datasets
    codebook = survey.codebook
    looked_at, *files = (_looked_at(inside, each) for each in (survey, *datasets))
    ours, theirs = looked_at.frame(names), [file.frame(names) for file in files]
    chosen = inside.sample(survey.n)
    numeric = [
        name
        for name in names
        if is_amount(ours[name], codebook)
        and all(_has_number(side, name) for side in ([ours], theirs))
    ]
    cells = compared_cells(inside.confidential_table, released, inside.by, codebook)
    checks = result.diagnostics
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "mark": INTERNAL,
        "title": inside.title,
        "model": inside.model_name,
        "mechanism": inside.mechanism_name,
        "all_drawn": not (_as_collected(datasets[0].columns, survey.columns, codebook) - {*names}),
        "rows_correspond": result.rows_correspond,
        "sensitive": names,
        "datasets": len(datasets),
        "records_in_file": datasets[0].n,
        "records_confidential": survey.n,
        "dropped": result.dropped,
        "claim": {**json.loads(result.claim.to_json()), "text": str(result.claim)},
        "looked_at": None if chosen is None else len(chosen),
        "records": _records(result, chosen, ours, numeric, codebook),
        "distributions": [_numbers(name, codebook, ours, theirs) for name in numeric],
        "levels": [
            {
                "column": name,
                "label": codebook.label(name),
                **level_shares(ours[name], [f[name] for f in theirs], codebook.columns.get(name)),
            }
            for name in names
            if name not in numeric
        ],
        "table": {
            "statistics": [statistic.text for statistic in inside.statistics],
            "sums": [statistic.text for statistic in inside.statistics if statistic.adds_up],
            "by": [codebook.label(name) for name in inside.by],
            "cells": cells,
            "summary": cell_summary(cells),
        },
        "regression": coefficients(inside.regression, inside.analysed, datasets),
        "utility": utility(ours, theirs, numeric)
        | {"propensity": propensity(looked_at, files, [*inside.by, *names])},
        "risk": risk_evidence(
            inside.risk, inside.analysed, datasets if result.rows_correspond else None
        ),
        "attacks": attack_evidence(inside.rehearse(), codebook),
        "fitness": fitness_evidence(inside, looked_at, files, cells) | {"rules": rules},
        "chains": None if checks is None else chain_evidence(checks),
    }
    document["summary"] = [sentence(document["fitness"]), *summary(document)]
    return document


def _looked_at(inside: InsideFacts, survey: Survey) -> Survey:
    """The survey, or a sample of a large one."""
    chosen = inside.sample(survey.n)
    return survey if chosen is None else survey.taken(chosen)


def _as_collected(
    released: Sequence[str], confidential: Sequence[str], codebook: Codebook
) -> set[str]:
    """Released columns that may be the file's own: neither made for the release nor computed."""
    both = set(released) & set(confidential)
    return {name for name in both if name not in codebook or not codebook[name].derived}


def is_amount(column: pl.Series, codebook: Codebook) -> bool:
    """Whether a column is to be drawn as numbers: not when its numbers are codes of levels."""
    facts = codebook[column.name] if column.name in codebook else Column(column.name)
    return column.dtype.is_numeric() and facts.type in ("continuous", "integer")


def _has_number(frames: Sequence[pl.DataFrame], name: str) -> bool:
    """Whether any value of the column is there; a column of blanks is shown by its levels."""
    return any(numbers_of(frame[name]).size for frame in frames)


def chain_evidence(checks: Diagnostics) -> dict[str, Any]:
    """R-hat and ESS: the worst over all coordinates, and each (the worst 200 if there are more)."""
    rhat = np.where(np.isnan(checks.rhat), np.inf, checks.rhat)
    kept = np.sort(np.argsort(-rhat, kind="stable")[:MOST_COORDINATES])
    return {
        "chains": checks.chains,
        "draws": checks.draws,
        "divergences": checks.divergences,
        "coordinates": len(rhat),
        "largest_rhat": plain(checks.largest_rhat),
        "least_ess": plain(checks.least_ess_bulk),
        "least_ess_tail": plain(checks.least_ess_tail),
        "limits": {"rhat": LARGEST_RHAT, "ess": LEAST_ESS},
        "failures": checks.failures,
        "misses": checks.misses,
        "shortfall": plain(checks.largest_shortfall),
        "each": [
            plain(
                {
                    "coordinate": checks.coordinates[k],
                    "rhat": checks.rhat[k],
                    "ess_bulk": checks.ess_bulk[k],
                    "ess_tail": checks.ess_tail[k],
                },
                7,
            )
            for k in kept
        ],
    }


def _records(
    result: Synthesis,
    chosen: Places | None,
    ours: pl.DataFrame,
    numeric: list[str],
    codebook: Codebook,
) -> dict[str, Any] | None:
    """Record bounds before and after, and record weights against every numeric outcome."""
    bounds = result.bounds
    if bounds is None:
        return None
    epsilon, m = result.claim.epsilon, len(result.datasets)
    weights = result.record_weights if chosen is None else result.record_weights[chosen]
    return {
        "n": len(bounds.contribution),
        "limit": plain(float(bounds.limit)),
        # What a claim lets a record contribute to one of m draws: epsilon / (2m) (methods §3).
        "per_draw": None if epsilon is None else plain(epsilon / (2 * m)),
        "censored": bounds.censored,
        "bounds": bound_violins(bounds.loglik, bounds.contribution, float(bounds.limit)),
        "weights": _weights(weights, ours, numeric, codebook),
    }


def _weights(
    weight: Vector, ours: pl.DataFrame, numeric: list[str], codebook: Codebook
) -> dict[str, Any]:
    panels = []
    for name in numeric:
        outcome = ours[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        panels.append(
            {
                "column": name,
                "label": codebook.label(name),
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
        "label": codebook.label(name),
        **number_curves(
            numbers_of(ours[name]),
            numbers_in(theirs, name),
            _is_log(name, codebook),
        ),
    }


def _is_log(name: str, codebook: Codebook) -> bool:
    return name in codebook and codebook[name].transform == "log"


def _positive(values: Vector) -> bool:
    there = values[np.isfinite(values)]
    return bool(there.size and there.min() > 0)
