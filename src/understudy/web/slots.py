"""Replies at a fixed time (threat 7): when a reply leaves tells nothing about the records.

A question is let in by turn, occupies its place for exactly its slot, and its reply leaves
when the slot ends, whether it is an answer, a refusal or a failure. The slot depends on the
request alone. So does the wait for a place, because a place is held for the whole slot and
not for as long as the computation takes.

A computation that outlasts its slot would be visible. Deadlines per partition make that a
matter of an overloaded machine; the reply then leaves at the next multiple of the slot, and
the log asks for a longer one.

What needs no computing (a refusal, an answer that was paid for) takes no place, a user has few
questions waiting, and who hangs up while waiting is out of the line (threat 21).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from understudy.errors import Refused
from understudy.web.seldom import Seldom

log = logging.getLogger("understudy.verify")


_outlasted = Seldom(
    log, "Replies outlasted their slot (%d so far); raise slot_seconds or lower places."
)


def outlasted() -> int:
    """How many replies were late since the start."""
    return _outlasted.count


class TooManyWaiting(Refused):
    """The user has as many questions under way as one may have; nothing was spent."""

    def __init__(self) -> None:
        super().__init__(
            "Your other questions are under way; ask this one when one of them is answered. "
            "Nothing was spent."
        )


class HungUp(Refused):
    """The caller left before a place was free; nothing was spent."""

    def __init__(self) -> None:
        super().__init__("The caller left before the question's turn came; nothing was spent.")


class ReplyPlaces:
    """Places for questions that are computed, in the order of asking."""

    def __init__(self, count: int, under_way: Counter[str], per_user: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._under_way = under_way  # questions of each user, for all kinds of places
        self._per_user = per_user

    async def take(self, user: str, receive: Receive) -> None:
        """Wait for a place, unless the caller hangs up; `receive` then says so."""
        if self._under_way[user] >= self._per_user:
            raise TooManyWaiting
        self._under_way[user] += 1
        waiting = asyncio.ensure_future(self._free.acquire())
        leaving = asyncio.ensure_future(receive())
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise HungUp
        except BaseException:
            if not waiting.cancel():  # a place came at the last moment
                self._free.release()
            self._leave(user)
            raise
        finally:
            leaving.cancel()

    def give_back(self, user: str) -> None:
        self._free.release()
        self._leave(user)

    def _leave(self, user: str) -> None:
        self._under_way[user] -= 1
        if not self._under_way[user]:
            del self._under_way[user]


class Turn:
    """One request's way through its slot."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._seconds = seconds
        self._held: tuple[ReplyPlaces, str] | None = None

    async def enter(self, seconds: float, places: ReplyPlaces, user: str, receive: Receive) -> None:
        """Wait for a place; the slot begins when there is one."""
        await places.take(user, receive)
        self._held = places, user
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
            if self._held is not None:
                places, user = self._held
                places.give_back(user)
                self._held = None


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
