"""A folder of Parquet files, as a large table is partitioned: `year=2023/part-0.parquet`.

The names of the folders are columns too (`year`). The codebook is beside the folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import Refused
from understudy.survey.file_format import Format, Opened

if TYPE_CHECKING:
    from understudy.survey.codebook import Codebook
    from understudy.survey.survey import Survey


class ParquetFolder(Format):
    name = "folder of Parquet files"
    endings = ()
    written = ()
    carries = "nothing"
    folders = True
    r_reads = ""
    r_package = ""

    def open(
        self,
        path: Path,
        naming: Callable[[list[str]], list[str]],
        declared: Codebook | None,  # noqa: ARG002
    ) -> Opened:
        from understudy.survey.engine import connection, literal_path
        from understudy.survey.read import damaged

        files = sorted(
            file for file in path.rglob("*.parquet") if not file.name.startswith(("_", "."))
        )
        if not files:
            raise Refused(f"`{path}` is a folder without Parquet files; name one file in it.")
        try:
            table = connection().read_parquet(
                [literal_path(file) for file in files], hive_partitioning=True, union_by_name=True
            )
        except Exception:  # a damaged file can break any step of two libraries
            raise damaged(path) from None
        names = naming(list(table.columns))
        if names != list(table.columns):
            columns = [table[column] for column in table.columns]
            table = table.select(**dict(zip(names, columns, strict=True)))
        return Opened(table)

    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:  # noqa: ARG002
        raise Refused("Folders of Parquet files are read, not written; write one Parquet file.")
