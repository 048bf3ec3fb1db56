"""Threat 7 by numbers: when replies about neighbours leave, one of which has a slow unit.

The server's clock is virtual here, so that the readings are exact and the machine's load is not
in them. True seconds of a server that computes are in `test_reply_times.py`, among the slow tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from virtual_time import VirtualLoop, compute_on_the_spot, run_virtually
from web_samples import Site, make_site, question

from understudy.ledger.ledger import Ledger
from understudy.verify import answer as answer_module
from understudy.verify.shared_state import SharedState
from understudy.verify.turns import Turns
from understudy.web.slots import ReplyPlaces, ReplySlot

pytestmark = pytest.mark.any_noise

REPLIES = 2000
AT_ONCE = 50
SLOT = 0.05
SLOW = 0.012  # what the record costs: far below the slot, far above what a caller can measure
PATH = "/verify"
ROUNDING = 1e-9  # of an event loop's clock


async def stays() -> Any:
    """A caller who does not hang up."""
    await asyncio.Event().wait()


def reply_times(turns: Turns, slotted: bool) -> tuple[list[float], list[float]]:
    """Times of replies of a quick and a slow file, asked in turn, through the server's slot."""

    async def main(loop: VirtualLoop) -> tuple[list[float], list[float]]:
        places = ReplyPlaces(turns, "sum", AT_ONCE, AT_ONCE)

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if slotted:
                await scope["state"]["turn"].enter(SLOT, places, "ann", receive)
            await asyncio.sleep(SLOW if scope["slow"] else 0.0)
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"{}"})

        app = ReplySlot(answer, SLOT, [PATH] if slotted else [])

        async def ask(slow: bool) -> float:
            arrived: list[float] = []

            async def send(_message: Any) -> None:
                arrived.append(loop.time())

            scope = {"type": "http", "method": "POST", "path": PATH, "slow": slow}
            start = loop.time()
            await app(scope, stays, send)
            return arrived[0] - start

        times: tuple[list[float], list[float]] = ([], [])
        for batch in range(REPLIES // AT_ONCE):
            # Whoever is asked first in a batch is neither always quick nor always slow.
            kinds = [bool((batch + k) % 2) for k in range(AT_ONCE)]
            for slow, taken in zip(kinds, await asyncio.gather(*map(ask, kinds)), strict=True):
                times[slow].append(taken)
        return times

    return run_virtually(main)


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Turns]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        shared = SharedState(ledger)
        yield Turns(shared)
        shared.close()


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    compute_on_the_spot(monkeypatch)


def test_2000_reply_times_are_the_slot(turns: Turns) -> None:
    quick, slow = reply_times(turns, slotted=True)
    assert len(quick) == len(slow) == REPLIES // 2
    assert quick + slow == pytest.approx([SLOT] * REPLIES, rel=0, abs=ROUNDING)


def test_without_the_slot_they_tell_the_files_apart(turns: Turns) -> None:
    quick, slow = reply_times(turns, slotted=False)
    assert quick == pytest.approx([0.0] * len(quick), abs=ROUNDING)
    assert slow == pytest.approx([SLOW] * len(slow), rel=0, abs=ROUNDING)


# The whole application, with everything computed; computing takes no time on this clock -------

V = "/api/v1"


def caller(app: FastAPI, site: Site) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://server",
        headers={"Authorization": f"Bearer {site.keys['ann']}"},
    )


def test_replies_come_at_the_slot_whatever_happened(
    tmp_path: Path, ledger_place: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answer, replay, refusal, wrong key, failure: one slot for all; who outlasts it, the next."""
    slot = 0.4
    compute = answer_module.partition_estimates
    wrong_key = {"Authorization": "Bearer us_x"}
    calls: list[tuple[int, float, dict[str, Any]]] = [  # status, seconds of computing, request
        (200, 0.0, {"json": question()}),
        (200, 0.0, {"json": question()}),
        (402, 0.0, {"json": question(epsilon="900", estimate=3.0)}),
        (422, 0.0, {"json": question(variable="incme")}),
        (422, 0.0, {"content": "{", "headers": {"Content-Type": "application/json"}}),
        (401, 0.0, {"json": question(), "headers": wrong_key}),
        (200, 0.2, {"json": question(estimate=5.0)}),
        (200, 0.39, {"json": question(estimate=6.0)}),
        (200, 0.5, {"json": question(estimate=7.0)}),
        (503, -1.0, {"json": question(estimate=8.0)}),  # a failure
    ]

    async def main(loop: VirtualLoop) -> list[tuple[int, float]]:
        replies = []
        async with caller(site.app, site) as client:
            for _, seconds, call in calls:

                def computing(*arguments: Any, seconds: float = seconds) -> Any:
                    if seconds < 0:
                        raise ZeroDivisionError
                    loop.advance(seconds)
                    return compute(*arguments)

                monkeypatch.setattr(answer_module, "partition_estimates", computing)
                start = loop.time()
                reply = await client.post(f"{V}/verify", **call)
                replies.append((reply.status_code, loop.time() - start))
        return replies

    with make_site(tmp_path, ledger_place=ledger_place, slot=slot) as site:
        replies = run_virtually(main)
    assert [status for status, _ in replies] == [status for status, _, _ in calls]
    slots = [2 if seconds > slot else 1 for _, seconds, _ in calls]
    assert [taken for _, taken in replies] == pytest.approx([slot * k for k in slots], abs=ROUNDING)


def test_places_are_held_for_the_whole_slot(tmp_path: Path) -> None:
    """Four questions and one place: replies are a slot apart, though computing takes no time."""
    slot = 0.3

    async def main(loop: VirtualLoop) -> list[float]:
        async with caller(site.app, site) as client:

            async def ask(number: int) -> float:
                reply = await client.post(f"{V}/verify", json=question(estimate=10.0 + number))
                assert reply.status_code == 200, reply.text
                return loop.time()

            return sorted(await asyncio.gather(*map(ask, range(4))))

    with make_site(tmp_path, slot=slot, places=1, questions_per_user=4) as site:
        ends = run_virtually(main)
    assert ends == pytest.approx([slot * k for k in (1, 2, 3, 4)], abs=ROUNDING)
