"""The process's own DuckDB, and the private scratch folder that goes with it.

Text files and SAS, Stata and SPSS files are converted once into Parquet in the scratch
folder, so that later queries read columns from disk instead of parsing the file again. The
folder holds confidential records: only its owner may enter it, it is removed at the end of
the process, and the next process removes what a killed one left behind.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import ibis
import ibis.expr.types as ir
from ibis.backends.duckdb import Backend
from ibis.backends.sql.datatypes import DuckDBType
from ibis.expr.datatypes import DataType
from ibis.expr.operations import DatabaseTable
from ibis.util import gen_name

from understudy.survey.engine_setting import Engine

PREFIX = "understudy-scratch-"
_numbers = itertools.count(1)
_behind: dict[DatabaseTable, DatabaseTable] = {}  # the file of a view without NaN
_lock_held: list[int] = []  # open for the life of the process: the lock goes with it


@cache
def connection() -> Backend:
    """One DuckDB per process; it spills into the scratch folder and fetches nothing."""
    return ibis.duckdb.connect(
        temp_directory=str(scratch() / "spill"), autoinstall_known_extensions=False
    )


def limit_duckdb(engine: Engine, backend: Backend | None = None) -> None:
    """Keep DuckDB within the memory and the processors that are set; the process's own, or
    another."""
    own = connection() if backend is None and (engine.memory or engine.threads) else backend
    if engine.memory is not None and own is not None:
        own.raw_sql(f"SET memory_limit = {quoted(engine.memory.strip())}")
    if engine.threads is not None and own is not None:
        own.raw_sql(f"SET threads = {engine.threads}")


@cache
def scratch() -> Path:
    """A folder that only this process and its user may enter, gone when the process ends."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    _lock_held.append(handle)
    atexit.register(_remove_own, folder, os.getpid())
    return folder


def new_scratch_file(suffix: str) -> Path:
    """A path in the scratch folder that nothing else uses."""
    return scratch() / f"{next(_numbers)}{suffix}"


def private_copy(path: Path, companions: Sequence[Path] = ()) -> Path:
    """The file (or folder) under its own name in the scratch folder, with those that belong to it:
    opened once, and the same bytes for all who read it."""
    folder = new_scratch_file("")
    folder.mkdir()
    for file in companions:
        if file.exists():
            shutil.copyfile(file, folder / file.name)
    if path.is_dir():
        return Path(shutil.copytree(path, folder / path.name))
    return Path(shutil.copyfile(path, folder / path.name))


def parquet_table(path: Path) -> ir.Table:
    """An Ibis table over one Parquet file, which stays on disk."""
    name = gen_name("understudy")
    file = f"read_parquet({quoted(literal_path(path))}, hive_partitioning = false)"
    connection().raw_sql(f"CREATE TEMP VIEW {identifier(name)} AS SELECT * FROM {file}")
    described = connection().con.sql(f"DESCRIBE {identifier(name)}").fetchall()
    schema = ibis.Schema({column: _type(kind) for column, kind, *_ in described})
    return DatabaseTable(name, schema, connection()).to_expr()


@cache
def _type(name: str) -> DataType:
    """Ibis parses the name of a type as if it were a query: once for each, not for each column."""
    return DuckDBType.from_string(name)


def is_own_file(table: ir.Table) -> bool:
    """Whether it is a table of this process's DuckDB, as it was read."""
    if connection.cache_info().currsize == 0 or not isinstance(table.op(), DatabaseTable):
        return False
    return table.get_backend() is connection()


def view_without_nan(table: ir.Table, floats: Sequence[str]) -> ir.Table:
    """The same table with null for NaN in these columns."""
    name = gen_name("understudy")
    cleared = ", ".join(
        f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END AS {column}"
        for column in map(identifier, floats)
    )
    source = identifier(table.get_name())
    connection().raw_sql(
        f"CREATE TEMP VIEW {identifier(name)} AS SELECT * REPLACE ({cleared}) FROM {source}"
    )
    view = DatabaseTable(name, table.schema(), connection())
    _behind[view] = table.op()
    return view.to_expr()


def with_nan(table: ir.Table) -> ir.Table:
    """The same query of the files as they are, where it is of views without NaN."""
    return table.op().replace(_behind).to_expr()


def literal_path(path: Path) -> str:
    """The path in DuckDB's spelling: characters that it would expand are taken as they are."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path.resolve()))


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A column name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _remove_own(folder: Path, owner: int) -> None:
    # A forked child inherits the exit hook, but the folder belongs to its parent.
    if os.getpid() == owner:
        if connection.cache_info().currsize:
            connection().disconnect()
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(temporary: Path) -> None:
    """Remove the folders of this user whose lock nobody holds: their process was killed."""
    for folder in temporary.glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            handle = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(handle)
