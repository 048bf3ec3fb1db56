"""sdmetrics' quality score of whole files, and why it is not 1.

    scripts/bench-components sdmetrics && python bench/quality_score.py [--data FOLDER]

SD2011 with 12 mixed columns and blanks, one file at (1000, 1e-5), so nearly without noise. Beside
it the scores of two files that no synthesis can be expected to beat or to miss: the file's own
records drawn with replacement, and every column by itself in random order. Prints the worst
columns and pairs. Exits 1 below .95.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy.survey.codebook import Codebook, Column

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from coded_files import SD2011  # noqa: E402

PEER = HERE.parent / "build" / "peers" / "sdmetrics" / "bin" / "python"
LEAST = 0.95
NUMBERS: dict[str, dict[str, Any]] = {
    "age": {"bounds": (16, 100)},
    "income": {"bounds": (0, 20_000), "missing": {-8: "not applicable"}, "rounding": 10},
    "depress": {"bounds": (0, 22)},
    "nociga": {"bounds": (0, 60), "missing": {-8: "not applicable"}},
    "weight": {"bounds": (30, 160)},
}


def codebook() -> Codebook:
    columns = {}
    for name, declared in SD2011.items():
        if name in NUMBERS:
            columns[name] = Column(name, "sensitive", "integer", **NUMBERS[name])
        else:
            columns[name] = Column(name, "sensitive", "categorical", levels=tuple(declared))
    return Codebook(columns)


def scored(used: pl.DataFrame, made: pl.DataFrame) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        for name, frame in (("used", used), ("made", made)):
            frame.write_csv(Path(folder) / f"{name}.csv")
        command = [str(PEER), str(HERE / "peers" / "score.py"), folder]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def compared(folder: Path) -> bool:
    frame = pl.read_csv(folder / "SD2011.csv", null_values=["NA", ""], infer_schema_length=None)
    frame = frame.select(list(SD2011))
    survey = us.Survey(frame, codebook=codebook())
    result = us.synthesize(survey, us.WholeFile(), us.Marginals(1000.0, 1e-5))
    made = result.datasets[0].raw.to_polars()  # with its missing codes, as the file has them
    rng = np.random.default_rng(1)
    files = {
        "ours at epsilon 1000": made.select(frame.columns),
        "records drawn with replacement": frame[rng.integers(frame.height, size=frame.height)],
        "columns by themselves": frame.select(
            frame[name][rng.permutation(frame.height)] for name in frame.columns
        ),
    }
    scores = {name: scored(frame, file) for name, file in files.items()}
    for name, score in scores.items():
        print(f"{name}: {score['score']:.3f} ({score['all_pairs']:.3f} where every pair counts)")
    ours = scores["ours at epsilon 1000"]
    for kind in ("columns", "pairs"):
        worst = sorted(ours[kind].items(), key=lambda item: item[1])[:8]
        print(f"worst {kind}: " + "; ".join(f"{name} {value:.3f}" for name, value in worst))
    return bool(ours["score"] >= LEAST)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    asked = parser.parse_args()
    if not (asked.data.is_dir() and PEER.exists()):
        print("No folder of real files, or no sdmetrics (scripts/bench-components).")
        sys.exit(0)
    sys.exit(not compared(asked.data))
