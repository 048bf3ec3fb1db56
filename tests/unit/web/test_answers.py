"""Questions over HTTP: races, replay, neighbours, foreign ids, canaries, the client.

What meets the ledger runs on SQLite and on a real PostgreSQL.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from verification_samples import NewPlace, make_frame
from web_samples import Site, make_site, question, running

import chance
from understudy.errors import Refused
from understudy.ledger.accounts import pick_up
from understudy.ledger.ledger import Reservation
from understudy.verify import answer as answer_module
from understudy.verify import service as service_module
from understudy.verify.catalogue import read_query
from understudy.verify.client import Client
from understudy.verify.receipt import Receipt
from understudy.verify.released import ReleasedFiles

pytestmark = pytest.mark.any_noise

V = "/api/v1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, module_place: tuple[str, str]) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("answers")
    with make_site(folder, ledger_place=module_place, budget="500") as made:
        yield made


def test_a_race_over_http_spends_the_budget_exactly(
    tmp_path: Path, ledger_place: tuple[str, str]
) -> None:
    """Forty callers at once, 0.1 each, budget 1: ten answers."""
    at_once = {"places": 40, "questions_per_user": 40}
    with make_site(tmp_path, ledger_place=ledger_place, budget="1", **at_once) as site:
        barrier = threading.Barrier(40)

        def ask(number: int) -> int:
            with site.client("ann") as client:
                client.get(f"{V}/me")
                barrier.wait()
                asked = question(epsilon="0.1", estimate=120 + number / 1000)
                return client.post(f"{V}/verify", json=asked).status_code

        with ThreadPoolExecutor(40) as pool:
            statuses = sorted(pool.map(ask, range(40)))
        assert statuses == [200] * 10 + [402] * 30
        assert site.ledger.budget("user", "ann").spent == 1_000_000
        kinds = [e.kind for e in site.ledger.entries()]
        assert kinds.count("reserve") == kinds.count("release") == 10


def test_the_same_question_again_is_free_and_says_the_same(site: Site) -> None:
    asked = question(estimate=119.5)
    with site.client("ann") as client:
        first = client.post(f"{V}/verify", json=asked).json()
        spent = site.ledger.budget("user", "ann").spent
        other_words = question(estimate=119.5, domain=[], clip=2.0)
        for _ in range(5):
            again = client.post(f"{V}/verify", json=other_words).json()
            assert again == first | {"replayed": True}
        assert client.post(f"{V}/price", json=asked).json()["free"] is True
    assert site.ledger.budget("user", "ann").spent == spent


def test_a_question_is_prepared_once_and_a_receipt_is_the_same_everywhere(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def count(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            made.append(name)
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, counted)

    count(service_module, "check_question")
    count(ReleasedFiles, "__call__")
    count(answer_module, "Receipt")
    count(answer_module, "noisy_number")
    with site.client("ann") as client:
        asked = {k: v for k, v in question().items() if k not in ("estimate", "se")}
        reply = client.post(f"{V}/verify", json=asked)
        assert reply.status_code == 200, reply.text
        assert made == ["check_question", "__call__", "noisy_number", "Receipt"]
        receipt = reply.json()
        assert client.get(f"{V}/answers/{receipt['receipt']}").json() == receipt
        assert client.get(f"{V}/history").json()[0] == receipt


def test_history_comes_in_pages_and_an_answer_is_read_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a page costs does not grow with all that was ever asked."""
    fingerprint = site.service.dataset("survey").data.fingerprint
    synthetic = {"estimate": 1.0, "se": 1.0}
    facts = {"noisy": 1.0, "relation": "add-remove", "synthetic": synthetic}
    for number in range(45):
        query = read_query(question(estimate=500.0 + number, epsilon="0.01"))
        paid = site.ledger.reserve("carol", fingerprint, query)
        assert isinstance(paid, Reservation)
        site.ledger.release(paid, facts)
    every = [answer.number for answer in reversed(site.ledger.answers("carol"))]
    assert len(every) == 45

    made: list[int] = []
    real = Receipt.from_ledger

    def counted(stored: Any, *others: Any, **named: Any) -> Receipt:
        made.append(stored.number)
        return real(stored, *others, **named)

    monkeypatch.setattr(Receipt, "from_ledger", counted)
    client = Client(site.url, site.keys["carol"])
    first = [receipt["receipt"] for receipt in client.history()]
    second = [receipt["receipt"] for receipt in client.history(first[-1])]
    last = [receipt["receipt"] for receipt in client.history(second[-1])]
    assert [len(page) for page in (first, second, last)] == [20, 20, 5]
    assert first + second + last == every == made
    made.clear()
    assert client.answer(every[7])["receipt"] == every[7]
    with site.page_client("carol") as page:
        assert page.get(f"/answers/{every[8]}").status_code == 200
        assert made == every[7:9]
        newest, oldest = page.get("/history").text, page.get(f"/history?before={second[-1]}").text
    assert f'href="/history?before={first[-1]}"' in newest
    assert "before=" not in oldest
    assert 'href="/history">Newest' in oldest
    assert len(made) == 2 + 25


