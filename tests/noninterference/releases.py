"""Releases of neighbouring files with the mechanism's output held fixed.

What a mechanism draws may depend on the records; that is what its claim is about. Everything else
may not. Here every mechanism gives the same output for every file (`fixed_output`): parameters at
fixed places, noisy counts that are 1000 where a cell has two records or more and 0 elsewhere, and
lone numbers that are 1000. Two
neighbouring files must then hand out the same bytes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import chance
from understudy.chance import Chance
from understudy.dp.record_bounds import RecordBounds
from understudy.fitting.diagnostics import Diagnostics
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.posterior import Posterior
from understudy.mechanisms.contract import NoisyDraws, plain_terms
from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.release.inside import Inside, prepare
from understudy.release.outside import DECLARED, ENVELOPE, SEED
from understudy.release.publish import run_synthesis
from understudy.release.recipe import read_recipe
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey
from understudy.synthesis import Synthesis
from understudy.tables.influence.unit_sums import GRID

SECRET = Chance(bytes(range(100, 132)), "system")
CODEBOOK = """\
[population]
size = 5055

[columns.area]
role = "public"
type = "categorical"
levels = ["a", "b"]

[columns.sex]
role = "public"
type = "categorical"
levels = [1, 2]

[columns.group]
role = "sensitive"
type = "categorical"
levels = ["high", "low", "never seen"]

[columns.rank]
role = "sensitive"
type = "integer"
levels = [10, 20, 30, 40]

[columns.place]
role = "sensitive"
type = "text"

[columns.visits]
role = "sensitive"
type = "integer"
bounds = [0, 1000]

[columns.share]
role = "sensitive"
type = "continuous"
bounds = [0, 100]

[columns.income]
role = "sensitive"
type = "continuous"
bounds = [1, 1e9]

[columns.w]
role = "weight"
type = "continuous"
"""
UNIT = 'unit = "home"\nrecords_per_unit = 3\n'
HOME = '\n[columns.home]\nrole = "unit"\ntype = "integer"\n'
OWN = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist


def shares(area, share=None):
    level = numpyro.sample("level", dist.Normal(0.0, 50.0).expand([2]).to_event(1))
    with numpyro.plate("record", area.shape[0]):
        numpyro.sample("share", dist.Normal(level[area], 10.0), obs=share)
"""


