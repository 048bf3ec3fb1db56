"""The outside of a release: every public file, made from the envelope and what was declared.

It runs in a process of its own, which is started with two folders, few variables of the
environment and no open file, and never has the confidential file:
`python -m understudy.release.outside HANDED OUT`. HANDED holds envelope/, declared/ and the seed by
which records are made from the mechanism's output; OUT gets public/, the files that may be
published, and for the report rows/, the same records in the order in which they were made and what
the codebook's rules changed in them, and released.parquet, their table.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np
import polars as pl

from understudy.chance import Chance
from understudy.envelope import CLAIM, CORRECTIONS, DRAWS, Envelope, open_envelope
from understudy.errors import Refused
from understudy.mechanisms.outputs.output import Ground, Made, nobody
from understudy.mechanisms.outputs.outputs import output_from
from understudy.publication import published_codebook
from understudy.release.declared import open_declared
from understudy.release.release_facts import FACTS, SCHEMA, CombiningRule, checksum
from understudy.report.public import public_page
from understudy.report.public_facts import PublicFacts
from understudy.report.rule_effects import rule_effects
from understudy.survey.codebook_text import write_codebook
from understudy.survey.design_values import design_to
from understudy.survey.engine import connection
from understudy.survey.file_format import always_released
from understudy.survey.rows_here import blocks_of
from understudy.survey.stored import survey_of
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey
from understudy.tables.tabulate import tabulate
from understudy.version import __version__

if TYPE_CHECKING:
    from understudy.corrected_table import CorrectionPlan
    from understudy.models.contract import Model

KIND: CombiningRule = (
    "partial"  # m files of one sample's size, made given that sample (methods §2, M eq. 3.2)
)
ENVELOPE, DECLARED, SEED = "envelope", "declared", "seed"
PUBLIC, ROWS, RELEASED = "public", "rows", "released.parquet"
RULES = "rules.txt"  # what the codebook's rules changed, in words
NEEDED = (
    "PATH", "HOME", "USERPROFILE", "TMP", "TEMP", "LANG", "LC_", "TZ", "PYTHON", "VIRTUAL_ENV",
    "LD_", "DYLD_", "SYSTEMROOT", "XDG_", "UNDERSTUDY_CACHE", "JAX_", "XLA_", "OMP_", "OPENBLAS_",
    "MKL_", "POLARS_",
)  # fmt: skip
PIECES, PIECE = 16, 1 << 16  # of a file, and bytes of each: what deflate is tried on
BLOCK = 1 << 19  # records of a file in blocks
WORTH_WHILE = 0.8  # of their size, which it must reach
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a zip file must tell some time


def run_outside(handed: Path, out: Path, made: Made = nobody) -> None:
    """`make_public` in a process of its own, which never had the confidential file: it starts in a
    folder with what was handed out and nothing else."""
    with tempfile.TemporaryDirectory(dir=out) as alone:
        for name in (ENVELOPE, DECLARED):
            shutil.copytree(handed / name, Path(alone, name))
        shutil.copy2(handed / SEED, alone)
        module = "understudy.release.outside"
        with _living() as pulse, tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
            process = subprocess.Popen(
                [
                    sys.executable, "-P", "-m", module,
                    str(Path(alone).resolve()), str(out.resolve()),
                ],
                stdin=pulse,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=alone,
                env=_environment(),
            )  # fmt: skip
            with process:
                assert process.stdout is not None
                for line in process.stdout:
                    _pass_on(line, made)
            errors.seek(0)
            said = errors.read().strip()
    if process.returncode == 2:
        raise Refused(said)
    if process.returncode != 0:
        raise Refused(
            "The public files could not be made from the envelope: "
            f"{(said.splitlines() or ['the process was stopped'])[-1]}."
        )


def _pass_on(line: str, made: Made) -> None:
    """What the outside writes of its progress; nothing else that it may write is heard."""
    numbers = line.split()
    if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
        made(int(numbers[0]), int(numbers[1]))


@contextmanager
def _living() -> Iterator[int]:
    """A pipe without a word that ends when this process does, however it ends: an outside that
    wrote on would write into the folder of the next run."""
    reading, open_while_alive = os.pipe()
    try:
        yield reading
    finally:
        os.close(open_while_alive)
        os.close(reading)


def _end_with_the_inside() -> None:
    if not os.read(sys.stdin.fileno(), 1):
        os._exit(1)


def _environment() -> dict[str, str]:
    """What programs need to start and to compute the same numbers; passwords and places of files
    that the inside was started with stay there."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(NEEDED)}
    packages = [str(Path(folder).resolve()) for folder in sys.path if folder]
    threads = {"OPENBLAS_NUM_THREADS": "1"}  # its matrices are small (one_blas_thread.py)
    return {**threads, **kept, "PYTHONPATH": os.pathsep.join(packages)}


