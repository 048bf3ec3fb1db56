"""The ledger: who spent how much epsilon on which data, append-only and exact.

Spend first, compute later. `reserve` checks the user's budget and the data set's cap and
writes the entry in one transaction, before any record is read; `release` stores the answer
beside it. Nothing is ever refunded: a reservation without an answer stays spent, because a
crash between noise and reply must not make an answer free (threats 1, 2). The same question
of the same user gets the stored answer, free (threat 13). One ledger serves verifications,
releases and tables: the cap belongs to the population whose files they read (threats 15, 19).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

from understudy.dp.accounting import Cost
from understudy.errors import Refused
from understudy.ledger.amounts import Amount, Budget, OverBudget, Standing
from understudy.ledger.chain import BrokenLedger, Entry
from understudy.ledger.database import Run
from understudy.ledger.epsilon import exact_epsilon, parse_epsilon, show_epsilon
from understudy.ledger.fingerprint import FileIdentity
from understudy.ledger.grants import (
    EVERYWHERE,
    OwnAccount,
    grant,
    own_account,
    promised,
    read_budget,
)
from understudy.ledger.journal import Clock, Journal, read_standing, write_standing
from understudy.ledger.own_answers import ALL, entry_number, own_number, since
from understudy.ledger.populations import (
    Declaration,
    Population,
    admit,
    merge,
    populations,
    raise_cap,
    separate,
    succeed,
)
from understudy.ledger.ties import read_ties

Holder = Literal["user", "dataset"]


class StillAnswering(Refused):
    """The same question is being answered; ask again when its reply is due."""


class AlreadyAnswered(Refused):
    """A reservation has one answer, or fails, once."""


class ShutOut(Refused):
    """The account was closed after the question was sent; nothing was spent."""

    def __init__(self) -> None:
        super().__init__("Your account was shut out, and nothing was spent; ask the steward.")


@dataclass(frozen=True)
class Reservation:
    """Epsilon that is spent; only its holder may look at the data."""

    number: int
    at: datetime
    user: str
    dataset: str
    micro: int
    own: int = 0  # how many the user has paid for, this one included


@dataclass(frozen=True)
class Charged:
    """What a population was charged, and what its entry says about it."""

    amount: Amount
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that was paid for. `number` counts the user's own payments, since numbers of the
    whole ledger would tell how much others ask (threat 28); `at` is the reservation's: when the
    computation ended is nobody's business."""

    number: int
    at: datetime
    question: Mapping[str, Any]
    body: Mapping[str, Any]


class Question(Protocol):
    """What can be paid for: a price, and a text that is the same for the same question."""

    @property
    def micro(self) -> int: ...
    def digest(self) -> str: ...
    def canonical(self) -> str: ...


