"""BLAS has one thread while we compute, and what it had before afterwards."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy

import understudy as us
from understudy.one_blas_thread import one_blas_thread
from understudy.utility.summary import summarise_utility

FRAME = pl.DataFrame({"w": [1.0, 2.0, 3.0, 4.0] * 5, "y": [*range(19), 5], "x": [1, 4, 2, 3] * 5})


def of_blas(what: str) -> list[Callable[..., int]]:
    """This function of every BLAS that NumPy and SciPy bring along, found by their folders."""
    folders = [
        Path(module.__file__).parents[1] / f"{module.__name__}.libs" for module in (np, scipy)
    ]
    files = [file for folder in folders for file in folder.glob("*openblas*")]
    libraries = [ctypes.CDLL(str(file)) for file in files]
    names = [f"scipy_openblas_{what}_num_threads{suffix}" for suffix in ("64_", "")]
    return [getattr(lib, name) for lib in libraries for name in names if hasattr(lib, name)]


def threads() -> list[int]:
    return [count() for count in of_blas("get")]


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    """As on a machine with three processors, whatever the environment says."""
    before = threads()
    assert before, "NumPy has another BLAS here, whose threads this test cannot count"
    for change in of_blas("set"):
        change(3)
    yield
    for change, count in zip(of_blas("set"), before, strict=True):
        change(count)


class Watched(us.Survey):
    """It notes the threads of BLAS whenever somebody asks for its columns."""

    seen: list[int]

    @property
    def columns(self) -> tuple[str, ...]:
        self.__dict__.setdefault("seen", []).extend(threads())
        return super().columns


@pytest.mark.parametrize(
    "run",
    [
        lambda survey: us.tabulate(survey, "mean(y)"),
        lambda survey: us.regress(survey, "y ~ x"),
        lambda survey: us.contrast(survey, "mean(y)", by="x"),
        lambda survey: us.association(survey, "x", "y"),
        lambda survey: us.propensity_score(survey, survey, ["x", "y"]),
        lambda survey: summarise_utility(
            survey, [survey], ["x"], rng=np.random.default_rng(1), replicates=5
        ),
    ],
)
def test_one_thread_inside_and_as_many_as_before_outside(
    run: Callable[[us.Survey], object],
) -> None:
    survey = Watched(FRAME, us.Design(weight="w"))
    assert set(survey.seen) == {3}
    survey.seen.clear()
    run(survey)
    assert set(survey.seen) == {1}
    assert set(threads()) == {3}


def test_the_last_of_several_sets_it_back() -> None:
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads()) == {1}
    second.__exit__(None, None, None)
    assert set(threads()) == {3}


def test_a_refusal_sets_it_back() -> None:
    with pytest.raises(us.Refused):
        us.tabulate(us.Survey(FRAME), "mean(nothing)")
    assert set(threads()) == {3}
