"""The hand-over: the envelope, what is declared beside it, and what stays inside.

    envelope/   the mechanism's output and its claim (envelope.py)
    declared/   declarations and public columns (declared.py)
    seed        by which the outside makes records; mode 600, and independent of every record
    kept/       fit.json, records.npz and, where rows are handed out, N.parquet in the order of the
                confidential file: internal

The outside makes the rows in the order of the public columns, which is that of the inside too
(`inside.prepare`); rows that are handed out are sorted, so that their order says nothing. Later
stages read these files and nothing else of the fit, so that a resumed run and an uninterrupted one
see the same things.
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
from understudy.release.declared import Declarations, open_declared
from understudy.release.inside import Inside
from understudy.release.outside import DECLARED, ENVELOPE, ROWS, SEED
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
    rows = result.hands_out == "rows"
    envelope, public = _sorted(result) if rows else (result.envelope, result.ground.public)
    envelope.write(folder / ENVELOPE)
    _declared(result, inside, public).write(folder / DECLARED)
    (folder / SEED).touch(0o600)
    (folder / SEED).write_bytes(result.chance.secret)
    (folder / KEPT).mkdir()
    if rows:
        for number, dataset in enumerate(result.datasets, start=1):
            write_survey(dataset, folder / KEPT / f"{number}.parquet")
    _keep(result, folder / KEPT)


def kept_inside(folder: Path, outside: Path) -> dict[str, Any]:
    """What stays inside, under the names that the internal report's material has for it, and the
    rows as the outside made them, in the order of the records."""
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
    rows = kept if (kept / "1.parquet").is_file() else outside / ROWS
    names = sorted(rows.glob("*.parquet"), key=lambda path: int(path.stem))
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
    envelope = replace(result.envelope, rows=tuple(frame.select(drawn) for frame in frames))
    return envelope, frames[0].select(kept)


def _declared(result: Synthesis, inside: Inside, public: pl.DataFrame) -> Declarations:
    ground, recipe = result.ground, inside.recipe
    rows = result.hands_out == "rows"
    parts = (recipe.model, *(step.model for step in recipe.given))
    return Declarations(
        title=inside.title,
        models=tuple(part.facts(recipe.synthesis.missing) for part in parts),
        columns=result.datasets[0].columns if rows else ground.columns,
        synthesized=inside.synthesized,
        records=ground.records,
        design=ground.design,
        statistics=inside.asked_statistics,
        by=tuple(recipe.tables.by),
        margins=recipe.tables.margins,
        formats=tuple(recipe.output.formats),
        folder=str(recipe.folder.resolve()),
        # where rows are handed out, the ground may hold what was drafted from the records
        codebook=result.datasets[0].codebook if rows else ground.codebook,
        types=ground.types,
        public=public,
        known=pl.DataFrame() if rows else ground.known,
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
