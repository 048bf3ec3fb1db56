"""Parquet: read where it is, with the whole codebook in the file's metadata."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import Refused
from understudy.survey.codebook import parse_codebook
from understudy.survey.codebook_text import codebook_to_toml
from understudy.survey.file_format import Format, Opened

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from understudy.survey.codebook import Codebook
    from understudy.survey.engine_setting import Engine
    from understudy.survey.survey import Survey

CODEBOOK_KEY = b"understudy.codebook"  # of the file's metadata, as TOML
WHOLE_CHECK = 64 * 2**20  # bytes; larger files are not read through before use


class Parquet(Format):
    name = "Parquet"
    endings = (".parquet", ".pq")
    written = (".parquet", ".pq")
    carries = "codebook"
    folders = False
    r_reads = "as.data.frame(arrow::read_parquet(file))"
    r_package = "arrow"

    def open(
        self,
        path: Path,
        naming: Callable[[list[str]], list[str]],
        declared: Codebook | None,  # noqa: ARG002
    ) -> Opened:
        import pyarrow.parquet as pq

        from understudy.survey.engine import parquet_table
        from understudy.survey.read import damaged

        try:
            metadata = pq.read_metadata(path)
            in_file = list(metadata.schema.to_arrow_schema().names)
            stored = (metadata.metadata or {}).get(CODEBOOK_KEY)
            table = parquet_table(path)
            small = path.stat().st_size <= WHOLE_CHECK
        except Exception:  # a damaged file can break any step of two libraries
            raise damaged(path) from None
        names = naming(in_file)
        if names != list(table.columns):
            columns = [table[column] for column in table.columns]
            table = table.select(**dict(zip(names, columns, strict=True)))
        # Damage inside a column shows only when it is read: better at once than in a table.
        read_through = partial(_read_through, path) if small else None
        return Opened(table, _codebook(stored, path), read_through)

    def open_on_cluster(
        self, path: Path, naming: Callable[[list[str]], list[str]], engine: Engine
    ) -> Opened:
        import pyarrow.parquet as pq

        from understudy.survey.read import damaged
        from understudy.survey.spark import parquet_on_spark

        try:
            stored = (pq.read_metadata(path).metadata or {}).get(CODEBOOK_KEY)
        except Exception:
            raise damaged(path) from None
        return Opened(parquet_on_spark(path, engine, naming), _codebook(stored, path))

    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:
        if survey.stored is not None and survey.declared == codebook:
            shutil.copyfile(survey.stored, path)
            return
        with survey.batches() as records:
            _write(records, records.schema, codebook, path)


def write_frames(frames: Iterable[pl.DataFrame], codebook: Codebook | None, path: Path) -> None:
    """One file from frames of the same columns, with the codebook inside."""
    import pyarrow as pa

    parts = iter(frames)
    first = next(parts)
    large = first.to_arrow().schema  # polars has texts of any length
    schema = pa.schema(
        [(f.name, pa.string() if pa.types.is_large_string(f.type) else f.type) for f in large]
    )
    tables = (frame.to_arrow().cast(schema).combine_chunks() for frame in chain([first], parts))
    _write((batch for table in tables for batch in table.to_batches()), schema, codebook, path)


def _write(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, codebook: Codebook | None, path: Path
) -> None:
    import pyarrow.parquet as pq

    if codebook is not None and codebook.columns:
        schema = schema.with_metadata({CODEBOOK_KEY: codebook_to_toml(codebook).encode()})
    with pq.ParquetWriter(path, schema) as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))


def _codebook(stored: bytes | None, path: Path) -> Codebook | None:
    if stored is None:
        return None
    try:
        return parse_codebook(stored.decode(), f"codebook inside `{path.name}`")
    except UnicodeDecodeError:
        raise Refused(
            f"The codebook inside `{path.name}` is damaged; write the file again."
        ) from None


def _read_through(path: Path) -> None:
    from understudy.survey.engine import connection, literal_path, quoted
    from understudy.survey.read import damaged

    file = f"read_parquet({quoted(literal_path(path))}, hive_partitioning=false)"
    query = f"SELECT bit_xor(hash(COLUMNS(*))) FROM {file}"
    try:
        connection().con.cursor().execute(query).fetchall()
    except Exception:
        raise damaged(path) from None
