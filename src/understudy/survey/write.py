"""Survey files out; the formats are in `formats/`.

The records are written as they are, with their missing codes. A file appears under its name
only when it is complete.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from understudy.errors import Refused
from understudy.survey.codebook import Codebook
from understudy.survey.codebook_text import codebook_beside, codebook_to_toml
from understudy.survey.design import Design
from understudy.survey.draft import draft_codebook
from understudy.survey.file_format import Format, format_of
from understudy.survey.survey import Survey

__public__ = ("write_survey",)


def write_survey(survey: Survey, path: str | Path, format: str | Format | None = None) -> None:
    """Write a survey in the format of the file's extension, with its labels and missing codes.

    Parquet carries the whole codebook inside. CSV cannot hold labels, so the codebook goes
    beside it (`sdr.codebook.toml` for `sdr.csv`), where `read_survey` finds it. Stata and
    SPSS files keep labels, value labels and missing codes; in Stata, codes such as -9 become
    .a, .b, ... with their labels, and true/false becomes 1/0 in both. `format` names a
    format other than the extension's: an extension, or a class of your own (`mine.py:Mine`).

    Records on Spark are written by its workers: `path` is then a new folder of Parquet files, which
    the workers must reach too, with the codebook beside it.
    """
    path = Path(path).expanduser()
    if not path.parent.is_dir():
        raise Refused(f"There is no folder `{path.parent}` to write into; create it first.")
    if survey.on_cluster:
        _write_there(survey, path, format)
        return
    chosen = format_of(path, format, writing=True)
    if path.is_dir():
        raise Refused(f"`{path}` is a folder; name a file in it.")
    if chosen.carries == "nothing":
        codebook = _with_texts(survey)
        _check_beside(path, codebook)
        # First the codebook: a file without it would show missing codes as values.
        with_rename(codebook_beside(path), lambda part: _write_text(part, codebook))
    else:
        # Only what was declared: a codebook that nobody asked for is not drafted here.
        codebook = survey.declared
    with_rename(path, lambda part: chosen.write(survey, codebook, part))


def _write_there(survey: Survey, folder: Path, format: str | Format | None) -> None:
    """A folder of Parquet files, written by the workers that have the records."""
    from understudy.survey.spark import write_folder

    if folder.suffix or format is not None:
        raise Refused(
            "Records on Spark are written as a folder of Parquet files, by its workers; give the "
            "folder's name, without an ending."
        )
    if folder.exists():
        raise Refused(f"`{folder}` exists; name a new folder.")
    _check_beside(folder, survey.declared)
    _write_text(codebook_beside(folder), survey.declared)
    write_folder(survey.raw, folder)


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
            "write this one under another name."
        )
