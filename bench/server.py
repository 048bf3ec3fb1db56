"""A real server under kills, under many analysts, and for long: `python bench/server.py`.

    python bench/server.py kills --kills 100 [--ledger postgresql://... ]
    python bench/server.py analysts --analysts 50 --seconds 60
    python bench/server.py soak --requests 100000

Without words each runs briefly. Everything is on loopback, and every part ends by itself. Exits 1
where an answer is lost or has two values, p95 is above three slots, a request fails, or memory grew
by more than a tenth.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.survey.codebook import Codebook, Column
from understudy.survey.codebook_text import write_codebook

RECORDS = 5000
GROWTH = 1.1  # of the server's memory, between the first tenth of the requests and the last
LATEST = 10  # slots after which a server is killed at the latest; a fitted question takes three
SLOTS = 3.0  # within which 95 of 100 replies must be there
BOOK = Codebook(
    {
        column.name: column
        for column in (
            Column("person", "unit", "integer"),
            Column("income", "sensitive", "continuous"),
            Column("region", "public", "categorical", levels=("North", "South")),
            Column("w", "weight", "continuous"),
        )
    }
)
Reply = tuple[int, Any]


class Bench:
    """A folder with a configuration, a ledger with analysts, and a server that can be killed."""

    def __init__(self, folder: Path, ledger: str, analysts: int, **settings: Any) -> None:
        self.folder, self.slot = folder, float(settings.get("slot_seconds", 1.0))
        self.ledger = ledger or str(folder / "ledger.db"), str(folder / "head")
        draw = np.random.default_rng(1)
        pl.DataFrame(
            {
                "person": np.arange(RECORDS),
                "income": draw.lognormal(8, 0.5, RECORDS),
                "region": draw.choice(["North", "South"], RECORDS),
                "w": draw.uniform(1, 9, RECORDS),
            }
        ).write_parquet(folder / "file.parquet")
        write_codebook(BOOK, folder / "codebook.toml")
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        (folder / "server.toml").write_text(
            f'ledger = "{self.ledger[0]}"\nhead = "head"\nrequests_per_minute = 1000000\n'
            + "\n".join(lines)
            + '\n[datasets.survey]\npath = "file.parquet"\ncodebook = "codebook.toml"\n'
            'design = { weight = "w" }\ncap = "1000"\ndeadline = 0.05\nworkers = 2\n'
        )
        with Ledger(*self.ledger) as opened:
            self.keys = [add_user(opened, f"analyst{k}") for k in range(analysts)]
            for k in range(analysts):
                opened.grant(f"analyst{k}", "1000")

    @contextmanager
    def served(self) -> Iterator[tuple[int, int]]:
        """The server's port and process; it is killed at the end."""
        command = [str(Path(sys.executable).parent / "understudy"), "serve", "--port", "0"]
        with subprocess.Popen(
            [*command, str(self.folder / "server.toml")], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdout is not None
                said = server.stdout.readline()
                yield int(said.split("127.0.0.1:")[1].split()[0]), server.pid
            finally:
                with suppress(ProcessLookupError):
                    server.send_signal(signal.SIGKILL)


class Caller:
    """One analyst's connection, opened again where it was closed."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key
        self.connection: http.client.HTTPConnection | None = None

    def __call__(self, method: str, path: str, body: Any = None) -> Reply:
        text = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        for again in (True, False):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, 300)
                self.connection.request(method, f"/api/v1/{path}", text, headers)
                reply = self.connection.getresponse()
                return reply.status, json.loads(reply.read() or b"null")
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.connection = None  # idle for too long; a question that was sent is not resent
                if not again or method == "POST":
                    raise
        raise AssertionError


def question(number: float, **changes: Any) -> dict[str, Any]:
    asked = {
        **{"dataset": "survey", "estimator": "mean", "variable": "income", "epsilon": "0.0001"},
        **{"tolerance": {"value": 2.0}, "estimate": 3000.0 + number, "se": 30.0, "partitions": 10},
    }
    return {**asked, **changes}


def fitted(number: float) -> dict[str, Any]:
    """One that workers fit in every partition: its slot is longer by a deadline and a start."""
    return question(number, estimator="quantile", probability=0.5, partitions=2)


def in_threads(act: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=act, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def kills(bench: Bench, count: int) -> bool:
    """Kill the server again and again; every answer that was seen must be in the ledger."""
    seen: dict[tuple[int, str], list[Any]] = defaultdict(list)
    chance = random.SystemRandom()
    for number in range(count):
        with bench.served() as (port, process):
            stop = threading.Event()

            def ask(who: int, port: int = port, stop: threading.Event = stop) -> None:
                call = Caller(port, bench.keys[who])
                while not stop.is_set():
                    asked = (fitted if who == 0 else question)(secrets.randbelow(50))
                    try:
                        status, reply = call("POST", "verify", asked)
                    except (OSError, http.client.HTTPException, ValueError):
                        return  # it is dead
                    if status == 200:
                        name = json.dumps(asked, sort_keys=True)
                        seen[who, name].append((reply["receipt"], reply["noisy"]))

            killer = threading.Timer(
                chance.uniform(0, LATEST * bench.slot), os.kill, (process, signal.SIGKILL)
            )
            killer.start()
            threading.Timer(LATEST * bench.slot + 1, stop.set).start()
            in_threads(ask, len(bench.keys))
        print(f"kill {number + 1}: {sum(map(len, seen.values()))} answers seen", flush=True)
    with Ledger(*bench.ledger) as ledger:
        entries = list(ledger.entries())
        spent = sum(entry.micro for entry in entries if entry.kind == "reserve")
        stored = {
            (who, answer.number): answer.body["noisy"]
            for who in range(len(bench.keys))
            for answer in ledger.answers(f"analyst{who}")
        }
        held = sum(ledger.budget("user", f"analyst{k}").spent for k in range(len(bench.keys)))
    lost = [
        n for (who, _), answered in seen.items() for n, v in answered if stored.get((who, n)) != v
    ]
    twice = [answers for answers in seen.values() if len({value for _, value in answers}) > 1]
    of_fits = sum(len(answers) for (who, _), answers in seen.items() if who == 0)
    print(
        f"{count} kills, {len(stored)} answers stored, {sum(map(len, seen.values()))} seen "
        f"({of_fits} of fitted questions), {len(lost)} lost, {len(twice)} questions with two "
        f"values; spent {spent}, held against budgets {held} (millionths)"
    )
    return not lost and not twice and spent == held


def analysts(bench: Bench, seconds: float, think: float) -> bool:
    """Each asks, waits for the reply and thinks; how long replies take, in slots."""
    taken: list[float] = []
    failed: list[int] = []
    with bench.served() as (port, _):
        end = time.monotonic() + seconds

        def ask(who: int) -> None:
            call, chance = Caller(port, bench.keys[who]), random.Random(who)
            time.sleep(chance.uniform(0, think))
            number = 0
            while time.monotonic() < end:
                number += 1
                start = time.monotonic()
                status, _ = call("POST", "verify", question(number))
                taken.append((time.monotonic() - start) / bench.slot)
                if status != 200:
                    failed.append(status)
                time.sleep(chance.expovariate(1 / think) if think else 0)

        in_threads(ask, len(bench.keys))
    p50, p95 = np.quantile(taken, [0.5, 0.95])
    print(
        f"{len(bench.keys)} analysts, {seconds:g} s: {len(taken)} answers, median {p50:.2f}, p95 "
        f"{p95:.2f} slots of {bench.slot:g} s, {len(failed)} errors"
    )
    return bool(p95 < SLOTS) and not failed


def soak(bench: Bench, requests: int) -> bool:
    """A day's requests in a row; the server's memory at a tenth of them and at the end."""
    callers = len(bench.keys)
    wrong: list[int] = []
    marks: list[float] = []
    with bench.served() as (port, process):
        begun = time.monotonic()

        def use(who: int) -> None:
            call = Caller(port, bench.keys[who])
            for number in range(requests // callers):
                match number % 50:
                    case 0:
                        reply = call("POST", "verify", question(number))
                    case 1:
                        reply = call("POST", "verify", question(0))  # again, free
                    case 2:
                        reply = call("GET", "history")
                    case k if k < 20:
                        reply = call("POST", "price", question(number))
                    case _:
                        reply = call("GET", "me" if number % 2 else "datasets")
                if reply[0] not in (200, 409):
                    wrong.append(reply[0])
                if who == 0 and number in (requests // callers // 10, requests // callers - 1):
                    marks.append(memory(process))

        in_threads(use, callers)
        seconds = time.monotonic() - begun
    growth = marks[-1] / marks[0]
    print(
        f"{requests} requests in {seconds:.0f} s: memory {marks[0]:.0f}, then {marks[-1]:.0f} MB "
        f"({growth:.3f} times), {len(wrong)} errors"
    )
    return growth <= GROWTH and not wrong


def memory(process: int) -> float:
    """Resident megabytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=("kills", "analysts", "soak"))
    parser.add_argument("--ledger", default="", help="postgresql://..., an empty database")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--analysts", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--think", type=float, default=5, help="seconds between two questions")
    parser.add_argument("--places", type=int, default=16)
    parser.add_argument("--requests", type=int, default=2000)
    asked = parser.parse_args()
    parts: dict[str, tuple[int, dict[str, Any], Callable[[Bench], bool]]] = {
        "kills": (3, {"slot_seconds": 0.5}, lambda b: kills(b, asked.kills)),
        "analysts": (
            asked.analysts,
            {
                "slot_seconds": 1.0,
                "places": asked.places,
                "connections_per_address": 400,
                "idle_seconds": 600,
            },
            lambda b: analysts(b, asked.seconds, asked.think),
        ),
        "soak": (4, {"slot_seconds": 0.1}, lambda b: soak(b, asked.requests)),
    }
    good = True
    for name, (users, settings, run) in parts.items():
        if asked.part in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                good = run(Bench(Path(folder), asked.ledger, users, **settings)) and good
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
