"""The released table against the confidential one, cell by cell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from understudy.report.plain import plain
from understudy.survey.codebook import Codebook
from understudy.tables.tabulate import MISSING, level_texts
from understudy.utility.interval_overlap import interval_overlap

NUMBERS = ("estimate", "se", "lower", "upper")


def compared_cells(
    confidential: pl.DataFrame, released: pl.DataFrame, by: tuple[str, ...], codebook: Codebook
) -> list[dict[str, Any]]:
    """One entry per cell and statistic: both estimates with SE and limits, their distance.

    `difference` is (released - confidential) / confidential SE; `overlap` is that of the two
    confidence intervals (Karr et al. 2006). A cell that one table lacks is null there.
    """
    keys = [*by, "statistic"]
    ours, theirs = _texts(confidential, by), _texts(released, by)
    every = pl.concat([ours.select(keys), theirs.select(keys)]).unique(maintain_order=True)
    left = every.join(ours, on=keys, how="left", maintain_order="left")
    right = every.join(theirs, on=keys, how="left", maintain_order="left")
    compared = []
    for key, a, b in zip(
        every.iter_rows(named=True),
        left.iter_rows(named=True),
        right.iter_rows(named=True),
        strict=True,
    ):
        ours_numbers = {name: a[name] for name in NUMBERS}
        their_numbers = {name: b[name] for name in NUMBERS}
        compared.append(
            {
                "cell": cell_label(key, by, codebook),
                "statistic": key["statistic"],
                "confidential": plain(ours_numbers),
                "released": plain(their_numbers),
                "difference": plain(_in_standard_errors(ours_numbers, their_numbers)),
                "overlap": plain(_overlap(ours_numbers, their_numbers)),
                "note": str(b.get("note") or ""),
            }
        )
    return compared


def cell_summary(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per statistic over its cells: RMS and largest difference, overlap, precision, coverage."""
    out = []
    for statistic in dict.fromkeys(cell["statistic"] for cell in cells):
        rows = [cell for cell in cells if cell["statistic"] == statistic]
        apart = [abs(r["difference"]) for r in rows if _is_number(r["difference"])]
        overlap = [r["overlap"] for r in rows if _is_number(r["overlap"])]
        ratio = [
            r["released"]["se"] / r["confidential"]["se"]
            for r in rows
            if _is_number(r["released"]["se"]) and (r["confidential"]["se"] or 0) > 0
        ]
        inside = [
            r["confidential"]["lower"] <= r["released"]["estimate"] <= r["confidential"]["upper"]
            for r in rows
            if _is_number(r["released"]["estimate"])
            and _is_number(r["confidential"]["lower"])
            and _is_number(r["confidential"]["upper"])
        ]
        out.append(
            plain(
                {
                    "statistic": statistic,
                    "cells": len(rows),
                    "compared": len(apart),
                    "rms_difference": math.sqrt(np.mean(np.square(apart))) if apart else None,
                    "largest_difference": max(apart, default=None),
                    "mean_overlap": np.mean(overlap) if overlap else None,
                    "median_se_ratio": np.median(ratio) if ratio else None,
                    "inside": np.mean(inside) if inside else None,
                }
            )
        )
    return out


def cell_label(key: dict[str, Any], by: tuple[str, ...], codebook: Codebook) -> str:
    """The cell in words: value labels where the codebook has them; "All" stays."""
    parts = []
    for name in by:
        value = key[name]
        labels = codebook[name].value_labels if name in codebook else {}
        spelled = {str(level): label for level, label in labels.items()}
        text = str(value).removesuffix(".0")  # codes that the file stores as decimals
        parts.append(spelled.get(str(value), spelled.get(text, text)))
    return ", ".join(parts) or "All"


def _texts(table: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    return table.with_columns(level_texts(table[name]).fill_null(MISSING) for name in by)


def _in_standard_errors(a: dict[str, Any], b: dict[str, Any]) -> float | None:
    if not (_is_number(a["estimate"]) and _is_number(b["estimate"]) and _is_number(a["se"])):
        return None
    if a["se"] == 0:
        return 0.0 if a["estimate"] == b["estimate"] else None
    return float((b["estimate"] - a["estimate"]) / a["se"])


def _overlap(a: dict[str, Any], b: dict[str, Any]) -> float | None:
    limits = [a["lower"], a["upper"], b["lower"], b["upper"]]
    if not all(_is_number(limit) for limit in limits) or a["lower"] > a["upper"]:
        return None
    return float(interval_overlap(*limits))


def _is_number(value: Any) -> bool:
    return value is not None and not isinstance(value, str) and math.isfinite(value)
