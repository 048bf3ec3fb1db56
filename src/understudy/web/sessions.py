"""Sessions of the pages: a signed cookie, and a token in every form.

The cookie says who signed in, with which key, and until when; its HMAC is made with a secret
that lives as long as the server. A session ends when the key is replaced or the user is shut
out. Forms carry a second HMAC over the session: another site can send a request, but it
cannot know the token (and SameSite=Strict keeps the cookie from it anyway).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass

from understudy.ledger.accounts import User, authenticate
from understudy.ledger.ledger import Ledger

COOKIE = "understudy_session"


@dataclass(frozen=True)
class Session:
    user: User
    csrf: str


class Sessions:
    """Makes and reads session cookies."""

    def __init__(self, ledger: Ledger, minutes: float = 60.0) -> None:
        self._ledger = ledger
        self._secret = secrets.token_bytes(32)
        self.seconds = int(minutes * 60)

    def sign_in(self, key: str) -> str:
        """A cookie for the holder of the key, or WrongKey."""
        user = authenticate(self._ledger, key)
        claims = {
            "name": user.name,
            "key": key.split("_")[1],  # the public half of the key
            "until": int(time.time()) + self.seconds,
            "nonce": secrets.token_hex(8),
        }
        body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
        return f"{body}.{self._mac('session', body)}"

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie that is ours, not over, and of a key still in use."""
        body, dot, mac = (cookie or "").partition(".")
        if not dot or not hmac.compare_digest(self._mac("session", body), _ascii(mac)):
            return None
        try:
            claims = json.loads(base64.urlsafe_b64decode(body))
        except (ValueError, binascii.Error):
            return None
        if time.time() >= claims["until"]:
            return None
        with self._ledger.journal.database.reading() as run:
            rows = run(
                "SELECT name, role FROM users WHERE name = ? AND key_id = ? AND active = 1",
                claims["name"],
                claims["key"],
            )
        if not rows:
            return None
        return Session(User(*rows[0]), self._mac("form", body))

    def _mac(self, purpose: str, body: str) -> str:
        message = f"{purpose}:{body}".encode("utf-8", "replace")
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()


def same_token(given: str | None, session: Session) -> bool:
    return hmac.compare_digest(_ascii(given or ""), session.csrf)


def _ascii(text: str) -> str:
    # compare_digest refuses other characters.
    return text if text.isascii() else ""
