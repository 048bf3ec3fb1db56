"""Threats 21 and 26: who waits for a place, who does not, and who loses it.

On a virtual clock, with everything computed on the spot: threads would let the clock run ahead.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from virtual_time import VirtualLoop, compute_on_the_spot, run_virtually
from web_samples import Site, make_site, question

from understudy.ledger.accounts import new_key, set_active
from understudy.verify import answer as answer_module
from understudy.verify.caller import Caller
from understudy.verify.query import Query

pytestmark = pytest.mark.any_noise

SLOT = 0.5
MANY = 200
ROUNDING = 1e-9

Asked = Callable[..., Coroutine[Any, Any, tuple[int, float]]]


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    compute_on_the_spot(monkeypatch)


def asking(site: Site, loop: VirtualLoop) -> Asked:
    """Ask as a user; status and time of the reply. `stays` are seconds until the caller leaves."""

    async def ask(user: str, stays: float | None = None, **changes: Any) -> tuple[int, float]:
        body = json.dumps(question(**changes)).encode()
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])
        replied: list[tuple[int, float]] = []

        async def receive() -> Any:
            message = next(messages, None)
            if message is None and stays is None:
                await asyncio.Event().wait()
            elif message is None:
                await asyncio.sleep(stays or 0.0)
            return message or {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                replied.append((message["status"], loop.time()))

        key = f"Bearer {site.keys[user]}".encode()
        scope = {
            **{"type": "http", "method": "POST", "path": "/api/v1/verify", "query_string": b""},
            **{"headers": [(b"authorization", key), (b"content-type", b"application/json")]},
            **{"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http"},
            **{"http_version": "1.1", "root_path": "", "raw_path": b"/api/v1/verify"},
        }
        await site.app(scope, receive, send)
        return replied[0]

    return ask


def run(site: Site, main: Callable[[Asked], Coroutine[Any, Any, list[Any]]]) -> list[Any]:
    return run_virtually(lambda loop: main(asking(site, loop)))


def slots(replies: list[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(status, pytest.approx(at / SLOT, abs=ROUNDING)) for status, at in replies]


def test_refused_and_paid_questions_keep_nobody_waiting(
    tmp_path: Path, ledger_place: tuple[str, str]
) -> None:
    """One place. Bob has no budget for 200 questions, and asks one that he has paid for."""

    async def main(ask: Asked) -> list[Any]:
        assert (await ask("bob", estimate=1.0))[0] == 200
        beyond = [ask("bob", epsilon="11", estimate=2.0 + n) for n in range(MANY)]
        again = [ask("bob", estimate=1.0) for _ in range(10)]
        return await asyncio.gather(*beyond, *again, ask("ann"))

    with make_site(tmp_path, ledger_place=ledger_place, slot=SLOT, places=1) as site:
        replies = run(site, main)
        assert slots(replies) == [(402, 2)] * MANY + [(200, 2)] * 11
        assert [e.user for e in site.ledger.entries() if e.kind == "reserve"] == ["bob", "ann"]


def test_who_hangs_up_while_waiting_loses_the_place_and_pays_nothing(tmp_path: Path) -> None:
    async def main(ask: Asked) -> list[Any]:
        leaving = [ask("carol", stays=0.1 + n / 10, estimate=2.0 + n) for n in range(2)]
        return await asyncio.gather(ask("bob"), *leaving, ask("ann"))

    with make_site(tmp_path, slot=SLOT, places=1) as site:
        replies = run(site, main)
        assert slots(replies) == [(200, 1), (408, 1), (408, 1), (200, 2)]
        assert site.ledger.budget("user", "carol").spent == 0


def test_who_hangs_up_while_it_is_computed_pays_and_has_the_answer(tmp_path: Path) -> None:
    async def main(ask: Asked) -> list[Any]:
        return [await ask("bob", stays=0.1), await ask("bob")]

    with make_site(tmp_path, slot=SLOT, places=1) as site:
        assert slots(run(site, main)) == [(200, 1), (200, 2)]
        assert site.ledger.budget("user", "bob").spent == 1_000_000
        assert len(site.ledger.answers("bob")) == 1


def test_a_user_has_two_questions_under_way_and_the_next_user_a_turn(tmp_path: Path) -> None:
    async def main(ask: Asked) -> list[Any]:
        replies = await asyncio.gather(
            *(ask("bob", estimate=1.0 + n) for n in range(9)), ask("ann")
        )
        return [*replies, await ask("bob", estimate=99.0)]

    with make_site(tmp_path, slot=SLOT, places=1, questions_per_user=2) as site:
        replies = slots(run(site, main))
        assert replies[:3] == [(200, 1), (200, 2), (429, 1)]
        assert replies[2:9] == [(429, 1)] * 7
        assert replies[9:] == [(200, 3), (200, 4)]  # his places are his again
        assert site.ledger.budget("user", "bob").spent == 3_000_000
        assert site.service.turns.count() == 0


def test_a_question_that_would_take_long_is_refused_by_its_form_alone(tmp_path: Path) -> None:
    """The quantile is fitted: a thousand partitions may take ten minutes."""
    long = {"estimator": "quantile", "probability": 0.5, "partitions": 1000}

    async def main(ask: Asked) -> list[Any]:
        return await asyncio.gather(ask("bob", **long), ask("ann"))

    with make_site(tmp_path, slot=SLOT, places=1) as site, site.client("bob") as client:
        assert slots(run(site, main)) == [(422, 1), (200, 1)]
        assert site.ledger.budget("user", "bob").spent == 0
        sentence = client.post("/api/v1/price", json=question(**long)).json()["error"]
        assert sentence == (
            "This question may take 600 seconds, and this server allows 60; ask for fewer "
            "partitions."
        )
        assert client.post("/api/v1/price", json=question(**long | {"partitions": 50})).is_success


FITTED = {"estimator": "quantile", "probability": 0.5, "partitions": 20}
FITTED_SLOT = SLOT + 10 * (0.2 + 1.0)  # two workers, a deadline of .2 and a new process after it


@pytest.mark.parametrize("leaves", [1.0, 9.0])  # of 12.5 seconds, of which 10 are to be stayed for
def test_who_hangs_up_while_it_is_fitted_pays_and_frees_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: float
) -> None:
    """Computed at once, or not at all: whether there is an answer does not tell."""

    def computed(_data: Any, query: Query, *arguments: Any) -> Any:
        assert isinstance(arguments[-1], Caller) == query.estimand.fitted
        return np.full(query.count, 120.0)

    monkeypatch.setattr(answer_module, "partition_estimates", computed)

    async def main(ask: Asked) -> list[Any]:
        return await asyncio.gather(
            ask("bob", stays=leaves, **FITTED), ask("ann", **FITTED), ask("carol")
        )

    with make_site(tmp_path, slot=SLOT, places=1) as site:
        bob, ann, carol = run(site, main)
        assert (bob[0], ann[0], carol[0]) == (408, 200, 200)
        assert carol[1] == pytest.approx(SLOT)
        # places of workers are free within the step that the caller's leaving is noticed in
        assert leaves + FITTED_SLOT <= ann[1] <= leaves + FITTED_SLOT + SLOT
        kinds = [entry.kind for entry in site.ledger.entries() if entry.user == "bob"]
        assert kinds[-2:] == ["reserve", "fail"]
        assert site.ledger.budget("user", "bob").spent == 1_000_000


def test_who_stays_until_the_answer_is_nearly_due_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimates = np.full(20, 120.0)
    monkeypatch.setattr(answer_module, "partition_estimates", lambda *_: estimates)

    async def main(ask: Asked) -> list[Any]:
        return await asyncio.gather(
            *(ask(name, stays=0.9 * FITTED_SLOT, **FITTED) for name in ("bob", "ann"))
        )

    with make_site(tmp_path, slot=SLOT, fitting=2) as site:
        assert run(site, main) == [(200, pytest.approx(FITTED_SLOT))] * 2  # both at once
        assert len(site.ledger.answers("bob")) == 1


def closed(site: Site) -> None:
    set_active(site.ledger, "carol", False)


def replaced(site: Site) -> None:
    new_key(site.ledger, "carol")


@pytest.mark.parametrize("act", [closed, replaced])
def test_a_caller_who_is_shut_out_while_waiting_is_not_answered(
    tmp_path: Path, ledger_place: tuple[str, str], act: Callable[[Site], None]
) -> None:
    async def main(ask: Asked) -> list[Any]:
        async def meanwhile() -> None:
            await asyncio.sleep(SLOT / 2)
            act(site)

        return (await asyncio.gather(ask("bob"), ask("carol"), meanwhile()))[:2]

    with make_site(tmp_path, ledger_place=ledger_place, slot=SLOT, places=1) as site:
        assert slots(run(site, main)) == [(200, 1), (401, 2)]
        assert site.ledger.budget("user", "carol").spent == 0
