"""What an entry of the ledger can say: each kind once, with all that others need to know of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EntryKind:
    """`words` are the steward's; `ties` says which file belongs to which population; `spends`
    takes from a budget."""

    name: str
    words: str
    ties: bool = False
    spends: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        EntryKind("open", "ledger opened"),
        EntryKind("user", "user added"),
        EntryKind("key", "new key"),
        EntryKind("enable", "user let in again"),
        EntryKind("disable", "user shut out"),
        EntryKind("grant", "grant"),
        EntryKind("dataset", "data set added", ties=True),
        EntryKind("cap", "cap raised"),
        EntryKind("same", "data set known by today's fingerprint", ties=True),
        EntryKind("successor", "corrected file", ties=True),
        EntryKind("merge", "populations merged", ties=True),
        EntryKind("version", "ledger brought to this version"),
        EntryKind("reserve", "question paid", spends=True),
        EntryKind("release", "answered"),
        EntryKind("fail", "no answer"),
        EntryKind("spend", "spent outside", spends=True),
        EntryKind("envelope", "released"),
    )
}
SPENDING = tuple(kind.name for kind in KINDS.values() if kind.spends)
TYING = tuple(kind.name for kind in KINDS.values() if kind.ties)
