"""Work that costs no epsilon and takes the processor a while: checks, prices, plans, history.

Whoever asks for it again and again must not keep others waiting (threat 21). All of it has threads
of its own, as many as there are cores, so that whatever else is asked of the server finds one; and
a user has a few of them in line at a time, so that the next user is behind those few alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

P = ParamSpec("P")
T = TypeVar("T")

_threads: RunVar[CapacityLimiter] = RunVar("_threads")  # of the loop that serves


class FreeWork:
    """Turns are by the order of asking; each user's further requests wait for her own."""

    def __init__(self, per_user: int) -> None:
        self._per_user = per_user
        self._lines: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, user: str, act: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Act in one of the threads, when the user's turn has come."""
        line = self._lines.setdefault(user, asyncio.Semaphore(self._per_user))
        async with line:
            work = partial(act, *arguments, **named)
            return await anyio.to_thread.run_sync(work, limiter=_own_threads())


def _own_threads() -> CapacityLimiter:
    try:
        return _threads.get()
    except LookupError:
        made = CapacityLimiter(len(os.sched_getaffinity(0)))
        _threads.set(made)
        return made
