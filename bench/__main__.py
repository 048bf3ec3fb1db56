"""The bench: `python -m bench [--only table risk] [--quick]`, or `make bench ONLY="table risk"`.

Each case at each size runs in a process of its own, one after another, and is written to
bench/results.json at once: a run that was stopped goes on with `--only`. The README's table and
those of docs/scale.md are written from that file. --quick takes small sizes and two repeats, and
writes build/bench-quick.json instead. Exits 1 where a case fails; missed bars are printed, and are
in the tables as they are.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.framework import readme_table, scale_tables
from bench.framework.case import OURS, Case, case_named, names
from bench.framework.figures import growth, processor, ratio
from bench.framework.readme_table import RESULTS, ROOT, number

REPEATS = 5
LONGEST = 3600  # seconds by the clock for one case at one size
PACKAGES = ("duckdb", "polars", "numpy", "jax", "numpyro", "svy", "pyreadstat")


def machine() -> dict[str, Any]:
    processors = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("model name\t: ")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    return {
        "cores": os.cpu_count(),
        "processor": processors[1].splitlines()[0] if len(processors) > 1 else platform.machine(),
        "memory_gb": round(memory, 1),
        "load": round(os.getloadavg()[2], 1),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def run(case: Case, sizes: tuple[int, ...], repeats: int) -> dict[str, Any] | None:
    """The record of a case; None where a size failed."""
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "record.json"
        for n in sizes:
            arguments = [case.name, str(n), str(repeats), str(out)]
            command = [sys.executable, "-m", "bench.framework.measure", *arguments]
            done = subprocess.run(command, cwd=ROOT, timeout=LONGEST, check=False)
            if done.returncode:
                print(f"{case.name} failed at {n:,} records", flush=True)
                return None
            measured.append(json.loads(out.read_text(encoding="utf-8")))
            print(*said(case, measured[-1]), sep="\n", flush=True)
    slope = growth(measured)
    if slope is not None:
        missed = case.most_growth is not None and slope > case.most_growth
        bar = "" if case.most_growth is None else f" (at most {case.most_growth:g})"
        print(f"{case.name}: growth {slope:.2f}{bar}{'  MISSED' if missed else ''}", flush=True)
    return {
        "what": case.what,
        "per": case.per,
        "peers": dict(case.peers),
        "bars": dict(case.bars),
        "most_growth": case.most_growth,
        "date": datetime.date.today().isoformat(),
        "load": round(os.getloadavg()[1], 1),
        "sizes": measured,
    }


def said(case: Case, size: dict[str, Any]) -> list[str]:
    lines = []
    for name, side in size["sides"].items():
        if "not_run" in side:
            lines.append(f"{case.name}, {size['n']:,}, {name}: not run, {side['not_run']}")
            continue
        spent = sorted(processor(side))
        text = (
            f"{case.name}, {size['n']:,}, {name}: {number(spent[len(spent) // 2])} CPU s "
            f"({number(spent[0])} to {number(spent[-1])}), first {number(side['first']['cpu'])}, "
            f"{side['memory_mb']:,.0f} MB"
        )
        pair = None if name == OURS else ratio(size["sides"], name)
        if pair is not None:
            bar = case.bars.get(name)
            text += f"; peer over ours {number(pair.middle)}"
            if bar is not None:
                text += f", ours over peer {1 / pair.middle:.2f} (at most {bar:g})"
                text += "  MISSED" if 1 / pair.middle > bar else ""
        lines.append(text)
    return lines


def as_text(machine: dict[str, Any], kept: dict[str, Any]) -> str:
    """JSON with a line for each case."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in kept)
    return f'{{"machine": {json.dumps(machine)},\n"cases": {{\n{lines}\n}}}}\n'


def main() -> None:
    known = names()
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--only", nargs="*", choices=known, default=[], metavar="CASE")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int)
    asked = parser.parse_args()
    target = ROOT / "build" / "bench-quick.json" if asked.quick else RESULTS
    target.parent.mkdir(exist_ok=True)
    results = {"machine": machine(), "cases": {}}
    if target.exists():
        results["cases"] = json.loads(target.read_text(encoding="utf-8"))["cases"]
    failed = []
    for name in asked.only or known:
        case = case_named(name)
        sizes = case.quick if asked.quick else case.sizes
        record = run(case, sizes, asked.repeats or (2 if asked.quick else REPEATS))
        if record is None:
            failed.append(name)
            results["cases"].pop(name, None)  # no old figure stands in for a run that failed
        else:
            results["cases"][name] = record
        results["machine"] = machine()
        kept = {key: results["cases"][key] for key in known if key in results["cases"]}
        target.write_text(as_text(results["machine"], kept), encoding="utf-8")
    if not asked.quick:
        readme_table.write()
        scale_tables.write()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