def base() -> pl.DataFrame:
    """48 records; every combination of sensitive values that occurs does so at least three times,
    so that one record more or less never moves a cell across the bar of two."""
    number = np.arange(48)
    four = (number // 4) % 4
    return pl.DataFrame(
        {
            "area": np.array(["a", "b"])[number % 2],
            "sex": 1 + (number // 2) % 2,
            "group": np.array(["high", "low"])[four % 2],
            "rank": np.array([10, 20])[four // 2],
            "place": np.array(["north", "south"])[four % 2],
            "visits": np.array([0, 3, 7, 20])[four],
            "share": np.array([20, 35, 50, 80])[four],  # whole, as it happens
            "income": np.array([1000, 20_000, 35_000, 90_000])[four],
            "w": np.array([50.5, 100.25, 120.5, 150.0])[number % 4],
            "home": number // 3,
        }
    )


@dataclass(frozen=True)
class Case:
    """A release: [synthesis] and [privacy] of its recipe, and the columns that are drawn."""

    model: str
    mechanism: str
    drawn: tuple[str, ...]
    synthesis: str
    privacy: str
    more: str = ""
    weight: bool = False
    unit: bool = False  # claims are for homes of three
    figures: bool = False  # the claim's figure is computed on the database, and says so
    psu: bool = False  # homes are the PSUs of the design
    corrects: str = ""  # the column whose mean, with the count, is corrected in the table
    by: str = ""

    def __str__(self) -> str:
        parts = {"mixed": "[[given]]" in self.more, "keep": "keep =" in self.synthesis}
        parts |= {"corrected": bool(self.corrects), "psu": self.psu}
        more = [name for name, there in {**parts, "unit": self.unit}.items() if there]
        return "-".join([self.model, self.mechanism, *more])

    @property
    def codebook(self) -> str:
        return UNIT + CODEBOOK + HOME if self.unit else CODEBOOK

    @property
    def missing(self) -> str:
        """What becomes of values that are missing; nothing where the release refuses them."""
        if self.more or self.model == "WholeFile" or self.mechanism == "NoisyMoments":
            return ""
        return "level" if self.model == "Multinomial" else "model"

    def recipe(self, suffix: str) -> str:
        columns = ", ".join(f'"{name}"' for name in self.drawn if name != "w")
        design = '[design]\nweight = "w"\n' if self.weight else ""
        design = '[design]\npsu = "home"\n' if self.psu else design
        missing = f'missing = "{self.missing}"\n' if self.missing else ""
        by = '\nby = ["area"]' if "predictors" in self.synthesis and not self.more else ""
        statistics = '"count"'
        if self.corrects:
            statistics += f', "mean({self.corrects})"'
            by = f'\nby = ["{self.by}"]\ncorrect = {CORRECT}'
        return (
            f'[data]\npath = "file{suffix}"\ncodebook = "codebook.toml"\n{design}'
            f'[synthesis]\nmodel = "{self.model}"\nsensitive = [{columns}]\ndatasets = 2\n'
            f"draws = 20\nchains = 2\nwarmup = 10\n{missing}{self.synthesis}\n"
            f'[privacy]\nmechanism = "{self.mechanism}"\n{self.privacy}\n'
            f"[tables]\nstatistics = [{statistics}]{by}\n{self.more}"
        )


class Fixed(Posterior):
    """Draws at fixed places, whatever the records are; their bounds are fixed too."""

    @property
    def bounds(self) -> RecordBounds:  # type: ignore[override]
        each = np.full(self.density.n, min(1.0, self.terms.limit))
        return RecordBounds(each, each, each, self.terms.limit, len(self.positions))


def _fixed_fit(fitter: ModelFitter, terms: Any, *_stage_and_start: Any) -> Posterior:
    dimension = fitter.density.dimension
    chains = 0.1 * np.random.default_rng([7, dimension]).standard_normal((2, 10, dimension))
    good = np.ones(dimension)
    names = tuple(str(k) for k in range(dimension))
    passed = Diagnostics(names, good, 500 * good, 500 * good, 0, 2, 20, 1)
    return Fixed(fitter.density, fitter.safe_arrays, terms, fitter.present, chains, passed)


def _fixed_given(fitter: ModelFitter, _seen: Any, _noisy: Any, datasets: int) -> NoisyDraws:
    return NoisyDraws(_fixed_fit(fitter, plain_terms(fitter)).parameters(datasets), True)


CORRECT = 0.5
SUMS: list[tuple[Any, float]] = []  # of influences, as noise was asked for: exact sums and scale


def _coarse(counts: Any, scale: float) -> Any:
    if scale > GRID:  # sums of influences: one record may turn their signs
        SUMS.append((np.asarray(counts, dtype=float), scale))
        return np.full(np.shape(counts), 1000)
    return np.where(np.asarray(counts) >= 2, 1000, 0)


_noisy_numbers = TableBudget.noisy_numbers


def _fixed_distances(budget: TableBudget, numbers: Any, moved: Any, share: Any) -> Any:
    """Distances of tables (misfit.py, quality.py): one record may move them past any limit."""
    _, deviation = _noisy_numbers(budget, numbers, moved, share)
    return np.full(len(moved), 1000), deviation


@contextmanager
def fixed_output() -> Iterator[None]:
    """Mechanisms give the same output for every file; seeds are fixed."""
    with pytest.MonkeyPatch.context() as patch, chance.seeded_noise():
        patch.setattr("understudy.dp.noise._opendp_laplace", _coarse)
        patch.setattr(TableBudget, "noisy_numbers", _fixed_distances)
        patch.setattr(ModelFitter, "fit", _fixed_fit)
        patch.setattr(ModelFitter, "given_noisy", _fixed_given)
        patch.setattr("understudy.release.envelope.write_survey", lambda *_: None)  # stays inside
        patch.setattr(ModelFitter, "present", property(lambda fitter: ~fitter.missing))
        yield


@contextmanager
def inside_of(case: Case, frame: pl.DataFrame, suffix: str) -> Iterator[tuple[Path, Inside]]:
    """The inside of a release of this file, with the mechanism's output held fixed."""
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "codebook.toml").write_text(case.codebook, encoding="utf-8")
        (folder / "mine.py").write_text(OWN, encoding="utf-8")
        recipe = folder / "release.toml"
        recipe.write_text(case.recipe(suffix), encoding="utf-8")
        write_survey(Survey(frame), folder / f"file{suffix}")
        with fixed_output():
            yield folder, prepare(read_recipe(recipe))
    finally:
        shutil.rmtree(folder)


def handed(case: Case, frame: pl.DataFrame, suffix: str = ".parquet") -> dict[str, bytes]:
    """Every byte that leaves the inside when this file is released."""
    with inside_of(case, frame, suffix) as (folder, inside):
        out = folder / "out"
        out.mkdir()
        run_synthesis(inside, SECRET, out, False)
        return {
            str(path.relative_to(out)): path.read_bytes().replace(str(folder).encode(), b"FOLDER")
            for path in (out / SEED, *(out / ENVELOPE).iterdir(), *(out / DECLARED).iterdir())
        }


def result_of(case: Case, frame: pl.DataFrame) -> Synthesis:
    """What `synthesize` gives for the same, with its data sets made in this process."""
    with inside_of(case, frame, ".parquet") as (_, inside):
        result = inside.synthesize(SECRET, False)
        _ = result.datasets
        return result


@cache
def base_of(case: Case, suffix: str) -> Mapping[str, bytes]:
    return handed(case, base(), suffix)
