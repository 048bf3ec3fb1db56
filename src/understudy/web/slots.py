"""Replies at a fixed time (threat 7): when a reply leaves tells nothing about the records.

A question is let in by turn, occupies its place for exactly its slot, and its reply leaves
when the slot ends, whether it is an answer, a refusal or a failure. The slot depends on the
request alone. So does the wait for a place, because a place is held for the whole slot and
not for as long as the computation takes.

A computation that outlasts its slot would be visible. Deadlines per partition make that a
matter of an overloaded machine; the reply then leaves at the next multiple of the slot, and
the log asks for a longer one.

What needs no computing (a refusal, an answer that was paid for) takes no place, a user has few
questions waiting, and who hangs up while waiting is out of the line (threat 21). Who hangs up while
a question is fitted in every partition, which may take long, has paid and frees the place.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from understudy.errors import Refused
from understudy.verify.caller import Caller
from understudy.verify.service import HOLD
from understudy.verify.turns import Turns
from understudy.web.seldom import Seldom

LOOK = 0.1  # seconds until the first in line looks again for places of other processes

log = logging.getLogger("understudy.verify")


_outlasted = Seldom(
    log, "Replies outlasted their slot (%d so far); raise slot_seconds or lower places."
)


def outlasted() -> int:
    """How many replies were late since the start."""
    return _outlasted.count


class HungUp(Refused):
    """The caller left before a place was free; nothing was spent."""

    def __init__(self) -> None:
        super().__init__("The caller left before the question's turn came; nothing was spent.")


class ReplyPlaces:
    """Places of one kind for questions that are computed, in the order of asking, over all server
    processes. The first of this process's line looks whether a place is free; the others wait for
    it."""

    def __init__(self, turns: Turns, kind: str, count: int, per_user: int) -> None:
        self._turns, self._kind, self._count, self._per_user = turns, kind, count, per_user
        self._first = asyncio.Lock()
        self._freed = asyncio.Event()

    async def take(self, user: str, seconds: float, receive: Receive) -> int:
        """Wait for a place, unless the caller hangs up; `receive` then says so. Its ticket."""
        queue = self._turns.queue
        ticket = await run_in_threadpool(queue, self._kind, user, self._per_user)
        waiting = asyncio.ensure_future(self._enter(ticket, seconds))
        leaving = asyncio.ensure_future(receive())
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise HungUp
            waiting.result()
        except BaseException:
            waiting.cancel()
            await asyncio.wait({waiting})
            await self.give_back(ticket)
            raise
        finally:
            leaving.cancel()
        return ticket

    async def _enter(self, ticket: int, seconds: float) -> None:
        enter = partial(self._turns.enter, self._kind, ticket, self._count, seconds)
        async with self._first:
            self._freed.clear()
            while not await run_in_threadpool(enter):
                with suppress(TimeoutError):  # another process says nothing when it frees one
                    await asyncio.wait_for(self._freed.wait(), LOOK)
                self._freed.clear()

    async def give_back(self, ticket: int) -> None:
        await run_in_threadpool(self._turns.leave, ticket)
        self._freed.set()


class Turn:
    """One request's way through its slot."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._seconds = seconds
        self._held: tuple[ReplyPlaces, int] | None = None

    async def enter(self, seconds: float, places: ReplyPlaces, user: str, receive: Receive) -> None:
        """Wait for a place; the slot begins when there is one."""
        ticket = await places.take(user, seconds, receive)
        self._held = places, ticket
        self._start, self._seconds = self._loop.time(), seconds

    @asynccontextmanager
    async def listening(self, receive: Receive) -> AsyncIterator[Caller]:
        """The caller of a question that takes long, who may hang up until most of the slot is over;
        then the place is the next one's at once."""
        caller = Caller()
        leaving = asyncio.ensure_future(receive())
        stayed = self._loop.call_at(self._start + HOLD * self._seconds, caller.has_stayed)

        def left(_: asyncio.Future[Message]) -> None:
            stayed.cancel()
            caller.hang_up()

        leaving.add_done_callback(left)
        try:
            yield caller
        finally:
            leaving.remove_done_callback(left)
            leaving.cancel()
            stayed.cancel()
            if caller.gone:
                await self._give_back()

    async def finish(self) -> None:
        """Wait for the end of the slot and give the place to the next."""
        taken = self._loop.time() - self._start
        slots = max(1, math.ceil(taken / self._seconds))
        if slots > 1:
            _outlasted.note(self._loop.time())
        try:
            await asyncio.sleep(self._start + slots * self._seconds - self._loop.time())
        finally:
            await self._give_back()

    async def _give_back(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            places, ticket = held
            await places.give_back(ticket)


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
