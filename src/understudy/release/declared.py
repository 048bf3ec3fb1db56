"""What the outside gets beside the envelope: declarations, and the columns that were public before.

    facts.json      title, models, columns, number of records, design, statistics, groups, formats
    codebook.toml   what is declared about the published columns, and drafts about public ones
    types.parquet   the columns that are made, in the types in which they are published: no rows
    public.parquet  the columns that are published as collected, sorted by their values; what stays
                    on disk or on Spark is read from here in blocks
    known.parquet   what is public of the columns that are made, row by row: mostly nothing

Nothing here is computed from a confidential value.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from understudy.report.public_facts import PublicFacts
from understudy.survey.codebook import read_codebook
from understudy.survey.codebook_text import write_codebook
from understudy.survey.design_values import design_from, design_to
from understudy.survey.engine import parquet_table
from understudy.survey.rows_here import write_sorted

FACTS, CODEBOOK, PUBLIC = "facts.json", "codebook.toml", "public.parquet"
TYPES, KNOWN = "types.parquet", "known.parquet"


_PLAIN = (
    *("title", "models", "columns", "synthesized", "records", "asked_statistics", "by", "margins"),
    *("asked_formats", "folder", "corrections"),
)


def write_declared(facts: PublicFacts, folder: Path) -> None:
    """Into a new folder."""
    folder.mkdir()
    values: dict[str, Any] = {name: getattr(facts, name) for name in _PLAIN}
    values["design"] = design_to(facts.design)
    values["in_place"] = not isinstance(facts.public, pl.DataFrame)
    (folder / FACTS).write_text(json.dumps(values, sort_keys=True) + "\n", encoding="utf-8")
    write_codebook(facts.codebook, folder / CODEBOOK)
    typed = pl.DataFrame(schema=dict(facts.types))
    for frame, name in ((typed, TYPES), (facts.public, PUBLIC), (facts.known, KNOWN)):
        if isinstance(frame, pl.DataFrame):
            frame.write_parquet(folder / name, statistics=False)
        else:
            write_sorted(frame, folder / name)


def open_declared(folder: Path) -> PublicFacts:
    """What `write_declared` wrote."""
    values = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    design, in_place = design_from(values.pop("design")), values.pop("in_place")
    plain: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in values.items()
    }
    codebook = read_codebook(folder / CODEBOOK)
    typed, known = (pl.read_parquet(folder / name) for name in (TYPES, KNOWN))
    types = dict(typed.schema)
    public = parquet_table if in_place else pl.read_parquet
    return PublicFacts(
        **plain,
        design=design,
        codebook=codebook,
        types=types,
        public=public(folder / PUBLIC),
        known=known,
    )
