"""Chance, accounted for: every test that meets noise without a seed says how often it may be wrong.

Privacy noise, partition keys and forgotten seeds come from the system's source of randomness, so a
sound program can fail a test by bad luck. A test that draws any of them carries

    @pytest.mark.chance(p, "why")   p bounds its chance of a false alarm, computed from its numbers
                                    (a function of nothing, where that takes long)
    @pytest.mark.any_noise          its assertions hold whatever the noise is

or it fails. The functions below bound the chances; `stand_in_noise` takes noise of the same law
from a seed, for tests in which the sampler itself is not the subject.
"""

from __future__ import annotations

import math
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import opendp.mod
import pytest
from hypothesis import settings
from numpy.typing import ArrayLike
from scipy import optimize, stats

# `make test` tries the same examples every time, `make test-slow` new ones; neither is timed.
settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("same")

ALPHA = 1e-7  # of one exact test against a law; the whole suite may use 1e-4

# -- bounds --------------------------------------------------------------------------------------


def follows(drawn: ArrayLike, law: Any, alpha: float = ALPHA, cells: int = 20) -> bool:
    """Whether draws follow a law of SciPy's; wrongly False with chance at most `alpha`.

    The count of every cell (about equally likely ones) must lie in its exact binomial interval.
    """
    values = np.asarray(drawn).ravel()
    edges = np.unique(law.ppf(np.linspace(0, 1, cells + 1)[1:-1]))
    chances = np.diff(law.cdf(edges), prepend=0.0, append=1.0)
    counts = np.bincount(np.searchsorted(edges, values, side="left"), minlength=chances.size)
    return within(counts, values.size, chances, alpha)


def within(counts: ArrayLike, trials: int, chances: ArrayLike, alpha: float = ALPHA) -> bool:
    """Whether all counts lie in exact binomial intervals; wrongly False with chance `alpha`."""
    observed, p = np.asarray(counts), np.asarray(chances)
    tail = alpha / observed.size / 2
    low, high = stats.binom.ppf(tail, trials, p), stats.binom.isf(tail, trials, p)
    return bool(np.all((observed >= low) & (observed <= high)))


def noise(scale: float) -> Any:
    """The law of integer Laplace noise, SciPy's: P(k) proportional to exp(-|k|/scale)."""
    return stats.dlaplace(1 / scale)


def any_noise_at_all(cells: int, scale: float) -> float:
    """That any of so many counts gets noise other than 0."""
    return noise_beyond(0, scale, cells)


def noise_beyond(size: float, scale: float, counts: int = 1) -> float:
    """That the noise of any of so many counts is larger than `size`, up or down."""
    a = math.exp(-1 / scale)
    return 2 * counts * math.exp(-(math.floor(size) + 1) / scale) / (1 + a)


def same_noise(entries: int, scale: float, pairs: int = 1) -> float:
    """That so many entries of noise are the same in any of some pairs of draws."""
    a = math.exp(-1 / scale)
    collision = (1 - a) / (1 + a) * (1 + a * a) / (1 + a) / (1 + a)
    return pairs * collision**entries


def mean_size_beyond(gap: float, scale: float, draws: int) -> float:
    """That the mean of |noise| is further than `gap` from its expectation, or the mean of the
    noise further than `gap` from 0 (Chernoff)."""
    a = math.exp(-1 / scale)
    share = (1 - a) / (1 + a)

    def size(t: float) -> float:
        return math.log(share * (1 + 2 * a * math.exp(t) / (1 - a * math.exp(t))))

    def sign(t: float) -> float:
        up, down = a * math.exp(t), a * math.exp(-t)
        return math.log(share * (1 / (1 - up) + down / (1 - down)))

    expected = 2 * a / (1 - a * a)
    up, down = _chernoff(size, expected + gap, 1 / scale), _chernoff(size, expected - gap, -1.0)
    return sum(math.exp(-draws * rate) for rate in (up, down)) + 2 * math.exp(
        -draws * _chernoff(sign, gap, 1 / scale)
    )


def _chernoff(log_mgf: Callable[[float], float], level: float, end: float) -> float:
    """sup over t between 0 and `end` of t * level - log E exp(t X)."""
    optimum = optimize.minimize_scalar(
        lambda t: log_mgf(t) - t * level,
        bounds=sorted((0.0, end * (1 - 1e-9))),
        method="bounded",
    )
    return max(0.0, -float(optimum.fun))


