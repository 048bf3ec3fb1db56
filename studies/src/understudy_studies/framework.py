"""What all studies share: settings, replicates that go on after a stop, workers, files, the page.

A study's folder holds `settings.json`, one file for each replicate and each larger computation,
the tables as CSV, the figures, and `study.html`. The same command after an interruption, or with
more replicates, computes only what is missing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import understudy as us
from understudy_studies.page import grid, render_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Vector = NDArray[np.float64]
Row = dict[str, Any]
Tables = dict[str, pl.DataFrame]

FEWEST = 10  # replicates below which a Monte Carlo error says nothing, and is left out
SMALL = (
    "This run is small: it shows all parts of the study, and its figures are for a look, not for a "
    "comparison with the published ones."
)


@dataclass(frozen=True)
class Run:
    """One call of a study."""

    out: Path
    seed: int
    design: Any
    replicates: int
    progress: bool | None
    workers: int
    application: bool  # whether the paper's application to one file is run too
    options: dict[str, Any]

    def each(self, name: str, compute: Callable[..., Row], folder: str = "replicates") -> list[Row]:
        """`compute(design, seed, number)` for each number from 0; those that are stored are read
        instead. `name` stands beside the bar.

        With more workers `compute` runs in processes of their own, and must be a function that such
        a process can import.
        """
        where, count = self.out / folder, self.replicates
        where.mkdir(parents=True, exist_ok=True)
        paths = [where / f"{number:04d}.json" for number in range(count)]
        missing = [
            partial(stored, path, partial(compute, self.design, self.seed, number))
            for number, path in enumerate(paths)
            if not path.exists()
        ]
        with shown_progress(name, count, self.progress, count - len(missing)) as advance:
            for _ in _done(missing, min(self.workers, len(missing))):
                advance()
        return [_read_json(path) for path in paths]

    def once(self, name: str, compute: Callable[..., Row]) -> Row:
        """`compute(design, seed)`, computed or read."""
        return stored(self.out / f"{name}.json", lambda: compute(self.design, self.seed))


@dataclass(frozen=True)
class Study:
    """A study that is called by `understudy study NAME`: its usual size, and that of `--quick`.

    `parts` computes everything: the tables, the figures, and the facts of the page. `options` are
    those of this study alone, with what they are when nobody gives them.
    """

    name: str
    design: Any  # a dataclass; its fields are the settings that a folder must agree with
    quick: Any
    replicates: int
    quick_replicates: int
    parts: Callable[[Run], tuple[Tables, Mapping[str, Figure], Row]]
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(
        self,
        replicates: int | None = None,
        out: Path | None = None,
        seed: int = 1,
        *,
        quick: bool = False,
        progress: bool | None = None,
        workers: int | None = 1,
        design: Any = None,
        no_application: bool = False,
        **options: Any,
    ) -> Path:
        """Run or continue the study; returns the page, `out`/study.html.

        Numbers are the same for the same seed, but for noise from OpenDP, which has none.
        """
        design = design or (self.quick if quick else self.design)
        usual = self.quick_replicates if quick else self.replicates
        replicates = usual if replicates is None else replicates
        if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
            raise us.Refused("`replicates` must be a whole number of at least 1.")
        own = {**dict(self.options), **options}
        settings = {**asdict(design), **own}
        out = open_study(self.name, out or Path(f"study-{self.name}"), seed, settings)
        # a quick run is mostly compiling, which every further process would do again
        workers = workers or (1 if quick else len(os.sched_getaffinity(0)))
        run = Run(out, seed, design, replicates, progress, workers, not no_application, own)
        return self._write(run, *self.parts(run))

    def _write(
        self, run: Run, tables: Tables, figures: Mapping[str, Figure], facts: Mapping[str, Any]
    ) -> Path:
        """Tables as CSV, figures as SVG and PNG, and study.html from the study's page.md.j2, which
        says first that a study is small."""
        for name, table in tables.items():
            table.write_csv(run.out / f"{name}.csv")
        for name, figure in figures.items():
            us.save_figure(figure, run.out / name)

        def picture(name: str, caption: str, alt: str = "") -> us.Picture:
            return us.Picture(run.out / f"{name}.svg", alt or caption, caption)

        small = run.design != self.design
        known = {
            "design": run.design, "replicates": run.replicates, "small": small, "tables": tables,
            "application": run.application,
            "drawn": list(figures), "picture": picture, "grid": grid, "version": us.__version__,
            "published": partial(published, self.name),
        }  # fmt: skip
        template, page = _folder(self.name) / "page.md.j2", run.out / "study.html"
        return render_page(template, page, {**known, **facts}, SMALL if small else "")


def open_study(name: str, out: Path, seed: int, settings: Mapping[str, Any]) -> Path:
    """Make the folder, or check that what lies there was computed with the same settings."""
    if out.exists() and not out.is_dir():
        raise us.Refused(f"`{out}` is not a folder; choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    about = {"study": name, "seed": seed, "version": us.__version__, **settings}
    path, wanted = out / "settings.json", json.loads(json.dumps(about, default=str))
    if not path.exists():
        write_json(path, wanted)
        return out
    kept = _read_json(path)
    other = [key for key in {**wanted, **kept} if wanted.get(key) != kept.get(key)]
    if other:
        raise us.Refused(
            f"`{out}` holds a study with another `{sorted(other)[0]}`; use the same settings to "
            "continue it, or choose another folder."
        )
    return out


def _done(tasks: Sequence[Callable[[], Row]], workers: int) -> Iterator[Row]:
    """The result of each task as soon as it is there.

    Processes are spawned, because JAX's threads do not survive a fork, and are given up, not waited
    for, when one fails or the user stops.
    """
    if workers <= 1:
        yield from (task() for task in tasks)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        for future in as_completed([pool.submit(task) for task in tasks]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def stacked(results: Sequence[Row], part: str) -> pl.DataFrame:
    """The rows or columns of one part of all replicates, with the number of each."""
    frames = (
        pl.DataFrame(result[part], infer_schema_length=None).with_columns(
            replicate=pl.lit(result["replicate"])
        )
        for result in results
    )
    return pl.concat(frames, how="diagonal_relaxed")


@contextmanager
def shown_progress(
    name: str, total: int, progress: bool | None = None, done: int = 0
) -> Iterator[Callable[[], None]]:
    """A bar on the terminal; `progress` None shows it where somebody may be watching."""
    shown = sys.stderr.isatty() if progress is None else progress
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda: bar.advance(task)


def stored(path: Path, compute: Callable[[], Row]) -> Row:
    """What the file holds, or what is computed now and written to it."""
    if not path.exists():
        write_json(path, compute())
    return _read_json(path)  # the same numbers whether computed now or earlier


def stored_arrays(path: Path, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The same for large arrays."""
    if not path.exists():
        _write_arrays(path, compute())
    with np.load(path) as kept:
        return {name: kept[name] for name in kept.files}


