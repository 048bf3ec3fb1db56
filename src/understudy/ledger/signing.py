"""The key that signs heads (Ed25519), kept where neither the ledger nor its backups are.

Whoever can write to the database and to the file of heads can compute a whole other chain. Heads
that are signed cannot be made without the key, and anybody with its public half can check them
(threat 24).
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from understudy.errors import Refused
from understudy.ledger.chain import BrokenLedger, Head


class HeadKey:
    """The private key from a file, to which nobody else may have access."""

    def __init__(self, path: Path) -> None:
        _, serialization = _library()
        try:
            mode = path.stat().st_mode
            self._key = serialization.load_pem_private_key(path.read_bytes(), password=None)
            self.public = _raw(self._key.public_key())
        except (OSError, ValueError, TypeError, AttributeError):
            raise Refused(
                f"`{path.name}` is no private Ed25519 key; make one with `understudy ledger key`."
            ) from None
        if mode & 0o077:
            raise Refused(f"Others can read the key of heads `{path.name}`; give it mode 600.")

    def sign(self, head: Head) -> Head:
        signature = base64.b64encode(self._key.sign(_message(head))).decode()
        return Head(head.number, head.hash, signature)


def make_head_key(path: Path) -> str:
    """Write a new private key, of mode 600, and its public half beside it, `.pub`; the latter."""
    ed25519, serialization = _library()
    key = ed25519.Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = _raw(key.public_key())
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as opened:
            opened.write(pem)
        path.with_name(f"{path.name}.pub").write_text(f"{public}\n", encoding="ascii")
    except OSError as error:
        raise Refused(f"`{path.name}` cannot be written: {error.strerror}.") from None
    return public


def check_signature(head: Head, public: str) -> None:
    """Refuse a head that the holder of the key did not sign; without a key every one will do."""
    if not public:
        return
    ed25519, _ = _library()
    from cryptography.exceptions import InvalidSignature

    key = ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(public))
    try:
        key.verify(base64.b64decode(head.signature), _message(head))
    except InvalidSignature:
        raise BrokenLedger(
            f"The head of entry {head.number} is not signed with the ledger's key: the ledger or "
            "its heads were rewritten. Restore both from complete copies."
        ) from None


def _message(head: Head) -> bytes:
    return f"understudy ledger head {head.number} {head.hash}".encode()


def _raw(public: Any) -> str:
    return base64.b64encode(public.public_bytes_raw()).decode()


def _library() -> Any:
    """What of the library is used: keys and their files."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise Refused("Signed heads need the `server` extra: install understudy[server].") from None
    return ed25519, serialization
