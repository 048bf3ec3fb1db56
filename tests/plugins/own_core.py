"""`pytest -n 2 --own-core`: each worker has one processor of its own, as on a machine with one.

JAX counts the processors that its process may use when it computes for the first time, so workers
are bound before that. Processes that tests start are bound with them.
"""

from __future__ import annotations

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--own-core", action="store_true", help="bind each worker to one processor")


def pytest_configure(config: pytest.Config) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")  # gw0, gw1, ...
    if config.getoption("--own-core") and worker is not None:
        os.sched_setaffinity(0, {own_core(worker, os.sched_getaffinity(0))})


def own_core(worker: str, processors: set[int]) -> int:
    """The worker's processor among those that it may use."""
    return sorted(processors)[int(worker.removeprefix("gw")) % len(processors)]