def digits_met(length: int, digits: int, strings: int) -> float:
    """That random digits, so many, show one of some strings of that length somewhere."""
    return strings * digits * 10.0**-length


def audit_fails(
    likely: float, unlikely: float, draws: int, alpha: float, low: float, high: float = math.inf
) -> float:
    """That a lower bound on epsilon at confidence `alpha` is not in (low, high]: summed exactly.

    `likely` and `unlikely` are the event's chances on the two files, whose counts are binomial.
    """
    rare = 1e-17  # counts that are rarer are added to the result
    laws = stats.binom(draws, likely), stats.binom(draws, unlikely)
    first, other = (np.arange(law.ppf(rare), law.isf(rare) + 1) for law in laws)
    lower = np.log(stats.beta.ppf(alpha / 2, first, draws - first + 1))
    upper = np.log(stats.beta.isf(alpha / 2, other + 1, draws - other))  # increasing
    enough = np.searchsorted(upper, lower - low, side="left")  # the first with a bound too low
    too_low = laws[0].pmf(first) @ laws[1].sf(other[0] + enough - 1)
    few = np.searchsorted(upper, lower - high, side="left")  # all before it are too high
    too_high = laws[0].pmf(first) @ laws[1].cdf(other[0] + few - 1)
    return float(too_low + too_high + 4 * rare)


# -- noise of the same law from a seed -----------------------------------------------------------


