"""A program for the crash test: answer queries in child processes that are killed at a step.

    python kill_steps.py LEDGER HEAD

It imports everything once, then forks a child per step: the child opens the ledger and asks
one query; at its n-th instrumented call it kills itself by signal 9. What a client of that
child would have seen, and whether the child died, is printed as JSON lines. The estimates
are invented: what is tested is the order of spending, noise, storing and telling.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import psycopg  # noqa: F401 - else every child would load it anew
from verification_samples import BOOK, FINGERPRINT, make_query

from understudy.dp.accounting import Cost
from understudy.ledger import head_file
from understudy.ledger.epsilon import exact_epsilon
from understudy.ledger.head_file import HeadFile
from understudy.ledger.journal import Journal
from understudy.ledger.ledger import Ledger
from understudy.verify import answer
from understudy.verify.answer import answer_query

MOST_STEPS = 200


def instrument(kill_at: int) -> list[str]:
    """Count the entering and leaving of every step that matters; die at one of them."""
    passed: list[str] = []

    def step(name: str) -> None:
        passed.append(name)
        if len(passed) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(owner: Any, name: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def outer(*args: Any, **kwargs: Any) -> Any:
            step(f"before {name}")
            result = inner(*args, **kwargs)
            step(f"after {name}")
            return result

        setattr(owner, name, outer)

    for owner, names in (
        (Ledger, ("reserve", "release")),
        (Journal, ("append", "head")),
        (HeadFile, ("advance",)),
        (head_file.os, ("fsync",)),
        (answer, ("assign_partitions", "partition_estimates", "bounded_numbers", "noisy_sum")),
    ):
        for name in names:
            wrap(owner, name)
    return passed


class Data:
    """What `answer_query` needs of a confidential file, without one."""

    name = "survey"
    codebook = BOOK
    fingerprint = FINGERPRINT
    relation = "add-remove"
    nonresponse = None

    def cost(self, query: Any) -> Cost:
        return Cost(("replace", "add-remove"), exact_epsilon(query.micro))

    def refuse_on_cluster(self, query: Any) -> None:
        """Its records are here."""


def child(ledger_place: list[str], kill_at: int, pipe: int) -> None:
    answer.assign_partitions = lambda *_: (None, None)  # type: ignore[assignment]
    answer.partition_estimates = lambda *_: np.array([99.0, 100.5, np.nan])  # type: ignore
    data: Any = Data()
    ledger = Ledger(*ledger_place)
    passed = instrument(kill_at)
    receipt = answer_query(
        make_query(epsilon="0.01", partitions=3, estimate=100.0 + kill_at), data, ledger, "ann"
    )
    report = {"number": receipt.number, "noisy": receipt.noisy, "steps": passed}
    os.write(pipe, json.dumps(report).encode())
    os.close(pipe)
    if kill_at == len(passed) + 1:
        os.kill(os.getpid(), signal.SIGKILL)  # right after the client has seen it
    os._exit(0)


def main() -> None:
    make_query()  # reads and builds what every child needs
    for kill_at in range(1, MOST_STEPS):
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(read)
            try:
                child(sys.argv[1:3], kill_at, write)
            finally:
                os._exit(3)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            reply = pipe.read()
        _, status = os.waitpid(process, 0)
        report = {"step": kill_at, "status": status, "told": json.loads(reply) if reply else None}
        print(json.dumps(report), flush=True)
        if status == 0:  # all steps are behind us
            return


if __name__ == "__main__":
    main()
