"""Populations: whose privacy a cap protects, and the files that hold their records.

The steward declares a population (name, unit, relation, cap); files are tied to it by their
fingerprints. What is spent on any of its files counts against the one cap. A file that the ledger
does not know, under a name that it knows or akin to a file that it knows, is refused until the
steward says what it is, with a reason: a successor of that file, or another population.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from understudy.claim import RECORD, RELATIONS, Relation
from understudy.dp.accounting import Cost, checked_size
from understudy.errors import Refused, UnknownName
from understudy.ledger.amounts import Amount, Cap, Standing
from understudy.ledger.database import Run
from understudy.ledger.epsilon import parse_epsilon
from understudy.ledger.fingerprint import FileIdentity
from understudy.ledger.journal import Journal, allow, read_standing, write_standing
from understudy.ledger.ties import Ties, read_ties

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
MOST_REASON = 500


class ChangedFile(Refused):
    """The file is not the one that the ledger knows; the steward must say what it is."""


@dataclass(frozen=True)
class Declaration:
    """What a steward declares of a population when it first spends.

    The promise of a cap with `delta` is (cap, delta + own_delta): `delta` is for converting rho,
    `own_delta` for deltas that releases carry themselves.
    """

    name: str
    cap: str
    delta: str = ""
    own_delta: str = ""
    unit: str = RECORD
    records_per_unit: int = 1
    relation: Relation = "replace"

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 200 or not self.name.isprintable():
            raise Refused("A population's name has 1 to 200 printable characters.")
        if self.relation not in ("replace", "add-remove"):
            raise UnknownName("relation of a population", str(self.relation), RELATIONS[1:])
        checked_size(self.records_per_unit)

    def stated_cap(self) -> Cap:
        return Cap.stated(self.cap, self.delta, self.own_delta)

    def population(self) -> Population:
        """As it will be in a ledger that does not have it yet."""
        return Population("", (self.name,), self.unit, self.records_per_unit, self.relation)


@dataclass(frozen=True)
class Population:
    """A population as the ledger knows it; `key` is the fingerprint of its first file."""

    key: str
    names: tuple[str, ...]
    unit: str = RECORD
    records_per_unit: int = 1
    relation: Relation = "replace"
    files: tuple[str, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        return ", ".join(self.names)

    def amount(self, costs: Sequence[Cost]) -> Amount:
        """The sum of costs in this population's unit and relation."""
        same = [c.under(self.relation, self.unit, self.records_per_unit) for c in costs]
        return Amount.of(same)

    def __str__(self) -> str:
        return f"epsilon under `{self.relation}` for one {self.unit}, rounded up to the millionth"


def populations(run: Run) -> dict[str, Population]:
    """All populations by their keys, in the order in which they came."""
    return _Register(run).populations


