"""The README's table of speed, written from results.json and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from bench.framework.case import OURS
from bench.framework.figures import growth, processor, ratio

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"
HEAD = (
    "| what | records | peer | CPU seconds, ours | peer | times faster | growth |\n"
    "|---|---|---|---|---|---|---|"
)


def table(results: Mapping[str, Any]) -> str:
    """A line for each peer at the largest size where it ran, and the peers that did not."""
    lines = [HEAD]
    for case in results["cases"].values():
        lines += _lines(case)
    machine = results["machine"]
    note = (
        f"Measured on {machine['cores']} cores ({machine['processor']}), "
        f"{machine['memory_gb']:.0f} GB, which others used too (load {machine['load']}): processor "
        "time of all threads, medians of runs that took turns with the peer's, least and most in "
        "brackets. Above 1 we are faster, below 1 slower. Growth is the exponent of our seconds in "
        "the records over the sizes in `bench/results.json`."
    )
    return "\n".join([*lines, "", note])


def _lines(case: Mapping[str, Any]) -> Iterator[str]:
    slope = growth(case["sizes"])
    for peer, description in case["peers"].items():
        ran = [size for size in case["sizes"] if ratio(size["sides"], peer) is not None]
        if not ran:
            why = case["sizes"][-1]["sides"].get(peer, {}).get("not_run", "not run")
            yield f"| {case['what']} | | {description} | | not run: {why} | | |"
            continue
        size = ran[-1]
        pair = ratio(size["sides"], peer)
        assert pair is not None
        ours, theirs = (median(processor(size["sides"][name])) for name in (OURS, peer))
        per = f" per {case['per']}" if case["per"] else ""
        times = f"{number(pair.middle)} ({number(pair.low)} to {number(pair.high)}"
        times += ")" if pair.runs >= 5 else f", {pair.runs} runs)"
        shown = "" if slope is None else f"{slope:.2f}"
        yield (
            f"| {case['what']} | {size['n']:,} | {description} | {number(ours)}{per} | "
            f"{number(theirs)} | {times} | {shown} |"
        )


def number(value: float) -> str:
    """Two digits, as the README writes numbers: .042, 3.1, 1,240."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    if value >= 10:
        return f"{value:.0f}"
    if value >= 1:
        return f"{value:.1f}"
    return f"{float(f'{value:.2g}'):.10f}".rstrip("0").lstrip("0") if value > 0 else "0"


def write() -> None:
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    README.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write()
