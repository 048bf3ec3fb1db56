"""The hand-over: the envelope, what is declared beside it, and what stays inside.

    envelope/   the mechanism's output and its claim (envelope.py)
    declared/   declarations and public columns (declared.py)
    kept/       N.parquet in the order of the confidential file, fit.json, records.npz: internal

The rows of the envelope are sorted by the public columns and then by the synthesized ones, so that
their order says nothing. Later stages read these files and nothing else of the fit, so that a
resumed run and an uninterrupted one see the same things.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from understudy.envelope import Envelope
from understudy.errors import Refused
from understudy.publication import published_codebook
from understudy.release.declared import Declarations, open_declared
from understudy.release.inside import Inside
from understudy.release.outside import DECLARED, ENVELOPE
from understudy.report.material import ChainQuality, Records
from understudy.survey.read import read_survey
from understudy.survey.write import write_survey
from understudy.synthesis import Synthesis

KEPT = "kept"


def seal(result: Synthesis, inside: Inside, folder: Path) -> None:
    """Write what is handed out, and beside it what stays inside."""
    if result.for_studies:
        raise Refused(
            "This result was made for studies: its seed could be guessed. Leave out `seed`, and "
            "one is drawn from the operating system."
        )
    envelope, public = _sorted(result)
    envelope.write(folder / ENVELOPE)
    _declared(result, inside, public).write(folder / DECLARED)
    (folder / KEPT).mkdir()
    for number, dataset in enumerate(result.datasets, start=1):
        write_survey(dataset, folder / KEPT / f"{number}.parquet")
    _keep(result, folder / KEPT)


def kept_inside(folder: Path) -> dict[str, Any]:
    """What stays inside, under the names that the internal report's material has for it."""
    kept = folder / KEPT
    fit = json.loads((kept / "fit.json").read_text(encoding="utf-8"))
    arrays = np.load(kept / "records.npz")
    records = chains = None
    if "loglik" in arrays:
        records = Records(
            arrays["loglik"],
            arrays["contribution"],
            arrays["weight"],
            float(arrays["limit"]),
            fit["censored"],
        )
    if "rhat" in arrays:
        chains = ChainQuality(
            tuple(fit["coordinates"]),
            arrays["rhat"],
            arrays["ess_bulk"],
            arrays["ess_tail"],
            fit["divergences"],
            fit["chains"],
            fit["draws"],
        )
    design = open_declared(folder / DECLARED).design
    names = sorted(kept.glob("*.parquet"), key=lambda path: int(path.stem))
    return {
        "datasets": [read_survey(path, design) for path in names],
        "records": records,
        "chains": chains,
        "dropped": fit["dropped"],
        "rows_correspond": fit["rows_correspond"],
    }


def _sorted(result: Synthesis) -> tuple[Envelope, pl.DataFrame]:
    """The envelope with rows in the order of their values, and the public columns in that order."""
    drawn = list(result.synthesized)
    kept = [name for name in result.datasets[0].columns if name not in drawn]
    frames = [dataset.raw.to_polars().sort([*kept, *drawn]) for dataset in result.datasets]
    envelope = replace(result.envelope, synthesized=tuple(frame.select(drawn) for frame in frames))
    return envelope, frames[0].select(kept)


def _declared(result: Synthesis, inside: Inside, public: pl.DataFrame) -> Declarations:
    first, recipe = result.datasets[0], inside.recipe
    return Declarations(
        title=inside.title,
        columns=first.columns,
        synthesized=inside.synthesized,
        design=first.design,
        statistics=inside.asked_statistics,
        by=tuple(recipe.tables.by),
        margins=recipe.tables.margins,
        formats=tuple(recipe.output.formats),
        folder=str(recipe.folder.resolve()),
        codebook=published_codebook(first, result.synthesized),
        public=public,
    )


def _keep(result: Synthesis, folder: Path) -> None:
    fit: dict[str, Any] = {
        "dropped": result.dropped,
        "rows_correspond": result.rows_correspond,
        "censored": result.censored,
    }
    arrays: dict[str, Any] = {"nothing": np.zeros(0)}
    if result.bounds is not None and result.posterior is not None:
        arrays["loglik"] = result.bounds.loglik
        arrays["contribution"] = result.bounds.contribution
        arrays["weight"] = result.record_weights
        arrays["limit"] = np.asarray(result.bounds.limit)
    diagnostics = result.diagnostics
    if diagnostics is not None:
        arrays |= {name: getattr(diagnostics, name) for name in ("rhat", "ess_bulk", "ess_tail")}
        fit |= {name: getattr(diagnostics, name) for name in ("divergences", "chains", "draws")}
        fit["coordinates"] = list(diagnostics.coordinates)
    np.savez(folder / "records.npz", **arrays)
    (folder / "fit.json").write_text(json.dumps(fit) + "\n", encoding="utf-8")
