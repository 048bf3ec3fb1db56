"""The whole suite under other seeds: no test may pass by luck of the seed that it happens to name.

    UNDERSTUDY_TEST_SEEDS=3 pytest ...       every seed is shifted by offset 3 (0: as written)
    pytest --repeat-seeds 1-20 SELECTION     the selection under each offset, in one process

The seeds that reach `jax.random.key`, `jax.random.PRNGKey` and `numpy.random.default_rng`, from a
test or through the package, are shifted; the package itself knows nothing of it. Where a seed is
not chance (the bytes of a fixed draw, data whose published figures are compared) the test or its
module is marked `fixed_seed("why")` and runs as written. Fixtures of a module follow the module's
mark, not that of the test that asks for them first. With `--repeat-seeds` all fixtures are made
anew for each offset and what a test module has cached is forgotten; modules are imported once, and
compiled programs come from JAX's cache on disk.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

VARIABLE = "UNDERSTUDY_TEST_SEEDS"
STEP = 1_000_003  # a prime: no seed of a test meets another's under a small offset
LARGEST = 2**63


class Offset:
    """The offset in effect, and the functions that add it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.wrapped = False

    def shifted(self, seed: Any) -> Any:
        """The seed moved on; what is not a seed (None, a generator, a bad number) stays."""
        if isinstance(seed, bool) or self.number == 0:
            return seed
        if isinstance(seed, (int, np.integer)):
            return (int(seed) + STEP * self.number) % LARGEST if seed >= 0 else seed
        if isinstance(seed, (list, tuple)) and seed:
            return [self.shifted(seed[0]), *seed[1:]]
        return seed

    def wrap(self) -> None:
        if self.wrapped:
            return
        import jax.random  # only where seeds are shifted: most tests do without JAX

        self.wrapped = True
        for module, name in (
            (jax.random, "key"),
            (jax.random, "PRNGKey"),
            (np.random, "default_rng"),
        ):
            setattr(module, name, self._shifting(getattr(module, name)))

    def _shifting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def with_offset(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
            return function(self.shifted(seed), *args, **kwargs)

        return with_offset

    @contextmanager
    def fixed_for(self, node: pytest.Item | pytest.Collector) -> Iterator[None]:
        """No offset while a marked node is at work."""
        kept = self.number
        if node.get_closest_marker("fixed_seed") is not None:
            self.number = 0
        try:
            yield
        finally:
            self.number = kept


OFFSET = Offset(int(os.environ.get(VARIABLE, "0")))
if OFFSET.number:
    OFFSET.wrap()  # before any test module is imported


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--repeat-seeds",
        metavar="FIRST-LAST",
        help="run the selected tests under each of these seed offsets, in one process",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "fixed_seed(why): the seed is part of what is tested; it is never shifted"
    )
    if config.getoption("--repeat-seeds"):
        if config.getoption("numprocesses", None):
            raise pytest.UsageError("--repeat-seeds runs in one process; leave out -n")
        OFFSET.wrap()


def offsets_of(text: str) -> Sequence[int]:
    """`1-20` -> 1, ..., 20."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Iterator[None]:
    with OFFSET.fixed_for(request.node):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with OFFSET.fixed_for(item):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    asked = session.config.getoption("--repeat-seeds")
    if not asked or session.config.option.collectonly or session.testsfailed:
        return None
    for OFFSET.number in offsets_of(asked):
        for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
        if "jax" in sys.modules:  # each program maps memory, of which a process has so many pieces
            sys.modules["jax"].clear_caches()
        for item, later in zip(session.items, [*session.items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=later)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if item.config.getoption("--repeat-seeds"):
        report.nodeid = f"{report.nodeid} seeds+{OFFSET.number}"
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--repeat-seeds"):
        return
    counts = {
        outcome: Counter(
            report.nodeid.rpartition(" ")[0] for report in terminalreporter.stats.get(outcome, [])
        )
        for outcome in ("passed", "failed", "error")
    }
    red = counts["failed"] + counts["error"]
    terminalreporter.section("seed offsets: passed, failed")
    for name in sorted(counts["passed"] | red):
        terminalreporter.write_line(f"{counts['passed'][name]:5d} {red[name]:4d}  {name}")
