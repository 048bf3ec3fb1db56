"""What a file format declares about itself, and how a file finds its format.

A format is one class in one file of `survey/formats`; reading, writing, messages, `--help` and
recipes know it from there. A class in a file of the user's own is named `mine.py:Mine`.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from understudy.declarations import OWN, Declared, declared_in, own_class
from understudy.errors import Refused, UnknownName

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from understudy.survey.codebook import Codebook
    from understudy.survey.engine_setting import Engine
    from understudy.survey.survey import Survey

Carries = Literal["codebook", "labels", "nothing"]
ALWAYS = "Parquet"  # every release has this format, beside those that are asked for


@dataclass(frozen=True)
class Opened:
    """The records on disk, and what the file says about its columns; `read_through` looks at every
    value once, where damage would not show before. `untyped` are the same records as text, where
    the codebook decides what types they get."""

    table: ir.Table
    codebook: Codebook | None = None
    read_through: Callable[[], None] | None = None
    untyped: Callable[[], ir.Table] | None = None


class Format(Declared, abstract=True):
    """A kind of file. A subclass states its facts and how it is read and written."""

    name: ClassVar[str]  # as people call it: Stata
    endings: ClassVar[tuple[str, ...]]  # that are read, such as .dta
    written: ClassVar[tuple[str, ...]]  # endings that are written too; the first is a release's
    # codebook: the whole of it is in the file; labels: labels, value labels and missing codes
    # do; nothing: the codebook is beside the file.
    carries: ClassVar[Carries]
    r_reads: ClassVar[str]  # the R expression that reads `file` as a data frame; "" if none does
    r_package: ClassVar[str]  # the R package that it needs, "" for none
    folders: ClassVar[bool]  # whether a survey is a folder of such files

    def companions(self, path: Path) -> tuple[Path, ...]:  # noqa: ARG002
        """Files beside this one that belong to it, where they exist."""
        return ()

    @abstractmethod
    def open(
        self, path: Path, naming: Callable[[list[str]], list[str]], declared: Codebook | None
    ) -> Opened:
        """The records as an Ibis table that stays on disk.

        `naming` turns the file's column names into the table's; `declared` is the codebook that
        the user gave.
        """

    def open_on_cluster(
        self,
        path: Path,
        naming: Callable[[list[str]], list[str]],  # noqa: ARG002
        engine: Engine,  # noqa: ARG002
    ) -> Opened:
        """The same on Spark's workers; refused where Spark does not read such files as we do."""
        raise Refused(
            f"Spark reads Parquet files, folders of these and tables of its catalogue, not "
            f"`{path.name}`; write it as Parquet first (`understudy.write_survey`)."
        )

    @abstractmethod
    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:
        """Write all records with what the format carries; never called if `written` is empty."""

    @property
    def written_name(self) -> str:
        """How a recipe and a release name it: its ending without the dot."""
        return self.written[0].removeprefix(".")

    def released_files(self, datasets: int) -> list[str]:
        """The names of a release's data sets in this format."""
        return [f"synthetic/{number}{self.written[0]}" for number in range(1, datasets + 1)]

    @property
    def reference(self) -> str:
        """The name under which another process finds this class: module or file, and class."""
        module = type(self).__module__
        where = module if module.startswith("understudy.") else sys.modules[module].__file__
        return f"{where}:{type(self).__name__}"


@cache
def formats() -> tuple[Format, ...]:
    """The formats of the package, in the order of their names."""
    return tuple(cls() for cls in declared_in("understudy.survey.formats", Format).values())


def endings_read() -> list[str]:
    return [ending for file_format in formats() for ending in file_format.endings]


def endings_written() -> list[str]:
    return [ending for file_format in formats() for ending in file_format.written]


def always_released() -> Format:
    """The format that every release has."""
    (first,) = (file_format for file_format in formats() if file_format.name == ALWAYS)
    return first


def released_formats(named: Sequence[str], folder: Path) -> tuple[Format, ...]:
    """The formats of a release's files: that of every release, then the named ones."""
    others = (format_of(folder, name, writing=True, folder=folder) for name in named)
    return always_released(), *others


def listed(endings: list[str]) -> str:
    """Endings in a sentence: csv, dta or sav."""
    plain = [ending.removeprefix(".") for ending in endings]
    return " or ".join(part for part in (", ".join(plain[:-1]), plain[-1]) if part)


def format_of(
    path: Path, named: str | Format | None = None, writing: bool = False, folder: Path | None = None
) -> Format:
    """The format of a file by its ending, or as named: an ending, or `mine.py:Mine` (a path from
    `folder`)."""
    if isinstance(named, Format) or (named is not None and OWN in named):
        chosen = (
            named
            if isinstance(named, Format)
            else own_class(named, Format, "file format", folder)()
        )
        if writing and not chosen.written:
            raise Refused(f"{chosen.name} files are read, not written; choose another format.")
        return chosen
    if named is None and not writing and path.is_dir():
        return next(file_format for file_format in formats() if file_format.folders)
    ending = path.suffix.lower() if named is None else f".{named.lower().removeprefix('.')}"
    for file_format in formats():
        if ending in (file_format.written if writing else file_format.endings):
            return file_format
    known = endings_written() if writing else endings_read()
    what = "file type to write" if writing else "file type"
    raise UnknownName(what, (path.suffix or path.name) if named is None else named, known)
