"""Whole files against their peers: closeness of tables, and CPU seconds.

    scripts/bench-components && python bench/whole_file.py [--data FOLDER] [--again] [--peers ...]

Peers, each in an environment of its own: dpmm AIM, dpmm MST, smartnoise MST; at (1, 1e-5) and
(3, 1e-5), on the same public domain of codes as ours (bench/peers/coded_files.py): SD2011 with 12
mixed columns, ACS persons of Hawaii with 8, 20 and 24. Prints the mean total variation over all
one-, two- and three-way tables, and the CPU seconds of fitting and drawing without imports: means
of the runs (ten of ours, as many of a peer as PEERS says), with their standard errors where there
are several. A peer's files are kept in build/whole_file; --again makes all of them anew. A peer
that has not finished after --longest CPU seconds (720) is stopped and counts as slower without
being compared; two or three hours of CPU time for all of them.

Exits 1 where ours is not closer than every peer or needs more than a twentieth of its CPU time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us
from understudy.survey.codebook import Codebook, Column

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from coded_files import CodedFile, real_files  # noqa: E402

BUILD = HERE.parent / "build"
KEPT = BUILD / "whole_file"
PEERS = {"smartnoise-mst": 4, "dpmm-mst": 1, "dpmm-aim": 1}  # and how often each is run
BUDGETS = (1.0, 3.0)
DELTA = 1e-5
RUNS = 10
Figures = tuple[list[float], list[float], float]  # distances, their standard errors, CPU seconds


def survey_of(file: CodedFile) -> us.Survey:
    columns = {
        name: Column(name, "sensitive", "categorical", levels=tuple(range(size)), blanks=False)
        for name, size in file.sizes.items()
    }
    return us.Survey(file.codes, codebook=Codebook(columns))


def distances(real: pl.DataFrame, made: pl.DataFrame, sizes: dict[str, int]) -> list[float]:
    """Mean total variation of all tables of one, two and three columns."""
    names = list(sizes)
    ours, theirs = (f.select(names).to_numpy() for f in (real, made))
    result = []
    for order in (1, 2, 3):
        apart = []
        for chosen in combinations(range(len(names)), order):
            shape = [sizes[names[j]] for j in chosen]
            tables = [
                np.bincount(
                    np.ravel_multi_index(codes[:, chosen].T, shape), minlength=int(np.prod(shape))
                )
                / len(codes)
                for codes in (ours, theirs)
            ]
            apart.append(0.5 * np.abs(tables[0] - tables[1]).sum())
        result.append(float(np.mean(apart)))
    return result


def ours(file: CodedFile, epsilon: float) -> Figures:
    survey, apart, seconds = survey_of(file), [], []
    for _ in range(RUNS):
        start = time.process_time()
        result = us.synthesize(survey, us.WholeFile(), us.Marginals(epsilon, DELTA))
        seconds.append(time.process_time() - start)
        apart.append(distances(file.codes, result.datasets[0].frame(), file.sizes))
    return of_runs(apart, seconds)


def of_runs(apart: list[list[float]], seconds: list[float]) -> Figures:
    errors = np.std(apart, axis=0, ddof=1) / len(apart) ** 0.5 if len(apart) > 1 else [np.nan] * 3
    return np.mean(apart, axis=0).tolist(), list(errors), float(np.mean(seconds))


def peer(name: str, file: CodedFile, epsilon: float, longest: int, again: bool) -> Figures:
    """NaN distances where it was stopped."""
    apart, seconds = [], []
    for run in range(PEERS[name]):
        stem = f"{file.name.replace(', ', '-').replace(' ', '-')}-{name}-{epsilon:g}-{run}"
        made, facts = KEPT / f"{stem}.csv", KEPT / f"{stem}.json"
        if again or not facts.exists():
            facts.write_text(json.dumps(run_of(name, file, epsilon, longest, made)))
        known = json.loads(facts.read_text(encoding="utf-8"))
        seconds.append(known["seconds"])
        if known.get("stopped"):
            return [float("nan")] * 3, [float("nan")] * 3, max(seconds)
        apart.append(distances(file.codes, pl.read_csv(made), file.sizes))
    return of_runs(apart, seconds)


def run_of(
    name: str, file: CodedFile, epsilon: float, longest: int, made: Path
) -> dict[str, float | bool]:
    with tempfile.TemporaryDirectory() as folder:
        codes, sizes = Path(folder) / "codes.csv", Path(folder) / "sizes.json"
        file.codes.write_csv(codes)
        sizes.write_text(json.dumps(file.sizes), encoding="utf-8")
        command = [str(BUILD / "peers" / name.partition("-")[0] / "bin" / "python"),
                   str(HERE / "peers" / "synthesize.py"), name, str(codes), str(sizes),
                   str(epsilon), str(DELTA), str(made)]  # fmt: skip
        limits = (resource.RLIMIT_CPU, (longest, longest))
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(*limits),
            check=False,
        )
    if run.returncode in (-9, -24):  # CPU time is used up
        return {"seconds": longest, "stopped": True}
    if run.returncode:
        raise SystemExit(f"{name} failed on {file.name}:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def against_peers(folder: Path, peers: list[str], longest: int, again: bool) -> bool:
    good = True
    KEPT.mkdir(parents=True, exist_ok=True)
    ways = "".join(f"{way:>17}" for way in ("1-way", "2-way", "3-way"))
    print(f"{'file':<24}{'epsilon':>8}  {'who':<16}{ways}{'CPU s':>9}")
    for file in real_files(folder):
        for epsilon in BUDGETS:
            rows = {"ours": ours(file, epsilon)}
            for name in peers:
                rows[name] = peer(name, file, epsilon, longest, again)
            apart, _, seconds = rows["ours"]
            for who, (each, errors, spent) in rows.items():
                tv = "".join(f"{v:9.4f} ±{e:6.4f}" for v, e in zip(each, errors, strict=True))
                print(f"{file.name:<24}{epsilon:8g}  {who:<16}{tv}{spent:9.1f}", flush=True)
                if who != "ours":
                    closer = all(not a >= b for a, b in zip(apart, each, strict=True))
                    good = good and closer and 20 * seconds <= spent
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--longest", type=int, default=720, help="CPU seconds of a peer's run")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    asked = parser.parse_args()
    if not (asked.data.is_dir() and (BUILD / "peers" / "dpmm").is_dir()):
        sys.exit("No folder of real files, or no peers (scripts/bench-components).")
    sys.exit(not against_peers(asked.data, asked.peers, asked.longest, asked.again))
