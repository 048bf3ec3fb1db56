"""Users and their API keys.

A key is `us_<id>_<secret>`: the id finds the user, the secret is 256 random bits. Only the
secret's SHA-256 is stored (it has too much entropy for guessing, so no slow hash is needed)
and it is compared in constant time, for an unknown id as well (threat 16).

A steward never holds another's key: she hands out a code, with which its owner picks up the key,
once. A code that somebody else used first is noticed, and opens no answers from before: those
belong to the earlier key (threat 27).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from understudy.errors import Refused, UnknownName
from understudy.ledger.database import Run
from understudy.ledger.ledger import Ledger

UserRole = Literal["analyst", "steward", "auditor", "operator"]
CODE_DAYS = 14  # in which a key must be picked up

_KEYS = "'user', 'key', 'code', 'pick-up', 'own-key'"  # entries that change a key
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_KEY = re.compile(r"us_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_CODE = re.compile(r"code_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)


class WrongKey(Refused):
    """No user has this key; the message never says what was wrong with it."""

    def __init__(self) -> None:
        super().__init__("This key is not known; check it, or ask the steward for a new one.")


class WrongCode(WrongKey):
    """The code is not known, was used, or is too old."""

    def __init__(self) -> None:
        Refused.__init__(
            self,
            "This code is not known, too old, or was used already. If you did not use it, tell the "
            "steward: somebody else has your key.",
        )


@dataclass(frozen=True)
class User:
    name: str
    role: UserRole
    active: bool = True


def add_user(
    ledger: Ledger,
    name: str,
    role: str = "analyst",
    by: str = "",
    *,
    code: bool = False,
    active: bool = True,
) -> str:
    """Add a user; the key, which is shown only once and stored nowhere, or the `code` for it."""
    if not _NAME.fullmatch(name):
        raise Refused("A user name has up to 64 letters, digits, dots, dashes, underscores or @.")
    if role not in get_args(UserRole):
        raise UnknownName("role", role, get_args(UserRole))
    with ledger.journal.write() as run:
        if run("SELECT 1 FROM users WHERE name = ?", name):
            raise Refused(f"There is a user `{name}` already; choose another name.")
        key_id, key_hash, key = _new_code(ledger) if code else _new_key()
        body: dict[str, Any] = {"by": by, "key_hash": key_hash, "key_id": key_id, "role": role}
        if not active:
            body["active"] = 0
        ledger.journal.append(run, "user", holder=name, body=body)
        insert = "INSERT INTO users VALUES (?, ?, ?, ?, ?)"
        run(insert, name, role, key_id, key_hash, int(active))
    return key


def new_key(ledger: Ledger, name: str, by: str = "", *, code: bool = False) -> str:
    """Replace a user's key, or hand out a `code` for one; the old one stops working.

    Budgets stay as they are; answers from before are shown to nobody, unless the owner herself
    replaced it (`by` is her own name).
    """
    with ledger.journal.write() as run:
        _require(run("SELECT name FROM users"), name)
        made = _new_code(ledger) if code else _new_key()
        kind = "code" if code else "own-key" if by == name else "key"
        _replace_key(ledger, run, name, kind, made, by)
    return made[2]


def pick_up(ledger: Ledger, code: str) -> tuple[str, str]:
    """The user whose key waits under this code, and the key; this once."""
    with ledger.journal.database.reading() as run:
        _waits_for(ledger, run, code)  # guesses hold up nobody who writes
    with ledger.journal.write() as run:
        name, made = _waits_for(ledger, run, code), _new_key()
        _replace_key(ledger, run, name, "pick-up", made, name)
    return name, made[2]


def only_own_key(ledger: Ledger, name: str) -> str:
    """The public half of the user's key, which ends unless she made it herself, or WrongKey.

    For whoever signs in by a provider: she would not miss a key that somebody else picked up with
    her code, and that one could read her answers (threat 27).
    """
    with ledger.journal.write() as run:
        known = run("SELECT key_id FROM users WHERE name = ? AND active = 1", name)
        if not known:
            raise WrongKey
        last = f"SELECT kind FROM entries WHERE holder = ? AND kind IN ({_KEYS}) ORDER BY number"
        if run(last, name)[-1:] == [("own-key",)]:
            return str(known[0][0])
        made = _new_key()
        _replace_key(ledger, run, name, "own-key", made, name)
    return made[0]


def set_active(ledger: Ledger, name: str, active: bool, by: str = "") -> None:
    """Shut a user out, or let them in again; what they spent stays spent."""
    with ledger.journal.write() as run:
        _require(run("SELECT name FROM users"), name)
        kind = "enable" if active else "disable"
        ledger.journal.append(run, kind, holder=name, body={"by": by})
        run("UPDATE users SET active = ? WHERE name = ?", int(active), name)


def authenticate(ledger: Ledger, key: str) -> User:
    """The active user who holds the key, or WrongKey."""
    with ledger.journal.database.reading() as run:
        return holder_of(run, key)


def holder_of(run: Run, key: str) -> User:
    match = _KEY.fullmatch(key) if isinstance(key, str) else None
    key_id, secret = match.groups() if match else ("", "")
    rows = run("SELECT name, role, key_hash, active FROM users WHERE key_id = ?", key_id)
    name, role, key_hash, active = rows[0] if rows else ("", "analyst", "0" * 64, 0)
    same = hmac.compare_digest(_hash(secret), key_hash)
    if not (same and active and rows):
        raise WrongKey
    return User(name, role, True)


def list_users(ledger: Ledger) -> list[User]:
    with ledger.journal.database.reading() as run:
        rows = run("SELECT name, role, active FROM users ORDER BY name")
    return [User(name, role, bool(active)) for name, role, active in rows]


def added_by(ledger: Ledger, name: str) -> str:
    """Who added the user."""
    with ledger.journal.database.reading() as run:
        rows = run("SELECT body FROM entries WHERE kind = 'user' AND holder = ?", name)
    return str(json.loads(rows[0][0])["by"]) if rows else ""


def _waits_for(ledger: Ledger, run: Run, code: str) -> str:
    """Whose key waits under the code, or WrongCode."""
    match = _CODE.fullmatch(code) if isinstance(code, str) else None
    code_id, secret = match.groups() if match else ("", "")
    rows = run("SELECT name, key_hash FROM users WHERE key_id = ?", code_id)
    name, stored = rows[0] if rows else ("", "")
    until, _, digest = stored.partition(" ")
    same = hmac.compare_digest(_hash(secret), digest)
    if not same or ledger.journal.clock() > datetime.fromisoformat(until):
        raise WrongCode
    return str(name)


def _replace_key(
    ledger: Ledger, run: Run, name: str, kind: str, made: tuple[str, str, str], by: str
) -> None:
    key_id, key_hash, _ = made
    body = {"by": by, "key_hash": key_hash, "key_id": key_id}
    ledger.journal.append(run, kind, holder=name, body=body)
    run("UPDATE users SET key_id = ?, key_hash = ? WHERE name = ?", key_id, key_hash, name)


def _new_code(ledger: Ledger) -> tuple[str, str, str]:
    """Like a key whose hash no key has: with the day until which it can be used."""
    code_id, digest, key = _new_key()
    until = ledger.journal.clock() + timedelta(days=CODE_DAYS)
    return code_id, f"{until.isoformat()} {digest}", key.replace("us_", "code_", 1)


def _new_key() -> tuple[str, str, str]:
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    return key_id, _hash(secret), f"us_{key_id}_{secret}"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _require(rows: list[tuple[str, ...]], name: str) -> None:
    names = [row[0] for row in rows]
    if name not in names:
        raise UnknownName("user", name, names)