@dataclass(frozen=True, eq=False)
class HandedOut:
    """What was handed out, and the records that follow from it."""

    envelope: Envelope
    facts: PublicFacts  # of the files as they are published
    made: list[Survey]  # in the order of the public rows

    @staticmethod
    def of(handed: Path, progress: Made = nobody) -> HandedOut:
        envelope, facts = open_envelope(handed / ENVELOPE), open_declared(handed / DECLARED)
        made = _made(handed, envelope, facts, progress)
        columns, design = made[0].columns, made[0].design
        drawn = [name for name in columns if name not in facts.public.columns]
        codebook = published_codebook(made[0], drawn)
        return HandedOut(
            envelope, replace(facts, columns=columns, design=design, codebook=codebook), made
        )

    @cached_property
    def datasets(self) -> list[Survey]:
        """The data sets as they are published."""
        return [self._published(made) for made in self.made]

    def _published(self, made: Survey) -> Survey:
        """Sorted by its values; a large file, which lies on disk, is in an order that was made from
        noisy tables and public rows alone."""
        columns, design, codebook = self.facts.columns, self.facts.design, self.facts.codebook
        if made.stored is None:
            return Survey(made.raw.to_polars().sort(columns), design, codebook)
        return made if made.declared == codebook else Survey(made.raw, design, codebook)

    def table(self) -> pl.DataFrame:
        """The table of the data sets, corrected by the noisy sums where there are any."""
        facts = self.facts
        with one_thread():
            if facts.corrections:
                return corrected_by(self.envelope, facts, self.datasets)
            return tabulate(self.datasets, facts.statistics, facts.by, facts.margins, combine=KIND)


def corrected_by(
    envelope: Envelope, facts: PublicFacts, datasets: Sequence[Survey]
) -> pl.DataFrame:
    """The corrected table; the plan is made here, from public files, and the sums must fit it."""
    sums, plan = envelope.corrections, correction_plan(facts, datasets)
    steps = plan.steps
    if sums is None or len(sums.steps) != len(steps) or not np.allclose(sums.steps, steps, 1e-6, 0):
        raise Refused(
            "The corrections were not made for these files; nothing is published. Make the release "
            "again."
        )
    return plan.table(np.array(sums.sums, dtype=np.int64), facts.margins, KIND)


def correction_plan(facts: PublicFacts, datasets: Sequence[Survey]) -> CorrectionPlan:
    """What the noisy sums are of, and what becomes of them; from public files alone."""
    from understudy.corrected_table import Corrections, plan_corrections

    asked = Corrections(**facts.corrections)
    return plan_corrections(datasets, facts.statistics, facts.corrected_statistics, facts.by, asked)


def make_public(handed: Path, out: Path, made: Made = nobody) -> None:
    """All public files of the release that was handed out, and their table."""
    release = HandedOut.of(handed, made)
    envelope, facts, datasets = release.envelope, release.facts, release.datasets
    table = release.table()
    table.write_parquet(out / RELEASED)
    rules = rule_effects(release.made)
    _write_public(out / PUBLIC, handed, envelope, facts, datasets, table, rules)
    (out / ROWS).mkdir()
    (out / ROWS / RULES).write_text(rules, encoding="utf-8")
    if envelope.draws:
        for number, dataset in enumerate(release.made, start=1):
            write_survey(dataset, out / ROWS / f"{number}.parquet")


def _made(handed: Path, envelope: Envelope, facts: PublicFacts, progress: Made) -> list[Survey]:
    """The data sets, in the order of the public rows: made from the draws, or as handed out."""
    if envelope.rows:
        return [_dataset(frame, facts) for frame in envelope.rows]
    output = output_from(envelope.output, envelope.draws)
    models: tuple[Model, ...] = ()
    if output.needs_models:
        from understudy.release.model_part import model_from

        models = tuple(model_from(model, Path(facts.folder)) for model in facts.models)
    chance = Chance((handed / SEED).read_bytes(), "system")
    return output.datasets(replace(ground_of(facts, models), made=progress), chance)


