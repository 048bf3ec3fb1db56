"""A progress bar for long fits, on the terminal's error stream only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def fit_progress(
    stage: str, iterations: int, show: bool | None
) -> Iterator[Callable[[int], None] | None]:
    """A function to call with finished iterations, or None when nothing is shown.

    `show=None` shows the bar when a person is watching: standard error is a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield None
        return
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=console.is_terminal) as progress:
        task = progress.add_task(f"fitting ({stage})", total=iterations)
        yield lambda finished: progress.advance(task, finished)
