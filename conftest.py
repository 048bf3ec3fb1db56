"""Plugins for the tests of the package and of the studies; they live in tests/plugins."""

from __future__ import annotations

pytest_plugins = ["one_query_thread", "own_core", "quiet_collector", "seed_offsets", "uses_jax"]
