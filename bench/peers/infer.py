"""anonymeter's inference attacks on used.csv, control.csv and made.csv of a folder, as JSON.

build/peers/anonymeter/bin/python bench/peers/infer.py FOLDER COLUMN ...
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import pandas as pd
from anonymeter.evaluators import InferenceEvaluator

warnings.filterwarnings("ignore")
folder, *secrets = sys.argv[1:]
frames = [pd.read_csv(Path(folder) / f"{name}.csv") for name in ("used", "control", "made")]
for frame in frames:
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = frame[column].fillna("?").astype(str)
    for column in frame.select_dtypes("number"):
        frame[column] = frame[column].fillna(-1)
used, control, made = frames
risks = {}
for secret in secrets:
    attack = InferenceEvaluator(
        ori=used, syn=made, control=control, secret=secret, regression=False, n_attacks=500,
        aux_cols=[column for column in used if column != secret],
    )  # fmt: skip
    attack.evaluate(n_jobs=1)
    risk = attack.risk()
    risks[secret] = [risk.value, *risk.ci]
print(json.dumps(risks))
