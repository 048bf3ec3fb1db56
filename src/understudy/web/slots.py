"""Replies at a fixed time (threat 7): when a reply leaves tells nothing about the records.

A question is let in by turn, occupies its place for exactly its slot, and its reply leaves
when the slot ends, whether it is an answer, a refusal or a failure. The slot depends on the
request alone. So does the wait for a place, because a place is held for the whole slot and
not for as long as the computation takes.

A computation that outlasts its slot would be visible. Deadlines per partition make that a
matter of an overloaded machine; the reply then leaves at the next multiple of the slot, and
the log asks for a longer one.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("understudy.verify")


class _Outlasted:
    """Counts replies that were late; the log hears of them once a minute at most."""

    def __init__(self) -> None:
        self.count = 0
        self._told_at = -math.inf

    def note(self, now: float) -> None:
        self.count += 1
        if now - self._told_at >= 60:
            self._told_at = now
            log.warning(
                "Replies outlasted their slot (%d so far); raise slot_seconds or lower places.",
                self.count,
            )


_outlasted = _Outlasted()


def outlasted() -> int:
    """How many replies were late since the start."""
    return _outlasted.count


class Turn:
    """One request's way through its slot."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._seconds = seconds
        self._places: asyncio.Semaphore | None = None

    async def enter(self, seconds: float, places: asyncio.Semaphore) -> None:
        """Wait for a place; the slot begins when there is one."""
        await places.acquire()
        self._places = places
        self._start, self._seconds = self._loop.time(), seconds

    async def finish(self) -> None:
        """Wait for the end of the slot and give the place to the next."""
        taken = self._loop.time() - self._start
        slots = max(1, math.ceil(taken / self._seconds))
        if slots > 1:
            _outlasted.note(self._loop.time())
        try:
            await asyncio.sleep(self._start + slots * self._seconds - self._loop.time())
        finally:
            if self._places is not None:
                self._places.release()
                self._places = None


class ReplySlot:
    """Holds back every reply to the given (method, path) pairs."""

    def __init__(self, app: ASGIApp, seconds: float, paths: Collection[str]) -> None:
        self.app = app
        self.seconds = seconds
        self.paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        slotted = scope["type"] == "http" and scope["method"] == "POST"
        if not slotted or scope["path"] not in self.paths:
            await self.app(scope, receive, send)
            return
        turn = Turn(self.seconds)
        scope.setdefault("state", {})["turn"] = turn
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        try:
            await self.app(scope, receive, hold)
        finally:
            await turn.finish()
        for message in held:
            await send(message)