@contextmanager
def seeded_noise() -> Iterator[None]:
    """Integer Laplace noise as the difference of two geometrics, Gaussian noise rounded to whole
    numbers and Gumbel's for picks, from a seed, in one thread.

    Everything but OpenDP's sampler runs, the scale above all; the sampler's own law is tested in
    tests/unit/dp/test_noise.py.
    """
    draw = np.random.default_rng(20240501)

    def stand_in(counts: np.ndarray, scale: float) -> np.ndarray:
        share = -math.expm1(-1 / scale)
        return counts + draw.geometric(share, counts.size) - draw.geometric(share, counts.size)

    def gaussian(counts: np.ndarray, scale: float) -> np.ndarray:
        return counts + np.rint(draw.normal(0, scale, counts.size)).astype(np.int64)

    def picked(scores: np.ndarray, picks: int, scale: float, _measure: str) -> list[int]:
        noisy = scores + draw.gumbel(0, scale, scores.size)
        return [int(position) for position in np.argsort(-noisy)[:picks]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.dp.noise._opendp_laplace", stand_in)
        patch.setattr("understudy.dp.noise._opendp_gaussian", gaussian)
        patch.setattr("understudy.dp.choice._opendp_picks", picked)
        patch.setattr(
            "understudy.mechanisms.row_counts.side_by_side",
            lambda function, items: [function(item) for item in items],
        )
        yield


@pytest.fixture
def stand_in_noise() -> Iterator[None]:
    with seeded_noise():
        yield


@contextmanager
def seeded_answers() -> Iterator[None]:
    """The noise of answers by NumPy, from a seed, at the scales of the server's measurements."""
    from understudy.verify import noise

    draw = np.random.default_rng(20240503)

    def two_sided(sums: ArrayLike, scale: float) -> np.ndarray:
        share, count = -math.expm1(-1 / scale), np.size(sums)
        return np.asarray(sums) + draw.geometric(share, count) - draw.geometric(share, count)

    def geometric(sensitivity: int, micro: int, held: tuple[int, int] | None = None) -> Any:
        scale = noise.exact_scale(sensitivity, micro)
        low, high = held or (-math.inf, math.inf)
        return lambda sums: np.clip(two_sided(list(sums), scale), low, high).tolist()

    def laplace(sensitivity: int, micro: int, _held: Any = None) -> Any:
        scale = noise.exact_scale(sensitivity, micro)
        return lambda sums: [float(value + draw.laplace(0, scale)) for value in sums]

    with pytest.MonkeyPatch.context() as patch:
        for stand_in in (geometric, laplace):
            patch.setitem(noise.SAMPLERS, stand_in.__name__, stand_in)
            patch.setattr(noise, stand_in.__name__, stand_in)
        yield


@pytest.fixture
def stand_in_answers() -> Iterator[None]:
    with seeded_answers():
        yield


@pytest.fixture
def stand_in_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partition keys and shuffles from a seed."""
    draw = np.random.default_rng(20240502)
    below = SimpleNamespace(randbelow=lambda most: int(draw.integers(most)))
    monkeypatch.setattr("understudy.verify.partitions.secrets", below)
    monkeypatch.setattr("understudy.verify.partitions.os", SimpleNamespace(urandom=draw.bytes))


@contextmanager
def seeded_chance(seed: int = 20240504) -> Iterator[None]:
    """What is drawn from the operating system comes from a seed: the same chains in every run."""

    def drawn(size: int) -> bytes:
        return np.random.default_rng(seed).bytes(size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.chance.secrets", SimpleNamespace(token_bytes=drawn))
        yield


@pytest.fixture
def stand_in_seed() -> Iterator[None]:
    with seeded_chance():
        yield


# -- who draws -----------------------------------------------------------------------------------

MARKERS = ("chance", "any_noise")


class Draws:
    """Counts the draws without a seed, and remembers the fixtures that made some."""

    def __init__(self) -> None:
        self.count = 0
        self.fixtures: set[int] = set()

    def wrap(self, function: Callable[..., Any], ours: bool = False) -> Callable[..., Any]:
        """The function, counted; with `ours` only when our code or a test calls it."""

        def counted(*arguments: Any, **named: Any) -> Any:
            if not ours or _is_ours(sys._getframe(1)):
                self.count += 1
            return function(*arguments, **named)

        return counted

    def watch(self) -> None:
        """From now on, for the rest of the session."""
        measurement: Any = opendp.mod.Measurement
        measurement.__call__ = self.wrap(measurement.__call__)
        for module, name in (
            (secrets, "randbelow"),
            (secrets, "randbits"),
            (os, "urandom"),
        ):
            setattr(module, name, self.wrap(getattr(module, name), ours=True))
        seeded = np.random.default_rng

        def generator(seed: Any = None) -> np.random.Generator:
            if seed is None and _is_ours(sys._getframe(1)):
                self.count += 1
            return seeded(seed)

        np.random.default_rng = generator
        start = subprocess.Popen.__init__

        def starting(process: Any, command: Any, *arguments: Any, **named: Any) -> None:
            # What our program draws in another process cannot be seen, and counts as drawn.
            if _is_program(command):
                self.count += 1
            start(process, command, *arguments, **named)

        subprocess.Popen.__init__ = starting  # type: ignore[method-assign]


def _is_ours(frame: Any) -> bool:
    """Our code, or a test of it."""
    path = Path(frame.f_code.co_filename)
    return frame.f_globals.get("__name__", "").startswith("understudy") or (
        "tests" in path.parts and "site-packages" not in path.parts
    )


def _is_program(command: Any) -> bool:
    """Our commands and studies in a process of their own; the workers of a server draw nothing. A
    folder of the name `understudy`, as a clone has, is no command."""
    words = [str(word) for word in command] if isinstance(command, list | tuple) else [str(command)]
    return any(
        (Path(word).name in ("understudy", "kill_steps.py") and not Path(word).is_dir())
        or "understudy.cli" in word
        or "understudy_studies" in word
        for word in words
    )


DRAWS = Draws()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chance(p, why): noise without a seed may fail it so often")
    config.addinivalue_line("markers", "any_noise: draws noise, and holds whatever the noise is")
    DRAWS.watch()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    before = DRAWS.count
    DRAWS.fixtures.discard(id(fixturedef))
    result = yield
    if DRAWS.count > before:
        DRAWS.fixtures.add(id(fixturedef))
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[BEFORE] = DRAWS.count
    yield


BEFORE = pytest.StashKey[int]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    shared = getattr(item, "_fixtureinfo", None)
    made = shared.name2fixturedefs.values() if shared else ()
    drawn = DRAWS.count > item.stash[BEFORE] or any(id(d[-1]) in DRAWS.fixtures for d in made)
    stated = [name for name in MARKERS if item.get_closest_marker(name)]
    if drawn and not stated:
        pytest.fail(
            "This test draws noise without a seed and does not say how often that may fail it; "
            "see tests/chance.py.",
            pytrace=False,
        )


def statement(item: pytest.Item) -> tuple[float, str] | None:
    """What the test's nearest `chance` says; `any_noise` on a test overrules its file's."""
    for mark in item.iter_markers():
        if mark.name == "any_noise":
            return None
        if mark.name == "chance":
            p, why = mark.args
            return float(p() if callable(p) else p), str(why)
    return None