def test_answers_of_others_do_not_exist(site: Site) -> None:
    with site.client("ann") as ann, site.client("bob") as bob, site.page_client("bob") as page:
        number = ann.post(f"{V}/verify", json=question(estimate=118.0)).json()["receipt"]
        assert ann.get(f"{V}/answers/{number}").json()["receipt"] == number
        foreign, missing = bob.get(f"{V}/answers/{number}"), bob.get(f"{V}/answers/987654")
        assert foreign.status_code == missing.status_code == 404
        assert foreign.content == missing.content
        assert page.get(f"/answers/{number}").status_code == 404
        assert page.get(f"/answers/{number}/receipt.json").status_code == 404
        assert number not in [entry["receipt"] for entry in bob.get(f"{V}/history").json()]
        assert f"/answers/{number}" not in page.get("/history").text
        # No field of a question can name its owner.
        reply = bob.post(f"{V}/verify", json=question(estimate=118.0) | {"user": "ann"})
        assert reply.status_code == 422


def test_the_steward_sees_amounts_and_neither_questions_nor_answers(site: Site) -> None:
    with site.client("ann") as ann, site.client("stella") as stella:
        assert ann.post(f"{V}/verify", json=question(estimate=117.375)).status_code == 200
        for path in ("ledger", "ledger.csv", "totals", "totals.csv", "users"):
            text = stella.get(f"{V}/{path}").text
            assert "117.375" not in text
            assert "noisy" not in text
            assert "key_hash" not in text
        lines = stella.get(f"{V}/ledger", params={"count": 2}).json()
        assert [line["kind"] for line in lines] == ["release", "reserve"]
        assert lines[1]["number"] == lines[0]["refers"]
        spending = stella.get(f"{V}/totals").json()["spending"]
        spent = site.ledger.budget("user", "ann").spent
        assert {"user": "ann", "dataset": "survey"}.items() <= spending[0].items()
        assert float(spending[0]["epsilon"]) * 1e6 == pytest.approx(spent)
        before = stella.get(f"{V}/ledger", params={"before": lines[1]["number"]}).json()
        assert before[0]["number"] == lines[1]["number"] - 1


