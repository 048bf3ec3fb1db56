"""The tables of docs/scale.md, written from results.json: curves, bars, and 330 million persons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import log
from statistics import median
from typing import Any

from bench.framework.case import OURS
from bench.framework.figures import growth, processor, ratio
from bench.framework.readme_table import RESULTS, ROOT, number

PAGE = ROOT / "docs" / "scale.md"
PERSONS = 330_000_000
CORES, SHARE = 80, 0.7  # of the cluster on paper, and how much of it is used
FEWEST = 100_000  # records of the largest size from which it is carried on


def ours(size: Mapping[str, Any]) -> float:
    return median(processor(size["sides"][OURS]))


def last_slope(sizes: list[Mapping[str, Any]]) -> float:
    """Between the two largest sizes, where what does not depend on the records counts least."""
    (small, large) = sizes[-2:]
    return log(ours(large) / ours(small)) / log(large["n"] / small["n"])


def exponent(slope: float | None, bar: float | None) -> str:
    if slope is None:
        return ""
    return f"{slope:.2f}" if bar is None or slope <= bar else f"{slope:.2f}, above {bar:g}"


def curves(results: Mapping[str, Any]) -> str:
    lines = ["| what | records: CPU seconds | growth | at the end | first run | memory |"]
    lines.append("|---|---|---|---|---|---|")
    for case in results["cases"].values():
        sizes = case["sizes"]
        points = ", ".join(f"{size['n']:,}: {number(ours(size))}" for size in sizes)
        if case["per"]:
            points += f" per {case['per']}"
        slope = growth(sizes)
        bar = case["most_growth"]
        largest = sizes[-1]["sides"][OURS]
        lines.append(
            f"| {case['what']} | {points} | {exponent(slope, bar)} | "
            f"{exponent(last_slope(sizes), bar)} | {number(largest['first']['cpu'])} | "
            f"{largest['memory_mb'] / 1024:.1f} GB |"
        )
    return "\n".join(lines)


def bars(results: Mapping[str, Any]) -> str:
    lines = [
        "| what | against | records | ours over the peer | at most | |",
        "|---|---|---|---|---|---|",
    ]
    for case in results["cases"].values():
        for peer, bar in case["bars"].items():
            for size in case["sizes"]:
                pair = ratio(size["sides"], peer)
                if pair is not None:
                    over = 1 / pair.middle
                    lines.append(
                        f"| {case['what']} | {case['peers'][peer]} | {size['n']:,} | {over:.2f} | "
                        f"{bar:g} | {'held' if over <= bar else 'missed'} |"
                    )
    return "\n".join(lines)


def persons(results: Mapping[str, Any]) -> str:
    """Seconds at 330 million: those of the largest size, carried on by the exponent at the end, or
    by 1 where that is smaller."""
    lines = ["| step | measured at | exponent | CPU minutes | seconds on the cluster |"]
    lines.append("|---|---|---|---|---|")
    for case in results["cases"].values():
        sizes = case["sizes"]
        n = sizes[-1]["n"]
        if n < FEWEST or case["per"]:
            continue
        slope = max(1.0, last_slope(sizes))
        seconds = ours(sizes[-1]) * (PERSONS / n) ** slope
        lines.append(
            f"| {case['what']} | {n:,} | {slope:.2f} | {number(seconds / 60)} | "
            f"{number(seconds / (CORES * SHARE))} |"
        )
    return "\n".join(lines)


TABLES = {"curves": curves, "bars": bars, "persons": persons}


def page(text: str, results: Mapping[str, Any]) -> str:
    """The page with its tables as the results have them."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{table(results)}\n{end}{rest.split(end)[1]}"
    return text


def write() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    write()
