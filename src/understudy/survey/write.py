"""Survey files out: Parquet and CSV as a stream, Stata and SPSS through pyreadstat.

The records are written as they are, with their missing codes. A file appears under its name
only when it is complete.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Codebook, codebook_to_toml
from understudy.survey.design import Design
from understudy.survey.draft import draft_codebook
from understudy.survey.formats.labelled_write import write_sav, write_stata
from understudy.survey.read import CODEBOOK_KEY, PARQUET, codebook_beside
from understudy.survey.survey import Survey

ROWS_AT_A_TIME = 250_000


def write_survey(survey: Survey, path: str | Path) -> None:
    """Write a survey as .parquet, .csv, .dta or .sav, with its labels and missing codes.

    Parquet carries the whole codebook inside. CSV cannot hold labels, so the codebook goes
    beside it (`sdr.codebook.toml` for `sdr.csv`), where `read_survey` finds it. Stata and
    SPSS files keep labels, value labels and missing codes; in Stata, codes such as -9 become
    .a, .b, ... with their labels, and true/false becomes 1/0 in both.
    """
    path = Path(path).expanduser()
    kind = path.suffix.lower()
    writers: dict[str, Callable[[Survey, Codebook, Path], None]] = {
        **dict.fromkeys(PARQUET, _write_parquet),
        ".csv": _write_csv,
        ".dta": write_stata,
        ".sav": write_sav,
    }
    if kind not in writers:
        raise UnknownName("file type to write", path.suffix or path.name, writers)
    if not path.parent.is_dir():
        raise Refused(f"There is no folder `{path.parent}` to write into; create it first.")
    if path.is_dir():
        raise Refused(f"`{path}` is a folder; name a file in it.")
    if kind == ".csv":
        codebook = _with_texts(survey)
        _check_beside(path, codebook)
        # First the codebook: a CSV without it would show missing codes as values.
        with_rename(codebook_beside(path), lambda part: _write_text(part, codebook))
    else:
        # Only what was declared: a codebook that nobody asked for is not drafted here.
        codebook = survey._codebook or Codebook()
    with_rename(path, lambda part: writers[kind](survey, codebook, part))


def _with_texts(survey: Survey) -> Codebook:
    """The codebook, with a draft of the text columns it leaves out: CSV cannot tell "1" from 1."""
    codebook = survey.codebook
    schema = survey.raw.schema()
    texts = [n for n in survey.columns if schema[n].is_string() and n not in codebook]
    if texts:
        drafted = draft_codebook(survey.raw.select(texts), Design())
        for column in drafted:
            codebook = codebook.with_column(column)
    return codebook


def with_rename(path: Path, write: Callable[[Path], None]) -> None:
    """Write to a new file in the same folder, and give it its name when it is complete."""
    part = path.with_name(f".{path.stem}-{secrets.token_hex(6)}{path.suffix}")
    try:
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        reason = error.strerror or "the disk refused it"
        raise Refused(f"`{path.name}` cannot be written: {reason}.") from None
    finally:
        part.unlink(missing_ok=True)


def _write_text(part: Path, codebook: Codebook) -> None:
    part.write_text(codebook_to_toml(codebook), encoding="utf-8")


def _check_beside(path: Path, codebook: Codebook) -> None:
    beside = codebook_beside(path)
    if path.exists() or not beside.exists():
        return
    if beside.read_bytes() != codebook_to_toml(codebook).encode():
        raise Refused(
            f"There is already a codebook `{beside.name}` of another file; move it away or "
            "write the CSV under another name."
        )


@contextmanager
def _records(survey: Survey) -> Iterator[pa.RecordBatchReader]:
    """The records as a stream of Arrow batches, from any backend."""
    with warnings.catch_warnings():
        # Ibis calls a method of DuckDB that has been renamed since.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield survey.raw.to_pyarrow_batches(chunk_size=ROWS_AT_A_TIME)


def _write_parquet(survey: Survey, codebook: Codebook, part: Path) -> None:
    with _records(survey) as records:
        schema = records.schema
        if codebook.columns:
            schema = schema.with_metadata({CODEBOOK_KEY: codebook_to_toml(codebook).encode()})
        with pq.ParquetWriter(part, schema) as writer:
            for batch in records:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))


def _write_csv(survey: Survey, codebook: Codebook, part: Path) -> None:  # noqa: ARG001
    with _records(survey) as records:
        for column in records.schema:
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                raise Refused(
                    f"Column `{column.name}` cannot be written to CSV; leave it out or write "
                    "Parquet."
                )
        with pa_csv.CSVWriter(part, records.schema) as writer:
            for batch in records:
                writer.write_batch(batch)