def test_a_grant_over_http_is_an_entry(site: Site) -> None:
    with site.client("stella") as stella:
        reply = stella.post(f"{V}/users", json={"name": "dora", "epsilon": "0.5"})
        _, key = pick_up(site.ledger, reply.json()["code"])
        assert reply.status_code == 201
        granted = stella.post(f"{V}/users/dora/grants", json={"epsilon": "0.25"})
        assert granted.json()["left"] == "0.75"
        for wrong in ("0", "-1", "1e3", "nan", ""):
            bad = stella.post(f"{V}/users/dora/grants", json={"epsilon": wrong})
            assert bad.status_code == 422
        assert stella.post(f"{V}/users/none/grants", json={"epsilon": "1"}).status_code == 404
        bad = stella.post(f"{V}/users", json={"name": "eve", "epsilon": "-1"})
        assert bad.status_code == 422
        assert "eve" not in stella.get(f"{V}/users").text
        assert stella.post(f"{V}/users/stella/active", json={"active": False}).status_code == 422
    assert Client(site.url, key).me() == {"name": "dora", "role": "analyst", "left": "0.75"}


def neighbours() -> list[pl.DataFrame]:
    """Files of which one makes fits singular and partitions empty."""
    frame = make_frame(60)
    constant = frame.with_columns(hours=pl.lit(40), region=pl.lit("North"))
    return [frame, constant, frame.with_columns(income=pl.lit(float("inf")))]


def test_a_singular_neighbour_has_the_same_status_schema_and_headers(
    tmp_path: Path, new_place: NewPlace
) -> None:
    asked = [
        question(domain={"region": ["East"]}),
        question(
            estimator="linear",
            predictors=["hours"],
            coefficient="hours",
            estimate=2.0,
            se=0.1,
            partitions=2,
        ),
        question(measure="agreement"),
    ]
    shapes = []
    for number, frame in enumerate(neighbours()):
        folder = tmp_path / str(number)
        folder.mkdir()
        ledger_place = new_place(folder)
        with (
            make_site(folder, frame, ledger_place=ledger_place, deadline=0.05) as site,
            site.client("ann") as client,
        ):
            replies = [client.post(f"{V}/verify", json=body) for body in asked]
        shapes.append(
            [(r.status_code, _shape(r.json()), _header_shape(r), r.http_version) for r in replies]
        )
    assert shapes[0] == shapes[1] == shapes[2]
    assert [s[0] for s in shapes[0]] == [200] * 3


