"""A private file of eight coded columns at (1, 1e-5), beside other makers of files.

All get the same codes with the same declared levels. Peers run in environments of their own and
time themselves: fitting and drawing, without imports. How near the files come is another question,
which bench/whole_file.py asks.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

import understudy as us
from bench.framework.case import Case, NotRun, Outcome, Side
from bench.framework.latent_classes import persons
from bench.framework.peer_environments import HINT, PEERS, last_line, python_of
from understudy.survey.codebook import Codebook, Column

COLUMNS, EPSILON, DELTA = 8, 1.0, 1e-5
MOST_CPU = 900
LARGEST = {"dpmm-mst": 5_000, "smartnoise-mst": 5_000, "synthpop": 5_000}


class WholeFileRelease(Case):
    what = "a private file of 8 coded columns, (1, 1e-5)"
    peers = {
        "smartnoise-mst": "smartnoise-synth's MST, (1, 1e-5)",
        "dpmm-mst": "dpmm's MST, (1, 1e-5)",
        "synthpop": "py-synthpop's trees, which promise no privacy",
    }
    sizes = (5_000, 50_000, 500_000)
    quick = (1_000,)
    tiny = 500
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side | NotRun]:
        codes, sizes = _coded(n)
        columns = {
            name: Column(name, "sensitive", "categorical", levels=(*range(size),), blanks=False)
            for name, size in sizes.items()
        }
        survey = us.Survey(codes, codebook=Codebook(columns))

        def ours() -> int:
            made = us.synthesize(survey, us.WholeFile(), us.Marginals(EPSILON, DELTA))
            return made.datasets[0].n

        sides: dict[str, Side | NotRun] = {"ours": Side(ours)}
        codes.write_csv(folder / "codes.csv")
        (folder / "sizes.json").write_text(json.dumps(sizes), encoding="utf-8")
        for name in self.peers:
            sides[name] = _peer(name, folder, n)
        return sides

    def check(self, ours: int, theirs: int, peer: str) -> None:
        assert ours == theirs, peer


def _coded(n: int) -> tuple[pl.DataFrame, dict[str, int]]:
    frame = persons(n, COLUMNS).with_columns(
        pl.col("age") // 10, pl.col("hours") // 6, (pl.col("pay") + 9_999) // 10_000
    )
    return frame, {"c0": 2, "c1": 4, "c2": 7, "c3": 9, "c4": 12, "age": 10, "hours": 11, "pay": 21}


def _peer(name: str, folder: Path, n: int) -> Side | NotRun:
    environment = name.partition("-")[0]
    python = python_of(environment)
    if python is None:
        return NotRun(f"not installed ({HINT} {environment})")
    if n > LARGEST[name]:
        return NotRun(f"above {LARGEST[name]:,} records")
    out = folder / f"{name}.csv"
    command = [str(python), str(PEERS / "synthesize.py"), name, str(folder / "codes.csv"),
               str(folder / "sizes.json"), str(EPSILON), str(DELTA), str(out)]  # fmt: skip

    def run() -> Outcome:
        spent = last_line(command, MOST_CPU)
        return Outcome(pl.read_csv(out).height, cpu=spent["seconds"])

    return Side(run, most=1, outside=True)
