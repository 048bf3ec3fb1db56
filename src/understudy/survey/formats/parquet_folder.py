"""A folder of Parquet files, as a large table is partitioned: `year=2023/part-0.parquet`.

The names of the folders are columns too (`year`), and their types are settled here, so that every
engine has the same: whole numbers or dates where every folder's value is written as one, and texts
otherwise (`01` is a text). The codebook is beside the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from understudy.errors import Refused
from understudy.survey.file_format import Format, Opened

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from understudy.survey.codebook import Codebook
    from understudy.survey.survey import Survey

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the folder of records without a value
LARGEST = 2**63


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

        files = parquet_files(path)
        partitions = partition_types(path, files)
        try:
            table = connection().read_parquet(
                [literal_path(file) for file in files],
                hive_partitioning=bool(partitions),
                hive_types_autocast=False,
                union_by_name=True,
            )
        except Exception:  # a damaged file can break any step of two libraries
            raise damaged(path) from None
        return Opened(named_columns(with_types(table, partitions), naming))

    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:  # noqa: ARG002
        raise Refused("Folders of Parquet files are read, not written; write one Parquet file.")


def parquet_files(folder: Path) -> list[Path]:
    """The files of the folder and of those in it, without what a writer keeps for itself."""
    files = [
        file
        for file in folder.rglob("*.parquet")
        if file.is_file()
        and not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
    ]
    if not files:
        raise Refused(f"`{folder}` is a folder without Parquet files; name one file in it.")
    return sorted(files)


def partition_types(folder: Path, files: Sequence[Path]) -> dict[str, str]:
    """The columns that the names of the folders make, and the type of each."""
    values: dict[str, set[str]] = {}
    for parent in {file.relative_to(folder).parent for file in files}:
        for name, equals, value in (part.partition("=") for part in parent.parts):
            if equals:
                values.setdefault(unquote(name), set()).add(unquote(value))
    return {name: _type(different - {NO_VALUE}) for name, different in values.items()}


def _type(values: set[str]) -> str:
    if values and all(_whole(value) for value in values):
        return "int64"
    return "date" if values and all(_day(value) for value in values) else "string"


def _whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isdecimal() and str(int(text)) == text and -LARGEST <= int(text) < LARGEST


def _day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def with_types(table: ir.Table, partitions: dict[str, str]) -> ir.Table:
    """The table with the columns of its folders, which came as texts, in their types."""
    typed = {name: kind for name, kind in partitions.items() if kind != "string"}
    return table.mutate(**{name: table[name].cast(kind) for name, kind in typed.items()})


def named_columns(table: ir.Table, naming: Callable[[list[str]], list[str]]) -> ir.Table:
    """The table with its columns named anew."""
    names = naming(list(table.columns))
    if names == list(table.columns):
        return table
    columns = [table[column] for column in table.columns]
    return table.select(**dict(zip(names, columns, strict=True)))
