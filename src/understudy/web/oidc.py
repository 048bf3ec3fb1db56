"""Signing in by OpenID Connect: the organisation says who somebody is, the ledger what she may do.

The code flow with PKCE, a state and a nonce; the identity token is checked by Authlib (signature,
issuer, audience, time, nonce). A user is known by a claim of hers that equals her name in the
ledger; an e-mail address must be a verified one.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from understudy.errors import Refused

ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]
LEEWAY = 60  # seconds by which clocks may differ
SECONDS = 10  # that the provider has for a reply
REMEMBERED = 300.0  # seconds that the provider's addresses are known for
LONGEST = 1_000_000  # bytes of a reply that are read
BROKEN = (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError)


class NotSignedIn(Refused):
    """The provider did not say who this is; the message holds nothing of what it said."""

    def __init__(self) -> None:
        super().__init__(
            "Your organisation's account could not be used here; try again, or sign in with a key."
        )


@dataclass(frozen=True)
class Provider:
    """A provider by its address; `claim` names the user."""

    issuer: str
    client: str
    secret: str = field(repr=False)
    claim: str = "email"
    _known: dict[str, tuple[dict[str, Any], float]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _asking: threading.Lock = field(
        default_factory=threading.Lock, init=False, repr=False, compare=False
    )

    def start(self, back: str) -> tuple[str, dict[str, str]]:
        """Where to send the browser, and what to remember until it comes `back`."""
        from authlib.common.urls import add_params_to_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        kept = {name: secrets.token_urlsafe(48) for name in ("nonce", "state", "verifier")}
        asked = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": back,
            "scope": "openid email profile",
            "state": kept["state"],
            "nonce": kept["nonce"],
            "code_challenge": create_s256_code_challenge(kept["verifier"]),
            "code_challenge_method": "S256",
        }
        try:
            address = self._metadata()["authorization_endpoint"]
        except BROKEN:
            raise NotSignedIn from None
        return str(add_params_to_uri(address, asked)), kept

    def finish(self, back: str, kept: Mapping[str, str], sent: Mapping[str, str]) -> str:
        """The name of who came back with a code, or NotSignedIn."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        state = sent.get("state", "").encode("utf-8", "replace")
        if not secrets.compare_digest(state, kept["state"].encode()) or "code" not in sent:
            raise NotSignedIn
        try:
            known = self._metadata()
            body = {
                "grant_type": "authorization_code",
                "code": sent["code"],
                "redirect_uri": back,
                "code_verifier": kept["verifier"],
            }
            reply = self._call(known["token_endpoint"], body)
            published: Any = self._call(known["jwks_uri"])
            keys = KeySet.import_key_set(published)
            token = jwt.decode(reply["id_token"], keys, algorithms=ALGORITHMS)
            claims = CodeIDToken(
                token.claims,
                token.header,
                {"iss": {"value": self.issuer}, "aud": {"value": self.client}},
                {"nonce": kept["nonce"], "client_id": self.client},
            )
            claims.validate(leeway=LEEWAY)
        except (JoseError, *BROKEN):
            raise NotSignedIn from None
        if self.claim == "email" and claims.get("email_verified") is not True:
            raise NotSignedIn
        return str(claims.get(self.claim) or "")

    def _metadata(self) -> dict[str, Any]:
        """The provider's addresses, asked for now and then: anybody can make us ask."""
        with self._asking:
            known, until = self._known.get("metadata", ({}, 0.0))
            if time.monotonic() >= until:
                known = self._call(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
                if known["issuer"] != self.issuer:
                    raise NotSignedIn
                self._known["metadata"] = known, time.monotonic() + REMEMBERED
            return known

    def _call(self, address: str, body: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A document of the provider; with a body as this client."""
        request = Request(address, None if body is None else urlencode(body).encode())
        if body is not None:
            pair = f"{quote(self.client, safe='')}:{quote(self.secret, safe='')}"
            request.add_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
        try:
            with _OPENER.open(request, timeout=SECONDS) as reply:
                return dict(json.loads(reply.read(LONGEST)))
        except HTTPError as error:
            error.close()
            raise NotSignedIn from None


class _NoRedirect(HTTPRedirectHandler):
    """The secret is for the provider only."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = build_opener(ProxyHandler({}), _NoRedirect)
