"""Signing in by OpenID Connect, against two providers.

One is a library's (oidc-provider-mock, which is Authlib's server side): discovery, registration, a
form, the code flow with client authentication and nonce, RS256 tokens, a published key set. The
other is small and our own: it asks for PKCE, and can tell lies.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from small_server import Quiet, serving
from web_samples import CALLER, PATIENCE, Site, make_site
from werkzeug.serving import make_server

from understudy.ledger.accounts import (
    WrongKey,
    add_user,
    authenticate,
    new_key,
    pick_up,
    set_active,
)
from understudy.web.oidc import Provider
from understudy.web.oidc_pages import AWAY, BACK, KEPT
from understudy.web.sessions import COOKIE

CLIENT, SECRET = "understudy", "pa%ss word:"
USER = "dora@agency.example"


class Standard(Quiet):
    """A provider at which everybody is signed in already."""

    key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
    other = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
    codes: dict[str, dict[str, str]]
    claims: dict[str, Any]
    signer: RSAKey = key

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def get(self) -> None:
        path, asked = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        if path == "/.well-known/openid-configuration":
            places = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            self._send(200, {"issuer": self.issuer, **{p: f"{self.issuer}/{p}" for p in places}})
        elif path == "/jwks_uri":
            self._send(200, {"keys": [self.key.as_dict(private=False)]})
        elif path == "/authorization_endpoint":
            assert asked["response_type"] == "code"
            assert asked["client_id"] == CLIENT
            assert "openid" in asked["scope"].split()
            code = f"code{len(self.codes)}"
            self.codes[code] = asked
            back = urlencode({"code": code, "state": asked["state"]})
            self.reply(302, "", Location=f"{asked['redirect_uri']}?{back}")

    def post(self) -> None:
        sent = {k: v[0] for k, v in parse_qs(self.body()).items()}
        asked = self.codes.pop(sent.get("code", ""), None)  # a code is good once
        pair = f"{CLIENT}:pa%25ss%20word%3A"
        known = f"Basic {base64.b64encode(pair.encode()).decode()}"
        digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or self.headers["Authorization"] != known
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != sent["redirect_uri"]
        ):
            self._send(400, {"error": "invalid_grant"})
            return
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": "1", "iat": 1.7e9, "exp": 4e9}
        claims |= {"nonce": asked["nonce"], "email": USER, "email_verified": True, **self.claims}
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signer)
        self._send(200, {"access_token": "x", "token_type": "Bearer", "id_token": token})

    def _send(self, status: int, document: dict[str, Any]) -> None:
        self.reply(status, json.dumps(document), Content_Type="application/json")


@pytest.fixture(scope="module")
def provider() -> Iterator[tuple[str, type[Standard]]]:
    handler = type("Own", (Standard,), {"codes": {}, "claims": {}})
    with serving(handler) as address:
        yield address, handler


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, provider: tuple[str, type[Standard]]
) -> Iterator[Site]:
    known = Provider(provider[0], CLIENT, SECRET)
    with make_site(tmp_path_factory.mktemp("oidc"), provider=known) as made:
        add_user(made.ledger, USER, "auditor")
        yield made


def walk(site: Site, **changes: Any) -> httpx.Response:
    """What a browser does, up to the page that it comes back to."""
    with httpx.Client(base_url=site.url, **CALLER) as browser:
        away = browser.get(AWAY)
        assert away.status_code == 303
        there = httpx.get(away.headers["location"], **CALLER)
        back = httpx.URL(there.headers["location"])
        if "cookie" in changes:
            browser.cookies.clear()
        if "state" in changes:
            back = back.copy_set_param("state", changes["state"])
        reply = browser.get(back)
        if changes.get("again"):
            browser.cookies.set(KEPT, away.cookies[KEPT])
            reply = browser.get(back)
    return reply


def test_who_the_provider_knows_is_signed_in_as_the_ledger_knows_her(site: Site) -> None:
    reply = walk(site)
    assert (reply.status_code, "You are signed in" in reply.text) == (200, True)
    cookie = next(each for each in reply.headers.get_list("set-cookie") if COOKIE in each)
    assert "SameSite=strict" in cookie
    with httpx.Client(base_url=site.url, **CALLER) as browser:
        browser.cookies.set(COOKIE, cookie.split(";")[0].split("=", 1)[1])
        assert browser.get("/").headers["location"] == "/steward"
        assert USER in browser.get("/steward/ledger").text
        set_active(site.ledger, USER, False)
        assert browser.get("/steward").status_code == 303
        assert walk(site).status_code == 401
        set_active(site.ledger, USER, True)
    assert "organisation" in httpx.get(f"{site.url}/sign-in", **CALLER).text


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://elsewhere.example"},
        {"aud": "another"},
        {"exp": 1},
        {"nonce": "another"},
        {"email": "nobody@agency.example"},
        {"email_verified": False},
        {"email": None},
    ],
    ids=str,
)
def test_a_token_that_is_not_for_us_now_opens_nothing(
    site: Site, provider: tuple[str, type[Standard]], claims: dict[str, Any], monkeypatch: Any
) -> None:
    monkeypatch.setattr(provider[1], "claims", claims)
    reply = walk(site)
    assert reply.status_code == 401
    assert not [each for each in reply.headers.get_list("set-cookie") if COOKIE in each]


def test_a_token_signed_by_another_opens_nothing(
    site: Site, provider: tuple[str, type[Standard]], monkeypatch: Any
) -> None:
    monkeypatch.setattr(provider[1], "signer", Standard.other)
    assert walk(site).status_code == 401


def test_the_way_back_is_for_the_browser_that_went_and_once(site: Site) -> None:
    for changes in ({"cookie": None}, {"state": "x"}, {"state": "\u00e9"}, {"again": True}):
        assert walk(site, **changes).status_code == 401


@pytest.fixture
def librarys(site: Site) -> Iterator[None]:
    """The site with a library's provider, which knows it as a registered client."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library uses an older part of Authlib
        from oidc_provider_mock import User, app

    known = User(sub="7", claims={"email": USER, "email_verified": True})
    made = app(require_client_registration=True, require_nonce=True, user_claims=[known])
    server = make_server("localhost", 0, made, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        address = f"http://localhost:{server.server_port}"
        asked = {"redirect_uris": [f"{site.url}{BACK}"]}
        client = httpx.post(f"{address}/oauth2/clients", json=asked, **CALLER).json()
        own = Provider(address, client["client_id"], client["client_secret"])
        before, site.app.state.provider = site.app.state.provider, own
        yield
        site.app.state.provider = before
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.usefixtures("librarys")
@pytest.mark.filterwarnings("ignore")  # warnings of the library's own
def test_a_librarys_provider_signs_in_whom_the_ledger_knows(site: Site) -> None:
    with httpx.Client(base_url=site.url, **CALLER) as browser:
        asks = browser.get(AWAY).headers["location"]
        assert "7" in httpx.get(asks, **CALLER).text  # its form
        for who, status in (("7", 200), ("8", 401)):
            there = httpx.post(asks, data={"sub": who}, **CALLER)
            reply = browser.get(there.headers["location"])
            assert reply.status_code == status
            if status == 200:
                assert browser.get("/").headers["location"] == "/steward"
            asks = browser.get(AWAY).headers["location"]


def test_whoever_signs_in_by_the_provider_has_no_key_that_another_could_hold(site: Site) -> None:
    """A steward who picks up the key herself would read the answers of somebody who never misses
    it."""
    taken = pick_up(site.ledger, new_key(site.ledger, USER, "stella", code=True))[1]
    assert authenticate(site.ledger, taken).name == USER
    cookie = walk(site).cookies[COOKIE]
    with pytest.raises(WrongKey):
        authenticate(site.ledger, taken)
    own = new_key(site.ledger, USER, USER)
    assert site.app.state.sessions.read(cookie) is None  # it ended with the key before
    cookie = walk(site).cookies[COOKIE]
    assert authenticate(site.ledger, own).name == USER  # hers stays
    assert site.app.state.sessions.read(cookie) is not None
    new_key(site.ledger, USER, "stella", code=True)
    assert site.app.state.sessions.read(cookie) is None  # she comes again, and the code is over


def test_a_provider_that_does_not_answer_keeps_nobody_waiting(tmp_path: Path) -> None:
    """45 callers, more than a server has threads, wait for it."""
    asked, answer = threading.Semaphore(0), threading.Event()

    class Silent(Quiet):
        def get(self) -> None:
            asked.release()
            assert answer.wait(PATIENCE)
            self.reply(404, "")

    with (
        serving(Silent) as address,
        make_site(tmp_path, provider=Provider(address, CLIENT, SECRET)) as made,
        ThreadPoolExecutor(45) as callers,
    ):
        try:
            away = [callers.submit(httpx.get, made.url + AWAY, **CALLER) for _ in range(45)]
            assert asked.acquire(timeout=PATIENCE)
            with made.client("ann") as ann:
                assert ann.get("/api/v1/me").status_code == 200
        finally:
            answer.set()
        assert {each.result().status_code for each in away} == {503}
        assert httpx.get(f"{made.url}/health", **CALLER).json() == {"ok": True, "failures": 0}


def test_a_provider_that_is_away_is_said_so(tmp_path: Path) -> None:
    away = Provider("http://127.0.0.1:9", CLIENT, SECRET)
    with make_site(tmp_path, provider=away) as made, made.client() as client:
        reply = client.get(AWAY)
        assert (reply.status_code, "sign in with a key" in reply.text) == (503, True)
