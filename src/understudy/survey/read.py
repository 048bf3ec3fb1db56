"""Survey files in, with what they declare about themselves; the formats are in `formats/`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import ibis
import ibis.common.exceptions as ibis_errors
import ibis.expr.types as ir
import pyarrow as pa
from ibis.expr.operations import InMemoryTable

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Codebook, Column, read_codebook
from understudy.survey.codebook_text import codebook_beside
from understudy.survey.design import Design
from understudy.survey.draft import draft_codebook
from understudy.survey.engine import limit_duckdb, private_copy
from understudy.survey.engine_setting import Engine
from understudy.survey.file_format import Format, Opened, format_of
from understudy.survey.labelled.missing_tags import is_tag_code
from understudy.survey.survey import Survey, distinct_names
from understudy.survey.text_records import fitting_codes

__public__ = ("read_survey", "read_table")

IN_MEMORY = 50_000_000  # values; a release looks at a larger file on disk


def read_survey(
    path: str | Path,
    design: Design | None = None,
    codebook: Codebook | str | Path | None = None,
    format: str | Format | None = None,
    in_memory: bool = False,
    engine: Engine | None = None,
) -> Survey:
    """Read a survey file by its extension; the records stay on disk (those of a moderate CSV
    file in memory), unless `in_memory`: then the file is opened once, and never again; of a large
    one there is a private copy on disk instead.

    A folder is one survey in Parquet files; the names of folders in it (`year=2023`) are columns.
    `engine` says where records are read and counted: `Engine("spark", master="local[2]")` reads
    Parquet files and folders on Spark's workers, where they stay.

    `format` names a format other than the extension's: an extension, or a class in a file of
    your own (`mine.py:Mine`).

    Labels, value labels and missing codes that the file carries go into the codebook. A
    codebook that is given takes precedence, and what it leaves open (a column's label, its
    value labels, its missing codes) is taken from the file. For a file that
    cannot carry them (CSV) the codebook beside it (`sdr.codebook.toml` for `sdr.csv`) is used
    when none is given.

    Columns whose names differ only in upper and lower case cannot be in one table here: the one
    that the design or the codebook names keeps its name, and the other gets a number.
    """
    path, chosen = _existing(path, format)
    design, engine = design or Design(), engine or Engine()
    declared = _declared(codebook, path, chosen)
    naming = _naming(design, declared)
    if engine.on_cluster:
        in_memory = False
    else:
        limit_duckdb(engine)
    records = _opened_once(path, chosen) if in_memory else path
    try:
        if engine.on_cluster:
            opened = chosen.open_on_cluster(records, naming, engine)
        else:
            opened = chosen.open(records, naming, declared)
        if in_memory and not _large(opened.table):
            opened = replace(opened, table=_loaded(opened.table, path))
        elif opened.read_through is not None:
            opened.read_through()
        return _survey(opened, design, declared, chosen.carries != "labels", path.name)
    except (duckdb.Error, ibis_errors.IbisError, pa.ArrowException):
        raise damaged(path) from None


def read_table(
    name: str,
    design: Design | None = None,
    codebook: Codebook | str | Path | None = None,
    engine: Engine | None = None,
) -> Survey:
    """A table of Spark's catalogue, such as `surveys.people`, whose records stay where they are.

    `engine` is that of `read_survey`; by default the session of Spark that is active.
    """
    from understudy.survey.spark import catalogue_table

    design, engine = design or Design(), engine or Engine("spark")
    if not engine.on_cluster:
        raise Refused('A table of Spark\'s catalogue is read by Spark; say `kind = "spark"`.')
    declared = read_codebook(codebook) if isinstance(codebook, (str, Path)) else codebook
    opened = Opened(catalogue_table(name, engine, _naming(design, declared)))
    return _survey(opened, design, declared, True, name)


def _naming(design: Design, declared: Codebook | None) -> Callable[[list[str]], list[str]]:
    keep = {*design.named, *(declared.columns if declared is not None else ())}
    return lambda names: distinct_names(names, keep)


def _survey(
    opened: Opened, design: Design, declared: Codebook | None, complete: bool, name: str
) -> Survey:
    """The survey of opened records; `complete`: what they say of their columns is all."""
    table = opened.table
    design.columns(table.columns)
    if declared is not None:
        declared = fitting_codes(table, declared)
        _check_named(declared, table)
    survey = Survey(table, design, _merged(table, design, opened.codebook, complete, declared))
    survey.untyped_by = opened.untyped
    if survey.n == 0:
        raise Refused(f"`{name}` has no records.")
    return survey


def _opened_once(path: Path, chosen: Format) -> Path:
    """A copy in the scratch folder, which may be read as often as its format likes."""
    try:
        return private_copy(path, chosen.companions(path))
    except OSError as error:
        raise _closed(path, error) from None


def _large(table: ir.Table) -> bool:
    """Whether the private copy is read piece by piece, as often as it is needed."""
    if table.op().find(InMemoryTable):
        return False
    return int(table.count().execute()) * len(table.columns) > IN_MEMORY


def _loaded(table: ir.Table, path: Path) -> ir.Table:
    try:
        return ibis.memtable(table.to_polars())
    except Exception:  # a damaged file can break any step of two libraries
        raise damaged(path) from None


def _existing(path: str | Path, named: str | Format | None) -> tuple[Path, Format]:
    path = Path(path).expanduser()
    try:
        if not path.exists():
            raise Refused(f"There is no file `{path}`; check the path.")
        chosen = format_of(path, named)
        if path.is_dir() != chosen.folders:
            raise Refused(f"`{path}` is a folder; name one file in it.")
        size = path.stat().st_size
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _closed(path, error) from None
    if size == 0:
        raise Refused(f"`{path.name}` is empty; check that it was written completely.")
    return path, chosen


def _declared(
    codebook: Codebook | str | Path | None, path: Path, chosen: Format
) -> Codebook | None:
    if isinstance(codebook, (str, Path)):
        return read_codebook(codebook)
    if codebook is None and chosen.carries == "nothing" and codebook_beside(path).exists():
        return read_codebook(codebook_beside(path))
    return codebook


def _check_named(codebook: Codebook, table: ir.Table) -> None:
    for column in codebook:
        if column.name not in table.columns:
            raise UnknownName("column (named in the codebook)", column.name, table.columns)


def _merged(
    table: ir.Table,
    design: Design,
    in_file: Codebook | None,
    complete: bool,
    declared: Codebook | None,
) -> Codebook | None:
    """The user's codebook over the file's; what a file leaves open is drafted and marked so."""
    if in_file is None or not in_file.columns:
        return declared
    base = in_file
    if not complete:
        rest = [name for name in table.columns if declared is None or name not in declared]
        if rest:
            base = draft_codebook(table.select(rest), design, in_file.only(rest))
    if declared is None:
        return base
    columns = {}
    for name in table.columns:
        if name in declared:
            columns[name] = _over(declared[name], in_file.columns.get(name))
        elif name in base:
            columns[name] = base[name]
    own_totals = declared.population_size is not None or bool(declared.population_by)
    totals = declared if own_totals else in_file
    return replace(
        totals,
        columns=columns,
        title=declared.title or in_file.title,
        impossible=declared.impossible or in_file.impossible,
        order=declared.order or in_file.order,
        design_effect=declared.design_effect or in_file.design_effect,
        design_effects=declared.design_effects or in_file.design_effects,
        psu_records=declared.psu_records or in_file.psu_records,
        misfit=declared.misfit or in_file.misfit,
        unit=declared.unit or in_file.unit,
        records_per_unit=declared.records_per_unit or in_file.records_per_unit,
    )


def _over(declared: Column, in_file: Column | None) -> Column:
    if in_file is None:
        return declared
    codes = declared.missing or in_file.missing
    # A tag is never a value, whatever the codebook says about other codes.
    codes += tuple(c for c in in_file.missing if is_tag_code(c) and c not in codes)
    levels = declared.levels or ()
    return replace(
        declared,
        label=declared.label or in_file.label,
        value_labels=declared.value_labels or in_file.value_labels,
        missing=tuple(code for code in codes if code in declared.missing or code not in levels),
    )


def _closed(path: Path, error: OSError) -> Refused:
    return Refused(f"`{path.name}` cannot be opened: {error.strerror}.")


def damaged(path: Path) -> Refused:
    return Refused(
        f"`{path.name}` cannot be read: it is damaged, was not copied completely, or is not what "
        "its extension says."
    )