class _Register:
    """What the entries say about populations and files."""

    def __init__(self, run: Run) -> None:
        self.ties: Ties = read_ties(run)
        self.secret = str(run("SELECT body FROM entries WHERE number = 1")[0][0])
        self.sketches: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        declared: dict[str, dict[str, Any]] = {}
        names: dict[str, list[str]] = {}
        files: dict[str, list[str]] = {}
        rows = run(
            "SELECT dataset, body FROM entries WHERE kind IN ('dataset', 'same', 'successor') "
            "ORDER BY number"
        )
        for file, body in rows:
            content, key = json.loads(body), self.ties.of(file)
            if "name" in content and content["name"] not in names.setdefault(key, []):
                names[key].append(content["name"])
            if file not in files.setdefault(key, []):
                files[key].append(file)
            if "sketch" in content:
                columns, records = content["sketch"]
                self.sketches[file] = frozenset(columns), frozenset(records)
            declared.setdefault(file, content)
        self.populations = {
            key: Population(
                key,
                tuple(names[key]),
                declared[key].get("unit", RECORD),
                declared[key].get("records_per_unit", 1),
                declared[key].get("relation", "replace"),
                tuple(files[key]),
            )
            for key in files
        }

    def named(self, name: str) -> Population | None:
        return next((p for p in self.populations.values() if name in p.names), None)

    def of(self, file: FileIdentity) -> Population | None:
        """The population of a known file, by its fingerprint of today or of 0.1.0."""
        known = [f for f in (file.fingerprint, file.typed) if f in self.ties]
        keys = list(dict.fromkeys(self.ties.of(fingerprint) for fingerprint in known))
        if len(keys) > 1:
            first, second = (self.populations[key].name for key in keys)
            raise ChangedFile(
                f"The ledger knows these records as two populations, `{first}` and `{second}`; "
                "merge them with `understudy ledger merge`."
            )
        return self.populations[keys[0]] if keys else None

    def akin(self, file: FileIdentity) -> Population | None:
        """A population with a file that shares half of its columns or records with this one."""
        hidden = FileIdentity(file.fingerprint, "", *self.hidden(file))
        for known, (columns, records) in self.sketches.items():
            if hidden.akin(columns, records):
                return self.populations[self.ties.of(known)]
        return None

    def hidden(self, file: FileIdentity) -> tuple[frozenset[str], frozenset[str]]:
        """The sketch as the ledger keeps it: digests under the ledger's own number."""
        return self._digests(file.columns), self._digests(file.records)

    def _digests(self, words: frozenset[str]) -> frozenset[str]:
        key = hashlib.sha256(self.secret.encode()).digest()
        return frozenset(
            hashlib.blake2b(word.encode(), key=key, digest_size=8).hexdigest() for word in words
        )

    def body(self, file: FileIdentity, **facts: Any) -> dict[str, Any]:
        if file.columns or file.records:
            facts["sketch"] = [sorted(words) for words in self.hidden(file)]
        return facts


def admit(journal: Journal, file: FileIdentity, declared: Declaration, by: str) -> str:
    """The key of the population that a file belongs to; a new one, if nothing speaks against it."""
    _check_fingerprint(file)
    cap = declared.stated_cap()
    with journal.write() as run:
        register = _Register(run)
        known, named = register.of(file), register.named(declared.name)
        if known is None:
            if named is not None:
                raise _changed(f"`{declared.name}` is the name of another file in the ledger")
            if (kin := register.akin(file)) is not None:
                raise _changed(f"These records are akin to those of `{kin.name}` in the ledger")
            if run("SELECT 1 FROM entries WHERE kind = 'recover'"):
                raise _changed(
                    "Entries of this ledger were lost, and may have been about this file"
                )
            return _open(journal, run, register, file, declared, cap, {"by": by})
        if named is not None and declared.name not in known.names:
            raise Refused(
                f"These records belong to the population `{known.name}`, not to "
                f"`{declared.name}`; name the right one."
            )
        if file.fingerprint not in register.ties:
            body = register.body(file, by=by, of=file.typed)
            journal.append(run, "same", dataset=file.fingerprint, body=body)
        if named is None:
            body = {"by": by, "name": declared.name}
            journal.append(run, "dataset", dataset=file.fingerprint, body=body)
        return known.key


def _changed(what: str) -> ChangedFile:
    return ChangedFile(
        f"{what}. If the file was corrected, record it as a successor, which shares the cap "
        "(`understudy ledger successor`); if it holds other people, as a population of its own "
        "(`understudy ledger population`); either with a reason."
    )


def succeed(journal: Journal, name: str, file: FileIdentity, reason: str, by: str) -> Population:
    """Record a changed file as the successor of a population's; it shares the cap."""
    _check_fingerprint(file)
    check_reason(reason)
    with journal.write() as run:
        register = _Register(run)
        known = require(register.populations, name)
        _check_unknown(register, file)
        body = register.body(file, by=by, of=known.key, reason=reason)
        journal.append(run, "successor", dataset=file.fingerprint, body=body)
        return known


def separate(
    journal: Journal, file: FileIdentity, declared: Declaration, reason: str, by: str
) -> Population:
    """Record a file as that of a population of its own, whatever it is akin to."""
    _check_fingerprint(file)
    check_reason(reason)
    cap = declared.stated_cap()
    with journal.write() as run:
        register = _Register(run)
        _check_unknown(register, file)
        if register.named(declared.name) is not None:
            raise Refused(
                f"There is a population `{declared.name}` already; choose another name for this "
                "one, and name it as `population` in the recipe or the configuration."
            )
        key = _open(journal, run, register, file, declared, cap, {"by": by, "reason": reason})
        return populations(run)[key]


