"""What only the data holder may see: tables and figures, printed and written with the mark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.drawing import INTERNAL
from understudy.errors import Refused

if TYPE_CHECKING:
    import polars as pl


def show_internal(title: str, table: pl.DataFrame) -> None:
    """Print a table whose title carries the mark; four digits are enough for a risk."""
    import polars.selectors as cs

    from understudy.cli.show import show_table

    show_table(table.with_columns(cs.float().round_sig_figs(4)), f"{title} ({INTERNAL})")


def write_internal(
    out: Path, tables: Mapping[str, pl.DataFrame], figures: Mapping[str, Any]
) -> list[Path]:
    """CSV, SVG and PNG files named `internal_...`; every table has a column with the mark."""
    import polars as pl

    from understudy.cli.show import write_table
    from understudy.drawing import save_figure

    written = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            written.append(out / f"internal_{name}.csv")
            write_table(table.with_columns(mark=pl.lit(INTERNAL)), written[-1])
        for name, figure in figures.items():
            written += save_figure(figure, out / f"internal_{name}")
    except OSError as error:
        raise Refused(f"Cannot write to `{out}`: {error.strerror or error}.") from None
    return written


def names_in(text: str) -> list[str]:
    """The names of a comma-separated option."""
    return [name.strip() for name in text.split(",") if name.strip()]
