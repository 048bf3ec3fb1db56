"""Who may call what, and what everyone gets: the route x role matrix, headers, one error shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from web_samples import CALLER, Site, make_site, question

from understudy.ledger.accounts import new_key, set_active
from understudy.verify.shared_state import SharedState
from understudy.web.sessions import COOKIE, SESSIONS, Sessions

pytestmark = pytest.mark.any_noise

V = "/api/v1"
BODIES: dict[str, Any] = {
    f"POST {V}/price": question(),
    f"POST {V}/plan": question(),
    f"POST {V}/verify": question(),
    f"POST {V}/users": {"name": "new.user"},
    f"POST {V}/users/{{name}}/grants": {"epsilon": "0.5"},
    f"POST {V}/users/{{name}}/active": {"active": True},
    f"POST {V}/projects": {"title": "Wages", "purpose": "A paper."},
    f"POST {V}/projects/{{number}}/requests": {"dataset": "survey", "epsilon": "1", "why": "x"},
    f"POST {V}/requests/{{number}}": {"approve": True},
}
# Route -> status for nobody, an analyst, a steward, an auditor, an operator.
API = {
    f"GET {V}/me": (401, 200, 200, 200, 200),
    f"GET {V}/datasets": (401, 200, 403, 403, 403),
    f"POST {V}/price": (401, 200, 403, 403, 403),
    f"POST {V}/plan": (401, 200, 403, 403, 403),
    f"POST {V}/verify": (401, 200, 403, 403, 403),
    f"GET {V}/history": (401, 200, 403, 403, 403),
    f"GET {V}/answers/{{number}}": (401, 404, 403, 403, 403),
    f"GET {V}/answers/{{number}}/draws": (401, 404, 403, 403, 403),
    f"GET {V}/users": (401, 403, 200, 200, 403),
    f"POST {V}/users": (401, 403, 201, 403, 403),
    f"POST {V}/users/{{name}}/grants": (401, 403, 201, 403, 403),
    f"POST {V}/users/{{name}}/key": (401, 403, 201, 403, 403),
    f"POST {V}/users/{{name}}/active": (401, 403, 200, 403, 403),
    f"GET {V}/totals": (401, 403, 200, 200, 403),
    f"GET {V}/ledger": (401, 403, 200, 200, 403),
    f"GET {V}/ledger.csv": (401, 403, 200, 200, 403),
    f"GET {V}/totals.csv": (401, 403, 200, 200, 403),
    f"GET {V}/ledger.jsonl": (401, 403, 200, 200, 403),
    f"GET {V}/projects": (401, 200, 403, 403, 403),
    f"POST {V}/projects": (401, 201, 403, 403, 403),
    f"POST {V}/projects/{{number}}/requests": (401, 422, 403, 403, 403),
    f"GET {V}/requests": (401, 403, 200, 200, 403),
    f"GET {V}/requests.csv": (401, 403, 200, 200, 403),
    f"POST {V}/requests/{{number}}": (401, 403, 422, 403, 403),
}
PAGES = {
    "GET /": (303, 303, 303, 303, 303),
    "GET /sign-in": (200, 200, 200, 200, 200),
    "POST /sign-in": (401, 401, 401, 401, 401),
    "POST /sign-out": (303, 303, 303, 303, 303),
    "GET /ask": (303, 200, 403, 403, 403),
    "GET /ask/details": (303, 422, 403, 403, 403),
    "POST /ask/details": (303, 422, 403, 403, 403),
    "POST /ask/price": (303, 422, 403, 403, 403),
    "POST /ask/further": (303, 422, 403, 403, 403),
    "POST /ask": (303, 422, 403, 403, 403),
    "GET /history": (303, 200, 403, 403, 403),
    "GET /answers/{number}": (303, 404, 403, 403, 403),
    "GET /answers/{number}/receipt.json": (303, 404, 403, 403, 403),
    "GET /steward": (303, 403, 200, 200, 403),
    "GET /steward/users": (303, 403, 200, 200, 403),
    "POST /steward/users": (303, 403, 422, 403, 403),
    "GET /steward/ledger": (303, 403, 200, 200, 403),
    "GET /steward/ledger.csv": (303, 403, 200, 200, 403),
    "GET /steward/totals.csv": (303, 403, 200, 200, 403),
    "GET /steward/ledger.jsonl": (303, 403, 200, 200, 403),
    "GET /steward/inbox": (303, 403, 200, 200, 403),
    "POST /steward/inbox": (303, 403, 422, 403, 403),
    "GET /steward/requests.csv": (303, 403, 200, 200, 403),
    "GET /projects": (303, 200, 403, 403, 403),
    "POST /projects": (303, 422, 403, 403, 403),
    "GET /operations": (303, 403, 403, 403, 200),
    "GET /key": (303, 200, 200, 200, 200),
    "POST /key": (303, 200, 200, 200, 200),
    "GET /pick-up": (200, 200, 200, 200, 200),
    "POST /pick-up": (401, 401, 401, 401, 401),
    "GET /sign-in/provider": (404, 404, 404, 404, 404),
    "GET /sign-in/provider/back": (404, 404, 404, 404, 404),
    "GET /style.css": (200, 200, 200, 200, 200),
    "GET /health": (200, 200, 200, 200, 200),
}
CALLERS = (None, "ann", "stella", "audrey", "oscar")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, module_place: tuple[str, str]) -> Iterator[Site]:
    """On SQLite, then on PostgreSQL."""
    folder = tmp_path_factory.mktemp("access")
    with make_site(folder, ledger_place=module_place, budget="100") as made:
        yield made


def routes(site: Site) -> set[str]:
    known = set()
    for route in site.app.routes:
        original = getattr(route, "original_router", None)
        inner = original.routes if original is not None else [route]
        for each in inner:
            if isinstance(each, APIRoute):
                known |= {f"{method} {each.path}" for method in each.methods}
    return known


def path_of(route: str) -> tuple[str, str]:
    method, path = route.split(" ")
    return method, path.replace("{number}", "999999").replace("{name}", "carol")


def csrf(client: httpx.Client) -> str:
    match = re.search(r'name="csrf" value="([\w-]+)"', client.get("/nowhere").text)
    return match[1] if match else ""


def test_the_matrix_names_every_route(site: Site) -> None:
    assert routes(site) == set(API) | set(PAGES)


@pytest.mark.parametrize("position", range(5))
def test_the_api_by_role(site: Site, position: int) -> None:
    with site.client(CALLERS[position]) as client:
        for route in sorted(API):
            method, path = path_of(route)
            reply = client.request(method, path, json=BODIES.get(route))
            assert reply.status_code == API[route][position], (route, reply.text)
            if reply.status_code >= 400:
                assert list(reply.json()) == ["error"]
                assert reply.json()["error"].endswith(".")
            if reply.status_code == 401:
                assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("position", range(5))
def test_the_pages_by_role(site: Site, position: int) -> None:
    user = CALLERS[position]
    with site.client() if user is None else site.page_client(user) as client:
        data = {"csrf": csrf(client), "dataset": "survey", "estimator": "x"}
        for route in sorted(set(PAGES) - {"POST /sign-out", "POST /key"}):
            method, path = path_of(route)
            reply = client.request(method, path, data=data if method == "POST" else None)
            assert reply.status_code == PAGES[route][position], (route, reply.text)


def test_a_session_cannot_call_the_api_and_a_key_opens_no_page(site: Site) -> None:
    with site.page_client("ann") as browser, site.client("ann") as caller:
        assert browser.get(f"{V}/me").status_code == 401
        assert caller.get("/ask").status_code == 303


@pytest.mark.parametrize("route", [r for r in sorted(PAGES) if r.startswith("POST")])
def test_no_form_works_without_its_token_or_from_elsewhere(site: Site, route: str) -> None:
    path = route.split(" ")[1]
    user = "stella" if "steward" in path else "ann"
    with site.page_client(user) as client:
        token = csrf(client)
        assert token
        if path not in ("/sign-in", "/pick-up"):
            for wrong in ({}, {"csrf": "0" * 64}, {"csrf": "ü"}):
                assert client.post(path, data=wrong).status_code == 403
        for headers in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Origin": "https://elsewhere.example"},
            {"Origin": "null"},
            {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        ):
            reply = client.post(path, data={"csrf": token}, headers=headers)
            assert reply.status_code == 403


def test_another_users_token_is_no_token(site: Site) -> None:
    with site.page_client("ann") as own, site.page_client("bob") as other:
        assert own.post("/ask/price", data={"csrf": csrf(other)}).status_code == 403


def test_every_reply_carries_the_same_security_headers(site: Site) -> None:
    with site.client("ann") as client, site.page_client("ann") as browser:
        replies = [
            client.get(f"{V}/me"),
            client.get(f"{V}/nowhere"),
            client.post(f"{V}/verify", content="{", headers={"content-type": "application/json"}),
            client.delete(f"{V}/me"),
            browser.get("/ask"),
            browser.get("/style.css"),
            browser.get("/answers/999"),
            client.post(f"{V}/price", content=b"x" * 300_000),
        ]
    assert [r.status_code for r in replies] == [200, 404, 422, 405, 200, 200, 404, 413]
    for reply in replies:
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["referrer-policy"] == "same-origin"
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script" not in policy
        assert "unsafe" not in policy
        assert "server" not in reply.headers


def test_no_page_holds_a_script_or_a_style(site: Site) -> None:
    with site.page_client("ann") as browser:
        for path in ("/sign-in", "/ask", "/ask/details?dataset=survey&estimator=mean", "/history"):
            text = browser.get(path).text
            assert "<script" not in text
            assert "style=" not in text
            assert " onclick" not in text


def test_cookies_are_closed_to_scripts_and_to_other_sites(site: Site) -> None:
    with site.client() as client:
        reply = client.post("/sign-in", data={"key": site.keys["ann"]})
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert site.keys["ann"].split("_", 2)[2] not in cookie


def test_a_cookie_that_is_not_ours_opens_nothing(site: Site) -> None:
    with site.page_client("ann") as client:
        good = client.cookies[COOKIE]
    kept = [row[0] for row in rows_of(site, "SELECT cookie FROM sessions")]
    assert good not in kept  # a copy of the file opens no session
    for forged in ("", ".", "x", good[:-1], f"{good}x", good.swapcase(), "ü", *kept):
        reply = httpx.get(
            f"{site.url}/ask", headers={"Cookie": f"{COOKIE}={forged}".encode()}, **CALLER
        )
        assert reply.status_code == 303, forged


def rows_of(site: Site, select: str) -> list[tuple[Any, ...]]:
    with site.service.shared.reading() as run:
        return run(select)


def test_a_session_ends_with_its_key_its_user_and_its_time(site: Site) -> None:
    now = 0.0
    sessions = Sessions(site.ledger, site.service.shared, minutes=1, clock=lambda: now)
    cookie = sessions.sign_in(site.keys["bob"])
    assert sessions.read(cookie) is not None
    set_active(site.ledger, "bob", False)
    assert sessions.read(cookie) is None
    set_active(site.ledger, "bob", True)
    assert sessions.read(cookie) is not None
    now = 61.0
    assert sessions.read(cookie) is None
    now = 59.0
    assert sessions.read(cookie) is not None
    site.keys["bob"] = new_key(site.ledger, "bob")
    assert sessions.read(cookie) is None


def test_a_session_that_was_signed_out_is_over_wherever_its_cookie_is(site: Site) -> None:
    """A stolen copy of the cookie opens nothing afterwards; the user's other sessions go on."""
    with site.page_client("ann") as client, site.page_client("ann") as other:
        stolen = client.cookies[COOKIE]
        token = csrf(client)
        assert client.post("/sign-out", data={"csrf": token}).status_code == 303
        assert other.get("/ask").status_code == 200
        client.cookies.set(COOKIE, stolen)
        assert client.get("/ask").status_code == 303
        reply = client.post("/ask", data={"csrf": token})
        assert reply.headers["location"] == "/sign-in"


