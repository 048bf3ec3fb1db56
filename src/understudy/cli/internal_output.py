"""Tables and figures that are computed from confidential data: printed and written, marked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

INTERNAL = "internal: computed from confidential data"


def print_table(title: str, table: pl.DataFrame) -> None:
    """A rich table whose title carries the mark; numbers to four significant digits."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=f"{title} ({INTERNAL})", title_justify="left")
    for name, dtype in table.schema.items():
        shown.add_column(name.replace("_", " "), justify="right" if dtype.is_numeric() else "left")
    for row in table.iter_rows():
        shown.add_row(*(_text(value) for value in row))
    Console().print(shown)


def write_internal(
    out: Path, tables: Mapping[str, pl.DataFrame], figures: Mapping[str, Any]
) -> list[Path]:
    """CSV, SVG and PNG files named `internal_...`; every table has a column with the mark."""
    import polars as pl

    from understudy.drawing import save_figure
    from understudy.errors import Refused

    try:
        out.mkdir(parents=True, exist_ok=True)
        written = []
        for name, table in tables.items():
            written.append(out / f"internal_{name}.csv")
            table.with_columns(mark=pl.lit(INTERNAL)).write_csv(written[-1])
        for name, figure in figures.items():
            written += save_figure(figure, out / f"internal_{name}")
    except OSError as error:
        raise Refused(f"Cannot write to `{out}`: {error.strerror or error}.") from None
    return written


def names_in(text: str) -> list[str]:
    """The names of a comma-separated option."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return "" if value is None else str(value)
