"""sdmetrics' quality score of made.csv against used.csv of a folder, as JSON.

    build/peers/sdmetrics/bin/python bench/peers/score.py FOLDER

As sdmetrics comes, pairs of columns with little association do not count; `all_pairs` is the score
in which every pair does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
from sdmetrics.reports.single_table import QualityReport

used, made = (pd.read_csv(Path(sys.argv[1]) / f"{name}.csv") for name in ("used", "made"))
kinds = {name: "numerical" if used[name].dtype.kind in "if" else "categorical" for name in used}
metadata = {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}
report, of_all = QualityReport(), QualityReport()
of_all.real_correlation_threshold = of_all.real_association_threshold = 0
for each in (report, of_all):
    each.generate(used, made, metadata, verbose=False)
shapes = report.get_details("Column Shapes")
trends = of_all.get_details("Column Pair Trends")
trends["Columns"] = trends["Column 1"] + " with " + trends["Column 2"]
print(
    json.dumps(
        {
            "score": report.get_score(),
            "all_pairs": of_all.get_score(),
            "columns": shapes.set_index("Column")["Score"].to_dict(),
            "pairs": trends.set_index("Columns")["Score"].to_dict(),
        }
    )
)
