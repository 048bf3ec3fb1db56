"""Threats to the ledger, each with the test that fails without its defence.

Every test runs on SQLite and on a real PostgreSQL.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ledger_samples import Unguarded, copy_database
from verification_samples import FINGERPRINT, OpenLedger, make_query

from understudy.errors import Refused, UnknownName
from understudy.ledger.abandoned import fail_abandoned, unanswered
from understudy.ledger.accounts import (
    WrongKey,
    add_user,
    authenticate,
    list_users,
    new_key,
    set_active,
)
from understudy.ledger.chain import BrokenLedger
from understudy.ledger.head_file import HeadFile
from understudy.ledger.ledger import (
    Ledger,
    OverBudget,
    Reservation,
    ShutOut,
    StillAnswering,
    StoredAnswer,
)

OTHER = "cd" * 32


def reserved(ledger: Ledger, user: str = "ann", **changes: Any) -> Reservation:
    reservation = ledger.reserve(user, FINGERPRINT, make_query(**changes))
    assert isinstance(reservation, Reservation)
    return reservation


# 1. Overspending by racing -----------------------------------------------------------


def race(ledger_place: tuple[str, str], users: list[str]) -> list[str]:
    """Every user asks for 0.1 on a warm connection, all behind one barrier; the outcomes."""
    barrier = threading.Barrier(len(users), timeout=250)
    outcomes: list[str] = []

    def ask(number: int) -> None:
        try:
            with Ledger(*ledger_place) as mine:  # its connection is open and warm
                barrier.wait()
                query = make_query(epsilon="0.1", estimate=1.0 + number)
                outcomes.append(type(mine.reserve(users[number], FINGERPRINT, query)).__name__)
        except Exception as error:
            if not isinstance(error, OverBudget):
                barrier.abort()
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(users))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_200_connections_at_once_spend_exactly_the_budget(
    ledger: Ledger, open_ledger: OpenLedger, ledger_place: tuple[str, str]
) -> None:
    outcomes = race(ledger_place, ["ann"] * 200)
    assert sorted(outcomes) == ["OverBudget"] * 190 + ["Reservation"] * 10
    assert ledger.budget("user", "ann").spent == 1_000_000
    assert ledger.budget("dataset", FINGERPRINT).spent == 1_000_000
    assert sum(e.micro for e in ledger.entries() if e.kind == "reserve") == 1_000_000
    open_ledger()  # the chain has no fork


def test_users_who_race_share_the_cap_of_the_data_set(
    ledger: Ledger, ledger_place: tuple[str, str]
) -> None:
    ledger.grant("ann", "9")
    ledger.grant("bob", "9")
    outcomes = race(ledger_place, ["ann", "bob"] * 40)
    assert sorted(outcomes) == ["OverBudget"] * 65 + ["Reservation"] * 15
    assert ledger.budget("dataset", FINGERPRINT).left == 0


def test_the_data_sets_cap_holds_across_users_and_names(ledger: Ledger) -> None:
    """Threat 15: a new name for the same data brings no new epsilon."""
    reserved(ledger, "ann", epsilon="0.9")
    ledger.add_dataset(FINGERPRINT, "the same under a new name", "100")
    assert ledger.budget("dataset", FINGERPRINT).allowed == 1_500_000
    with pytest.raises(OverBudget, match=r"needs epsilon 0.7, and less than that is left"):
        reserved(ledger, "bob", epsilon="0.7")
    reserved(ledger, "bob", epsilon="0.6")
    assert ledger.budget("dataset", FINGERPRINT).left == 0


def test_a_refusal_says_what_is_left_and_spends_nothing(ledger: Ledger) -> None:
    reserved(ledger, epsilon="0.75")
    entries = len(list(ledger.entries()))
    with pytest.raises(OverBudget, match=r"needs epsilon 0.300001, 0.25 is left of your budget"):
        reserved(ledger, epsilon="0.300001")
    assert ledger.budget("user", "ann").left == 250_000
    assert ledger.budget("dataset", FINGERPRINT).spent == 750_000
    assert len(list(ledger.entries())) == entries


def test_unknown_users_and_data_sets_have_nothing(ledger: Ledger) -> None:
    with pytest.raises(OverBudget):
        reserved(ledger, "eve")
    with pytest.raises(OverBudget):
        ledger.reserve("ann", OTHER, make_query())


# 3. Restored backup ------------------------------------------------------------------


def test_a_restored_copy_does_not_open(ledger_place: tuple[str, str]) -> None:
    with Ledger(*ledger_place) as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "1")
        ledger.add_dataset(FINGERPRINT, "survey", "1")
    copy_database(ledger_place[0], ledger_place[0].replace("ledger", "backup", 1))
    with Ledger(*ledger_place) as ledger:
        reserved(ledger)
    copy_database(ledger_place[0].replace("ledger", "backup", 1), ledger_place[0])
    with pytest.raises(BrokenLedger, match="old copy"):
        Ledger(*ledger_place)


def test_rows_that_vanish_stop_the_ledger(
    ledger: Ledger, open_ledger: OpenLedger, ledger_place: tuple[str, str]
) -> None:
    """What a restore looks like to a database of either kind: the last entries are gone."""
    reserved(ledger)
    with Unguarded(ledger_place[0]) as run:
        last = run("SELECT max(number) FROM entries")[0][0]
        run(f"DELETE FROM entries WHERE number = {last}")
        digest = run(f"SELECT hash FROM entries WHERE number = {last - 1}")[0][0]
        run(f"UPDATE head SET number = {last - 1}, hash = '{digest}'")
        run("UPDATE budgets SET spent = 0")
    with pytest.raises(BrokenLedger, match="old copy"):
        open_ledger()
    with pytest.raises(BrokenLedger, match="older than it was"):  # also while running
        reserved(ledger)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE entries SET micro = 1 WHERE kind = 'reserve'", "changed"),
        ("UPDATE entries SET holder = 'bob' WHERE kind = 'reserve'", "changed"),
        ("UPDATE entries SET at = '2001-01-01T00:00:00+00:00' WHERE number = 3", "changed"),
        ("DELETE FROM entries WHERE number = 3", "missing"),
        ("UPDATE budgets SET spent = 0", "do not follow"),
        ("UPDATE budgets SET allowed = allowed + 5", "do not follow"),
        ("UPDATE users SET role = 'steward' WHERE name = 'bob'", "users, roles or keys"),
        (f"UPDATE users SET key_hash = '{'0' * 64}' WHERE name = 'bob'", "users, roles or keys"),
        ("UPDATE users SET key_id = 'ab' WHERE name = 'bob'", "users, roles or keys"),
        ("UPDATE users SET active = 0 WHERE name = 'bob'", "users, roles or keys"),
        ("DELETE FROM users WHERE name = 'bob'", "users, roles or keys"),
        ("INSERT INTO users VALUES ('eve', 'steward', 'ab', 'cd', 1)", "users, roles or keys"),
    ],
)
def test_a_changed_ledger_does_not_open(
    ledger: Ledger,
    open_ledger: OpenLedger,
    ledger_place: tuple[str, str],
    change: str,
    message: str,
) -> None:
    reserved(ledger)
    with Unguarded(ledger_place[0]) as run:
        run(change)
    with pytest.raises(BrokenLedger, match=message):
        open_ledger()


def test_users_keys_and_roles_follow_from_their_entries(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    """What the ledger itself changed opens as before."""
    key = add_user(ledger, "stella", "steward")
    key, old = new_key(ledger, "stella"), key
    set_active(ledger, "bob", False)
    set_active(ledger, "ann", False)
    set_active(ledger, "ann", True)
    again = open_ledger()
    assert authenticate(again, key).role == "steward"
    with pytest.raises(WrongKey):
        authenticate(again, old)
    assert [user.active for user in list_users(again)] == [True, False, True]


def test_entries_cannot_be_changed_through_the_database(ledger: Ledger) -> None:
    reserved(ledger)
    for change in ("UPDATE entries SET micro = 0", "DELETE FROM entries"):
        with (
            pytest.raises(Exception, match="append-only"),
            ledger.journal.database.transaction() as run,
        ):
            run(change)


def test_a_missing_head_file_or_database_is_noticed(
    ledger: Ledger, ledger_place: tuple[str, str], tmp_path: Path
) -> None:
    Path(ledger_place[1]).unlink()
    with pytest.raises(BrokenLedger, match="missing"):
        Ledger(*ledger_place)
    ledger.journal.head_file.advance(ledger.journal._seen)
    with pytest.raises(BrokenLedger, match="empty"):
        Ledger(tmp_path / "new.db", ledger_place[1])


def test_a_torn_last_line_of_the_head_file_is_ignored(
    ledger: Ledger, open_ledger: OpenLedger, ledger_place: tuple[str, str]
) -> None:
    known = HeadFile(Path(ledger_place[1])).read()
    with Path(ledger_place[1]).open("a") as file:
        file.write("99 abc")
    assert HeadFile(Path(ledger_place[1])).read() == known
    reserved(ledger)
    entries = HeadFile(Path(ledger_place[1])).read()
    assert entries is not None
    assert known is not None
    assert entries.number == known.number + 1
    open_ledger()


# 4. Float drift, NaN, negatives ------------------------------------------------------


@pytest.mark.parametrize("bad", ["nan", "1e400", "-0", "1e-9", "-1", "0", "", "0.0000001", "١"])
def test_amounts_that_are_not_exact_change_nothing(ledger: Ledger, bad: str) -> None:
    before = list(ledger.entries())
    for act in (
        lambda: ledger.grant("ann", bad),
        lambda: ledger.raise_cap(FINGERPRINT, bad),
        lambda: ledger.record_spending(FINGERPRINT, bad, "a table"),
        lambda: ledger.add_dataset(OTHER, "other", bad),
        lambda: reserved(ledger, epsilon=bad),
    ):
        with pytest.raises(Refused):
            act()
    assert list(ledger.entries()) == before


def test_ten_tenths_are_exactly_one(ledger: Ledger) -> None:
    for number in range(10):
        reserved(ledger, epsilon="0.1", estimate=float(number + 1))
    assert ledger.budget("user", "ann").left == 0
    with pytest.raises(OverBudget):
        reserved(ledger, epsilon="0.000001")


# 13. Averaging by replay -------------------------------------------------------------


def test_a_thousand_replays_cost_one_and_say_one_thing(ledger: Ledger) -> None:
    ledger.release(reserved(ledger, epsilon="0.1"), {"noisy": 17})
    answers = set()
    for _ in range(1000):
        stored = ledger.stored("ann", FINGERPRINT, make_query(epsilon="0.100"))
        assert stored is not None
        answers.add(stored.body["noisy"])
    assert answers == {17}
    assert isinstance(ledger.reserve("ann", FINGERPRINT, make_query(epsilon="0.1")), StoredAnswer)
    assert ledger.budget("user", "ann").spent == 100_000


def test_a_replay_is_for_the_same_user_data_and_question_only(ledger: Ledger) -> None:
    ledger.release(reserved(ledger, epsilon="0.1"), {"noisy": 17})
    assert ledger.stored("bob", FINGERPRINT, make_query(epsilon="0.1")) is None
    assert ledger.stored("ann", OTHER, make_query(epsilon="0.1")) is None
    assert ledger.stored("ann", FINGERPRINT, make_query(epsilon="0.2")) is None
    assert ledger.answers("bob") == []
    ledger.release(reserved(ledger, "bob", epsilon="0.1"), {"noisy": 99})
    for user, noisy in (("ann", 17), ("bob", 99)):
        assert [a.body for a in ledger.answers(user)] == [{"noisy": noisy}]
        answer = ledger.stored(user, FINGERPRINT, make_query(epsilon="0.1"))
        assert answer is not None
        assert answer.body == {"noisy": noisy}


def test_without_an_answer_the_same_question_is_paid_again(ledger: Ledger) -> None:
    ledger.fail(reserved(ledger, epsilon="0.1"))
    reserved(ledger, epsilon="0.1")
    assert ledger.budget("user", "ann").spent == 200_000  # never refunded


def test_an_answer_shows_at_its_slot_whenever_it_was_computed(
    ledger_place: tuple[str, str],
) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    with Ledger(*ledger_place, clock=lambda: now) as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "1")
        ledger.add_dataset(FINGERPRINT, "survey", "1")
        query = make_query(epsilon="0.1")
        paid = ledger.reserve("ann", FINGERPRINT, query, hold_seconds=3.0)
        assert isinstance(paid, Reservation)
        for released in (False, True):
            if released:
                ledger.release(paid, {"noisy": 1})
            for later, left in ((0.0, 3.0), (2.9, 1.0)):
                now = paid.at + timedelta(seconds=later)
                with pytest.raises(StillAnswering, match=f"again in {left} seconds, for free"):
                    ledger.reserve("ann", FINGERPRINT, query, hold_seconds=3.0)
                with pytest.raises(StillAnswering):
                    ledger.stored("ann", FINGERPRINT, query)
                assert ledger.answers("ann") == []
        now = paid.at + timedelta(seconds=3)
        reservation = ledger.reserve("ann", FINGERPRINT, query, hold_seconds=3.0)
        assert isinstance(reservation, StoredAnswer)
        assert reservation.at == paid.at  # not the time of the release
        assert len(ledger.answers("ann")) == 1
        assert ledger.budget("user", "ann").spent == 100_000


@pytest.mark.parametrize("jump", [0.9, 3600.0, -3600.0])
def test_a_question_under_way_is_not_charged_again_whatever_the_clock_says(
    ledger_place: tuple[str, str], jump: float
) -> None:
    """Computing that outlasts the slot, and clocks that are set: one charge, one value."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    with Ledger(*ledger_place, clock=lambda: now) as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "1")
        ledger.add_dataset(FINGERPRINT, "survey", "1")
        query = make_query(epsilon="0.1")
        paid = ledger.reserve("ann", FINGERPRINT, query, hold_seconds=0.8)
        assert isinstance(paid, Reservation)
        now += timedelta(seconds=jump)
        for ask in (ledger.reserve, ledger.look_up):
            with pytest.raises(StillAnswering, match="for free"):
                ask("ann", FINGERPRINT, query)
        ledger.release(paid, {"noisy": 17})
        again = ledger.reserve("ann", FINGERPRINT, query)
        assert isinstance(again, StoredAnswer)
        assert again.body == {"noisy": 17}
        assert [answer.number for answer in ledger.answers("ann")] == [paid.own]
        assert ledger.budget("user", "ann").spent == 100_000


