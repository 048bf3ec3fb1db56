"""A release draws its seed from the operating system; here it is always the same one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import chance


@pytest.fixture(scope="module", autouse=True)
def same_seed() -> Iterator[None]:
    with chance.seeded_chance():
        yield
