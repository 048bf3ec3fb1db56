"""Populations: whose cap it is, whatever becomes of the file (threats 15, 19)."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ibis
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from verification_samples import FINGERPRINT, OpenLedger, make_frame, make_query

from understudy.dp.accounting import Cost, epsilon_of, rho_of
from understudy.errors import Refused, UnknownName
from understudy.ledger.amounts import Amount, Cap, OverBudget, Standing, parse_delta
from understudy.ledger.auditors_copy import auditors_lines, check_copy
from understudy.ledger.chain import BrokenLedger
from understudy.ledger.fingerprint import FileIdentity, identify
from understudy.ledger.ledger import Ledger, Reservation, StoredAnswer
from understudy.ledger.ledger_account import LedgerAccount
from understudy.ledger.populations import ChangedFile, Declaration, Population, require
from understudy.ledger.views import caps, lines, totals

FRAME = make_frame(60)
SAMPLE = Path(__file__).parent / "version_0_1_0"


def identity(frame: pl.DataFrame) -> FileIdentity:
    table = ibis.memtable(frame)
    return identify(table, table)[0]


def dollar(frame: pl.DataFrame) -> pl.DataFrame:
    more = pl.when(pl.int_range(pl.len()) == 7).then(1).otherwise(0)
    return frame.with_columns(income=pl.col("income") + more)


EDITS = {
    "a dollar": dollar(FRAME),
    "a constant column": FRAME.with_columns(wave=pl.lit(2026)),
    "a renamed column": FRAME.rename({"income": "pay"}),
    "a record less": FRAME[1:],
    "a record more": pl.concat([FRAME, FRAME[:1]]),
    "a column less": FRAME.drop("hours"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_file_does_not_open_a_fresh_cap(ledger: Ledger, edit: str) -> None:
    """Under its own name, under a new one, and as a data set of a server: refused, one cap."""
    ledger.add_dataset(identity(FRAME), "pay", "2")
    before = list(ledger.entries())
    changed = identity(EDITS[edit])
    assert changed.fingerprint != identity(FRAME).fingerprint
    with pytest.raises(ChangedFile, match="`pay` is the name of another file"):
        ledger.add_dataset(changed, "pay", "2")
    with pytest.raises(ChangedFile, match="akin to those of `pay`"):
        ledger.add_dataset(changed, "pay, corrected", "2")
    assert list(ledger.entries()) == before
    with pytest.raises(OverBudget):
        ledger.record_spending(changed.fingerprint, "0.1", "a release")


def test_other_people_are_another_population(ledger: Ledger) -> None:
    ledger.add_dataset(identity(FRAME), "pay", "2")
    others = identity(make_frame(60, seed=8).drop("person"))
    ledger.add_dataset(others, "others", "3")
    assert ledger.budget("dataset", others.fingerprint).left == 3_000_000


def test_order_names_and_storage_do_not_matter(ledger: Ledger) -> None:
    ledger.add_dataset(identity(FRAME), "pay", "2")
    ledger.record_spending(identity(FRAME).fingerprint, "1.5", "a release")
    same = FRAME.sample(fraction=1.0, shuffle=True, seed=1).cast({"hours": pl.String})
    ledger.add_dataset(identity(same[:, ::-1]), "under another name", "9")
    with pytest.raises(OverBudget, match=r"needs epsilon 0.6, 0.5 is left"):
        ledger.record_spending(identity(same).fingerprint, "0.6", "a release")


def test_a_successor_shares_the_cap(ledger: Ledger, open_ledger: OpenLedger) -> None:
    first, second = identity(FRAME), identity(dollar(FRAME))
    ledger.add_dataset(first, "pay", "2")
    ledger.record_spending(first.fingerprint, "1.2", "a release")
    for reason in ("", "  ", "x" * 501):
        with pytest.raises(Refused, match="reason"):
            ledger.succeed("pay", second, reason)
    with pytest.raises(UnknownName, match="did you mean `pay`"):
        ledger.succeed("pai", second, "a correction")
    ledger.succeed("pay", second, "one income was corrected", by="stella")
    ledger.add_dataset(second, "pay", "99")
    again = open_ledger()
    assert again.budget("dataset", second.fingerprint).left == 800_000
    with pytest.raises(OverBudget, match=r"needs epsilon 0.9, 0.8 is left"):
        again.record_spending(second.fingerprint, "0.9", "a release")
    again.record_spending(second.fingerprint, "0.8", "a release")
    assert again.budget("dataset", first.fingerprint).left == 0
    with pytest.raises(Refused, match="knows this file already"):
        again.succeed("pay", second, "again")
    recorded = next(e for e in again.entries() if e.kind == "successor")
    assert recorded.content()["reason"] == "one income was corrected"
    assert recorded.content()["by"] == "stella"


def test_a_question_about_a_corrected_file_is_a_new_one(ledger: Ledger) -> None:
    ledger.succeed("survey", "cd" * 32, "a correction")
    paid = ledger.reserve("ann", FINGERPRINT, make_query(epsilon="0.1"))
    assert isinstance(paid, Reservation)
    ledger.release(paid, {"noisy": 1})
    assert isinstance(ledger.reserve("ann", "cd" * 32, make_query(epsilon="0.1")), Reservation)
    assert ledger.budget("dataset", FINGERPRINT).spent == 200_000


def test_a_population_of_its_own_needs_a_name_and_a_reason(ledger: Ledger) -> None:
    ledger.add_dataset(identity(FRAME), "pay", "2")
    new = identity(FRAME[30:])
    with pytest.raises(Refused, match="reason"):
        ledger.separate(new, Declaration("pay 2", "1"), "")
    with pytest.raises(Refused, match="already"):
        ledger.separate(new, Declaration("pay", "1"), "other people")
    made = ledger.separate(new, Declaration("pay 2", "1"), "other people")
    assert (made.name, made.files) == ("pay 2", (new.fingerprint,))
    with pytest.raises(Refused, match="knows this file already, as one of `pay`"):
        ledger.separate(identity(FRAME), Declaration("pay 3", "1"), "other people")
    assert ledger.budget("dataset", new.fingerprint).left == 1_000_000
    ledger.add_dataset(new, "pay 2", "77")
    with pytest.raises(Refused, match="belong to the population `pay 2`, not to `pay`"):
        ledger.add_dataset(new, "pay", "77")


def test_merged_populations_are_one_for_good(ledger: Ledger, open_ledger: OpenLedger) -> None:
    other = "cd" * 32
    ledger.add_dataset(other, "census", "1.2")
    ledger.record_spending(FINGERPRINT, "0.5", "a release")
    ledger.record_spending(other, "0.7", "a release")
    with pytest.raises(Refused, match="reason"):
        ledger.merge("census", "survey", "")
    with pytest.raises(Refused, match="one population already"):
        ledger.merge("survey", FINGERPRINT, "the same")
    assert ledger.merge("census", "survey", "the same people").files == (FINGERPRINT, other)
    for opened in (ledger, open_ledger()):
        for file in (FINGERPRINT, other):
            assert opened.budget("dataset", file).spent == 1_200_000
            assert opened.budget("dataset", file).left == 300_000  # under the larger cap, 1.5
    ledger.record_spending(other, "0.3", "a release")
    assert open_ledger().budget("dataset", FINGERPRINT).left == 0
    assert [cap.name for cap in caps(ledger)] == ["survey, census"]
    assert [(t.dataset, t.epsilon, t.entries) for t in totals(ledger)] == [
        ("survey, census", "1.5", 3)
    ]
    assert not hasattr(ledger, "split")


def test_merging_more_than_the_cap_leaves_nothing(ledger: Ledger, open_ledger: OpenLedger) -> None:
    ledger.add_dataset("cd" * 32, "census", "1.5")
    for file in (FINGERPRINT, "cd" * 32):
        ledger.record_spending(file, "1.4", "a release")
    ledger.merge("census", "survey", "the same people")
    assert open_ledger().budget("dataset", FINGERPRINT).left == 0
    with pytest.raises(OverBudget, match="0 is left"):
        ledger.record_spending(FINGERPRINT, "0.000001", "a release")


def test_populations_with_other_figures_are_not_merged(ledger: Ledger) -> None:
    ledger.add_dataset("cd" * 32, "households", "1", unit="household", records_per_unit=5)
    ledger.add_dataset("ef" * 32, "converted", "1", delta="1e-6")
    for other in ("households", "converted"):
        with pytest.raises(Refused, match=r"same unit and relation|other deltas"):
            ledger.merge(other, "survey", "the same people")


# Units and relations ---------------------------------------------------------------------


def pure(relation: Any, epsilon: str, unit: str = "record") -> Cost:
    return Cost((relation,), Fraction(epsilon), unit=unit)


def test_sums_are_in_one_unit_and_one_relation(ledger: Ledger, open_ledger: OpenLedger) -> None:
    """A claim under blank counts twice under replace, one for a record k times for its unit."""
    ledger.add_dataset("cd" * 32, "homes", "9", unit="home", records_per_unit=3)
    spend = ledger.record_spending
    spend("cd" * 32, [pure("replace", "0.1", "home")], "a release")  # 0.1
    spend("cd" * 32, [pure("replace", "0.1")], "a release")  # 0.3
    spend("cd" * 32, [pure("blank", "0.1"), pure("add-remove", "0.2")], "a release")  # 0.6 + 1.2
    assert ledger.budget("dataset", "cd" * 32).spent == 2_200_000
    with pytest.raises(Refused, match="for one `person` cannot be added to figures for one `home`"):
        spend("cd" * 32, [pure("replace", "0.1", "person")], "a release")
    recorded = [e for e in open_ledger().entries() if e.kind == "spend"]
    assert [e.micro for e in recorded] == [100_000, 300_000, 1_800_000]
    assert {(e.content()["unit"], e.content()["relation"]) for e in recorded} == {
        ("home", "replace")
    }
    counted = next(cap.counted for cap in caps(ledger) if cap.name == "homes")
    assert counted == "epsilon under `replace` for one home, rounded up to the millionth"


def test_answers_of_the_server_count_for_the_populations_unit(ledger: Ledger) -> None:
    ledger.add_dataset("cd" * 32, "homes", "9", unit="home", records_per_unit=3)
    ledger.reserve("ann", "cd" * 32, make_query(epsilon="0.1"))
    home = Cost(("replace", "add-remove"), Fraction("0.2"), unit="home")
    ledger.reserve("ann", "cd" * 32, make_query(epsilon="0.2"), cost=home)
    assert ledger.budget("dataset", "cd" * 32).spent == 500_000
    ledger.reserve("bob", FINGERPRINT, make_query(epsilon="0.2"), cost=home)  # holds for a record
    assert ledger.budget("dataset", FINGERPRINT).spent == 200_000


def test_a_population_under_add_remove_takes_what_is_proved_under_it(ledger: Ledger) -> None:
    ledger.add_dataset("cd" * 32, "open count", "1", relation="add-remove")
    ledger.record_spending("cd" * 32, [pure("add-remove", "0.4")], "counts")
    for relation in ("replace", "blank"):
        with pytest.raises(Refused, match=f"under `{relation}` says nothing under `add-remove`"):
            ledger.record_spending("cd" * 32, [pure(relation, "0.1")], "draws")
    whole = Cost(("add-remove",), Fraction("0.1"), unit="home")
    ledger.record_spending("cd" * 32, [whole], "counts of homes")  # two steps for a record of one
    assert ledger.budget("dataset", "cd" * 32).spent == 600_000


def test_an_account_charges_the_population_of_its_file(tmp_path: Path) -> None:
    table = ibis.memtable(FRAME)
    survey = SimpleNamespace(untyped=table, raw=table)
    account = LedgerAccount(tmp_path / "ledger.db", "pay", "2")
    said = account.spend(survey, [pure("replace", "3/2")], "a release")
    assert said == "It was counted in a ledger, for the population `pay`"
    with pytest.raises(OverBudget, match=r"needs epsilon 1.5, 0.5 is left"):
        account.spend(survey, [pure("replace", "3/2")], "a release")
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.budget("dataset", identity(FRAME).fingerprint).spent == 1_500_000


def test_what_has_no_short_decimal_is_rounded_up(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.record_spending(FINGERPRINT, [pure("replace", "1/3")], "a release")
    assert ledger.budget("dataset", FINGERPRINT).spent == 1_000_002


def test_an_amount_is_rounded_up_in_all_its_figures() -> None:
    """Two costs of 1/3: 2/3 of epsilon, rho 2 (1/3)^2 / 2, and twice a delta of 1/3 e-9."""
    cost = Cost(("replace",), Fraction(1, 3), delta=Fraction(1, 3 * 10**9))
    assert Amount.of([cost, cost]) == Amount(666_667, 111_111_112, 666_666_667)


# Caps of epsilon and delta -----------------------------------------------------------------


def concentrated(rho: str, relation: Any = "replace") -> Cost:
    return Cost((relation,), rho=Fraction(rho))


def test_a_cap_of_epsilon_and_delta_composes_by_rho(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    ledger.add_dataset("cd" * 32, "census", "1", delta="1e-5")
    rho = Fraction(rho_of(1.0, 1e-5))
    ledger.record_spending("cd" * 32, [Cost(("replace",), rho=rho / 2)], "tables")
    with pytest.raises(OverBudget, match="rho"):
        ledger.record_spending("cd" * 32, [Cost(("replace",), rho=rho * Fraction("0.51"))], "more")
    with pytest.raises(OverBudget, match="is left"):  # two steps: four times the rho
        ledger.record_spending("cd" * 32, [Cost(("add-remove",), rho=rho / 4)], "more")
    ledger.record_spending("cd" * 32, [Cost(("add-remove",), rho=rho / 9)], "more")
    state = open_ledger().budget("dataset", "cd" * 32)
    spent = float(rho) * (1 / 2 + 4 / 9)
    assert state.spent / 1e6 == pytest.approx(epsilon_of(spent, 1e-5), abs=2e-6)
    assert state.left / 1e6 == pytest.approx((2 * (float(rho) - spent)) ** 0.5, abs=2e-5)
    shown = [line for line in lines(ledger) if line.kind == "spend"]
    assert [line.rho for line in shown] == ["0.015278298", "0.013580709"]


def test_many_small_answers_go_further_under_rho(ledger: Ledger) -> None:
    """Epsilon .004 as often as it goes: 250 times by adding up, 3,819 times by rho."""
    standing = Standing(Cap.stated("1", "1e-5"))
    small, count = Amount.pure(4000), 0
    while True:
        try:
            standing.check(small)
        except OverBudget:
            break
        standing, count = Standing(standing.cap, standing.spent + small), count + 1
    assert count == int(rho_of(1.0, 1e-5) / 0.000008) == 3819
    assert standing.budget.spent <= 1_000_000
    assert ledger.budget("dataset", FINGERPRINT).left == 1_500_000


def test_few_large_ones_go_by_adding_up() -> None:
    standing = Standing(Cap.stated("1", "1e-5"))
    half = Amount.pure(500_000)
    standing.check(half + half)
    with pytest.raises(OverBudget, match=r"needs epsilon 0.500001, 0.5 is left"):
        Standing(standing.cap, half).check(Amount.pure(500_001))


def test_what_is_left_is_never_more_than_the_cap() -> None:
    """A large delta converts to more rho than the epsilon of the cap has by itself."""
    standing = Standing(Cap.stated("0.01", "0.4"))
    assert standing.cap.nano > Amount.pure(10_000).nano
    assert standing.budget.left == 10_000


def test_what_could_still_be_spent_is_each_limit_less_what_was_spent() -> None:
    cap = Cap(micro=50, atto=7, own=90, nano=1100)
    assert Standing(cap, Amount(20, 300, 40)).rest == Amount(30, 800, 50)
    assert Standing(cap, Amount(51, 1101, 91)).rest == Amount()


def test_a_name_of_several_populations_finds_none_of_them() -> None:
    two = {key: Population(key, ("pay",), files=(key,)) for key in ("ab", "cd")}
    with pytest.raises(Refused, match="several populations; give a fingerprint instead: ab or cd"):
        require(two, "pay")
    assert require(two, "cd") is two["cd"]


def test_rho_needs_a_cap_with_delta(ledger: Ledger) -> None:
    with pytest.raises(OverBudget, match="the cap is stated as epsilon alone"):
        ledger.record_spending(FINGERPRINT, [concentrated("0.0001")], "tables")
    assert ledger.budget("dataset", FINGERPRINT).spent == 0


def test_deltas_that_releases_carry_are_counted(ledger: Ledger, open_ledger: OpenLedger) -> None:
    threshold = Cost(("replace",), Fraction("0.1"), Fraction("4e-9"))
    ledger.record_spending(FINGERPRINT, [threshold], "a threshold")
    assert [line.delta for line in lines(ledger) if line.kind == "spend"] == ["4e-09"]
    ledger.add_dataset("cd" * 32, "census", "1", delta="1e-6", own_delta="1e-8")
    for _ in range(2):
        ledger.record_spending("cd" * 32, [threshold], "a threshold")
    with pytest.raises(OverBudget, match="2e-09 is left for such deltas"):
        ledger.record_spending("cd" * 32, [threshold], "a threshold")
    ledger.raise_cap("cd" * 32, "1", own_delta="2e-9")
    ledger.record_spending("cd" * 32, [threshold], "a threshold")
    again = open_ledger()
    assert again.budget("dataset", "cd" * 32).allowed == 2_000_000
    with pytest.raises(OverBudget, match="0 is left for such deltas"):
        again.record_spending("cd" * 32, [threshold], "a threshold")


def test_a_raised_cap_has_the_rho_of_the_new_epsilon(ledger: Ledger) -> None:
    ledger.add_dataset("cd" * 32, "census", "1", delta="1e-5")
    ledger.raise_cap("cd" * 32, "2")
    allowed = Fraction(rho_of(3.0, 1e-5))
    ledger.record_spending("cd" * 32, [Cost(("replace",), rho=allowed - Fraction(1, 10**9))], "all")
    with pytest.raises(OverBudget):
        ledger.record_spending("cd" * 32, [concentrated("0.000000002")], "more")


@pytest.mark.parametrize("delta", ["0", "1", "1e-19", "-1e-9", "nan", "1e400", "1.5e-1x", ""])
def test_deltas_are_exact_or_refused(delta: str) -> None:
    with pytest.raises(Refused, match="delta must be"):
        parse_delta(delta)


def test_a_delta_is_whole_in_its_units() -> None:
    assert parse_delta("1e-9") == parse_delta("0.000000001") == 10**9
    assert parse_delta("2.5e-12") == 2_500_000


@pytest.mark.parametrize(
    "wrong", [{"relation": "blank"}, {"records_per_unit": 0}, {"delta": "2"}, {"cap": "x"}]
)
def test_declarations_are_checked(ledger: Ledger, wrong: dict[str, Any]) -> None:
    before = list(ledger.entries())
    with pytest.raises(Refused):
        ledger.admit("cd" * 32, Declaration(**{"name": "census", "cap": "1"} | wrong))
    with pytest.raises(Refused, match="1 to 200"):
        Declaration("", "1")
    assert list(ledger.entries()) == before


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_recorded_the_tables_follow_from_the_entries(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = tmp_path_factory.mktemp("any") / "ledger.db"
    files = ["ab" * 32, "cd" * 32, "ef" * 32]
    with Ledger(database) as ledger:
        ledger.add_dataset(files[0], "one", "5")
        ledger.add_dataset(files[1], "two", "5", delta="1e-6", own_delta="1e-7")
        ledger.add_dataset(files[2], "three", "5")
        for number in range(data.draw(st.integers(1, 8))):
            file = data.draw(st.sampled_from(files))
            kind = data.draw(st.sampled_from(["pure", "rho", "delta", "cap", "merge", "successor"]))
            try:
                if kind == "pure":
                    ledger.record_spending(file, "0.7", "x")
                elif kind == "rho":
                    ledger.record_spending(file, [concentrated("0.01")], "x")
                elif kind == "delta":
                    cost = Cost(("blank",), Fraction("0.3"), Fraction("1e-9"))
                    ledger.record_spending(file, [cost], "x")
                elif kind == "cap":
                    ledger.raise_cap(file, "1")
                elif kind == "merge":
                    ledger.merge(file, data.draw(st.sampled_from(files)), "x")
                else:
                    ledger.succeed(file, f"{number}" * 64, "x")
            except Refused:
                continue
        budgets = [ledger.budget("dataset", file) for file in files]
    with Ledger(database) as again:  # recomputes everything
        assert [again.budget("dataset", file) for file in files] == budgets


# A ledger of version 0.1.0 -----------------------------------------------------------------


@pytest.fixture
def old_place(tmp_path: Path) -> Path:
    for name in ("ledger.db", "ledger.db.head"):
        shutil.copy(SAMPLE / name, tmp_path / name)
    return tmp_path / "ledger.db"


def test_an_old_ledger_becomes_populations_once(old_place: Path) -> None:
    with Ledger(old_place) as ledger:
        entries = list(ledger.entries())
        known = {cap.name: (cap.allowed, cap.spent) for cap in caps(ledger)}
    assert [e.kind for e in entries].count("version") == 1
    assert entries[-1].content() == {"seals": True, "version": 2}
    stated: dict[str, int] = {}
    for e in entries:  # summed by hand, as 0.1.0 did
        if e.kind in ("dataset", "cap", "reserve", "spend") and e.dataset:
            at = f"{'allowed' if e.kind in ('dataset', 'cap') else 'spent'} {e.dataset}"
            stated[at] = stated.get(at, 0) + e.micro
    with Ledger(old_place) as ledger:
        assert list(ledger.entries()) == entries  # not again
        for dataset in {e.dataset for e in entries if e.kind == "dataset" and e.dataset}:
            budget = ledger.budget("dataset", dataset)
            assert budget.allowed == stated[f"allowed {dataset}"]
            assert budget.spent == stated.get(f"spent {dataset}", 0)
        assert len(known) == len(caps(ledger))
        copy = old_place.with_suffix(".jsonl")
        copy.write_text("".join(auditors_lines(ledger)))
    assert check_copy(copy).unseen == len(entries) - 1  # all but the one that says so


def test_an_old_population_is_found_by_its_old_fingerprint(old_place: Path) -> None:
    """Typed values then, canonical text now: the same file, the same cap, the same answers."""
    with Ledger(old_place) as ledger:
        old = next(e for e in ledger.entries() if e.kind == "reserve" and e.dataset)
        assert old.dataset is not None
        before = ledger.budget("dataset", old.dataset)
        today = FileIdentity("12" * 32, typed=old.dataset)
        name = next(cap.name for cap in caps(ledger)).split(", ")[0]
        ledger.add_dataset(today, name, "99")
        assert ledger.budget("dataset", today.fingerprint) == before
        assert ledger.population("12" * 32).key == old.dataset
        question = ledger.answers("ann")[0]
        from understudy.verify.catalogue import read_query

        again = ledger.reserve("ann", today.fingerprint, read_query(dict(question.question)))
        assert isinstance(again, StoredAnswer)
        with pytest.raises(ChangedFile, match="another file"):
            ledger.add_dataset(FileIdentity("34" * 32, typed="56" * 32), name, "99")
    with Ledger(old_place) as ledger:
        assert ledger.population("12" * 32).key == old.dataset


def test_one_file_that_0_1_0_knew_as_two_must_be_merged(ledger: Ledger) -> None:
    """Two codebooks made two fingerprints of one file."""
    ledger.add_dataset("cd" * 32, "as text", "1")
    ledger.add_dataset(FileIdentity("12" * 32, typed=FINGERPRINT), "survey", "1")
    both = FileIdentity("12" * 32, typed="cd" * 32)
    with pytest.raises(ChangedFile, match="two populations, `survey` and `as text`; merge"):
        ledger.add_dataset(both, "survey", "1")
    ledger.merge("as text", "survey", "one file")
    ledger.add_dataset(both, "survey", "1")
    assert ledger.population("12" * 32).names == ("survey", "as text")


def test_a_migrated_ledger_is_still_checked_whole(old_place: Path) -> None:
    import sqlite3

    with Ledger(old_place):
        pass
    for change in ("spent = 0", "allowed = allowed + 1", "rho = 5", "spent_delta = 1"):
        with sqlite3.connect(old_place, isolation_level=None) as connection:
            kept = connection.execute("SELECT * FROM populations").fetchall()
            connection.execute(f"UPDATE populations SET {change}")
        with pytest.raises(BrokenLedger, match="do not follow"):
            Ledger(old_place)
        with sqlite3.connect(old_place, isolation_level=None) as connection:
            connection.execute("DELETE FROM populations")
            marks = ", ".join("?" * len(kept[0]))
            connection.executemany(f"INSERT INTO populations VALUES ({marks})", kept)
    Ledger(old_place).close()