class Ledger:
    """Open a ledger, checking it whole.

    `place` is a file (SQLite) or a postgresql:// URL. `head` is the file outside the
    database that keeps the chain's head; best on another disk than the database and its
    backups. For SQLite it defaults to the database's name with `.head`. `witnesses` are further
    places of heads (files, postgresql:// or https:// addresses), `head_key` the file of the key
    that signs them.
    """

    def __init__(
        self,
        place: str | Path,
        head: str | Path | None = None,
        witnesses: Sequence[str | Path] = (),
        head_key: str | Path | None = None,
        *,
        clock: Clock | None = None,
        **opening: Any,
    ) -> None:
        self.journal = Journal(place, head, clock, witnesses, head_key, **opening)

    def reserve(
        self,
        user: str,
        dataset: str,
        query: Question,
        hold_seconds: float = 0.0,
        cost: Cost | None = None,
    ) -> Reservation | StoredAnswer:
        """Spend the query's epsilon, or return the answer that was already paid for.

        `dataset` is the fingerprint of the file; its population is charged `cost` (by default the
        epsilon under `replace` for one record) in its own unit and relation. `hold_seconds` is the
        reply slot. Until it has passed, the same question is refused and its answer is shown to
        nobody, whenever the computation ended, so that the time of the release cannot be probed by
        asking again (threat 7). However long it takes, the same question is refused until it is
        answered or failed (threat 23).
        """
        with self.journal.write() as run:
            now = self.journal.clock()
            stored = _stored(run, now, user, dataset, query.digest())
            if stored is not None:
                return stored
            if run("SELECT 1 FROM users WHERE name = ? AND active = 0", user):
                raise ShutOut  # while the question waited for its turn (threat 26)
            charged = self._spend(run, [cost or _plain(query)], dataset, user)
            number = self.journal.append(
                run,
                "reserve",
                at=now,
                holder=user,
                dataset=dataset,
                micro=charged.amount.micro,
                question=query.digest(),
                body={
                    **charged.facts,
                    "hold_seconds": hold_seconds,
                    "query": json.loads(query.canonical()),
                },
            )
            own = own_number(run, user, number)
        return Reservation(number, now, user, dataset, charged.amount.micro, own)

    def look_up(
        self, user: str, dataset: str, query: Question, cost: Cost | None = None
    ) -> StoredAnswer | None:
        """What `reserve` would do, without spending: the answer that was paid for, a refusal, or
        None where it would spend."""
        with self.journal.database.reading() as run:
            stored = _stored(run, self.journal.clock(), user, dataset, query.digest())
            if stored is None:
                self._affordable(run, [cost or _plain(query)], dataset, user)
            return stored

    def release(self, reservation: Reservation, answer: Mapping[str, Any]) -> None:
        """Store the answer of a reservation, once."""
        self._finish(reservation, "release", answer)

    def fail(self, reservation: Reservation) -> None:
        """Note that no answer came; the epsilon stays spent, and no reason is kept."""
        self._finish(reservation, "fail", {})

    def record_spending(
        self,
        dataset: str,
        costs: str | Sequence[Cost],
        what: str,
        reference: str | None = None,
    ) -> int:
        """Spend on the data set outside a verification (a release, a table); the entry.

        `costs` are those of its parts, or an epsilon in the population's own unit and relation. The
        same `reference` is charged once, so that a resumed command does not pay twice.
        """
        with self.journal.write() as run:
            population = _population(run, dataset)
            if isinstance(costs, str):
                epsilon = exact_epsilon(parse_epsilon(costs))
                costs = [Cost((population.relation,), epsilon, unit=population.unit)]
            amount = population.amount(costs)
            known = run(
                "SELECT number, micro, dataset, body FROM entries "
                "WHERE kind = 'spend' AND question = ?",
                reference,
            )
            if known:
                number, micro, file, body = known[0]
                old, new = json.loads(body), _facts(amount, population)
                same = all(old.get(fact) == new.get(fact) for fact in ("rho", "delta"))
                ties = read_ties(run)
                if same and micro == amount.micro and ties.of(file) == ties.of(dataset):
                    return int(number)
                raise Refused(
                    f"The reference `{reference}` is in the ledger with a different amount or data "
                    "set; choose a new one."
                )
            charged = self._spend(run, costs, dataset, None)
            return self.journal.append(
                run,
                "spend",
                dataset=dataset,
                micro=amount.micro,
                question=reference,
                body={**charged.facts, "what": what},
            )

    def record_envelope(self, entry: int, digest: str) -> bool:
        """Note what a spending was for, by the digest of what it gave; whether that is the first
        digest, or the same again. Another one was not paid for (threat 32)."""
        with self.journal.write() as run:
            known = run("SELECT body FROM entries WHERE refers = ? AND kind = 'envelope'", entry)
            if known:
                return bool(json.loads(known[0][0])["digest"] == digest)
            rows = run("SELECT dataset FROM entries WHERE number = ? AND kind = 'spend'", entry)
            if not rows:
                raise BrokenLedger("The spending is not in the ledger; nothing is released.")
            body = {"digest": digest}
            self.journal.append(run, "envelope", dataset=rows[0][0], refers=entry, body=body)
            return True

    def grant(
        self,
        user: str,
        epsilon: str,
        by: str = "",
        dataset: str | None = None,
        until: datetime | None = None,
    ) -> None:
        """Give a user more epsilon: an entry like any other; there is no reset.

        It is for all data sets, or for those of the population of one file, `dataset`, and then it
        can end: the last grant says when. A user with a grant for a population spends that one
        alone there.
        """
        micro = parse_epsilon(epsilon)
        with self.journal.write() as run:
            grant(self.journal, run, user, micro, by, dataset, until)

    def add_dataset(
        self, file: str | FileIdentity, name: str, epsilon: str, by: str = "", **declared: Any
    ) -> str:
        """Tie a file to its population, which is opened if there is none; the population's key.

        A known file keeps its population, and with it its cap, whatever it is called now. A file
        that is not known is refused under a name that is, and where it is akin to a known one.
        `declared` are further fields of `Declaration`.
        """
        return self.admit(file, Declaration(name, epsilon, **declared), by)

    def admit(self, file: str | FileIdentity, declared: Declaration, by: str = "") -> str:
        """`add_dataset` by a whole declaration."""
        return admit(self.journal, _identity(file), declared, by)

    def succeed(self, name: str, file: str | FileIdentity, reason: str, by: str = "") -> Population:
        """Record a changed file as the successor of the population's; it shares the cap."""
        return succeed(self.journal, name, _identity(file), reason, by)

    def separate(
        self, file: str | FileIdentity, declared: Declaration, reason: str, by: str = ""
    ) -> Population:
        """Record a file as that of a population of its own, with a cap of its own."""
        return separate(self.journal, _identity(file), declared, reason, by)

    def merge(self, name: str, into: str, reason: str, by: str = "") -> Population:
        """Make two populations one, for good."""
        return merge(self.journal, name, into, reason, by)

    def raise_cap(self, dataset: str, epsilon: str, by: str = "", own_delta: str = "") -> None:
        """Allow more epsilon on a population: a policy decision that stays on record."""
        raise_cap(self.journal, dataset, epsilon, own_delta, by)

    def population(self, dataset: str) -> Population:
        """The population of a file; refused where the ledger does not know it."""
        with self.journal.database.reading() as run:
            return _population(run, dataset)

    def budget(self, kind: Holder, name: str) -> Budget:
        """Of a user, or of the population of a file."""
        with self.journal.database.reading() as run:
            if kind == "user":
                return read_budget(run, EVERYWHERE, name) or Budget()
            standing = read_standing(run, read_ties(run).of(name))
            return (standing or Standing()).budget

    def account(self, user: str, dataset: str) -> OwnAccount:
        """What the user may spend on a file, and whether it was granted to her at all."""
        return self.accounts(user, [dataset])[dataset]

    def accounts(self, user: str, datasets: Iterable[str]) -> dict[str, OwnAccount]:
        """The same for several files."""
        now = self.journal.clock()
        with self.journal.database.reading() as run:
            ties = read_ties(run)
            return {file: own_account(run, user, ties.of(file), now) for file in datasets}

    def stored(self, user: str, dataset: str, query: Question) -> StoredAnswer | None:
        """The answer that this user already has to the question; None if there is none."""
        with self.journal.database.reading() as run:
            return _stored(run, self.journal.clock(), user, dataset, query.digest())

    def answers(
        self, user: str, before: int | None = None, count: int | None = None
    ) -> list[StoredAnswer]:
        """A user's own answers whose reply is due, oldest first; nobody else's. With `before` those
        of earlier numbers, with `count` the last so many of them."""
        last_of = " AND a.kind = 'release' AND r.number < ? ORDER BY r.number DESC LIMIT ?"
        now = self.journal.clock()
        with self.journal.database.reading() as run:
            top = ALL if before is None else entry_number(run, user, before)
            rows = run(_ANSWERS + last_of, user, since(run, user), top, count or ALL)
            return [_stored_answer(run, user, row) for row in reversed(rows) if _due(row, now)]

    def answer(self, user: str, number: int) -> StoredAnswer | None:
        """The user's own answer of this number, if its reply is due."""
        numbered = " AND a.kind = 'release' AND r.number = ?"
        now = self.journal.clock()
        with self.journal.database.reading() as run:
            entry = entry_number(run, user, number)
            rows = run(_ANSWERS + numbered, user, since(run, user), entry)
            return next((_stored_answer(run, user, row) for row in rows if _due(row, now)), None)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """All entries in order, for the steward."""
        return self.journal.entries(after)

    def close(self) -> None:
        self.journal.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _affordable(
        self, run: Run, costs: Sequence[Cost], dataset: str, user: str | None, lock: str = ""
    ) -> tuple[Population, Standing, Amount]:
        """Lock the population, then the user's budget: always in this order. The budget is checked
        first, so that a question that is too large for it tells nothing of the cap (threat 28)."""
        population = _population(run, dataset)
        amount = population.amount(costs)
        standing = read_standing(run, population.key, lock) or Standing()
        now, kept = self.journal.clock(), Amount()
        account = None if user is None else own_account(run, user, population.key, now, lock)
        if account is not None and account.budget.left < amount.micro:
            needed, rest = show_epsilon(amount.micro), show_epsilon(account.budget.left)
            raise OverBudget(f"This needs epsilon {needed}, {rest} is left of your budget.")
        if account is None or account.holder == EVERYWHERE:
            kept = promised(run, population.key, now)
        _check(Standing(standing.cap, standing.spent + kept), amount, user)
        return population, standing, amount

    def _spend(self, run: Run, costs: Sequence[Cost], dataset: str, user: str | None) -> Charged:
        """Check, with both rows locked, and charge."""
        lock = self.journal.database.for_update
        population, standing, amount = self._affordable(run, costs, dataset, user, lock)
        if user is not None:
            account = own_account(run, user, population.key, self.journal.clock())
            run(
                "UPDATE budgets SET spent = spent + ? WHERE kind = ? AND name = ?",
                *(amount.micro, account.holder, user),
            )
        write_standing(run, population.key, Standing(standing.cap, standing.spent + amount))
        return Charged(amount, _facts(amount, population))

    def _finish(self, reservation: Reservation, kind: str, body: Mapping[str, Any]) -> None:
        number = reservation.number
        with self.journal.write() as run:
            if not run("SELECT 1 FROM entries WHERE number = ? AND kind = 'reserve'", number):
                raise BrokenLedger("The reservation is not in the ledger; nothing is released.")
            if run("SELECT 1 FROM entries WHERE refers = ?", number):
                raise AlreadyAnswered("This reservation has been answered already.")
            holder, dataset = reservation.user, reservation.dataset
            self.journal.append(run, kind, holder=holder, dataset=dataset, refers=number, body=body)


