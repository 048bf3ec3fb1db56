"""CSV: UTF-8 text with the column names in the first line; its codebook is beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import Refused
from understudy.survey.file_format import Format, Opened

if TYPE_CHECKING:
    from understudy.survey.codebook import Codebook
    from understudy.survey.survey import Survey


class Csv(Format):
    name = "CSV"
    endings = (".csv", ".tsv")
    written = (".csv",)
    carries = "nothing"
    folders = False
    r_reads = 'read.csv(file, check.names = FALSE, encoding = "UTF-8")'
    r_package = ""

    def open(
        self, path: Path, naming: Callable[[list[str]], list[str]], declared: Codebook | None
    ) -> Opened:
        from understudy.survey.text_records import csv_header, csv_table, csv_texts

        header, delimiter = csv_header(path)
        names = naming(header)
        table = csv_table(path, names, delimiter, declared or ())
        return Opened(table, untyped=lambda: csv_texts(path, names, delimiter))

    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:  # noqa: ARG002
        import pyarrow as pa
        from pyarrow.csv import CSVWriter

        with survey.batches() as records:
            for column in records.schema:
                if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                    raise Refused(
                        f"Column `{column.name}` cannot be written to CSV; leave it out or write "
                        "Parquet."
                    )
            with CSVWriter(path, records.schema) as writer:
                for batch in records:
                    writer.write_batch(batch)
