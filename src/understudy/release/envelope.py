"""The hand-over: the envelope, what is declared beside it, and what stays inside.

    envelope/   the mechanism's output and its claim (envelope.py)
    declared/   declarations and public columns (declared.py)
    seed        by which the outside makes records; mode 600, and independent of every record
    kept/       fit.npz and, where rows are handed out, N.parquet in the order of the confidential
                file: internal

The outside makes the rows in the order of the public columns, which is that of the inside too
(`inside.prepare`); rows that are handed out are sorted, so that their order says nothing. Later
stages read these files and nothing else of the fit, so that a resumed run and an uninterrupted one
see the same things.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from understudy.chance import Chance
from understudy.envelope import Envelope, open_envelope
from understudy.errors import Refused
from understudy.fitting.diagnostics import Diagnostics
from understudy.mechanisms.outputs.output import MadeRows
from understudy.release.declared import open_declared, write_declared
from understudy.release.inside import Inside
from understudy.release.outside import DECLARED, ENVELOPE, ROWS, RULES, SEED, ground_of
from understudy.report.public_facts import PublicFacts
from understudy.report.rule_effects import rule_effects
from understudy.survey.read import read_survey
from understudy.survey.rows_here import rows_here
from understudy.survey.write import write_survey
from understudy.synthesis import Synthesis

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from understudy.dp.record_bounds import RecordBounds

KEPT, FIT = "kept", "fit.npz"


def seal(result: Synthesis, inside: Inside, folder: Path) -> None:
    """Write what is handed out, and beside it what stays inside."""
    if result.for_studies:
        raise Refused(
            "This result was made for studies: its seed could be guessed. Leave out `seed`, and "
            "one is drawn from the operating system."
        )
    rows = result.hands_out == "rows"
    if not isinstance(result.ground.public, pl.DataFrame):
        # sorted by their values, and so is what is made of them
        here = rows_here(result.ground.public)
        result = replace(result, ground=replace(result.ground, public=here))
    in_order = rows and isinstance(result.ground.public, pl.DataFrame)
    envelope, public = _sorted(result) if in_order else (result.envelope, result.ground.public)
    envelope.write(folder / ENVELOPE)
    write_declared(_declared(result, inside, public), folder / DECLARED)
    (folder / SEED).touch(0o600)
    (folder / SEED).write_bytes(result.chance.secret)
    (folder / KEPT).mkdir()
    if rows:
        for number, dataset in enumerate(result.datasets, start=1):
            write_survey(dataset, folder / KEPT / f"{number}.parquet")
        rules = rule_effects(result.datasets)
        (folder / KEPT / RULES).write_text(rules, encoding="utf-8")
    _keep(result, folder / KEPT)


def open_kept(folder: Path, outside: Path) -> Synthesis:
    """The synthesis as it was, but for its draws and its posterior, which are not kept; its data
    sets as the outside made them, in the order of the records."""
    facts, envelope = open_declared(folder / DECLARED), open_envelope(folder / ENVELOPE)
    numbers, bounds = _numbers_kept(folder), _numbers_kept(folder, "bounds ")
    rows = made_in(folder, outside, envelope)
    names = sorted(rows.glob("*.parquet"), key=lambda path: int(path.stem))
    made = MadeRows(tuple(read_survey(path, facts.design) for path in names))
    return Synthesis(
        envelope.claim,
        made,
        ground_of(facts, ()),
        Chance(b"", "system"),
        "rows",
        numbers["record_weights"],
        _record_bounds(bounds) if bounds else None,
        diagnostics=kept_diagnostics(folder),
        dropped=numbers["dropped"],
        rows_correspond=numbers["rows_correspond"],
    )


def kept_diagnostics(folder: Path) -> Diagnostics | None:
    """Of the released fit, if there was one; no data set is read for it."""
    numbers = _numbers_kept(folder, "diagnostics ")
    if not numbers:
        return None
    return Diagnostics(**numbers | {"coordinates": tuple(map(str, numbers["coordinates"]))})


def _numbers_kept(folder: Path, part: str = "") -> dict[str, Any]:
    """What `_keep` wrote, or a part of it by the names in that part."""
    with np.load(folder / KEPT / FIT) as arrays:
        kept = {name: arrays[name] for name in arrays if name.startswith(part)}
    return {
        name.removeprefix(part): value if value.ndim else value.item()
        for name, value in kept.items()
    }


def made_in(folder: Path, outside: Path, envelope: Envelope | None = None) -> Path:
    """Where the data sets are in the order in which they were made: inside, where rows are handed
    out."""
    envelope = envelope or open_envelope(folder / ENVELOPE)
    return folder / KEPT if envelope.rows else outside / ROWS


def _record_bounds(numbers: dict[str, Any]) -> RecordBounds:
    from understudy.dp.record_bounds import RecordBounds  # JAX, which whole files do not need

    return RecordBounds(**numbers)


def _sorted(result: Synthesis) -> tuple[Envelope, pl.DataFrame | ir.Table]:
    """The envelope with rows in the order of their values, and the public columns in that order."""
    drawn = list(result.synthesized)
    kept = [name for name in result.datasets[0].columns if name not in drawn]
    frames = [dataset.raw.to_polars().sort([*kept, *drawn]) for dataset in result.datasets]
    envelope = replace(result.envelope, rows=tuple(frame.select(drawn) for frame in frames))
    return envelope, frames[0].select(kept)


def _declared(result: Synthesis, inside: Inside, public: pl.DataFrame | ir.Table) -> PublicFacts:
    ground, recipe = result.ground, inside.recipe
    rows = result.hands_out == "rows"
    parts = (recipe.model, *(step.model for step in recipe.given))
    return PublicFacts(
        title=inside.title,
        models=tuple(part.facts(recipe.synthesis.missing) for part in parts),
        columns=result.datasets[0].columns if rows else ground.columns,
        synthesized=inside.synthesized,
        records=ground.records,
        design=ground.design,
        asked_statistics=inside.asked_statistics,
        by=tuple(recipe.tables.by),
        margins=recipe.tables.margins,
        asked_formats=tuple(recipe.output.formats),
        folder=str(recipe.folder.resolve()),
        # where rows are handed out, the ground may hold what was drafted from the records
        codebook=result.datasets[0].codebook if rows else ground.codebook,
        types=ground.types,
        public=public,
        corrections={} if inside.corrections is None else asdict(inside.corrections),
        known=pl.DataFrame() if rows else ground.known,
    )


def _keep(result: Synthesis, folder: Path) -> None:
    arrays: dict[str, Any] = {
        "dropped": result.dropped,
        "rows_correspond": result.rows_correspond,
        "record_weights": result.record_weights,
    }
    if result.diagnostics is not None:
        checks = asdict(result.diagnostics)
        arrays |= {f"diagnostics {k}": value for k, value in checks.items() if value is not None}
        if result.bounds is not None:
            arrays |= {f"bounds {k}": value for k, value in asdict(result.bounds).items()}
    np.savez(folder / FIT, **arrays)