def test_what_a_dead_server_left_is_failed_by_the_next(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    paid = reserved(ledger, epsilon="0.1")
    ledger.release(reserved(ledger, epsilon="0.2"), {"noisy": 1})
    ledger.fail(reserved(ledger, epsilon="0.3"))
    after = open_ledger()
    with pytest.raises(StillAnswering):  # to open a ledger ends nothing: a server may be at work
        after.reserve("ann", FINGERPRINT, make_query(epsilon="0.1"))
    (left,) = unanswered(after)
    assert left.number == paid.number
    fail_abandoned(after, [left])
    fail_abandoned(after, [left])  # once is enough
    assert unanswered(after) == []
    with pytest.raises(Refused, match="answered already"):
        ledger.release(paid, {"noisy": 2})  # too late: nothing gets two values
    assert isinstance(after.reserve("ann", FINGERPRINT, make_query(epsilon="0.1")), Reservation)
    assert after.budget("user", "ann").spent == 700_000  # never refunded


def test_looking_up_says_what_reserving_would_and_spends_nothing(ledger: Ledger) -> None:
    before = list(ledger.entries())
    assert ledger.look_up("ann", FINGERPRINT, make_query(epsilon="1")) is None
    for epsilon in ("1.1", "1.6"):  # the cap is 1.5, which is none of her business
        with pytest.raises(OverBudget, match="of your budget"):
            ledger.look_up("ann", FINGERPRINT, make_query(epsilon=epsilon))
    assert list(ledger.entries()) == before
    ledger.grant("ann", "1")
    with pytest.raises(OverBudget, match="for this data set"):
        ledger.look_up("ann", FINGERPRINT, make_query(epsilon="1.6"))
    ledger.release(reserved(ledger, epsilon="1"), {"noisy": 3})
    stored = ledger.look_up("ann", FINGERPRINT, make_query(epsilon="1"))
    assert stored is not None
    assert stored.body == {"noisy": 3}


def test_a_closed_account_is_not_charged(ledger: Ledger) -> None:
    """Whoever closes an account does not know of a question that waits for its turn."""
    before = list(ledger.entries())
    set_active(ledger, "ann", False)
    with pytest.raises(ShutOut, match="nothing was spent"):
        ledger.reserve("ann", FINGERPRINT, make_query(epsilon="0.1"))
    assert ledger.budget("user", "ann").spent == 0
    set_active(ledger, "ann", True)
    assert isinstance(ledger.reserve("ann", FINGERPRINT, make_query()), Reservation)
    assert [e.kind for e in ledger.entries(len(before))] == ["disable", "enable", "reserve"]


def test_a_reservation_is_answered_once(ledger: Ledger) -> None:
    paid = reserved(ledger)
    ledger.release(paid, {"noisy": 1})
    for act in (lambda: ledger.release(paid, {"noisy": 2}), lambda: ledger.fail(paid)):
        with pytest.raises(Refused, match="answered already"):
            act()
    forged = Reservation(999, paid.at, "ann", FINGERPRINT, 1)
    with pytest.raises(BrokenLedger):
        ledger.release(forged, {"noisy": 1})


# One ledger for releases, tables and verifications ------------------------------------


def test_releases_spend_from_the_same_cap_once_per_reference(ledger: Ledger) -> None:
    first = ledger.record_spending(FINGERPRINT, "1.2", "release out/", reference="manifest-1")
    assert ledger.record_spending(FINGERPRINT, "1.2", "release out/", "manifest-1") == first
    assert ledger.budget("dataset", FINGERPRINT).spent == 1_200_000
    with pytest.raises(Refused, match="a different amount"):
        ledger.record_spending(FINGERPRINT, "0.1", "release out/", "manifest-1")
    with pytest.raises(OverBudget, match=r"less than that is left for this data set"):
        reserved(ledger, epsilon="0.4")
    ledger.record_spending(FINGERPRINT, "0.1", "a table")
    ledger.record_spending(FINGERPRINT, "0.1", "a table")  # no reference: two tables
    assert ledger.budget("dataset", FINGERPRINT).left == 100_000
    ledger.raise_cap(FINGERPRINT, "1", by="steward")
    reserved(ledger, epsilon="0.4")


# 16. Keys and grants -------------------------------------------------------------------


def test_keys_are_stored_hashed_and_checked(ledger: Ledger) -> None:
    key = add_user(ledger, "carol", role="steward")
    user = authenticate(ledger, key)
    assert (user.name, user.role) == ("carol", "steward")
    secret = key.split("_", 2)[2]
    assert len(secret) == 43  # 256 bits
    with ledger.journal.database.reading() as run:
        stored = str(run("SELECT * FROM users")) + str(run("SELECT body FROM entries"))
    assert secret not in stored
    flipped = key[:-1] + ("A" if key[-1] != "A" else "B")
    for wrong in (flipped, key[:-1], key + "x", "", "us_", "\udcff", key.replace("us_", "su_")):
        with pytest.raises(WrongKey, match="This key is not known; check it, or ask the steward"):
            authenticate(ledger, wrong)


def test_a_new_key_ends_the_old_and_a_closed_account_has_none(ledger: Ledger) -> None:
    old = add_user(ledger, "carol")
    new = new_key(ledger, "carol")
    assert authenticate(ledger, new).name == "carol"
    with pytest.raises(WrongKey):
        authenticate(ledger, old)
    set_active(ledger, "carol", False)
    with pytest.raises(WrongKey):
        authenticate(ledger, new)
    assert [u.active for u in list_users(ledger)] == [True, True, False]
    set_active(ledger, "carol", True)
    assert authenticate(ledger, new).name == "carol"


def test_grants_are_entries_and_names_are_checked(ledger: Ledger) -> None:
    ledger.grant("ann", "0.5", by="carol")
    grants = [e for e in ledger.entries() if e.kind == "grant" and e.user == "ann"]
    assert [e.micro for e in grants] == [1_000_000, 500_000]
    assert grants[1].content() == {"by": "carol"}
    with pytest.raises(UnknownName, match="did you mean `ann`"):
        ledger.grant("anm", "1")
    with pytest.raises(Refused, match="already"):
        add_user(ledger, "ann")
    with pytest.raises(UnknownName, match="role"):
        add_user(ledger, "dave", role="root")
    for name in ("", "a b", "x" * 65, "a'; DROP TABLE users", "é"):
        with pytest.raises(Refused, match="user name"):
            add_user(ledger, name)
    with pytest.raises(UnknownName):
        new_key(ledger, "nobody")


# Places that are no ledger ---------------------------------------------------------------


def test_bad_places_are_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, just a long enough text " * 50)
    for bad in (tmp_path / "text.db", tmp_path / "no" / "folder" / "x.db", tmp_path):
        with pytest.raises(Refused, match="cannot be opened"):
            Ledger(bad)
    with pytest.raises(Refused, match="mysql"):
        Ledger("mysql://x")
    with pytest.raises(Refused, match="head"):
        Ledger("postgresql://nobody:secret@127.0.0.1:1/none")
    with pytest.raises(Refused, match="cannot be reached") as refused:
        Ledger("postgresql://nobody:secret@127.0.0.1:1/none", tmp_path / "heads")
    assert "secret" not in str(refused.value)
