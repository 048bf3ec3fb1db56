"""Tables on the terminal and in files."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import Refused

if TYPE_CHECKING:
    import polars as pl


def show_table(table: pl.DataFrame, title: str = "", rows: int = 200) -> None:
    """Print a frame as a rich table, numbers to the right; long tables are cut and say so."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=title, title_justify="left")
    for name, dtype in table.schema.items():
        shown.add_column(name, justify="right" if dtype.is_numeric() else "left")
    for row in table.head(rows).iter_rows():
        shown.add_row(*(readable(value) for value in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(140, 16 * table.width))
    console.print(shown)
    if table.height > rows:
        console.print(f"... and {table.height - rows} more rows; --out FILE writes them all.")


def readable(value: object) -> str:
    """A number as a person writes it: five digits that matter, thousands apart."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if not isinstance(value, float):
        return str(value)
    size = abs(value)
    if math.isinf(value) or size >= 1e15 or 0 < size < 1e-4:
        return f"{value:.3g}"
    if value == int(value):
        return f"{value:,.0f}"
    decimals = max(0, 4 - math.floor(math.log10(size)))
    return f"{value:,.{decimals}f}"


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write csv or parquet whole or not at all."""
    if path.suffix not in (".csv", ".parquet"):
        raise Refused(f"A table is written as .csv or .parquet, not as `{path.suffix or path}`.")
    if not path.parent.is_dir():
        raise Refused(f"There is no folder `{path.parent}` to write to; make it first.")
    part = path.with_name(f".{path.name}.part")
    try:
        if path.suffix == ".csv":
            table.write_csv(part)
        else:
            table.write_parquet(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
