"""Sessions of the pages: a random cookie, and a token in every form.

Who signed in, with which key and until when is kept beside the ledger, by the cookie's hash, so
that every server process knows the sessions that are open. A session ends when its user signs out,
its time is over, the key is replaced, or the user is shut out (threat 26). Forms carry a hash of
the cookie: another site can send a request, but it cannot know the token (and SameSite=Strict keeps
the cookie from it anyway).
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from itsdangerous import URLSafeTimedSerializer

from understudy.ledger.accounts import User, authenticate, only_own_key
from understudy.ledger.ledger import Ledger
from understudy.verify.shared_state import SharedState

COOKIE = "understudy_session"
SESSIONS = 10  # of a user; a further sign-in ends the oldest
TABLES = (
    "CREATE TABLE IF NOT EXISTS sessions (cookie TEXT PRIMARY KEY, holder TEXT NOT NULL, "
    "key_id TEXT NOT NULL, until DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS note_secret (one INTEGER PRIMARY KEY, secret TEXT NOT NULL)",
)


@dataclass(frozen=True)
class Session:
    user: User
    csrf: str


class Sessions:
    """Makes and reads session cookies."""

    def __init__(
        self,
        ledger: Ledger,
        shared: SharedState,
        minutes: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ledger, self._shared, self._clock = ledger, shared, clock
        self.seconds = int(minutes * 60)
        shared.create(TABLES)
        with shared.transaction() as run:
            new = "INSERT INTO note_secret VALUES (1, ?) ON CONFLICT DO NOTHING"
            run(new, secrets.token_hex(32))
            secret = run("SELECT secret FROM note_secret")[0][0]
        # what a browser keeps for us on its way to a provider and back
        signed = {"digest_method": hashlib.sha256}
        self.notes = URLSafeTimedSerializer(secret, salt="note", signer_kwargs=signed)

    def sign_in(self, key: str) -> str:
        """A cookie for the holder of the key, or WrongKey."""
        user = authenticate(self._ledger, key)
        return self._begin(user.name, key.split("_")[1])  # of the key its public half

    def sign_in_as(self, name: str) -> str:
        """A cookie for an active user whom a provider vouches for, or WrongKey."""
        return self._begin(name, only_own_key(self._ledger, name))

    def _begin(self, name: str, key: str) -> str:
        cookie, now = secrets.token_urlsafe(32), self._clock()
        row = _hash("cookie", cookie), name, key, now + self.seconds
        with self._shared.transaction() as run:
            run("INSERT INTO sessions VALUES (?, ?, ?, ?)", *row)
            run("DELETE FROM sessions WHERE until < ?", now)
            newest = "SELECT cookie FROM sessions WHERE holder = ? ORDER BY until DESC LIMIT ?"
            run(
                f"DELETE FROM sessions WHERE holder = ? AND cookie NOT IN ({newest})",
                *(name, name, SESSIONS),
            )
        return cookie

    def sign_out(self, cookie: str | None) -> None:
        """End the cookie's session, wherever a copy of it may be."""
        with self._shared.transaction() as run:
            run("DELETE FROM sessions WHERE cookie = ?", _hash("cookie", cookie))

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie that is ours, not over, and of a key still in use."""
        kept = "SELECT holder, key_id FROM sessions WHERE cookie = ? AND until >= ?"
        with self._shared.reading() as run:
            known = run(kept, _hash("cookie", cookie), self._clock())
        if not known:
            return None
        name, key = known[0]
        with self._ledger.journal.database.reading() as run:
            rows = run(
                "SELECT name, role FROM users WHERE name = ? AND active = 1 AND key_id = ?",
                *(name, key),
            )
        return Session(User(*rows[0]), _hash("form", cookie)) if rows else None


def _hash(what: str, cookie: str | None) -> str:
    return hashlib.sha256(f"{what} {cookie}".encode("utf-8", "replace")).hexdigest()


def same_token(sent: str | None, session: Session) -> bool:
    return secrets.compare_digest((sent or "").encode("utf-8", "replace"), session.csrf.encode())