_ANSWERS = (
    "SELECT r.number, r.at, r.body, a.kind, a.body FROM entries r LEFT JOIN entries a ON "
    "a.refers = r.number WHERE r.kind = 'reserve' AND r.holder = ? AND r.number > ?"
)


def _stored(run: Run, now: datetime, user: str, dataset: str, question: str) -> StoredAnswer | None:
    alike = read_ties(run).alike(dataset)
    marks = ", ".join("?" * len(alike))
    select = _ANSWERS + f" AND r.dataset IN ({marks}) AND r.question = ? ORDER BY r.number"
    for row in run(select, user, since(run, user), *alike, question):
        if row[3] is None or not _due(row, now):
            wait = max(1.0, (_due_at(row) - now).total_seconds())
            raise StillAnswering(
                f"This question is being answered; ask again in {wait:.1f} seconds, for free."
            )
        if row[3] == "release":
            return _stored_answer(run, user, row)
    return None


def _plain(query: Question) -> Cost:
    return Cost(("replace",), exact_epsilon(query.micro))


def _stored_answer(run: Run, user: str, row: tuple[Any, ...]) -> StoredAnswer:
    number, at, body, _, answer = row
    question, facts = json.loads(body)["query"], json.loads(answer)
    facts.pop("salt", None)
    own = own_number(run, user, number)
    return StoredAnswer(own, datetime.fromisoformat(at), question, facts)


