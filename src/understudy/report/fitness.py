"""Evidence of fitness: the verdict, all pairs of columns, and the ten that differ most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.report.inside_facts import InsideFacts
from understudy.report.plain import plain
from understudy.report.verdict import Fitness, measured, verdict
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey
from understudy.utility.pairs import Pair, association, coded_columns, pairs_of

WORST_PAIRS = 10
SHOWN_CELLS = 8  # of each of them, those that differ most
ROLES = ("public", "sensitive", "stratum")


def fitness_evidence(
    inside: InsideFacts, survey: Survey, datasets: Sequence[Survey], cells: list[dict[str, Any]]
) -> dict[str, Any]:
    """Verdict, measures and pairs of a release; `survey` are the confidential records, or a sample
    of them."""
    codebook = survey.codebook
    both = set(datasets[0].columns) & set(survey.columns)
    names = [c.name for c in codebook if c.role in ROLES and c.name in both]
    ours = survey.frame(names)
    theirs = [dataset.frame(names) for dataset in datasets]
    coded = coded_columns(ours, theirs, codebook)
    pairs = pairs_of(coded, inside.synthesized)
    measures = measured(inside.fitness or Fitness(), pairs, cells)
    worst = sorted(pairs, key=lambda pair: -pair.excess)[:WORST_PAIRS]
    return {
        "verdict": verdict(measures),
        "measures": [
            plain(
                {
                    "name": m.name,
                    "value": m.value,
                    "amber": m.amber,
                    "red": m.red,
                    "more_is_worse": m.more_is_worse,
                    "colour": m.colour,
                }
            )
            for m in measures
        ],
        "columns": [codebook.label(name) for name in coded],
        "maps": _maps(list(coded), pairs),
        "worst": [_worst(pair, codebook) for pair in worst],
    }


def sentence(fitness: dict[str, Any]) -> str:
    """The first line of the internal report."""
    words = {
        "green": "fit for use by the thresholds that were set",
        "amber": "to be used with care",
        "red": "not fit for use by the thresholds that were set",
    }
    known = [m for m in fitness["measures"] if m["value"] is not None]
    parts = [f"{m['name']} {m['value']:.2g} ({m['colour']})" for m in known]
    return (
        f"Verdict: {fitness['verdict']}, {words[fitness['verdict']]}. Measured: {'; '.join(parts)}."
    )


def _maps(names: list[str], pairs: Sequence[Pair]) -> dict[str, Any]:
    """Matrices over the columns; null where a pair was not drawn."""
    size = len(names)
    row_of = {name: k for k, name in enumerate(names)}
    maps = {key: np.full((size, size), np.nan) for key in ("confidential", "released", "distance")}
    for pair in pairs:
        a, b = row_of[pair.first.name], row_of[pair.second.name]
        for key, value in (
            ("confidential", association(pair.confidential)),
            ("released", association(pair.released)),
            ("distance", pair.distance),
        ):
            maps[key][a, b] = maps[key][b, a] = value
    return {
        key: [[None if np.isnan(v) else round(float(v), 4) for v in row] for row in values]
        for key, values in maps.items()
    }


def _worst(pair: Pair, codebook: Codebook) -> dict[str, Any]:
    apart = np.abs(pair.confidential - pair.released)
    order = np.argsort(-apart, axis=None, kind="stable")[:SHOWN_CELLS]
    rows = []
    for a, b in zip(*np.unravel_index(order, apart.shape), strict=True):
        ours, theirs = float(pair.confidential[a, b]), float(pair.released[a, b])
        if ours or theirs:
            rows.append([pair.first.labels[a], pair.second.labels[b], *plain([ours, theirs])])
    return {
        "columns": [codebook.label(pair.first.name), codebook.label(pair.second.name)],
        "distance": plain(pair.distance),
        "floor": plain(pair.floor),
        "cells": rows,
    }
