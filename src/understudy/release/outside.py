"""The outside of a release: every public file, made from the envelope and what was declared.

Nothing here has the confidential file: it gets the envelope, the recipe, and the names of columns
and statistics.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from understudy.release.envelope import Envelope, design_to
from understudy.release.open import FACTS, SCHEMA, checksum
from understudy.release.recipe import Recipe
from understudy.report.material import CombiningRule, PublicFacts
from understudy.report.public import public_page
from understudy.survey.codebook_text import write_codebook
from understudy.survey.file_format import released_formats
from understudy.survey.write import write_survey
from understudy.tables.statistic import Statistic
from understudy.tables.tabulate import tabulate
from understudy.version import __version__

KIND: CombiningRule = (
    "partial"  # m files of one sample's size, made given that sample (methods §2, M eq. 3.2)
)
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a zip file must tell some time


def released_table(
    envelope: Envelope, statistics: Sequence[Statistic], recipe: Recipe
) -> pl.DataFrame:
    """The published table: the data sets' estimates, combined."""
    asked = recipe.tables
    return tabulate(envelope.datasets, list(statistics), asked.by, asked.margins, combine=KIND)


def public_facts(
    envelope: Envelope,
    table: pl.DataFrame,
    recipe: Recipe,
    title: str,
    statistics: tuple[Statistic, ...],
    synthesized: tuple[str, ...],
) -> PublicFacts:
    """Everything that the public page is made from."""
    first = envelope.datasets[0]
    return PublicFacts(
        title=title,
        claim=envelope.claim,
        kind=KIND,
        files=tuple(f"synthetic/{number + 1}.parquet" for number in range(len(envelope.datasets))),
        formats=released_formats(recipe.output.formats, recipe.folder),
        records=first.n,
        design=first.design,
        codebook=first.codebook,
        statistics=statistics,
        by=recipe.tables.by,
        margins=recipe.tables.margins,
        table=table,
        draws=envelope.draws,
        version=__version__,
        synthetic=synthesized,
    )


def write_public(folder: Path, envelope: Envelope, facts: PublicFacts) -> list[str]:
    """The public files, release.json, which `open_release` reads, and public.zip; their names."""
    (folder / "synthetic").mkdir()
    for number, dataset in enumerate(envelope.datasets, start=1):
        name = f"{number}.parquet"
        shutil.copyfile(envelope.folder / name, folder / "synthetic" / name)
        for format in facts.formats[1:]:
            write_survey(dataset, folder / f"synthetic/{number}{format.written[0]}", format)
    write_codebook(facts.codebook, folder / "codebook.toml")
    facts.table.write_csv(folder / "tables.csv", line_terminator="\n")
    shutil.copyfile(envelope.folder / "claim.json", folder / "claim.json")
    if facts.draws:
        shutil.copyfile(envelope.folder / "draws.json", folder / "draws.json")
    (folder / "public.html").write_text(public_page(facts), encoding="utf-8")
    return _listed_and_packed(folder, facts)


def _listed_and_packed(folder: Path, facts: PublicFacts) -> list[str]:
    public = files_in(folder)
    write_json(
        folder / FACTS,
        {
            "schema": SCHEMA,
            "title": facts.title,
            "version": facts.version,
            "kind": facts.kind,
            "files": list(facts.files),
            "formats": [kind.written[0].removeprefix(".") for kind in facts.formats],
            "design": design_to(facts.design),
            "statistics": [statistic.text for statistic in facts.statistics],
            "by": list(facts.by),
            "margins": facts.margins,
            "checksums": {name: checksum(folder / name) for name in public},
        },
    )
    public = sorted([*public, FACTS])
    with zipfile.ZipFile(folder / "public.zip", "w") as archive:
        for name in public:
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, (folder / name).read_bytes())
    return [*public, "public.zip"]


def files_in(folder: Path) -> list[str]:
    """All files of a folder, by their paths in it."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    text = json.dumps(values, indent=2, sort_keys=True, allow_nan=False, default=_json)
    path.write_text(text + "\n", encoding="utf-8")


def _json(value: Any) -> Any:
    """Dates of a recipe, as texts."""
    if isinstance(value, Sequence):
        return list(value)
    return str(value)
