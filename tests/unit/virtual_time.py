"""An event loop with a clock of its own, which moves only while everybody waits for it.

A timer that is due next is due now: nothing is slept through, and how busy the machine is
cannot be seen in any reading. Threads and sockets take no time on this clock.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import anyio.to_thread
import pytest

from understudy.verify.caller import Caller

Result = TypeVar("Result")

STEP = 0.005  # of the clock, in which a computation asks whether its caller is still there


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0; `advance` is what a slow computation would take."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Jumping(self.advance))

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class _Jumping(selectors.DefaultSelector):
    """Where the loop would sleep until its next timer, the clock jumps there instead."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None and timeout > 0:
            self._advance(timeout)
        return ready


def run_virtually(main: Callable[[VirtualLoop], Coroutine[Any, Any, Result]]) -> Result:
    """`main(loop)` in a thread of its own: a browser test may have left a loop in this one."""

    def run() -> Result:
        loop = VirtualLoop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(main(loop))

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def compute_on_the_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    """No threads: while one is at work, the clock would run ahead."""

    async def on_the_spot(function: Any, *arguments: Any, **_: Any) -> Any:
        handed = getattr(function, "args", ())  # Starlette makes a partial function of everything
        awaited = [caller for caller in handed if isinstance(caller, Caller)]
        while awaited and not awaited[0].decided:  # what a thread would wait for
            await asyncio.sleep(STEP)
        return function(*arguments)

    monkeypatch.setattr(anyio.to_thread, "run_sync", on_the_spot)