def merge(journal: Journal, name: str, into: str, reason: str, by: str) -> Population:
    """Make two populations one, for good: what was spent on either counts."""
    check_reason(reason)
    with journal.write() as run:
        known = populations(run)
        gone, kept = require(known, name), require(known, into)
        if gone.key == kept.key:
            raise Refused(f"`{name}` and `{into}` are one population already.")
        facts = ("unit", "records_per_unit", "relation")
        if any(getattr(gone, fact) != getattr(kept, fact) for fact in facts):
            raise Refused("Only populations with the same unit and relation can be merged.")
        lock = journal.database.for_update
        standings = [read_standing(run, key, lock) or Standing() for key in (kept.key, gone.key)]
        write_standing(run, kept.key, standings[0].merged(standings[1]))
        run("DELETE FROM populations WHERE name = ?", gone.key)
        for user, allowed, spent in run(
            "SELECT name, allowed, spent FROM budgets WHERE kind = ?", gone.key
        ):
            allow(run, kept.key, user, allowed, spent)
        run("DELETE FROM budgets WHERE kind = ?", gone.key)
        body = {"by": by, "into": kept.key, "reason": reason}
        journal.append(run, "merge", dataset=gone.key, body=body)
        return populations(run)[kept.key]


def require(known: Mapping[str, Population], name: str) -> Population:
    """The population with this name or fingerprint."""
    matches = [p for p in known.values() if name in p.names or name in p.files]
    if not matches:
        raise UnknownName("population", name, [n for p in known.values() for n in p.names])
    if len(matches) > 1:
        raise Refused(
            f"`{name}` is the name of several populations; give a fingerprint instead: "
            f"{' or '.join(p.key for p in matches)}."
        )
    return matches[0]


def _open(
    journal: Journal,
    run: Run,
    register: _Register,
    file: FileIdentity,
    declared: Declaration,
    cap: Cap,
    facts: dict[str, Any],
) -> str:
    facts |= {"name": declared.name, "relation": declared.relation, "unit": declared.unit}
    facts |= {"records_per_unit": declared.records_per_unit}
    if cap.atto or cap.own:
        facts |= {"delta": cap.atto, "own_delta": cap.own, "rho": cap.nano}
    body = register.body(file, **facts)
    journal.append(run, "dataset", dataset=file.fingerprint, micro=cap.micro, body=body)
    write_standing(run, file.fingerprint, Standing(cap))
    return file.fingerprint


def raise_cap(journal: Journal, name: str, epsilon: str, own_delta: str, by: str) -> None:
    """Allow more on a population: a policy decision that stays on record."""
    micro = parse_epsilon(epsilon)
    own = Cap.stated(epsilon, own_delta=own_delta).own if own_delta else 0
    with journal.write() as run:
        add_to_cap(journal, run, name, micro, own, by)


def add_to_cap(
    journal: Journal, run: Run, name: str, micro: int, own: int, by: str, request: int | None = None
) -> None:
    """The same inside a transaction; `request` is what it follows from."""
    key = read_ties(run).of(name)
    standing = read_standing(run, key, journal.database.for_update)
    if standing is None:
        raise Refused("This data set is not in the ledger; add it first.")
    old = standing.cap
    cap = Cap(old.micro + micro, old.atto, old.own + own).with_rho()
    body: dict[str, Any] = {"by": by}
    if cap.atto or cap.own:
        body |= {"delta": cap.atto, "own_delta": cap.own, "rho": cap.nano}
    journal.append(run, "cap", dataset=key, micro=micro, refers=request, body=body)
    write_standing(run, key, Standing(cap, standing.spent))


def _check_fingerprint(file: FileIdentity) -> None:
    if not _FINGERPRINT.fullmatch(file.fingerprint):
        raise Refused("A data set is known by its fingerprint, 64 hexadecimal digits.")


def check_reason(reason: str) -> None:
    if not reason.strip() or len(reason) > MOST_REASON:
        raise Refused(f"Give a reason of up to {MOST_REASON} characters; it stays on record.")


def _check_unknown(register: _Register, file: FileIdentity) -> None:
    if (known := register.of(file)) is not None:
        raise Refused(f"The ledger knows this file already, as one of `{known.name}`.")
