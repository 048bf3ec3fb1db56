"""A study's replicates: each one file, so that a study that was stopped goes on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import understudy as us

Result = dict[str, Any]


def open_study(out: Path, settings: Mapping[str, Any]) -> None:
    """Make the folder, or check that what lies there was computed with the same settings."""
    if out.exists() and not out.is_dir():
        raise us.Refused(f"`{out}` is not a folder; choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    path, wanted = out / "settings.json", json.loads(json.dumps(dict(settings)))
    if not path.exists():
        write_json(path, wanted)
        return
    found = _read_json(path)
    other = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
    if other:
        raise us.Refused(
            f"`{out}` holds a study with another `{sorted(other)[0]}`; use the same settings to go "
            "on, or another folder."
        )


def run_replicates(
    folder: Path,
    replicates: int,
    compute: Callable[[int], Result],
    progress: bool | None = None,
    name: str = "replicates",
) -> list[Result]:
    """`compute(number)` for each number from 0; those that are stored are read instead."""
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise us.Refused("`replicates` must be a whole number of at least 1.")
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    shown = sys.stderr.isatty() if progress is None else progress
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task(name, total=replicates)
        for number in range(replicates):
            results.append(stored(folder / f"{number:04d}.json", partial(compute, number)))
            bar.advance(task)
    return results


def stored(path: Path, compute: Callable[[], Result]) -> Result:
    """What the file holds, or what is computed now and written to it."""
    if path.exists():
        return _read_json(path)
    result = compute()
    write_json(path, result)
    return _read_json(path)  # the same numbers whether computed now or earlier


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all: a run that is killed leaves no half file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")
    os.replace(part, path)


def _read_json(path: Path) -> Result:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise us.Refused(f"`{path}` is damaged; delete it, and it is computed again.")
    return content
