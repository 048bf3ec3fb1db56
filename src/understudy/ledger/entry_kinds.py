"""What an entry of the ledger can say: each kind once, with all that others need to know of it."""

from __future__ import annotations

from dataclasses import dataclass

EVERYTHING = ("*",)
KEY = ("key_hash", "key_id", "salt")


@dataclass(frozen=True)
class EntryKind:
    """`words` are the steward's; `ties` says which file belongs to which population; `spends`
    takes from a budget; `private` are the parts that auditors do not see; `routine` are the many,
    which are not read again when a ledger opens."""

    name: str
    words: str
    ties: bool = False
    spends: bool = False
    private: tuple[str, ...] = ()
    routine: bool = False

    def hides(self, part: str) -> bool:
        return self.private == EVERYTHING or part in self.private


KINDS = {
    kind.name: kind
    for kind in (
        EntryKind("open", "ledger opened"),
        EntryKind("user", "user added", private=KEY),
        EntryKind("key", "new key", private=KEY),
        EntryKind("own-key", "new key by its owner", private=KEY),
        EntryKind("code", "key to be picked up", private=KEY),
        EntryKind("pick-up", "key picked up", private=KEY),
        EntryKind("enable", "user let in again"),
        EntryKind("disable", "user shut out"),
        EntryKind("grant", "grant"),
        EntryKind("project", "project opened"),
        EntryKind("request", "budget asked for"),
        EntryKind("approve", "request approved"),
        EntryKind("decline", "request declined"),
        EntryKind("dataset", "data set added", ties=True),
        EntryKind("cap", "cap raised"),
        EntryKind("same", "data set known by today's fingerprint", ties=True),
        EntryKind("successor", "corrected file", ties=True),
        EntryKind("merge", "populations merged", ties=True),
        EntryKind("version", "ledger brought to this version"),
        EntryKind("signer", "heads signed from here on"),
        EntryKind("recover", "lost entries written off"),
        EntryKind("reserve", "question paid", spends=True, private=("query", "salt"), routine=True),
        EntryKind("release", "answered", private=EVERYTHING, routine=True),
        EntryKind("fail", "no answer", routine=True),
        EntryKind("spend", "spent outside", spends=True, routine=True),
        EntryKind("write-off", "written off", spends=True, routine=True),
        EntryKind("envelope", "released", routine=True),
        EntryKind("checkpoint", "checkpoint", routine=True),
    )
}
SPENDING = tuple(kind.name for kind in KINDS.values() if kind.spends)
TYING = tuple(kind.name for kind in KINDS.values() if kind.ties)
GOVERNING = tuple(kind.name for kind in KINDS.values() if not kind.routine)
