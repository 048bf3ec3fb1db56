"""Fixed-width text (.dat, .asc): where each column stands is said by a layout beside the file.

The layout of `persons.dat` is `persons.layout.csv`, with a line for each column: `name`, `start`
(the first position of a line is 1), and `end` or `width`; `decimals`, where it is given, says how
many of the digits stand after a decimal point that was left out, and `label` what the column is.
Values are cut out of the lines and then read as those of a CSV file are: an empty field is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.errors import Refused
from understudy.survey.file_format import Format, Opened
from understudy.survey.formats.csv import Csv

if TYPE_CHECKING:
    import polars as pl

    from understudy.survey.codebook import Codebook, Value
    from understudy.survey.survey import Survey

SEPARATOR = "\x1f"  # between no two fields: a line is one text


class FixedWidth(Format):
    name = "fixed-width text"
    endings = (".dat", ".asc")
    written = ()
    carries = "labels"
    folders = False
    r_reads = ""
    r_package = ""

    def companions(self, path: Path) -> tuple[Path, ...]:
        return (layout_beside(path), path.with_suffix(".xml"))

    def open(
        self, path: Path, naming: Callable[[list[str]], list[str]], declared: Codebook | None
    ) -> Opened:
        from understudy.survey.codebook import Codebook, Column

        fields = fields_of(path)
        opened = Csv().open(_cut(path, fields), naming, declared)
        names = naming([field.name for field in fields])
        labels = {
            name: Column(
                name,
                label=each.label,
                value_labels=dict(each.value_labels),
                missing=each.missing,
            )
            for name, each in zip(names, fields, strict=True)
            if each.label or each.value_labels or each.missing
        }
        return Opened(opened.table, Codebook(labels), untyped=opened.untyped)

    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:  # noqa: ARG002
        raise Refused("Fixed-width files are read, not written; write CSV or Parquet.")


@dataclass(frozen=True)
class Field:
    """One column of the layout; positions count from 0."""

    name: str
    start: int
    width: int
    decimals: int = 0
    label: str = ""
    numeric: bool = False  # zeros in front of a number mean nothing
    value_labels: Mapping[Value, str] = field(default_factory=dict)
    missing: tuple[Value, ...] = ()


def fields_of(path: Path) -> list[Field]:
    """The columns by the layout, or by an archive's codebook (`persons.xml`) if there is none."""
    document = path.with_suffix(".xml")
    if layout_beside(path).exists() or not document.exists():
        return read_layout(layout_beside(path))
    from understudy.survey.ddi import ddi_variables

    fields = [
        Field(
            v.name, v.start - 1, v.width, v.decimals, v.label, v.numeric, v.value_labels, v.missing
        )
        for v in ddi_variables(document)
        if v.start and v.width
    ]
    if not fields:
        raise Refused(f"`{document.name}` does not say where columns stand; add a layout.")
    return fields


def layout_beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.layout.csv")


def read_layout(path: Path) -> list[Field]:
    """The columns of a layout file, checked."""
    import csv

    if not path.exists():
        raise Refused(
            f"A fixed-width file needs its layout beside it, in `{path.name}`: a line for each "
            "column with name, start and end."
        )
    try:
        with path.open(encoding="utf-8-sig", newline="") as text:
            rows = list(csv.DictReader(text))
    except (UnicodeDecodeError, csv.Error):
        raise Refused(f"`{path.name}` is not a CSV file in UTF-8; save it as one.") from None
    fields = [_field(path, number, row) for number, row in enumerate(rows, start=2)]
    if not fields:
        raise Refused(f"`{path.name}` names no columns.")
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Refused(f"`{path.name}` names the column `{twice}` twice.")
    return fields


def _field(path: Path, line: int, row: dict[str, Any]) -> Field:
    values = {str(key).strip().lower(): str(value or "").strip() for key, value in row.items()}
    name = values.get("name", "")
    try:
        start = int(values["start"]) - 1
        width = int(values["width"]) if values.get("width") else int(values["end"]) - start
        decimals = int(values.get("decimals") or 0)
    except (KeyError, ValueError):
        raise Refused(
            f"Line {line} of `{path.name}` needs a name and whole numbers: start, and end or width."
        ) from None
    if not name or start < 0 or width < 1 or not 0 <= decimals <= width:
        raise Refused(
            f"Line {line} of `{path.name}` needs a name, a start of 1 or more, an end that is not "
            "before it, and no more decimals than digits."
        )
    return Field(name, start, width, decimals, values.get("label", ""))


def _cut(path: Path, fields: list[Field]) -> Path:
    """The same records as a CSV file in the scratch folder."""
    import polars as pl

    from understudy.survey.engine import new_scratch_file

    lines = pl.scan_csv(
        path, has_header=False, separator=SEPARATOR, quote_char=None, schema={"line": pl.String}
    )
    target = new_scratch_file(".csv")
    try:
        lines.filter(pl.col("line").str.strip_chars() != "").select(
            [_value(field) for field in fields]
        ).sink_csv(target)
    except pl.exceptions.PolarsError:
        raise Refused(
            f"`{path.name}` cannot be read as lines of UTF-8 text; if it is Latin-1, convert it "
            f"first: `iconv -f LATIN1 -t UTF-8 {path.name}`."
        ) from None
    return target


def _value(field: Field) -> pl.Expr:
    import polars as pl

    text = pl.col("line").str.slice(field.start, field.width).str.strip_chars()
    if field.decimals:
        number = text.cast(pl.Int64, strict=False) / 10**field.decimals
        implied = text.str.contains(r"^[+-]?[0-9]+$")
        text = pl.when(implied).then(number.cast(pl.String)).otherwise(text)
    elif field.numeric:
        text = text.str.replace(r"^([+-]?)0+([0-9])", "$1$2")
    return text.alias(field.name)
