"""The hash chain of ledger entries.

Every entry's hash covers the entry and the hash before it, so no past entry can be changed alone.
What belongs to an analyst (her question, her answer, her key's hash) is covered by a digest of its
own, with salt: an auditor who is shown the entry without it can still check the chain
(`Entry.shown`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from understudy.errors import Refused
from understudy.ledger.entry_kinds import KINDS

START = "0" * 64
SEALED = "sealed"  # in the body of an entry that is shown: the digest of what is not


class BrokenLedger(Refused):
    """The ledger is not what it was; nothing may be answered from it."""


@dataclass(frozen=True)
class Head:
    """The last entry; the signature is by the key of heads, where a ledger has one."""

    number: int
    hash: str
    signature: str = field(default="", compare=False)

    @property
    def line(self) -> str:
        return f"{self.number} {self.hash} {self.signature}".rstrip()


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `micro` is what it spends or grants, in millionths."""

    number: int
    at: str
    kind: str
    user: str | None
    dataset: str | None
    micro: int
    query: str | None
    refers: int | None
    body: str  # canonical JSON
    previous: str
    hash: str = ""

    def content(self) -> dict[str, Any]:
        value = json.loads(self.body)
        return value if isinstance(value, dict) else {}

    @property
    def begins_seals(self) -> bool:
        """Whether what belongs to analysts has a digest of its own from this entry on."""
        return self.kind in ("open", "version") and bool(self.content().get("seals"))

    @property
    def is_shown(self) -> bool:
        """Whether parts of it are not here."""
        return self.body.startswith(f'{{"{SEALED}":') or f',"{SEALED}":"' in self.body

    def shown(self) -> Entry:
        """Without what belongs to an analyst alone; its digest stands in the place."""
        kind = KINDS.get(self.kind)
        if kind is None or not kind.private or self.is_shown:
            return self
        content = self.content()
        hidden = {name: content.pop(name) for name in list(content) if kind.hides(name)}
        salted = (
            "salt" in hidden
        )  # without it, of an earlier version, it could be guessed and tried
        content[SEALED] = _sha256(canonical([self.query, hidden])) if salted else ""
        return replace(self, query=None, body=canonical(content))

    def digest(self, sealed: bool = True) -> str:
        """What `hash` must be; ledgers that do not seal hash the entry as it is."""
        e = self.shown() if sealed else self
        fields = [e.number, e.at, e.kind, e.user, e.dataset, e.micro, e.query, e.refers, e.body]
        return _sha256(json.dumps([*fields, e.previous], separators=(",", ":")))

    def after(self, head: Head) -> Head:
        """The head with this entry, or BrokenLedger. Only what was written off may be missing."""
        number = head.number
        if self.kind == "recover":
            number = self.content()["lost"]
        if self.number != number + 1 or self.previous != head.hash or number < head.number:
            raise changed(head.number + 1)
        return Head(self.number, self.hash)


def changed(number: int) -> BrokenLedger:
    return BrokenLedger(
        f"Ledger entry {number} is missing or was changed; restore the ledger from a complete copy "
        "before serving."
    )


def canonical(value: Mapping[str, Any] | list[Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
