"""Survey files in: CSV, Parquet, SAS, Stata and SPSS, with what they declare about themselves."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import duckdb
import ibis.common.exceptions as ibis_errors
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Codebook, Column, codebook_from_dict, read_codebook
from understudy.survey.design import Design
from understudy.survey.draft import draft_codebook
from understudy.survey.engine import connection, literal_path, parquet_table, quoted
from understudy.survey.formats.csv import csv_header, csv_table, fitting_codes
from understudy.survey.formats.labelled_files import SOFTWARE, labelled_table
from understudy.survey.formats.missing_tags import is_tag_code
from understudy.survey.survey import Survey, distinct_names

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv")
READABLE = (*TEXT, *PARQUET, *SOFTWARE)
CODEBOOK_KEY = b"understudy.codebook"  # of the Parquet file's metadata, as TOML
WHOLE_CHECK = 64 * 2**20  # bytes; larger Parquet files are not read through before use


def read_survey(
    path: str | Path,
    design: Design | None = None,
    codebook: Codebook | str | Path | None = None,
) -> Survey:
    """Read a survey file by its extension; the records stay on disk.

    Labels, value labels and missing codes that the file carries go into the codebook. A
    codebook that is given wins over them, and what it leaves open (a column's label, its
    value labels, its missing codes) is taken from the file. For a CSV file the codebook
    beside it (`sdr.codebook.toml` for `sdr.csv`) is used when none is given.

    Names of columns that differ only in upper and lower case cannot live in one table here:
    the one that the design or the codebook names keeps its name, the other gets a number.
    """
    path = _existing(path)
    design = design or Design()
    given = _given(codebook, path)
    keep = {*design.named, *(given.columns if given is not None else ())}
    try:
        table, in_file, complete = _open(path, keep, given)
        design.columns(table.columns)
        if given is not None:
            given = fitting_codes(table, given)
            _check_named(given, table)
        merged = _merged(table, design, in_file, complete, given)
        survey = Survey(table, design, merged)
        if survey.n == 0:
            raise Refused(f"`{path.name}` has no records.")
    except (duckdb.Error, ibis_errors.IbisError, pa.ArrowException):
        raise _damaged(path) from None
    return survey


def codebook_beside(path: Path) -> Path:
    """Where the codebook of a file lies that cannot hold it: `sdr.codebook.toml`."""
    return path.with_suffix(".codebook.toml")


def _existing(path: str | Path) -> Path:
    path = Path(path).expanduser()
    try:
        if not path.exists():
            raise Refused(f"There is no file `{path}`; check the path.")
        if path.is_dir():
            raise Refused(f"`{path}` is a folder; name one file in it.")
        if path.suffix.lower() not in READABLE:
            raise UnknownName("file type", path.suffix or path.name, READABLE)
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise Refused(f"`{path.name}` cannot be opened: {error.strerror}.") from None
    if size == 0:
        raise Refused(f"`{path.name}` is empty; check that it was written completely.")
    return path


def _given(codebook: Codebook | str | Path | None, path: Path) -> Codebook | None:
    if isinstance(codebook, (str, Path)):
        return read_codebook(codebook)
    if codebook is None and path.suffix.lower() in TEXT and codebook_beside(path).exists():
        return read_codebook(codebook_beside(path))
    return codebook


def _check_named(codebook: Codebook, table: ir.Table) -> None:
    for column in codebook:
        if column.name not in table.columns:
            raise UnknownName("column (named in the codebook)", column.name, table.columns)


def _open(
    path: Path, keep: set[str], given: Codebook | None
) -> tuple[ir.Table, Codebook | None, bool]:
    """The table, the codebook that the file carries, and whether that one is complete."""
    kind = path.suffix.lower()
    if kind in PARQUET:
        return *_open_parquet(path, keep), True
    if kind in TEXT:
        names, delimiter = csv_header(path)
        names = distinct_names(names, keep)
        return csv_table(path, names, delimiter, given or ()), None, True
    table, declared = labelled_table(path, lambda names: distinct_names(names, keep))
    return table, declared, False


def _open_parquet(path: Path, keep: set[str]) -> tuple[ir.Table, Codebook | None]:
    try:
        metadata = pq.read_metadata(path)
        in_file = list(metadata.schema.to_arrow_schema().names)
        stored = (metadata.metadata or {}).get(CODEBOOK_KEY)
        table = parquet_table(path)
        if path.stat().st_size <= WHOLE_CHECK:
            # Damage inside a column shows only when it is read: better here than in a table.
            _read_through(path)
    except Exception:  # a damaged file can break any step of two libraries
        raise _damaged(path) from None
    names = distinct_names(in_file, keep)
    if names != list(table.columns):
        columns = [table[column] for column in table.columns]
        table = table.select(**dict(zip(names, columns, strict=True)))
    if stored is None:
        return table, None
    try:
        return table, codebook_from_dict(tomllib.loads(stored.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise Refused(
            f"The codebook inside `{path.name}` is damaged; write the file again."
        ) from None


def _read_through(path: Path) -> None:
    file = f"read_parquet({quoted(literal_path(path))}, hive_partitioning=false)"
    connection().con.cursor().execute(f"SELECT bit_xor(hash(COLUMNS(*))) FROM {file}").fetchall()


def _merged(
    table: ir.Table,
    design: Design,
    in_file: Codebook | None,
    complete: bool,
    given: Codebook | None,
) -> Codebook | None:
    """The given codebook over the file's; what a file leaves open is drafted and marked so."""
    if in_file is None or not in_file.columns:
        return given
    base = in_file
    if not complete:
        rest = [name for name in table.columns if given is None or name not in given]
        if rest:
            base = draft_codebook(table.select(rest), design, in_file.only(rest))
    if given is None:
        return base
    columns = {}
    for name in table.columns:
        if name in given:
            columns[name] = _over(given[name], in_file.columns.get(name))
        elif name in base:
            columns[name] = base[name]
    return Codebook(
        columns,
        given.title or in_file.title,
        given.population_size if given.population_size is not None else in_file.population_size,
        given.population_by or in_file.population_by,
        given.impossible or in_file.impossible,
    )


def _over(given: Column, in_file: Column | None) -> Column:
    if in_file is None:
        return given
    codes = given.missing or in_file.missing
    # A tag is never a value, whatever the codebook says about other codes.
    codes += tuple(c for c in in_file.missing if is_tag_code(c) and c not in codes)
    levels = given.levels or ()
    return replace(
        given,
        label=given.label or in_file.label,
        value_labels=given.value_labels or in_file.value_labels,
        missing=tuple(code for code in codes if code in given.missing or code not in levels),
    )


def _damaged(path: Path) -> Refused:
    return Refused(
        f"`{path.name}` cannot be read: it is damaged, was not copied completely, or is not what "
        "its extension says."
    )