def _due_at(row: tuple[Any, ...]) -> datetime:
    seconds = json.loads(row[2])["hold_seconds"]
    return datetime.fromisoformat(row[1]) + timedelta(seconds=seconds)


def _due(row: tuple[Any, ...], now: datetime) -> bool:
    """Whether the reply may be out. A clock that was set back must not hide answers for long."""
    return _due_at(row) <= now or now < datetime.fromisoformat(row[1])


def _check(standing: Standing, amount: Amount, user: str | None) -> None:
    """What is left of a cap is not a user's business: others spend from it (threat 28). Whoever has
    a grant on the population does not see this: it is kept for her."""
    try:
        standing.check(amount)
    except OverBudget:
        if user is None:
            raise
        raise OverBudget(
            f"This needs {amount}, and less than that is left for this data set; ask the steward."
        ) from None


def _population(run: Run, dataset: str) -> Population:
    """The population of a file; for one that nobody declared, one without a cap."""
    known = populations(run)
    key = read_ties(run).of(dataset)
    return known.get(key) or Population(key, ())


def _identity(file: str | FileIdentity) -> FileIdentity:
    return FileIdentity(file) if isinstance(file, str) else file


def _facts(amount: Amount, population: Population) -> dict[str, Any]:
    """What an entry says of its amount, beside the epsilon in its own column."""
    facts: dict[str, Any] = {"relation": population.relation, "unit": population.unit}
    if amount != Amount.pure(amount.micro):
        facts |= {"rho": amount.nano, "delta": amount.atto, "concentrated": amount.concentrated}
    return facts
