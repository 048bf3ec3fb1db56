"""Keep the tables of a study in docs/results: `python scripts/keep_results.py study-censoring`.

Numbers are rounded to four decimals. Tables of single replicates are left out: they are large.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
from polars import selectors

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
LARGEST = 60_000  # bytes


def keep(folder: Path) -> None:
    name = json.loads((folder / "settings.json").read_text(encoding="utf-8"))["study"]
    (RESULTS / name).mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.glob("*.csv")):
        table = pl.read_csv(path, infer_schema_length=None).with_columns(selectors.float().round(4))
        text = table.write_csv()
        if len(text) <= LARGEST:
            (RESULTS / name / path.name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        keep(Path(argument))
