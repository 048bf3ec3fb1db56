"""Several releases of one file beside each other: what each promises, keeps and reveals.

The numbers come from the releases' own evidence (T §4.4, C §4.4: the trade-off of usefulness
and risk over mechanisms, epsilons and m). They are computed from confidential data: internal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from understudy.drawing import COLOURS, INTERNAL, footer, house_style
from understudy.errors import Refused

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__public__ = ("compare_releases",)

SCHEMA: dict[str, Any] = {
    "release": pl.String,
    "mechanism": pl.String,
    "kind": pl.String,
    "epsilon": pl.Float64,
    "datasets": pl.Int64,
    "error": pl.Float64,
    "se_ratio": pl.Float64,
    "overlap": pl.Float64,
    "u_m": pl.Float64,
    "pmse_ratio": pl.Float64,
    "risk_mean": pl.Float64,
    "risk_above": pl.Float64,
    "risk_confidential": pl.Float64,
}
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


def compare_releases(folders: Sequence[str | Path]) -> pl.DataFrame:
    """One row per release, in the order given.

    error is the root mean square over table cells of (released - confidential) / confidential SE;
    se_ratio the median of released over confidential SE; overlap the mean overlap of intervals;
    u_m the mean largest distance of distribution functions; pmse_ratio near 1 is good; risk_mean
    and risk_above (the share over the threshold) are identification risks in the release.
    """
    paths = [Path(folder).expanduser() for folder in folders]
    if len(paths) < 2:
        raise Refused("Name at least two releases to compare.")
    documents = [_evidence(path) for path in paths]
    counts = {document["records_confidential"] for document in documents}
    if len(counts) > 1:
        raise Refused(
            "These releases stand for different numbers of confidential records; compare releases "
            "of one file."
        )
    names = _short(paths)
    rows = [_row(name, document) for name, document in zip(names, documents, strict=True)]
    return pl.DataFrame(rows, schema=SCHEMA)


def comparison_figure(table: pl.DataFrame) -> Figure:
    """Usefulness against epsilon on the left, against risk on the right; one mark per release."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(9.0, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        finite = table["epsilon"].drop_nulls()
        end = float(finite.max() or 1.0) * 2.0 if len(finite) else 1.0  # type: ignore[arg-type]
        for number, row in enumerate(table.iter_rows(named=True)):
            look: dict[str, Any] = {
                "marker": MARKS[number % len(MARKS)],
                "color": COLOURS[1 + number % (len(COLOURS) - 1)],
                "markersize": 9,
                "linestyle": "none",
            }
            epsilon = end if row["epsilon"] is None else row["epsilon"]
            left.plot([epsilon], [row["error"]], label=_label(row), **look)
            if row["risk_mean"] is not None:
                right.plot([row["risk_mean"]], [row["error"]], **look)
        if table["epsilon"].null_count():
            left.axvline(end, color="#bbbbbb", linewidth=0.8, linestyle=":")
        left.set_xscale("log")
        ticks = sorted({*finite.to_list(), *([end] if table["epsilon"].null_count() else [])})
        left.set_xticks(ticks, [f"{at:g}" if at in set(finite) else "no epsilon" for at in ticks])
        left.set_xticks([], minor=True)
        left.set_xlim(min(ticks, default=1.0) / 1.5, max(ticks, default=1.0) * 1.5)
        left.set_xlabel("epsilon of the whole release (log scale)")
        left.set_ylabel("table error, in confidential standard errors")
        left.set_ylim(0, 1.15 * (table["error"].max() or 1.0))  # type: ignore[operator]
        right.set_xlabel("mean identification risk in the release")
        if table["risk_mean"].null_count() == table.height:
            right.text(
                0.5, 0.5, "no [risk] in these recipes", transform=right.transAxes, ha="center"
            )
        elif (confidential := table["risk_confidential"].drop_nulls()).len():
            right.axvline(confidential[0], color="black", linewidth=0.8, linestyle="--")
            right.annotate(
                "confidential file",
                (confidential[0], 0.5),
                xycoords=("data", "axes fraction"),
                xytext=(-4, 0),
                textcoords="offset points",
                rotation=90,
                ha="right",
                va="center",
                fontsize=8.5,
            )
        for axis in (left, right):
            axis.grid()
        figure.legend(loc="outside upper left", ncols=1, frameon=False, fontsize=9)
        footer(figure, INTERNAL)
    return figure


def _label(row: dict[str, Any]) -> str:
    many = "s" if row["datasets"] > 1 else ""
    return f"{row['release']}: {row['mechanism']}, {row['datasets']} data set{many}"


def _evidence(folder: Path) -> dict[str, Any]:
    path = folder / "evidence.json"
    if not path.is_file():
        raise Refused(
            f"`{folder}` holds no evidence.json; name the folder that `understudy release` wrote, "
            "not its public part."
        )
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        pl.DataFrame([_row("", document)], schema=SCHEMA)
        int(document["records_confidential"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PolarsError):
        raise Refused(f"evidence.json in `{folder}` is damaged; make the release again.") from None
    return document


def _row(name: str, document: dict[str, Any]) -> dict[str, Any]:
    cells = document["table"]["cells"]
    differences = _numbers(cell["difference"] for cell in cells)
    ratios = _numbers(
        cell["released"]["se"] / cell["confidential"]["se"]
        for cell in cells
        if _is_number(cell["released"]["se"]) and (cell["confidential"]["se"] or 0) > 0
    )
    overlaps = _numbers(cell["overlap"] for cell in cells)
    propensity = document["utility"].get("propensity") or {}
    risk = document.get("risk") or {}
    profile = {row["release"]: row for row in risk.get("profile", [])[::-1]}
    ours, theirs = profile.get("synthetic", {}), profile.get("confidential", {})
    return {
        "release": name,
        "mechanism": document["mechanism"],
        "kind": document["claim"]["kind"],
        "epsilon": document["claim"]["epsilon"],
        "datasets": document["datasets"],
        "error": float(np.sqrt(np.mean(np.square(differences)))) if differences else None,
        "se_ratio": float(np.median(ratios)) if ratios else None,
        "overlap": float(np.mean(overlaps)) if overlaps else None,
        "u_m": _mean(column["U_m"] for column in document["utility"]["columns"]),
        "pmse_ratio": _mean(propensity.get("ratio", [])),
        "risk_mean": ours.get("mean"),
        "risk_above": ours.get("share_above"),
        "risk_confidential": theirs.get("mean"),
    }


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in values if _is_number(value)]


def _mean(values: Any) -> float | None:
    numbers = _numbers(values)
    return float(np.mean(numbers)) if numbers else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)


def _short(paths: list[Path]) -> list[str]:
    """The folders' own names; whole paths where two are alike."""
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
