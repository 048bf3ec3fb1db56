"""What the steward sees of a ledger: who spent how much, on what, and when.

Questions and answers belong to the analyst who paid for them, and key hashes to nobody, so
none of these views holds an entry's body (threat 16).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from understudy.ledger.amounts import NANO, Budget, Standing, show_delta
from understudy.ledger.chain import Entry
from understudy.ledger.entry_kinds import KINDS, SPENDING
from understudy.ledger.epsilon import show_epsilon
from understudy.ledger.grants import own_account
from understudy.ledger.journal import read_standing
from understudy.ledger.ledger import Ledger
from understudy.ledger.populations import Population, populations, require
from understudy.ledger.tally import amount_of


@dataclass(frozen=True)
class Line:
    """One entry without its body."""

    number: int
    at: str
    kind: str
    user: str | None
    dataset: str | None  # the population's name; the fingerprint where there is none
    epsilon: str
    refers: int | None
    delta: str = ""
    rho: str = ""
    relation: str = ""
    unit: str = ""

    @property
    def words(self) -> str:
        return KINDS[self.kind].words if self.kind in KINDS else self.kind


@dataclass(frozen=True)
class SpendingTotal:
    """What a user (None: a release or a table) spent on a data set."""

    user: str | None
    dataset: str
    epsilon: str
    entries: int


@dataclass(frozen=True)
class Account:
    """A user, the steward's way to see them."""

    name: str
    role: str
    active: bool
    allowed: str
    spent: str
    left: str


@dataclass(frozen=True)
class GrantView:
    """What a user may spend on a data set; empty for those without a grant of their own."""

    user: str
    dataset: str
    allowed: str
    spent: str
    left: str
    until: str = ""


@dataclass(frozen=True)
class CapView:
    """A population's cap by its names; with a delta, spending is converted from rho at it."""

    name: str
    allowed: str
    spent: str
    left: str
    delta: str = ""
    counted: str = ""


def declared_populations(ledger: Ledger) -> dict[str, Population]:
    """All populations by their keys."""
    with ledger.journal.database.reading() as run:
        return populations(run)


def population_names(ledger: Ledger) -> dict[str, str]:
    """Fingerprint of a file -> name(s) of its population."""
    known = declared_populations(ledger).values()
    return {file: population.name for population in known for file in population.files}


def find_population(ledger: Ledger, name: str) -> Population:
    """The population with this name, or with a file of this fingerprint."""
    return require(declared_populations(ledger), name)


def lines(ledger: Ledger, after: int = 0) -> Iterator[Line]:
    """Entries in order, after a number."""
    names = population_names(ledger)
    for e in ledger.entries(after):
        shown = None if e.dataset is None else names.get(e.dataset, e.dataset)
        spent = _spent(e) if e.kind in SPENDING else {}
        yield Line(e.number, e.at, e.kind, e.user, shown, show_epsilon(e.micro), e.refers, **spent)


def _spent(entry: Entry) -> dict[str, str]:
    content, amount = entry.content(), amount_of(entry)
    return {
        "delta": show_delta(amount.atto) if amount.atto else "",
        "rho": f"{amount.nano / NANO:.9f}".rstrip("0") if amount.concentrated else "",
        "relation": content.get("relation", ""),
        "unit": content.get("unit", ""),
    }


def latest(ledger: Ledger, before: int | None = None, count: int = 100) -> list[Line]:
    """The newest entries below a number, newest first."""
    with ledger.journal.database.reading() as run:
        last = int(run("SELECT max(number) FROM entries")[0][0] or 0)
    top = last + 1 if before is None else min(before, last + 1)
    newest = []
    for line in lines(ledger, max(0, top - 1 - count)):
        if line.number >= top:
            break
        newest.append(line)
    return newest[::-1]


def totals(ledger: Ledger) -> list[SpendingTotal]:
    """Spending per user and population: sums of epsilon in the population's unit and relation."""
    names = population_names(ledger)
    with ledger.journal.database.reading() as run:
        rows = run(
            "SELECT holder, dataset, sum(micro), count(*) FROM entries "
            "WHERE kind IN ('reserve', 'spend') GROUP BY holder, dataset"
        )
    sums: dict[tuple[str | None, str], tuple[int, int]] = {}
    for user, dataset, micro, count in rows:
        at = user, names.get(dataset, str(dataset))
        before = sums.get(at, (0, 0))
        sums[at] = before[0] + int(micro), before[1] + int(count)
    spending = [
        SpendingTotal(user, name, show_epsilon(micro), count)
        for (user, name), (micro, count) in sums.items()
    ]
    return sorted(spending, key=lambda total: (total.user or "", total.dataset))


def accounts(ledger: Ledger) -> list[Account]:
    with ledger.journal.database.reading() as run:
        rows = run(
            "SELECT u.name, u.role, u.active, coalesce(sum(b.allowed), 0), "
            "coalesce(sum(b.spent), 0) FROM users u LEFT JOIN budgets b ON b.name = u.name "
            "GROUP BY u.name, u.role, u.active ORDER BY u.name"
        )
    return [
        Account(name, role, bool(active), *_shown(Budget(int(allowed), int(spent))))
        for name, role, active, allowed, spent in rows
    ]


def grants(ledger: Ledger) -> list[GrantView]:
    """What each user may spend where, and until when."""
    with ledger.journal.database.reading() as run:
        known, now = populations(run), ledger.journal.clock()
        rows = run("SELECT name, kind FROM budgets ORDER BY name, kind")
        accounts = [(user, kind, own_account(run, user, kind, now)) for user, kind in rows]
    return [
        GrantView(
            user,
            known[kind].name if kind in known else "",
            *_shown(account.budget),
            until="" if account.until is None else account.until.date().isoformat(),
        )
        for user, kind, account in accounts
    ]


def caps(ledger: Ledger) -> list[CapView]:
    """What is allowed, spent and left on each population, and in which figures."""
    with ledger.journal.database.reading() as run:
        known = populations(run)
        standings = {key: read_standing(run, key) or Standing() for key in known}
    return [
        CapView(
            population.name,
            *_shown(standings[key].budget),
            delta=show_delta(standings[key].cap.atto) if standings[key].cap.atto else "",
            counted=_counted(population, standings[key]),
        )
        for key, population in known.items()
    ]


def _counted(population: Population, standing: Standing) -> str:
    """In which figures; deltas of releases are no part of `spent` and belong to the promise."""
    if not standing.spent.atto:
        return str(population)
    return f"{population}; and delta {show_delta(standing.spent.atto)} that releases carried"


def _shown(budget: Budget) -> tuple[str, str, str]:
    return show_epsilon(budget.allowed), show_epsilon(budget.spent), show_epsilon(budget.left)
