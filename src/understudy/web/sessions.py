"""Sessions of the pages: a signed cookie, and a token in every form.

The cookie says who signed in and with which key; it is signed and dated by itsdangerous with a
secret that lives as long as the server, which also knows the sessions that are open. A session ends
when its user signs out, its time is over, the key is replaced, or the user is shut out
(threat 26). Forms carry a second signature over the session: another site
can send a request, but it cannot know the token (and SameSite=Strict keeps the cookie from it
anyway).
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from itsdangerous import BadData, Signer, URLSafeTimedSerializer

from understudy.ledger.accounts import User, WrongKey, authenticate, list_users
from understudy.ledger.ledger import Ledger

COOKIE = "understudy_session"
VOUCHED = "provider"  # in the place of a key
SESSIONS = 10  # of a user; a further sign-in ends the oldest

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
        self.notes = URLSafeTimedSerializer(secret, salt="note", signer_kwargs=_SHA256)
        self._forms = Signer(secret, salt="form", **_SHA256)
        self._open: OrderedDict[str, str] = OrderedDict()  # nonce -> user, oldest first
        self._lock = threading.Lock()
        self.seconds = int(minutes * 60)

    def sign_in(self, key: str) -> str:
        """A cookie for the holder of the key, or WrongKey."""
        user = authenticate(self._ledger, key)
        return self._begin(user.name, key.split("_")[1])  # of the key its public half

    def sign_in_as(self, name: str) -> str:
        """A cookie for an active user whom a provider vouches for, or WrongKey."""
        users = {user.name: user for user in list_users(self._ledger)}
        if name not in users or not users[name].active:
            raise WrongKey
        return self._begin(name, VOUCHED)

    def _begin(self, name: str, key: str) -> str:
        nonce = secrets.token_hex(8)
        with self._lock:
            self._open[nonce] = name
            own = [each for each, holder in self._open.items() if holder == name]
            for oldest in own[:-SESSIONS]:
                del self._open[oldest]
        return str(self._cookies.dumps([name, key, nonce]))

    def sign_out(self, cookie: str | None) -> None:
        """End the cookie's session, wherever a copy of it may be."""
        with suppress(BadData):
            self._open.pop(self._cookies.loads(cookie or "")[2], None)

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie that is ours, not over, and of a key still in use."""
        try:
            name, key, nonce = self._cookies.loads(cookie or "", max_age=self.seconds)
        except BadData:  # forged, or its time is over
            return None
        if nonce not in self._open:
            return None
        with self._ledger.journal.database.reading() as run:
            rows = run(
                "SELECT name, role FROM users WHERE name = ? AND active = 1 AND "
                f"(key_id = ? OR ? = '{VOUCHED}')",
                *(name, key, key),
            )
        if not rows:
            return None
        return Session(User(*rows[0]), self._forms.get_signature(cookie or "").decode())


def same_token(sent: str | None, session: Session) -> bool:
    return secrets.compare_digest((sent or "").encode("utf-8", "replace"), session.csrf.encode())
