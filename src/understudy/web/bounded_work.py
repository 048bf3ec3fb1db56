"""Work that costs no epsilon and takes a while: prices, plans and history, calls to a provider.

Whoever asks for it again and again must not keep others waiting (threat 21). Each kind has a few
threads of its own, so that whatever else is asked of the server finds one; and a caller has a few
requests in line at a time, so that the next caller is behind those few alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

P = ParamSpec("P")
T = TypeVar("T")


class BoundedWork:
    """Turns are by the order of asking; a caller's further requests wait for her own."""

    def __init__(self, threads: int, per_caller: int) -> None:
        self._count, self._per_caller = threads, per_caller
        self._threads: RunVar[CapacityLimiter] = RunVar("threads")  # of the loop that serves
        self._lines: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(
        self, caller: str, act: Callable[P, T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Act in one of the threads, when the caller's turn has come."""
        threads = self._threads.get(None)
        if threads is None:
            threads = CapacityLimiter(self._count)
            self._threads.set(threads)
        line = self._lines.setdefault(caller, asyncio.Semaphore(self._per_caller))
        async with line:
            work = partial(act, *arguments, **named)
            return await anyio.to_thread.run_sync(work, limiter=threads)
