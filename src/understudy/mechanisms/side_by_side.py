"""Draws for several data sets at once, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from understudy.dp.kept_noise import kept_apart

__public__ = ("side_by_side",)

Item = TypeVar("Item")
Drawn = TypeVar("Drawn")


def side_by_side(draw: Callable[[Item], Drawn], asked: Sequence[Item]) -> list[Drawn]:
    """One draw for each, a generator or a number: NumPy and OpenDP draw outside Python's lock."""

    def drawn(each: Item, keeping: AbstractContextManager[None]) -> Drawn:
        with keeping:
            return draw(each)

    with ThreadPoolExecutor(min(len(asked), len(os.sched_getaffinity(0)))) as pool:
        return list(pool.map(drawn, asked, kept_apart(len(asked))))