def test_a_broken_computation_is_charged_and_tells_nothing(
    tmp_path: Path,
    ledger_place: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("income 987654.321 is out of range")

    caplog.set_level(logging.DEBUG)
    with make_site(tmp_path, ledger_place=ledger_place) as site, site.client("ann") as client:
        monkeypatch.setattr(answer_module, "partition_estimates", broken)
        replies = [client.post(f"{V}/verify", json=question(estimate=e)) for e in (1.0, 2.0)]
        assert [r.status_code for r in replies] == [503, 503]
        assert replies[0].content == replies[1].content
        assert site.ledger.budget("user", "ann").spent == 2_000_000

        def also(*_: Any) -> Any:
            raise RuntimeError("income 987654.321")

        monkeypatch.setattr(type(site.service), "history", also)
        unforeseen = client.get(f"{V}/history")
        assert unforeseen.status_code == 500
        assert list(unforeseen.json()) == ["error"]
    captured = capfd.readouterr()
    text = caplog.text + captured.out + captured.err + unforeseen.text + replies[0].text
    assert "987654" not in text
    assert "RuntimeError at GET /api/v1/history" in text


@pytest.mark.chance(
    chance.digits_met(12, 10**6, strings=4), "a canary of 12 digits among those of keys and answers"
)
def test_no_canary_reaches_logs_database_or_replies(
    tmp_path: Path,
    ledger_place: tuple[str, str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    canaries = {"income": 987654321987.25, "hours": 313373133731, "person": 424242424242}
    frame = make_frame(200)
    odd = pl.DataFrame([canaries | {"region": "East", "sex": 1, "w": 77.12515216713}])
    frame = pl.concat([frame, odd.select(frame.columns).cast(dict(frame.schema))])
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    with make_site(tmp_path, frame, ledger_place=ledger_place) as site:
        with site.client("ann") as client, site.page_client("ann") as page:
            for measure in ("discrepancy", "agreement"):
                reply = client.post(f"{V}/verify", json=question(measure=measure))
                texts.append(page.get(f"/answers/{reply.json()['receipt']}").text)
                texts += [reply.text, client.post(f"{V}/plan", json=question()).text]
            for path in ("datasets", "history", "me"):
                texts.append(client.get(f"{V}/{path}").text)
            for path in ("/ask", "/history", "/ask/details?dataset=survey&estimator=linear"):
                texts.append(page.get(path).text)
        with site.client("stella") as stella:
            texts += [stella.get(f"{V}/{path}").text for path in ("ledger.csv", "totals")]
        with site.ledger.journal.database.reading() as run:
            tables = [run(f"SELECT * FROM {name}") for name in ("entries", "budgets", "users")]
    assert all(tables)
    kept = b"".join(p.read_bytes() for p in tmp_path.iterdir() if p.is_file()).decode("latin-1")
    kept += str(tables)
    captured = capfd.readouterr()
    everything = kept + "".join(texts) + caplog.text + captured.out + captured.err
    assert len(everything) <= 10**6
    for canary in ("987654321987", "313373133731", "424242424242", "77.1251521671"):
        assert canary not in everything
    assert site.keys["ann"].split("_", 2)[2] not in kept + caplog.text + captured.out + captured.err


def test_the_client_plans_prices_asks_and_remembers(site: Site) -> None:
    client = Client(site.url, site.keys["ann"])
    asked = question(estimate=None, se=None, epsilon="0.5")
    quote = client.price(asked)
    assert quote["epsilon"] == "0.5"
    assert 110 < quote["synthetic"]["estimate"] < 130
    assert len(client.plan(asked)["rows"]) == 400
    answer = client.verify(read_query(asked))
    assert client.verify(asked) == answer | {"replayed": True}
    assert client.answer(answer["receipt"])["noisy"] == answer["noisy"]
    assert client.history()[0]["receipt"] == answer["receipt"]
    assert client.datasets()[0]["name"] == "survey"
    assert site.keys["ann"] not in repr(client)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"variable": "incme"}, "did you mean `income`"),
        ({"dataset": "surveys"}, "did you mean `survey`"),
        ({"epsilon": "900"}, "This needs epsilon 900"),
        ({"tolerance": {"value": float("nan")}}, "finite numbers"),
    ],
)
def test_the_client_says_the_servers_sentence(
    site: Site, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        Client(site.url, site.keys["ann"]).verify(question(**changes))


def test_the_client_refuses_wrong_keys_and_addresses(site: Site) -> None:
    for url, key, words in (
        (site.url, "us_wrong", "not known"),
        (site.url, "ü", "not known"),
        ("127.0.0.1:80", "us_x", "begins with http"),
        ("http://127.0.0.1:9", "us_x", "No verification server answers"),
    ):
        with pytest.raises(Refused, match=words):
            Client(url, key).me()


def test_the_client_does_not_carry_its_key_elsewhere() -> None:
    from fastapi import FastAPI
    from fastapi.responses import RedirectResponse

    seen = []
    app = FastAPI()

    @app.get("/api/v1/me")
    def away() -> Any:
        return RedirectResponse("/elsewhere")

    @app.get("/elsewhere")
    def elsewhere() -> dict[str, str]:
        seen.append(1)
        return {}

    with running(app) as url, pytest.raises(Refused, match="status 307"):
        Client(url, "us_x").me()
    assert seen == []


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shape(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_shape(part) for part in value]
    return type(value).__name__


def _header_shape(reply: httpx.Response) -> list[str]:
    # The length follows the digits of the noisy answer, which is released.
    return sorted(f"{k}: {v if k not in ('content-length', 'date') else ''}"
                  for k, v in reply.headers.items())  # fmt: skip


def test_shapes_are_compared_by_type() -> None:
    assert _shape(json.loads('{"a": [1.5, null]}')) == {"a": ["float", "NoneType"]}
