"""Plugins for the tests of the package and of the studies; they live in tests/plugins."""

from __future__ import annotations

pytest_plugins = [
    "one_query_thread",
    "own_core",
    "quiet_collector",
    "rests_on_chain",
    "seed_offsets",
    "spark_first",
    "uses_jax",
]
