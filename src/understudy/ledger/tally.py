"""What follows from the entries of a ledger: users, budgets, standings, who signs (threat 24).

A tally follows all entries, or begins at a checkpoint: an entry that says what had been spent until
then. All entries that govern (users, keys, grants, files, caps) are followed in either case, and
the checkpoint names a digest of them; only payments and answers before it are not read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from understudy.ledger.amounts import Amount, Budget, Cap, Standing
from understudy.ledger.chain import START, Entry, Head, changed
from understudy.ledger.entry_kinds import GOVERNING, SPENDING, TYING
from understudy.ledger.ties import Ties


class UserRow(NamedTuple):
    """What the table of users holds beside the name."""

    role: str
    key_id: str
    key_hash: str
    active: int = 1

    def after(self, entry: Entry) -> UserRow:
        """The account after an entry about it."""
        content = entry.content()
        changed = {name: content[name] for name in ("key_id", "key_hash") if name in content}
        active = {"enable": 1, "disable": 0}.get(entry.kind, self.active)
        return self._replace(active=active, **changed)


class Tally:
    """Follows entries in their order; `head` is the last one."""

    def __init__(self) -> None:
        self.head = Head(0, START)
        self.users: dict[str, UserRow] = {}
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.standings: dict[str, Standing] = {}
        self.version = 1
        self.sealed = False  # whether what belongs to analysts has a digest of its own
        self.signers: dict[int, str] = {}  # public keys by the entry from which each signs
        self.lost: list[range] = []  # numbers that were written off
        self.checkpoint = 0
        self.unseen = 0  # entries of earlier versions whose hashes were not recomputed
        self.governing = START
        self._ties = Ties()

    @classmethod
    def at(cls, checkpoint: Entry, governing: Iterable[Entry]) -> Tally:
        """As a checkpoint has it; `governing` are the entries of such kinds before it."""
        tally, content = cls(), checkpoint.content()
        if checkpoint.digest() != checkpoint.hash:
            raise changed(checkpoint.number)
        for entry in governing:
            tally._apply(entry)
        if tally.governing != content["governing"]:
            raise changed(checkpoint.number)
        for kind, name, spent in content["users"]:
            tally._add((kind, name), 0, spent)
        for name, *spent in content["populations"]:
            tally._spend(name, Amount(*spent))
        tally.head = Head(checkpoint.number - 1, checkpoint.previous)
        return tally

    def as_checkpoint(self) -> dict[str, Any]:
        """What a checkpoint says after the entries so far."""
        users = [[*key, budget.spent] for key, budget in self.budgets.items() if budget.spent]
        spent = {name: standing.spent for name, standing in self.standings.items()}
        return {
            "governing": self.governing,
            "users": sorted(users),
            "populations": sorted(
                [name, s.micro, s.nano, s.atto, s.concentrated]
                for name, s in spent.items()
                if s != Amount()
            ),
        }

    @property
    def signer(self) -> str:
        """The public key that signs now; empty where none does."""
        return self.signer_at(self.head.number)

    def signer_at(self, number: int) -> str:
        return next((key for at, key in reversed(self.signers.items()) if at <= number), "")

    def follow(self, entry: Entry, shown: bool = False) -> None:
        """The next entry, checked against the chain; `shown` to an auditor, it may lack parts, and
        hashes of an earlier version."""
        before = self.head
        if shown and not self.sealed and "" in (entry.hash, before.hash):
            before = Head(before.number, entry.previous)
        head = entry.after(before)
        self._apply(entry, shown)
        self.head = head

    def _apply(self, entry: Entry, shown: bool = False) -> None:
        if entry.kind in ("open", "version"):
            content = entry.content()
            self.version = content.get("version", self.version)
            self.sealed = self.sealed or entry.begins_seals
        # what an earlier version had hashed whole cannot be recomputed from what is shown
        unseen = shown and not self.sealed and (entry.is_shown or not entry.hash)
        self.unseen += unseen
        if (entry.is_shown and not shown) or (
            not unseen and entry.digest(self.sealed) != entry.hash
        ):
            raise changed(entry.number)
        if entry.kind in GOVERNING:
            self.governing = hashlib.sha256(f"{self.governing}{entry.hash}".encode()).hexdigest()
            self._govern(entry)
        if entry.dataset is not None:
            self._follow_population(entry, entry.dataset)
        if entry.kind == "checkpoint":
            self.checkpoint = entry.number
            known = {"governing": entry.content().get("governing")} if self.unseen else {}
            if entry.content() != self.as_checkpoint() | known:
                raise changed(entry.number)

    def _govern(self, entry: Entry) -> None:
        content = entry.content()
        if entry.kind == "grant" and entry.user:
            holder = "user" if entry.dataset is None else self._ties.of(entry.dataset)
            self._add((holder, entry.user), entry.micro, 0)
        if entry.kind == "user" and entry.user:
            self.users[entry.user] = UserRow(
                content["role"],
                content.get("key_id", ""),
                content.get("key_hash", ""),
                content.get("active", 1),
            )
        elif entry.user in self.users:
            self.users[entry.user] = self.users[entry.user].after(entry)
        if entry.kind == "signer":
            self.signers[entry.number] = content["public"]
        if entry.kind == "recover":
            self.lost.append(range(content["after"] + 1, entry.number))

    def _follow_population(self, entry: Entry, file: str) -> None:
        if entry.kind == "merge":
            kept, gone = self._ties.of(entry.content()["into"]), self._ties.of(file)
            self.standings[kept] = self.standings[kept].merged(self.standings.pop(gone))
            for holder, user in [each for each in self.budgets if each[0] == gone]:
                moved = self.budgets.pop((holder, user))
                self._add((kept, user), moved.allowed, moved.spent)
        if entry.kind in TYING:
            self._ties.follow(entry.kind, file, entry.content())
        name = self._ties.of(file)
        if entry.kind in ("dataset", "cap"):
            before = self.standings.get(name, Standing())
            self.standings[name] = Standing(cap_after(before.cap, entry), before.spent)
        if entry.kind in SPENDING:
            self._spend(name, amount_of(entry))
            if entry.user is not None:
                own = (name, entry.user) in self.budgets
                self._add((name if own else "user", entry.user), 0, entry.micro)

    def _spend(self, name: str, amount: Amount) -> None:
        before = self.standings.get(name, Standing())
        self.standings[name] = Standing(before.cap, before.spent + amount)

    def _add(self, key: tuple[str, str], allowed: int, spent: int) -> None:
        old = self.budgets.get(key, Budget())
        self.budgets[key] = Budget(old.allowed + allowed, old.spent + spent)


def cap_after(cap: Cap, entry: Entry) -> Cap:
    """The cap after an entry that states or raises it."""
    content = entry.content()
    return Cap(
        cap.micro + entry.micro,
        content.get("delta", cap.atto),
        content.get("own_delta", cap.own),
        content.get("rho", cap.nano),
    )


def amount_of(entry: Entry) -> Amount:
    """What an entry spends; those of 0.1.0 are pure epsilons."""
    content = entry.content()
    pure = Amount.pure(entry.micro)
    return Amount(
        entry.micro,
        content.get("rho", pure.nano),
        content.get("delta", 0),
        content.get("concentrated", False),
    )
