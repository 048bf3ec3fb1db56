"""CSV that was packed with zip or gzip: unpacked into the scratch folder, and read from there."""

from __future__ import annotations

import gzip
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import Refused
from understudy.survey.file_format import Format, Opened
from understudy.survey.formats.csv import Csv

if TYPE_CHECKING:
    from understudy.survey.codebook import Codebook
    from understudy.survey.survey import Survey


class ZippedCsv(Format):
    name = "zipped CSV"
    endings = (".zip", ".gz")
    written = ()
    carries = "nothing"
    folders = False
    r_reads = ""
    r_package = ""

    def open(
        self, path: Path, naming: Callable[[list[str]], list[str]], declared: Codebook | None
    ) -> Opened:
        return Csv().open(_unpacked(path), naming, declared)

    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:  # noqa: ARG002
        raise Refused("Zipped CSV files are read, not written; write CSV or Parquet.")


def _unpacked(path: Path) -> Path:
    """The text file inside, under its own name in the scratch folder."""
    from understudy.survey.engine import new_scratch_file
    from understudy.survey.read import damaged

    folder = new_scratch_file("")
    folder.mkdir()
    try:
        if path.suffix.lower() == ".gz":
            _check_name(path, path.stem)
            with gzip.open(path) as packed, (folder / path.stem).open("wb") as plain:
                shutil.copyfileobj(packed, plain)
            return folder / path.stem
        with zipfile.ZipFile(path) as archive:
            files = [entry for entry in archive.infolist() if not entry.is_dir()]
            texts = [entry for entry in files if Path(entry.filename).suffix.lower() in Csv.endings]
            if len(texts) != 1:
                raise Refused(
                    f"`{path.name}` holds {len(texts) or 'no'} CSV files; unpack it and name one, "
                    "or pack one file alone."
                )
            target = folder / Path(texts[0].filename).name
            with archive.open(texts[0]) as packed, target.open("wb") as plain:
                shutil.copyfileobj(packed, plain)
            return target
    except (zipfile.BadZipFile, zlib.error, EOFError, gzip.BadGzipFile, NotImplementedError):
        raise damaged(path) from None
    except RuntimeError:
        raise Refused(f"`{path.name}` has a password; unpack it first.") from None


def _check_name(path: Path, inner: str) -> None:
    if Path(inner).suffix.lower() not in Csv.endings:
        raise Refused(f"`{path.name}` does not end in .csv.gz; only packed CSV files are read.")
