"""Signing in by OpenID Connect, against a small provider that keeps to the standard.

Discovery, the code flow with PKCE and client authentication, RS256 tokens and a published key set.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from small_server import Quiet, serving
from web_samples import CALLER, Site, make_site

from understudy.ledger.accounts import add_user, set_active
from understudy.web.oidc import Provider
from understudy.web.oidc_pages import AWAY, KEPT
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
    for changes in ({"cookie": None}, {"state": "x"}, {"again": True}):
        assert walk(site, **changes).status_code == 401


def test_a_provider_that_is_away_is_said_so(tmp_path: Path) -> None:
    away = Provider("http://127.0.0.1:9", CLIENT, SECRET)
    with make_site(tmp_path, provider=away) as made, made.client() as client:
        reply = client.get(AWAY)
        assert (reply.status_code, "sign in with a key" in reply.text) == (503, True)
