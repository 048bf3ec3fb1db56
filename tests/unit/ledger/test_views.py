"""What the steward sees of a ledger, told by hand for a short history."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from ledger_samples import FIRST, SECOND, write_history
from verification_samples import make_query

from understudy.dp.accounting import Cost
from understudy.errors import Refused, UnknownName
from understudy.ledger import journal
from understudy.ledger.accounts import list_users, set_active
from understudy.ledger.ledger import Ledger
from understudy.ledger.views import (
    Account,
    CapView,
    SpendingTotal,
    accounts,
    caps,
    find_population,
    latest,
    lines,
    population_names,
    totals,
)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        write_history(ledger)
        yield ledger


def test_every_entry_is_a_line_without_its_body(history: Ledger) -> None:
    shown = [(e.number, e.kind, e.user, e.dataset, e.epsilon, e.refers) for e in lines(history)]
    assert shown == [
        (1, "open", None, None, "0", None),
        (2, "user", "ann", None, "0", None),
        (3, "user", "bob", None, "0", None),
        (4, "grant", "ann", None, "2", None),
        (5, "dataset", None, "survey", "5", None),
        (6, "dataset", None, "census", "1.5", None),
        (7, "reserve", "ann", "survey", "0.25", None),
        (8, "release", "ann", "survey", "0", 7),
        (9, "reserve", "ann", "survey", "0.5", None),
        (10, "spend", None, "survey", "1.1", None),
        (11, "cap", None, "census", "0.5", None),
        (12, "disable", "bob", None, "0", None),
    ]
    assert [line.number for line in lines(history, after=10)] == [11, 12]
    assert [line.words for line in lines(history, after=9)] == [
        "spent outside",
        "cap raised",
        "user shut out",
    ]


def test_the_newest_come_first_and_in_pages(history: Ledger) -> None:
    assert [line.number for line in latest(history)] == list(range(12, 0, -1))
    assert [line.number for line in latest(history, count=3)] == [12, 11, 10]
    assert [line.number for line in latest(history, before=10, count=3)] == [9, 8, 7]
    assert [line.number for line in latest(history, before=3, count=5)] == [2, 1]
    assert [line.number for line in latest(history, before=99, count=2)] == [12, 11]
    assert latest(history, before=1) == []
    for _ in range(90):
        set_active(history, "bob", True)
    assert len(latest(history)) == 100


def test_totals_accounts_and_caps_add_up(history: Ledger) -> None:
    assert totals(history) == [
        SpendingTotal(None, "survey", "1.1", 1),
        SpendingTotal("ann", "survey", "0.75", 2),
    ]
    assert accounts(history) == [
        Account("ann", "analyst", True, "2", "0.75", "1.25"),
        Account("bob", "steward", False, "0", "0", "0"),
    ]
    counted = "epsilon under `replace` for one record, rounded up to the millionth"
    assert caps(history) == [
        CapView("survey", "5", "1.85", "3.15", "", counted),
        CapView("census", "2", "0", "2", "", counted),
    ]
    carried = Cost(("replace",), Fraction(1), Fraction(1, 10**7))
    history.record_spending(SECOND, [carried], "a release with a threshold")
    assert caps(history)[1].counted == f"{counted}; and delta 1e-07 that releases carried"
    assert [(u.name, u.role, u.active) for u in list_users(history)] == [
        ("ann", "analyst", True),
        ("bob", "steward", False),
    ]


def test_names_and_fingerprints_find_a_data_set(history: Ledger) -> None:
    history.add_dataset(FIRST, "survey 2026", "9")
    assert population_names(history) == {FIRST: "survey, survey 2026", SECOND: "census"}
    for name in ("survey", "survey 2026", FIRST):
        assert find_population(history, name).key == FIRST
    with pytest.raises(UnknownName, match="did you mean `census`"):
        find_population(history, "censos")
    with pytest.raises(Refused, match="belong to the population `census`, not to `survey`"):
        history.add_dataset(SECOND, "survey", "9")


def test_the_same_data_set_added_again_is_no_entry(history: Ledger) -> None:
    history.add_dataset(FIRST, "survey", "9")
    assert len(list(history.entries())) == 12
    assert history.budget("dataset", FIRST).allowed == 5_000_000
    for bad in ("ab" * 31, "AB" * 32, "survey"):
        with pytest.raises(Refused, match="64 hexadecimal"):
            history.add_dataset(bad, "x", "1")
    with pytest.raises(Refused, match="add it first"):
        history.raise_cap("ef" * 32, "1")


def test_entries_come_in_pages(history: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for page in (1, 5, 6, 12, 13):
        monkeypatch.setattr(journal, "PAGE", page)
        assert [e.number for e in history.entries()] == list(range(1, 13))
        assert [e.number for e in history.entries(after=7)] == [8, 9, 10, 11, 12]


def test_the_chain_is_sha256_over_the_entry_and_the_hash_before_it(history: Ledger) -> None:
    """Written out: a ledger of an earlier version must open with every later one."""
    before = "0" * 64
    hidden = {"user": {"key_hash", "key_id", "salt"}, "reserve": {"query", "salt"}}

    def text(value: object) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    for e in history.entries():
        content, query = json.loads(e.body), e.query
        names = set(content) if e.kind == "release" else hidden.get(e.kind, set())
        if names:
            private = text([query, {name: content.pop(name) for name in names}])
            content["sealed"], query = hashlib.sha256(private.encode()).hexdigest(), None
        fields = [e.number, e.at, e.kind, e.user, e.dataset, e.micro, query, e.refers]
        line = text([*fields, text(content), before])
        assert (e.previous, e.hash) == (before, hashlib.sha256(line.encode()).hexdigest())
        before = e.hash
    assert len(json.loads(next(iter(history.entries())).body)["id"]) == 32
    heads = Path(f"{history.journal.database.path}.head").read_text().splitlines()
    assert heads[-1] == f"12 {before}"


def test_totals_come_by_user_and_name_and_not_by_fingerprint(history: Ledger) -> None:
    history.record_spending(SECOND, "0.1", "a release")
    history.reserve("ann", SECOND, make_query(epsilon="0.125"))
    assert FIRST < SECOND  # and so `survey` would come before `census`
    assert [(total.user, total.dataset) for total in totals(history)] == [
        (None, "census"),
        (None, "survey"),
        ("ann", "census"),
        ("ann", "survey"),
    ]
