"""Two server processes on one ledger: one line, one limit, and no answers of each other failed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from verification_samples import FINGERPRINT, OpenLedger, make_query
from web_samples import PATIENCE

from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.verify import service as service_module
from understudy.verify import shared_state
from understudy.verify.service import Service
from understudy.verify.shared_state import SharedState
from understudy.verify.turns import BEYOND, WAITING, TooManyWaiting, Turns
from understudy.web.limits import RateLimit, TooMany


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def new_state(open_ledger: OpenLedger, closing: ExitStack) -> SharedState:
    state = SharedState(open_ledger())
    closing.callback(state.close)
    return state


def test_places_go_by_the_order_of_asking_over_all_processes(
    open_ledger: OpenLedger, closing: ExitStack
) -> None:
    clock = Clock()
    here, there = (Turns(new_state(open_ledger, closing), clock) for _ in range(2))
    first, second = here.queue("sum", "ann", 2), there.queue("sum", "bob", 2)
    third = here.queue("sum", "ann", 2)
    with pytest.raises(TooManyWaiting):
        there.queue("fit", "ann", 2)  # her two are known there as well
    assert here.enter("sum", first, 1, 1.0)
    assert not here.enter("sum", third, 1, 1.0)
    assert not there.enter("sum", second, 1, 1.0)
    assert there.enter("fit", there.queue("fit", "carol", 2), 1, 1.0)  # other places
    here.leave(first)
    assert not here.enter("sum", third, 1, 1.0)  # bob was before her
    assert there.enter("sum", second, 1, 1.0)
    assert here.enter("sum", third, 2, 1.0)
    assert here.count() == there.count() == 3


def test_rows_end_with_their_time_unless_their_server_says_a_word(
    open_ledger: OpenLedger, closing: ExitStack
) -> None:
    clock = Clock()
    here, there = (Turns(new_state(open_ledger, closing), clock) for _ in range(2))
    computing, waiting = here.queue("sum", "ann", 9), here.queue("sum", "bob", 9)
    silent = there.queue("sum", "carol", 9)
    assert here.enter("sum", computing, 1, 5.0)
    clock.now += WAITING
    assert not here.enter("sum", waiting, 1, 5.0)
    clock.now += 5.0
    assert there.count() == 2  # the silent one counts no more
    assert not there.enter("sum", silent, 2, 5.0)
    clock.now += 5.0 + BEYOND
    assert here.count() == 0
    there.queue("sum", "carol", 1)  # nor is it counted against who asked


def test_rows_of_a_process_that_ended_are_gone(open_ledger: OpenLedger, closing: ExitStack) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    state, elsewhere = new_state(open_ledger, closing), new_state(open_ledger, closing)
    state.server = f"{shared_state.HOST} {ended.pid} x"
    elsewhere.server = f"another.example {ended.pid} x"
    for name, old in (("ann", state), ("bob", elsewhere)):
        Turns(old).queue("sum", name, 1)
        if old is state:
            assert Turns(old).count() == 0  # the first one that opens sees that it has ended
    assert (
        Turns(new_state(open_ledger, closing)).count() == 1
    )  # of another machine nothing is known


def test_one_limit_for_all_processes(open_ledger: OpenLedger, closing: ExitStack) -> None:
    clock = Clock()
    limits = [RateLimit(new_state(open_ledger, closing), "user", 4, clock) for _ in range(2)]
    for number in range(4):
        limits[number % 2].take("ann")
    for limit in limits:
        with pytest.raises(TooMany) as refused:
            limit.take("ann")
        assert refused.value.seconds == 16
        limit.take("bob")
    RateLimit(new_state(open_ledger, closing), "address", 4, clock).take("ann")  # another limit
    clock.now += 15.0
    limits[0].take("ann")
    with pytest.raises(TooMany):
        limits[1].take("ann")


def test_what_another_server_computes_is_not_failed(
    open_ledger: OpenLedger, closing: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was paid before a server started is failed when those in line then have gone."""
    ledger, turns = open_ledger(), Turns(new_state(open_ledger, closing))
    add_user(ledger, "ann")
    ledger.grant("ann", "2")
    ledger.add_dataset(FINGERPRINT, "survey", "3")
    first, second = turns.queue("sum", "ann", 2), turns.queue("sum", "ann", 2)
    paid = [ledger.reserve("ann", FINGERPRINT, make_query(estimate=n)) for n in (1.0, 2.0)]
    monkeypatch.setattr(service_module, "SETTLE", 0.01)
    starts = Service(open_ledger(), {})
    closing.callback(starts.shared.close)
    settling = starts.settle_abandoned()
    assert settling is not None
    ledger.release(paid[0], {})  # type: ignore[arg-type]
    turns.leave(first)
    turns.queue("sum", "bob", 2)  # came later: nothing of what was left is his
    assert [entry.kind for entry in ledger.entries()][-1] == "release"
    turns.leave(second)
    settling.join(PATIENCE)
    last = list(ledger.entries())[-1]
    assert (last.kind, last.refers) == ("fail", paid[1].number)  # type: ignore[union-attr]
    assert turns.count() == 1
    starts._closing.set()


def test_the_file_beside_the_ledger_is_its_owners_alone(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        state = SharedState(ledger)
        Turns(state)
        state.close()
        assert not (tmp_path / "ledger.db.shared-wal").exists()  # it is closed with its owner
    assert (tmp_path / "ledger.db.shared").stat().st_mode & 0o777 == 0o600
