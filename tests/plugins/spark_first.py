"""Tests on Spark come first: they stay in one process, and so does the one cluster that they share.

Processes that have nothing left take tests from the end of what another one has, and a cluster of
two workers takes longer to start than most of its tests.
"""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