def ground_of(facts: PublicFacts, models: tuple[Model, ...]) -> Ground:
    """What records are made of beside the mechanism's output."""
    return Ground(
        models,
        facts.columns,
        facts.codebook,
        facts.design,
        facts.records,
        facts.public,
        facts.known,
        facts.types,
    )


def _dataset(synthesized: pl.DataFrame, facts: PublicFacts) -> Survey:
    """Rows that were handed out, beside the public ones."""
    public = facts.public
    if isinstance(public, pl.DataFrame):
        frame = pl.concat([public, synthesized], how="horizontal") if public.width else synthesized
        return Survey(frame.select(facts.columns), facts.design, facts.codebook)
    frames = (
        pl.concat([block, made], how="horizontal").select(facts.columns)
        for block, made in zip(
            blocks_of(public, BLOCK), synthesized.iter_slices(BLOCK), strict=True
        )
    )
    return survey_of(frames, True, facts.design, facts.codebook)


def _write_public(
    folder: Path,
    handed: Path,
    envelope: Envelope,
    facts: PublicFacts,
    datasets: Sequence[Survey],
    table: pl.DataFrame,
    rules: str,
) -> None:
    """The public files, release.json, which `open_release` reads, and public.zip."""
    (folder / "synthetic").mkdir(parents=True)
    for format in facts.formats:
        for name, dataset in zip(format.released_files(len(datasets)), datasets, strict=True):
            write_survey(dataset, folder / name, format)
    write_codebook(facts.codebook, folder / "codebook.toml")
    table.write_csv(folder / "tables.csv", line_terminator="\n")
    for name in (CLAIM, DRAWS, CORRECTIONS):
        if (handed / ENVELOPE / name).is_file():
            (folder / name).write_bytes((handed / ENVELOPE / name).read_bytes())
    page = public_page(facts, envelope, datasets, table, rules)
    (folder / "public.html").write_text(page, encoding="utf-8")
    _list_and_pack(folder, facts, len(datasets))


def _list_and_pack(folder: Path, facts: PublicFacts, count: int) -> None:
    public = files_in(folder)
    write_json(
        folder / FACTS,
        {
            "schema": SCHEMA,
            "title": facts.title,
            "version": __version__,
            "kind": KIND,
            "files": always_released().released_files(count),
            "formats": [kind.written_name for kind in facts.formats],
            "design": design_to(facts.design),
            "statistics": [statistic.text for statistic in facts.statistics],
            "by": list(facts.by),
            "margins": facts.margins,
            "corrected": facts.corrected,
            "checksums": {name: checksum(folder / name) for name in public},
        },
    )
    with zipfile.ZipFile(folder / "public.zip", "w") as archive:
        for name in sorted([*public, FACTS]):
            _pack(archive, name, folder / name)


def _pack(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """A file of the archive; one that hardly shrinks is packed already and stays so."""
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.external_attr = 0o644 << 16
    entry.file_size = path.stat().st_size
    shrinks = _shrinks(path, entry.file_size)
    entry.compress_type = zipfile.ZIP_DEFLATED if shrinks else zipfile.ZIP_STORED
    with path.open("rb") as file, archive.open(entry, "w") as packed:
        shutil.copyfileobj(file, packed, 1 << 20)


def _shrinks(path: Path, size: int) -> bool:
    """Whether packing is worth its time, by pieces from all over a file."""
    with path.open("rb") as file:
        pieces = []
        for start in range(0, size, max(size // PIECES, PIECE)):
            file.seek(start)
            pieces.append(file.read(PIECE))
    packed = sum(len(zlib.compress(piece)) for piece in pieces)
    return packed < WORTH_WHILE * sum(map(len, pieces))


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order, so that their last digits do not depend on threads."""
    engines: list[Any] = [connection(), ibis.get_backend()]
    before = [e.raw_sql("SELECT current_setting('threads')").fetchone()[0] for e in engines]
    for engine in engines:
        engine.raw_sql("SET threads TO 1")
    try:
        yield
    finally:
        for engine, threads in zip(engines, before, strict=True):
            engine.raw_sql(f"SET threads TO {threads}")


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


def _main(handed: str, out: str) -> int:
    threading.Thread(target=_end_with_the_inside, daemon=True).start()
    try:
        make_public(Path(handed), Path(out), lambda *records: print(*records, flush=True))
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
