"""The verification server: one answer on 1,000,000 records, a plan, and 50 analysts at once.

    python bench/verification_speed.py            # 60 seconds of load
    python bench/verification_speed.py --seconds 10

Three figures: the median time of a mean with a domain, M = 25, before the reply slot (under
100 ms); a 20 x 20 plan (under 1 s); and a load of 50 analysts over HTTP on loopback, in which
no request may fail and the ledger must be exact to the millionth.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import uvicorn

import understudy as us
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.survey.codebook import Codebook, Column
from understudy.verify.answer import answer_query
from understudy.verify.catalogue import read_query
from understudy.verify.confidential import ConfidentialData
from understudy.verify.planner import plan
from understudy.verify.service import Served, Service
from understudy.web.app import create_app
from understudy.web.slots import outlasted

RECORDS, PARTITIONS, ANALYSTS = 1_000_000, 25, 50
PLACES = 8  # answers per slot of one second; the others wait for their turn
REGIONS = ("North", "South", "East", "West")


def survey(n: int) -> us.Survey:
    draw = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "person": np.arange(n),
            "salary": draw.lognormal(11.0, 0.4, n),
            "region": draw.choice(REGIONS, n),
            "w": draw.gamma(2.0, 50.0, n),
        }
    )
    columns = (
        Column("person", "unit", "integer"),
        Column("salary", "sensitive", "continuous"),
        Column("region", "public", "categorical", levels=REGIONS),
        Column("w", "weight", "continuous"),
    )
    return us.Survey(frame, us.Design(weight="w"), Codebook({c.name: c for c in columns}))


def question(estimate: float, epsilon: str = "0.1") -> dict[str, Any]:
    return {
        "dataset": "people",
        "estimator": "mean",
        "variable": "salary",
        "domain": {"region": ["North", "East"]},
        "tolerance": {"value": 2.0},
        "partitions": PARTITIONS,
        "epsilon": epsilon,
        "estimate": estimate,
        "se": 60.0,
    }


def one_answer(data: ConfidentialData, folder: Path, repeats: int = 15) -> tuple[float, float]:
    """The median seconds from question to stored answer: wall time, and CPU of all threads."""
    with Ledger(folder / "single.db") as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "900")
        ledger.add_dataset(data.fingerprint, "people", "900")
        times, busy = [], []
        for number in range(repeats + 2):
            query = read_query(question(65_000.0 + number))
            start, worked = time.perf_counter(), time.process_time()
            answer_query(query, data, ledger, "ann")
            times.append(time.perf_counter() - start)
            busy.append(time.process_time() - worked)
    return statistics.median(times[2:]), statistics.median(busy[2:])


async def analyst(url: str, key: str, number: int, until: float) -> tuple[int, list[str]]:
    """Ask new questions until the time is over; how many were answered, and what went wrong."""
    answered, wrong = 0, []
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
        while time.monotonic() < until:
            asked = question(65_000.0 + number + answered / 1000)
            reply = await client.post("/api/v1/verify", json=asked, timeout=120)
            if reply.status_code == 200:
                answered += 1
            else:
                wrong.append(f"{reply.status_code} {reply.text[:80]}")
                if len(wrong) > 3:
                    break
    return answered, wrong


def load(data: ConfidentialData, folder: Path, seconds: float) -> tuple[int, list[str], bool]:
    ledger = Ledger(folder / "load.db")
    ledger.add_dataset(data.fingerprint, "people", "1000")
    keys = []
    for number in range(ANALYSTS):
        keys.append(add_user(ledger, f"analyst{number}"))
        ledger.grant(f"analyst{number}", "20")
    app = create_app(
        Service(ledger, {"people": Served(data)}, slot_seconds=1.0),
        places=PLACES,
        requests_per_minute=100_000,
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    async def all_at_once() -> list[tuple[int, list[str]]]:
        until = time.monotonic() + seconds
        return await asyncio.gather(*(analyst(url, k, 1000 * p, until) for p, k in enumerate(keys)))

    results = asyncio.run(all_at_once())
    answered = sum(count for count, _ in results)
    wrong = [text for _, texts in results for text in texts]
    spent = [ledger.budget("user", f"analyst{p}").spent for p in range(ANALYSTS)]
    exact = spent == [100_000 * count for count, _ in results]
    exact = exact and ledger.budget("dataset", data.fingerprint).spent == 100_000 * answered
    ledger.close()
    with Ledger(folder / "load.db"):  # opening checks the chain and every budget
        pass
    server.should_exit = True
    thread.join(20)
    return answered, wrong, exact


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=60.0, help="of load")
    options.add_argument("--load-records", type=int, default=20_000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ConfidentialData("people", survey(RECORDS)) as data:
            median, busy = one_answer(data, folder)
        print(
            f"answer, n = {RECORDS:,}, M = {PARTITIONS}: median {1000 * median:.0f} ms (< 100), "
            f"{1000 * busy:.0f} ms of CPU"
        )
        times = []
        for measure in ("discrepancy", "agreement"):
            start = time.perf_counter()
            plan(65_000.0, 60.0, epsilon="1", measure=measure)
            times.append(time.perf_counter() - start)
        print(f"plan, 20 x 20: {times[0]:.2f} s discrepancy, {times[1]:.2f} s agreement (< 1)")
        data = ConfidentialData("people", survey(chosen.load_records))
        answered, wrong, exact = load(data, folder, chosen.seconds)
        print(
            f"{ANALYSTS} analysts for {chosen.seconds:g} s: {answered} answers, "
            f"{len(wrong)} errors, "
            f"{outlasted()} late replies, ledger {'exact' if exact else 'WRONG'}"
        )
        for text in wrong[:3]:
            print(f"  {text}")
    if wrong or not exact or median > 0.1 or max(times) > 1:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
