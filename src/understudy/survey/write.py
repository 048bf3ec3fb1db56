"""Survey files out: Parquet and CSV as a stream, Stata and SPSS through pyreadstat.

The records are written as they are, with their missing codes. A file appears under its name
only when it is complete.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Codebook, codebook_to_toml
from understudy.survey.labelled_write import write_sav, write_stata
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
        codebook = survey.codebook
        _check_beside(path, codebook)
        # First the codebook: a CSV without it would show missing codes as values.
        with_rename(codebook_beside(path), lambda part: _write_text(part, codebook))
    else:
        # Only what was declared: a codebook that nobody asked for is not drafted here.
        codebook = survey._codebook or Codebook()
    with_rename(path, lambda part: writers[kind](survey, codebook, part))


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


def _write_parquet(survey: Survey, codebook: Codebook, part: Path) -> None:
    records = survey.raw.to_pyarrow_batches(chunk_size=ROWS_AT_A_TIME)
    schema = records.schema
    if codebook.columns:
        schema = schema.with_metadata({CODEBOOK_KEY: codebook_to_toml(codebook).encode()})
    with pq.ParquetWriter(part, schema) as writer:
        for batch in records:
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))


def _write_csv(survey: Survey, codebook: Codebook, part: Path) -> None:  # noqa: ARG001
    records = survey.raw.to_pyarrow_batches(chunk_size=ROWS_AT_A_TIME)
    for column in records.schema:
        if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
            raise Refused(
                f"Column `{column.name}` cannot be written to CSV; leave it out or write Parquet."
            )
    with pa_csv.CSVWriter(part, records.schema) as writer:
        for batch in records:
            writer.write_batch(batch)
