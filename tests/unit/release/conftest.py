"""A release draws its seed from the operating system; here it is always the same one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import chance
from understudy.release import outside, publish


@pytest.fixture(scope="module", autouse=True)
def same_seed() -> Iterator[None]:
    with chance.seeded_chance():
        yield


@pytest.fixture(scope="module")
def outside_here() -> Iterator[None]:
    """Public files of releases are made in this process, which is three seconds quicker to start;
    that they are the same bytes is tested in noninterference/test_public_files.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publish, "run_outside", outside.make_public)
        yield


@pytest.fixture
def outside_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of their own again, for tests of a module with `outside_here` that are about it."""
    from understudy.release import outside, publish

    monkeypatch.setattr(publish, "run_outside", outside.run_outside)