def sum_replicates(
    path: Path, replicates: int, compute: Callable[[int], Any], progress: bool | None = None
) -> tuple[Any, int]:
    """The sum of `compute(number)` over the replicates, and how many they are.

    For arrays that are too large to be kept one by one; the sum so far is kept instead.
    """
    kept = stored_arrays(path, dict) if path.exists() else {"done": 0, "sums": 0.0}
    done, sums = int(kept["done"]), kept["sums"]
    with shown_progress("replicates", replicates, progress, done) as advance:
        for number in range(done, replicates):
            sums = sums + compute(number)
            _write_arrays(path, {"done": number + 1, "sums": sums})
            advance()
    return sums, max(done, replicates)


def _write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    os.replace(part, path)


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all: a run that is killed leaves no half file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, default=np.generic.item), encoding="utf-8")
    os.replace(part, path)


def _read_json(path: Path) -> Row:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise us.Refused(f"`{path}` is damaged; delete it, and it will be computed again.")
    return content


def published(study: str, name: str) -> pl.DataFrame:
    """A table that the paper prints, as it stands in `published/name.csv` of the study."""
    return pl.read_csv(_folder(study) / "published" / f"{name}.csv", infer_schema_length=None)


def in_lines(table: pl.DataFrame, keys: Sequence[str], name: str, value: str) -> pl.DataFrame:
    """A wide table with a line for each number: row by row, under the keys of its row."""
    lines = table.with_row_index().unpivot(
        index=["index", *keys], variable_name=name, value_name=value
    )
    return lines.sort("index", maintain_order=True).drop("index")


def beside_published(ours: pl.DataFrame, printed: pl.DataFrame, name: str) -> pl.DataFrame:
    """Lines of ours with `published` before their numbers; the wide printed table has a column for
    each value of the column `name`, and as many keys as it needs."""
    keys = [key for key in ours.columns if key in printed.columns and key != name]
    theirs = printed.unpivot(index=keys, variable_name=name, value_name="published")
    theirs = theirs.cast({"published": pl.Float64})
    joined = ours.join(theirs, on=[*keys, name], how="left", maintain_order="left")
    first = ours.columns[: ours.columns.index(name) + 1]
    return joined.select(*first, "published", pl.exclude(*first, "published"))


def with_error(value: float, error: float | None, replicates: int, digits: int = 3) -> str:
    """`0.951 ± 0.004`; without the error where the replicates are too few for one."""
    text = f"{value:.{digits}f}"
    return text if error is None or replicates < FEWEST else f"{text} ± {error:.{digits}f}"


def _folder(study: str) -> Path:
    return Path(__file__).parent / study.replace("-", "_")
