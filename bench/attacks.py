"""Our inference attack beside anonymeter's, on the same three files.

    scripts/bench-components && python bench/attacks.py [--data FOLDER]

SD2011 with 12 columns in two halves; what is "published" is half of the used half, as it is, so
that the true risk of every inference is about one half. Exits 1 where intervals do not overlap.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from understudy.risk.attacks import attack

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from coded_files import SD2011  # noqa: E402

PEER = HERE.parent / "build" / "peers" / "anonymeter" / "bin" / "python"
SECRETS = ("edu", "socprof", "marital", "ls")


def compared(folder: Path) -> bool:
    frame = pl.read_csv(folder / "SD2011.csv", null_values=["NA", ""], infer_schema_length=None)
    frame = frame.select(list(SD2011))
    rows = np.random.default_rng(1).permutation(frame.height)
    half = frame.height // 2
    used, control = frame[rows[:half]], frame[rows[half : 2 * half]]
    made = used[: half // 2]
    ours = {a.target: a for a in attack(used, control, made, np.random.default_rng(2))}
    with tempfile.TemporaryDirectory() as handed:
        for name, part in (("used", used), ("control", control), ("made", made)):
            part.write_csv(Path(handed) / f"{name}.csv")
        command = [str(PEER), str(HERE / "peers" / "infer.py"), handed, *SECRETS]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs = json.loads(ran.stdout.splitlines()[-1])
    good = True
    for name in SECRETS:
        low, high = ours[name].limits
        value, their_low, their_high = theirs[name]
        good = good and low <= their_high and their_low <= high
        print(
            f"inference of {name}: ours {ours[name].risk:.3f} ({low:.3f} to {high:.3f}), "
            f"anonymeter {value:.3f} ({their_low:.3f} to {their_high:.3f})"
        )
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    asked = parser.parse_args()
    if not (asked.data.is_dir() and PEER.exists()):
        print("No folder of real files, or no anonymeter (scripts/bench-components).")
        sys.exit(0)
    sys.exit(not compared(asked.data))
