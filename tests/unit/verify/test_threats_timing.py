"""Threat 7 by numbers: 2,000 reply times of neighbours, one of which has a slow record."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scipy.stats import ks_2samp

from understudy.verify.slots import ReplySlot

REPLIES = 2000
AT_ONCE = 50
SLOT = 0.05
SLOW = 0.012  # what the record costs: far below the slot, far above what a caller can measure
PATH = "/verify"


async def reply_times(slotted: bool) -> tuple[list[float], list[float]]:
    """Times of replies of a quick and a slow file, asked in turn, through the server's slot."""
    places = asyncio.Semaphore(AT_ONCE)

    async def answer(scope: Any, _receive: Any, send: Any) -> None:
        if slotted:
            await scope["state"]["turn"].enter(SLOT, places)
        await asyncio.sleep(SLOW if scope["slow"] else 0.0)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"{}"})

    app = ReplySlot(answer, SLOT, [PATH] if slotted else [])
    clock = asyncio.get_running_loop().time

    async def ask(slow: bool) -> float:
        arrived: list[float] = []

        async def send(_message: Any) -> None:
            arrived.append(clock())

        scope = {"type": "http", "method": "POST", "path": PATH, "slow": slow}
        start = clock()
        await app(scope, None, send)  # type: ignore[arg-type]
        return arrived[0] - start

    times: tuple[list[float], list[float]] = ([], [])
    for batch in range(REPLIES // AT_ONCE):
        # Whoever is asked first in a batch is neither always quick nor always slow.
        kinds = [bool((batch + k) % 2) for k in range(AT_ONCE)]
        for slow, taken in zip(kinds, await asyncio.gather(*map(ask, kinds)), strict=True):
            times[slow].append(taken)
    return times


def measured(slotted: bool) -> tuple[list[float], list[float]]:
    """In a thread of its own: a browser test may have left an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(reply_times(slotted))).result()


def test_2000_reply_times_do_not_differ() -> None:
    quick, slow = measured(slotted=True)
    assert len(quick) == len(slow) == REPLIES // 2
    assert min(quick + slow) >= SLOT
    assert ks_2samp(quick, slow).pvalue > 1e-3


def test_without_the_slot_they_do() -> None:
    quick, slow = measured(slotted=False)
    assert ks_2samp(quick, slow).pvalue < 1e-12
