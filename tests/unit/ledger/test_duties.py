"""Threats 27 and 28 in the ledger: one steward alone, and watching others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ledger_samples import Unguarded
from verification_samples import FINGERPRINT, OpenLedger, make_query

from understudy.errors import Refused, UnknownName
from understudy.ledger.accounts import (
    CODE_DAYS,
    WrongCode,
    WrongKey,
    add_user,
    added_by,
    authenticate,
    new_key,
    only_own_key,
    pick_up,
    set_active,
)
from understudy.ledger.chain import BrokenLedger
from understudy.ledger.grants import EVERYWHERE
from understudy.ledger.ledger import Ledger, OverBudget, Reservation
from understudy.ledger.requests import (
    MOST_OPEN,
    approve,
    ask,
    decline,
    grant_or_ask,
    open_project,
    projects,
    raise_or_ask,
    requests,
)
from understudy.ledger.views import grants

OTHER = "cd" * 32
LIMIT = 2_000_000
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def paid(ledger: Ledger, user: str = "ann", file: str = FINGERPRINT, **changes: Any) -> Reservation:
    reservation = ledger.reserve(user, file, make_query(**changes))
    assert isinstance(reservation, Reservation)
    return reservation


@pytest.fixture
def ledger(ledger: Ledger) -> Ledger:
    """Ann and Bob, with 1.0 on everything; Carol, with nothing; two data sets; a stopped clock."""
    ledger.journal.clock = lambda: NOW
    ledger.add_dataset(OTHER, "other", "5")
    add_user(ledger, "carol")
    return ledger


# Grants on a data set --------------------------------------------------------------------


def test_a_grant_is_for_a_data_set_and_ends(ledger: Ledger, open_ledger: OpenLedger) -> None:
    now = NOW
    ledger.journal.clock = lambda: now
    assert not ledger.account("carol", OTHER).granted
    ledger.grant("carol", "0.5", "stella", OTHER, now + timedelta(days=1))
    assert ledger.account("carol", OTHER).granted
    assert not ledger.account("carol", FINGERPRINT).granted
    paid(ledger, "carol", OTHER, epsilon="0.2")
    with pytest.raises(OverBudget, match="0 is left of your budget"):
        paid(ledger, "carol", FINGERPRINT, epsilon="0.2")
    with pytest.raises(OverBudget, match=r"0\.3 is left of your budget"):
        paid(ledger, "carol", OTHER, epsilon="0.4")
    now += timedelta(days=2)
    ended = ledger.account("carol", OTHER)
    assert (ended.granted, ended.budget.left, ended.budget.spent) == (False, 0, 200_000)
    with pytest.raises(OverBudget, match="0 is left of your budget"):
        paid(ledger, "carol", OTHER, epsilon="0.1")
    ledger.grant("carol", "0.1", "stella", OTHER, now + timedelta(days=9))  # the last one says when
    assert ledger.account("carol", OTHER).budget.left == 400_000
    paid(ledger, "carol", OTHER, epsilon="0.4", estimate=7.0)
    assert open_ledger().account("carol", OTHER).holder == OTHER
    shown = [(g.user, g.dataset, g.allowed, g.left, g.until) for g in grants(ledger)]
    assert shown[0] == ("ann", "", "1", "1", "")
    assert shown[2] == ("carol", "other", "0.6", "0", "2026-05-12")


def test_who_has_a_grant_for_a_data_set_spends_that_one_there(ledger: Ledger) -> None:
    ledger.grant("ann", "0.25", dataset=OTHER)
    paid(ledger, "ann", OTHER, epsilon="0.25")
    with pytest.raises(OverBudget):
        paid(ledger, "ann", OTHER, epsilon="0.1")
    assert ledger.budget("user", "ann").spent == 0
    paid(ledger, "ann", FINGERPRINT, epsilon="1")
    assert ledger.account("ann", FINGERPRINT).holder == EVERYWHERE


def test_grants_of_merged_populations_are_added_up(ledger: Ledger, open_ledger: OpenLedger) -> None:
    for file, epsilon in ((OTHER, "0.3"), (FINGERPRINT, "0.2")):
        ledger.grant("carol", epsilon, dataset=file)
        paid(ledger, "carol", file, epsilon="0.1")
    ledger.merge("other", "survey", "the same people")
    for opened in (ledger, open_ledger()):
        budget = opened.account("carol", OTHER).budget
        assert (budget.allowed, budget.spent) == (500_000, 200_000)
    assert ledger.account("carol", OTHER) == ledger.account("carol", FINGERPRINT)


def test_a_changed_grant_does_not_open(
    ledger: Ledger, ledger_place: tuple[str, str], open_ledger: OpenLedger
) -> None:
    ledger.grant("carol", "0.5", dataset=OTHER)
    with Unguarded(ledger_place[0]) as run:
        run(f"UPDATE budgets SET kind = '{EVERYWHERE}' WHERE name = 'carol'")
    with pytest.raises(BrokenLedger, match="do not follow"):
        open_ledger()


# What others do ---------------------------------------------------------------------------


def test_receipts_are_numbered_for_each_analyst_alone(ledger: Ledger) -> None:
    for number in range(3):
        ledger.release(paid(ledger, "bob", epsilon="0.1", estimate=number + 1.0), {"noisy": 1})
        ledger.release(paid(ledger, "ann", epsilon="0.1", estimate=number + 1.0), {"noisy": number})
    ledger.fail(paid(ledger, "ann", epsilon="0.1", estimate=9.0))
    last = paid(ledger, "ann", epsilon="0.1", estimate=10.0)
    assert last.own == 5
    ledger.release(last, {"noisy": 4})
    assert [answer.number for answer in ledger.answers("ann")] == [1, 2, 3, 5]
    assert [answer.number for answer in ledger.answers("ann", before=5, count=2)] == [2, 3]
    assert [answer.number for answer in ledger.answers("ann", before=99, count=1)] == [5]
    third = ledger.answer("ann", 3)
    assert third is not None
    assert third.body == {"noisy": 2}
    assert [ledger.answer("ann", number) for number in (4, 6)] == [None, None]


def test_what_is_left_of_a_cap_is_not_told_to_an_analyst(ledger: Ledger) -> None:
    ledger.grant("ann", "9")
    paid(ledger, "bob", epsilon="0.75")
    with pytest.raises(OverBudget) as refusal:
        paid(ledger, "ann", epsilon="0.8")
    assert "0.75" not in str(refusal.value)
    assert "less than that is left for this data set" in str(refusal.value)
    with pytest.raises(OverBudget, match=r"0\.75 is left"):  # the steward's own release
        ledger.record_spending(FINGERPRINT, "0.8", "a table")


def said(ledger: Ledger, user: str, file: str = OTHER) -> list[str]:
    """What questions at many prices, which cost nothing, say of what is left."""
    sentences = []
    for epsilon in ("0.5", "1", "2", "3", "4", "5", "6", "1000"):
        try:
            ledger.look_up(user, file, make_query(epsilon=epsilon))
            sentences.append("answered")
        except OverBudget as refusal:
            sentences.append(str(refusal))
    return sentences


@pytest.mark.parametrize("delta", ["", "1e-9"])
def test_no_refusal_tells_the_holder_of_a_grant_what_others_spend(
    ledger: Ledger, delta: str
) -> None:
    third = "ef" * 32
    ledger.add_dataset(third, "third", "5", delta=delta)
    for user in ("ann", "bob"):
        ledger.grant(user, "2", dataset=third)
    before = said(ledger, "ann", third)
    assert before.count("answered") == 3
    assert all("2 is left of your budget" in sentence for sentence in before[3:])
    paid(ledger, "bob", third, epsilon="2")
    ledger.record_spending(third, "1", "a table")
    with pytest.raises(OverBudget):  # the rest was granted to ann and is kept for her
        ledger.record_spending(third, "0.000001", "another table")
    assert said(ledger, "ann", third) == before
    ledger.grant("carol", "9")  # on everything: what nobody was promised
    assert "less than that is left for this data set" in said(ledger, "carol", third)[1]
    paid(ledger, "ann", third, epsilon="2")


def test_no_more_is_granted_on_a_data_set_than_its_cap_can_keep(ledger: Ledger) -> None:
    ledger.grant("ann", "2", dataset=OTHER)
    ledger.grant("bob", "2", dataset=OTHER, until=NOW + timedelta(days=1))
    paid(ledger, "bob", OTHER, epsilon="0.5")
    ledger.grant("ann", "0.5", dataset=OTHER)
    before = list(ledger.entries())
    for user in ("ann", "carol"):
        with pytest.raises(OverBudget, match=r"epsilon 0\.5 is neither spent nor granted"):
            ledger.grant(user, "0.500001", dataset=OTHER)
    assert list(ledger.entries()) == before
    ledger.grant("carol", "0.5", dataset=OTHER)
    ledger.journal.clock = lambda: NOW + timedelta(days=2)
    ledger.grant("carol", "1.5", dataset=OTHER)  # what bob did not use in time
    with pytest.raises(OverBudget, match="epsilon 0 is neither"):
        ledger.grant("bob", "0.1", dataset=OTHER)  # would give him the rest back as well
    ledger.raise_cap(OTHER, "1.6")
    ledger.grant("bob", "0.1", dataset=OTHER)
    set_active(ledger, "bob", False)  # what he does not need any more is carol's
    ledger.grant("carol", "1.6", dataset=OTHER)
    for user, left in (("ann", "2.5"), ("carol", "3.6")):
        paid(ledger, user, OTHER, epsilon=left, estimate=9.0)
    assert ledger.budget("dataset", OTHER).left == 0


# Keys --------------------------------------------------------------------------------------


def test_a_key_is_picked_up_once_and_by_nobody_late(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    code = add_user(ledger, "dana", by="stella", code=True)
    for wrong in (code[:-1] + ("A" if code[-1] != "A" else "B"), "", "code_", code.upper()):
        with pytest.raises(WrongCode, match="not known, too old, or was used already"):
            pick_up(ledger, wrong)
    with pytest.raises(WrongKey):
        authenticate(ledger, code.replace("code_", "us_", 1))
    name, key = pick_up(ledger, code)
    assert (name, authenticate(open_ledger(), key).name) == ("dana", "dana")
    with pytest.raises(WrongCode):
        pick_up(ledger, code)
    late = new_key(ledger, "dana", "stella", code=True)
    with pytest.raises(WrongKey):
        authenticate(ledger, key)  # the old key ends when a code is handed out
    now = NOW + timedelta(days=CODE_DAYS + 1)
    ledger.journal.clock = lambda: now
    with pytest.raises(WrongCode):
        pick_up(ledger, late)


def test_the_ledger_knows_who_added_a_user(ledger: Ledger) -> None:
    add_user(ledger, "dora", by="stella")
    assert added_by(ledger, "dora") == "stella"
    assert added_by(ledger, "nobody") == ""


def test_whoever_makes_a_key_for_another_reads_none_of_her_answers(ledger: Ledger) -> None:
    query = {"epsilon": "0.1"}
    ledger.release(paid(ledger, **query), {"noisy": 17})
    new_key(ledger, "ann", "ann")  # her own doing: the answers are still hers
    assert [answer.body for answer in ledger.answers("ann")] == [{"noisy": 17}]
    pick_up(ledger, new_key(ledger, "ann", "stella", code=True))
    assert ledger.answers("ann") == []
    assert ledger.answer("ann", 1) is None
    assert ledger.stored("ann", FINGERPRINT, make_query(**query)) is None
    assert ledger.look_up("ann", FINGERPRINT, make_query(**query)) is None
    again = paid(ledger, **query)  # asked again, it is paid again
    assert again.own == 2
    ledger.release(again, {"noisy": 18})
    new_key(ledger, "ann", "command line")
    assert ledger.answers("ann") == []


def test_signing_in_by_a_provider_ends_every_key_but_one_that_she_made(ledger: Ledger) -> None:
    _, picked_up = pick_up(ledger, new_key(ledger, "ann", "stella", code=True))
    key_id = only_own_key(ledger, "ann")
    with pytest.raises(WrongKey):
        authenticate(ledger, picked_up)
    assert only_own_key(ledger, "ann") == key_id  # which is hers: it stays
    own = new_key(ledger, "ann", "ann")
    assert own.startswith(f"us_{only_own_key(ledger, 'ann')}_")
    assert authenticate(ledger, own).name == "ann"
    set_active(ledger, "ann", False)
    for name in ("ann", "nobody"):
        with pytest.raises(WrongKey):
            only_own_key(ledger, name)


# Requests and second stewards --------------------------------------------------------------


def test_a_request_is_granted_for_a_project(ledger: Ledger, open_ledger: OpenLedger) -> None:
    open_project(ledger, "ann", "Another", "Its number tells nobody else anything.")
    project = open_project(ledger, "carol", "Wages", "A paper about wages.")
    assert project == 1
    asked: dict[str, Any] = {"user": "carol", "dataset": "other", "project": project}
    number = ask(ledger, "carol", "1.5", "for three tables", until="2099-06-30", **asked)
    assert approve(ledger, number, "stella", LIMIT)
    (request,) = requests(open_ledger(), "carol")
    assert (request.number, requests(ledger)[0].number) == (1, number)
    assert (request.state, request.approved, request.project) == ("granted", ("stella",), "Wages")
    assert (request.dataset, request.epsilon, request.until) == ("other", "1.5", "2099-06-30")
    account = ledger.account("carol", OTHER)
    assert (account.budget.allowed, str(account.until)) == (1_500_000, "2099-06-30 23:59:59+00:00")
    grant = list(ledger.entries())[-1]
    assert (grant.kind, grant.refers, grant.content()["by"]) == ("grant", number, "stella")
    for act in (
        lambda: approve(ledger, number, "stan", LIMIT),
        lambda: decline(ledger, number, "stan", "too late"),
        lambda: approve(ledger, 999, "stan", LIMIT),
    ):
        with pytest.raises(Refused, match="not open"):
            act()
    assert requests(ledger, "ann") == []
    assert [each.title for each in projects(ledger, "carol")] == ["Wages"]
    assert [each.title for each in projects(ledger)] == ["Another", "Wages"]


def test_what_takes_an_account_above_the_limit_needs_two_stewards(ledger: Ledger) -> None:
    asked: dict[str, Any] = {"user": "carol", "dataset": "other"}
    number = ask(ledger, "carol", "2.5", "much", **asked)
    assert not approve(ledger, number, "stella", LIMIT)
    with pytest.raises(Refused, match="You have approved this already"):
        approve(ledger, number, "stella", LIMIT)
    with pytest.raises(Refused, match="Nobody approves what she gets herself"):
        approve(ledger, number, "carol", LIMIT)
    assert not ledger.account("carol", OTHER).granted
    assert approve(ledger, number, "stan", LIMIT)
    assert ledger.account("carol", OTHER).budget.allowed == 2_500_000
    assert list(ledger.entries())[-1].content()["by"] == "stella, stan"
    # many small ones are one large one
    assert grant_or_ask(ledger, LIMIT, "stella", "ann", "1") is None  # 1 before
    waits = grant_or_ask(ledger, LIMIT, "stella", "ann", "0.000001")
    assert waits is not None
    assert ledger.budget("user", "ann").allowed == 2_000_000
    decline(ledger, waits, "stan", "enough")
    assert requests(ledger)[0].reason == "enough"
    assert grant_or_ask(ledger, None, "stella", "ann", "50") is None  # where there is no limit


def test_a_cap_is_raised_by_two_stewards(ledger: Ledger) -> None:
    before = ledger.budget("dataset", OTHER).allowed
    number = raise_or_ask(ledger, LIMIT, "stella", OTHER, "0.5")
    assert number is not None
    assert ledger.budget("dataset", OTHER).allowed == before
    assert approve(ledger, number, "stan", LIMIT)
    assert ledger.budget("dataset", OTHER).allowed == before + 500_000
    assert list(ledger.entries())[-1].content() == {"by": "stella, stan"}  # and no delta
    assert raise_or_ask(ledger, None, "stella", OTHER, "0.5") is None


def test_requests_are_checked_before_they_are_on_record(ledger: Ledger) -> None:
    project = open_project(ledger, "ann", "Mine", "Purpose.")
    before = list(ledger.entries())
    for wrong, sentence in (
        ({"epsilon": "nan"}, "plain decimal"),
        ({"why": " "}, "reason"),
        ({"until": "tomorrow"}, "A day is written like"),
        ({"project": project}, "no such project"),
        ({"project": 0}, "no such project"),
        ({"what": "cap", "dataset": ""}, "name it"),
    ):
        asked: dict[str, Any] = {"epsilon": "1", "why": "x", "dataset": "other", **wrong}
        with pytest.raises(Refused, match=sentence):
            ask(ledger, "carol", user="carol", **asked)
    with pytest.raises(UnknownName):
        ask(ledger, "carol", "1", "x", dataset="none")
    for epsilon in ("1", "3"):  # granted by one steward, and waiting for two
        with pytest.raises(UnknownName, match="user"):
            grant_or_ask(ledger, LIMIT, "stella", "nobody", epsilon)
    for title, purpose in (("", "x"), ("x" * 101, "x"), ("a\nb", "x"), ("x", "")):
        with pytest.raises(Refused):
            open_project(ledger, "ann", title, purpose)
    assert list(ledger.entries()) == before


def test_few_requests_of_one_user_wait(ledger: Ledger) -> None:
    for _ in range(MOST_OPEN):
        ask(ledger, "carol", "1", "x", user="carol", dataset="other")
    with pytest.raises(Refused, match="wait already"):
        ask(ledger, "carol", "1", "x", user="carol", dataset="other")
    ask(ledger, "ann", "1", "x", user="ann", dataset="other")
