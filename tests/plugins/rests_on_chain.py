"""Which tests rest on a chain: `pytest --note-chains FILE` writes their names, one a line.

Every sampler of the package judges its draws by `diagnose` (fitting/continuation.py). A test rests
on a chain when that is called while the test runs, or while a fixture is made that it uses, be it
for the first time or not. What happens in other processes is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROPERTY = "rests on a chain"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--note-chains", metavar="FILE", help="write the names of tests with a chain")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--note-chains"):
        config.pluginmanager.register(ChainNotes(config))


class ChainNotes:
    """Counts judged fits; in a worker it marks tests, in the process that collects it writes."""

    def __init__(self, config: pytest.Config) -> None:
        from understudy.fitting import continuation

        self.file = Path(config.getoption("--note-chains"))
        self.collects = not hasattr(config, "workerinput")
        self.names: set[str] = set()
        self.fits = 0
        self.fixtures: set[Any] = set()  # those that were made with a chain
        diagnose = continuation.diagnose

        def counted(*arguments: Any) -> Any:
            self.fits += 1
            return diagnose(*arguments)

        continuation.diagnose = counted

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = self.fits
        try:
            return (yield)
        finally:
            if self.fits > before:
                self.fixtures.add(fixturedef)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        before = self.fits
        used = item._request._fixture_defs.values()
        try:
            return (yield)
        finally:
            if self.fits > before or not self.fixtures.isdisjoint(used):
                item.user_properties.append((PROPERTY, True))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (PROPERTY, True) in map(tuple, report.user_properties):
            self.names.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if self.collects:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text("".join(f"{name}\n" for name in sorted(self.names)), "utf-8")
