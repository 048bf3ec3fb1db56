"""Measure one case at one size, in a process of its own: `python -m bench.framework.measure`.

Every side runs once before anything counts; that first run is kept apart, for it holds compilation,
caches and files read for the first time. Then the sides take turns: ours, peer, ours, peer. Seconds
of processor time are those of this process, all its threads, and the children that it waited for;
memory is the most that the process held during the run, whatever it held before (Linux).
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.framework.case import OURS, Case, NotRun, Outcome, Side, case_named


def measured(case: Case, n: int, repeats: int, folder: Path) -> dict[str, Any]:
    """{"n", "sides": {name: {"first", "runs", "memory_mb"} or {"not_run"}}}"""
    sides = case.sides(n, folder)
    ready = {name: side for name, side in sides.items() if isinstance(side, Side)}
    record: dict[str, Any] = {
        name: {"not_run": side.why} for name, side in sides.items() if isinstance(side, NotRun)
    }
    values = {}
    for name, side in ready.items():
        values[name], first = _timed(side)
        record[name] = {"first": first, "runs": [], "memory_mb": 0.0}
    for name, value in values.items():
        if name != OURS and ready[name].compared:
            case.check(values[OURS], value, name)
    for number in range(repeats):
        for name, side in ready.items():
            if side.most is None or number < side.most:
                _, spent = _timed(side)
                record[name]["runs"].append(spent)
    for name in ready:
        kept = [record[name]["first"], *record[name]["runs"]]
        record[name]["memory_mb"] = max(run.pop("memory_mb") for run in kept)
    return {"n": n, "sides": {name: record[name] for name in sides}}


def _timed(side: Side) -> tuple[Any, dict[str, float]]:
    """What the run gave, and {"cpu", "wall", "memory_mb"} of it, each unit of its worth."""
    _forget_peak()
    cpu, wall = _processor(), time.perf_counter()
    given_back = side.run()
    cpu, wall = _processor() - cpu, time.perf_counter() - wall
    outcome = given_back if isinstance(given_back, Outcome) else Outcome(given_back)
    cpu = cpu if outcome.cpu is None else outcome.cpu
    wall = wall if outcome.wall is None else outcome.wall
    spent = {"cpu": cpu / outcome.worth, "wall": wall / outcome.worth, "memory_mb": _peak_mb()}
    return outcome.value, {name: float(f"{number:.4g}") for name, number in spent.items()}


def _processor() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _forget_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_mb() -> float:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    name, n, repeats, out = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        record = measured(case_named(name), int(n), int(repeats), Path(folder))
    Path(out).write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main()
