"""Sessions of the pages: a signed cookie, and a token in every form.

The cookie says who signed in and with which key; it is signed and dated by itsdangerous with a
secret that lives as long as the server. A session ends when its time is over, the key is
replaced, or the user is shut out. Forms carry a second signature over the session: another site
can send a request, but it cannot know the token (and SameSite=Strict keeps the cookie from it
anyway).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from itsdangerous import BadData, Signer, URLSafeTimedSerializer

from understudy.ledger.accounts import User, authenticate
from understudy.ledger.ledger import Ledger

COOKIE = "understudy_session"

_SHA256: dict[str, Any] = {"digest_method": hashlib.sha256}


@dataclass(frozen=True)
class Session:
    user: User
    csrf: str


class Sessions:
    """Makes and reads session cookies."""

    def __init__(self, ledger: Ledger, minutes: float = 60.0) -> None:
        secret = secrets.token_bytes(32)
        self._ledger = ledger
        self._cookies = URLSafeTimedSerializer(secret, salt="session", signer_kwargs=_SHA256)
        self._forms = Signer(secret, salt="form", **_SHA256)
        self.seconds = int(minutes * 60)

    def sign_in(self, key: str) -> str:
        """A cookie for the holder of the key, or WrongKey."""
        user = authenticate(self._ledger, key)
        # Of the key its public half; the nonce makes every session's cookie its own.
        return str(self._cookies.dumps([user.name, key.split("_")[1], secrets.token_hex(8)]))

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie that is ours, not over, and of a key still in use."""
        try:
            name, key, _ = self._cookies.loads(cookie or "", max_age=self.seconds)
        except BadData:  # forged, or its time is over
            return None
        with self._ledger.journal.database.reading() as run:
            rows = run(
                "SELECT name, role FROM users WHERE name = ? AND key_id = ? AND active = 1",
                name,
                key,
            )
        if not rows:
            return None
        return Session(User(*rows[0]), self._forms.get_signature(cookie or "").decode())


def same_token(sent: str | None, session: Session) -> bool:
    return secrets.compare_digest((sent or "").encode("utf-8", "replace"), session.csrf.encode())