def test_a_user_has_few_sessions_and_the_oldest_ends(site: Site) -> None:
    sessions = Sessions(site.ledger, site.service.shared)
    first, *others = [sessions.sign_in(site.keys["ann"]) for _ in range(SESSIONS + 1)]
    assert sessions.read(first) is None
    assert all(sessions.read(cookie) is not None for cookie in others)
    sessions.sign_out("no cookie of ours")
    another = Sessions(site.ledger, SharedState(site.ledger))  # another process knows them
    assert another.read(first) is None
    assert another.read(others[-1]) == sessions.read(others[-1])
    another.sign_out(others[-1])
    assert sessions.read(others[-1]) is None
    another._shared.close()


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tokens come back, however slow the machine."""
    monkeypatch.setattr("understudy.web.limits.time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.mark.usefixtures("stopped_clock")
def test_the_rate_limit_is_per_user_and_names_the_wait(tmp_path: Path) -> None:
    with (
        make_site(tmp_path, per_minute=5) as site,
        site.client("ann") as ann,
        site.client("bob") as bob,
    ):
        statuses = [ann.get(f"{V}/me").status_code for _ in range(7)]
        refused = ann.get(f"{V}/me")
        assert statuses == [200] * 5 + [429] * 2
        assert re.fullmatch(r"Too many requests; try again in \d+ seconds?\.", _error(refused))
        assert int(refused.headers["retry-after"]) >= 1
        assert bob.get(f"{V}/me").status_code == 200


@pytest.mark.usefixtures("stopped_clock")
def test_guessing_keys_is_slowed_down(tmp_path: Path) -> None:
    with make_site(tmp_path) as site, site.client() as client:
        wrong = {"Authorization": "Bearer us_" + "0" * 16 + "_" + "A" * 43}
        replies = [client.get(f"{V}/me", headers=wrong) for _ in range(35)]
        assert [r.status_code for r in replies[:30]] == [401] * 30
        assert replies[-1].status_code == 429
        page = client.post("/sign-in", data={"key": "us_wrong"})
        assert page.status_code == 429
        with site.client("ann") as ann:
            assert ann.get(f"{V}/me").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b"[" * 50_000,
        json.dumps({"dataset": "survey"}).encode(),
        json.dumps(question() | {"surprise": 1}).encode(),
        json.dumps(question(epsilon=1.0)).encode(),
        json.dumps(question(epsilon="1e-9")).encode(),
        json.dumps(question(estimate="120")).encode(),
        json.dumps(question()).replace("120.0", "NaN").encode(),
        json.dumps(question()).replace("120.0", "1e400").encode(),
        json.dumps(question(variable="'; DROP TABLE entries; --")).encode(),
        json.dumps(question(variable="__weight")).encode(),
        json.dumps(question(dataset="other")).encode(),
        json.dumps(question(partitions=True)).encode(),
        json.dumps(question(domain={"region": ["North", "North' OR 1=1"]})).encode(),
    ],
)
def test_bad_bodies_are_one_sentence_and_cost_nothing(site: Site, body: bytes) -> None:
    before = [e.kind for e in site.ledger.entries()]
    with site.client("bob") as client:
        for path in ("verify", "price", "plan"):
            reply = client.post(
                f"{V}/{path}", content=body, headers={"Content-Type": "application/json"}
            )
            assert reply.status_code in (400, 422), reply.text
            assert "Traceback" not in _error(reply)
    assert [e.kind for e in site.ledger.entries()] == before


BAD_FIELDS = [
    *[("variable", text) for text in ("", "incme", "__weight", "'; DROP TABLE entries; --")],
    *[("epsilon", text) for text in ("", "nan", "-1", "1e-9", "0", "1,5", "9" * 5000)],
    *[("tolerance", text) for text in ("", "wide", "-1", "0", "nan", "inf", "1e400", "9" * 5000)],
    *[("tolerance_kind", text) for text in ("miles", "' OR 1=1")],
    *[("interval", text) for text in ("wide", "\x00")],
    *[("measure", text) for text in ("magic", "<script>")],
    *[("clip", text) for text in ("0", "-2", "inf", "much")],
    *[("partitions", text) for text in ("1", "0", "-5", "2.5", "1e3", "1001", "9" * 5000)],
    *[("estimate", text) for text in ("nan", "x", "1e400")],
    *[("se", text) for text in ("0", "-1", "nan", "x")],
    *[("domain", text) for text in ("region:3", "region:Nowhere", "income:0", ":", "region:-1")],
    *[("domain", f"region:{text}") for text in ("9" * 5000, "\u0661", "1' OR 1=1")],
]


def test_bad_fields_of_the_form_are_named_on_the_page_and_cost_nothing(tmp_path: Path) -> None:
    good = {
        **{"dataset": "survey", "estimator": "mean", "variable": "income", "tolerance": "2"},
        **{"epsilon": "0.5", "estimate": "120", "se": "1", "partitions": "10"},
    }
    with make_site(tmp_path, slot=0.01) as site, site.page_client("ann") as client:
        token = {"csrf": csrf(client)}
        assert client.post("/ask/price", data=good | token).status_code == 200
        before = list(site.ledger.entries())
        for position, (field, text) in enumerate(BAD_FIELDS):
            path = ("/ask", "/ask/price")[position % 2]  # every field meets both
            reply = client.post(path, data=good | token | {field: text})
            assert reply.status_code == 422, (path, field, text[:40])
            assert "nothing was spent" in reply.text
            assert 'role="alert"' in reply.text
            assert "<script>" not in reply.text
        assert list(site.ledger.entries()) == before
        assert client.post("/ask", data=good | token).status_code == 303  # what costs


def _error(reply: httpx.Response) -> str:
    document = reply.json()
    assert list(document) == ["error"]
    return str(document["error"])


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("dataset=other&estimator=mean", "Choose one of the data sets that were granted to you."),
        ("dataset=survey&estimator=mode", "Choose one of the estimators."),
    ],
)
def test_an_unknown_choice_gets_a_sentence(site: Site, asked: str, sentence: str) -> None:
    with site.page_client("ann") as page:
        reply = page.get(f"/ask/details?{asked}")
    assert reply.status_code == 422
    assert f"{sentence} Nothing was spent." in reply.text
