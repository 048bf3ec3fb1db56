"""DuckDB in the test process has one thread: each of two workers has one processor.

A query of a small table costs twice the processor time with two threads. What is computed does not
depend on it: a table of a test is smaller than what DuckDB gives to one thread.
"""

from __future__ import annotations

from typing import Any

import duckdb


def pytest_configure() -> None:
    connect = duckdb.connect

    def with_one_thread(*database: Any, config: Any = None, **named: Any) -> Any:
        return connect(*database, config={"threads": 1, **(config or {})}, **named)

    duckdb.connect = with_one_thread
