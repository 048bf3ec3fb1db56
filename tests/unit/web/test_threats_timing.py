"""Threat 7 by numbers: reply times of neighbours, one of which has a slow unit.

2,000 replies with a stand-in for the computation, and replies of a whole server that computes:
a few of them here, 2,000 among the slow tests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy.stats import ks_2samp, mannwhitneyu
from verification_samples import make_frame, make_survey
from web_samples import Site, make_site, question

from understudy.verify.confidential import ConfidentialData
from understudy.verify.query import read_query
from understudy.verify.service import Served
from understudy.web.slots import ReplySlot

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


# The whole way by HTTP, with everything computed -----------------------------------------------

NAMES = ("survey", "second")  # the quick file, and its neighbour
RECORDS = 150_000  # of the one unit more that the neighbour has
TRUE_SLOT = 0.6  # far above what either file takes, on a busy machine too
SHORT_SLOT = 0.3  # of the slow test, which needs a machine of its own


@contextmanager
def neighbours(folder: Path, place: tuple[str, str], slot: float) -> Iterator[Site]:
    """One server with two data sets that differ by a unit, which takes long to sum up."""
    frame = make_frame(200)
    unit = make_frame(RECORDS, seed=8).with_columns(person=pl.lit(5).cast(frame["person"].dtype))
    with make_site(folder, frame, place=place, slot=slot, budget="900") as site:
        slow = ConfidentialData(NAMES[1], make_survey(pl.concat([frame, unit])))
        site.ledger.add_dataset(slow.fingerprint, NAMES[1], "900")
        released = site.service.datasets[NAMES[0]].released
        site.service.datasets[NAMES[1]] = Served(slow, released, "The neighbour")
        yield site


def compute_times(site: Site, count: int) -> tuple[list[float], list[float]]:
    """Without HTTP and without the slot: what there is to see, in CPU seconds of all threads.

    On a busy machine wall seconds say as much about the others.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * count):
        which = number % 2
        asked = question(dataset=NAMES[which], epsilon="0.01", estimate=50.0 + number)
        start = time.process_time()
        site.service.verify("bob", read_query(asked))
        times[which].append(time.process_time() - start)
    return times


def http_times(site: Site, count: int) -> tuple[list[float], list[float]]:
    """`count` replies of each file; two callers, each of whom asks about the files in turn."""
    times: tuple[list[float], list[float]] = ([], [])

    def ask(caller: int) -> None:
        with site.client("ann") as client:
            client.get("/api/v1/me")
            for number in range(count):
                which = (caller + number) % 2
                estimate = 100.0 + caller / 2 + number
                asked = question(dataset=NAMES[which], epsilon="0.01", estimate=estimate)
                start = time.perf_counter()
                reply = client.post("/api/v1/verify", json=asked)
                times[which].append(time.perf_counter() - start)
                assert reply.status_code == 200, reply.text

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ask, range(2)))
    return times


def test_true_reply_times_of_neighbours_do_not_differ(
    tmp_path: Path, place: tuple[str, str]
) -> None:
    with neighbours(tmp_path, place, TRUE_SLOT) as site:
        quick, slow = compute_times(site, 15)
        assert mannwhitneyu(quick, slow, alternative="less").pvalue < 0.01  # there is a difference
        quick, slow = http_times(site, 10)
    assert min(quick + slow) >= TRUE_SLOT
    assert mannwhitneyu(quick, slow).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_2000_true_reply_times_of_neighbours_do_not_differ(
    tmp_path: Path, place: tuple[str, str]
) -> None:
    with neighbours(tmp_path, place, SHORT_SLOT) as site:
        quick, slow = http_times(site, REPLIES // 2)
    assert len(quick) == len(slow) == REPLIES // 2
    assert min(quick + slow) >= SHORT_SLOT
    assert ks_2samp(quick, slow).pvalue > 1e-3
    assert mannwhitneyu(quick, slow).pvalue > 1e-3
