"""The head file, and connections that belong to threads."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from understudy.errors import Refused, UnknownName
from understudy.ledger.accounts import add_user, list_users, set_active
from understudy.ledger.chain import BrokenLedger, Head
from understudy.ledger.database import CannotWrite, PostgresDatabase, SqliteDatabase
from understudy.ledger.head_file import HeadFile
from understudy.ledger.ledger import Ledger

FIVE, SIX = Head(5, "5" * 64), Head(6, "6" * 64)


def test_the_head_only_goes_forward_and_has_one_hash(tmp_path: Path) -> None:
    file = HeadFile(tmp_path / "head")
    assert file.read() is None
    file.advance(FIVE)
    file.advance(Head(3, "3" * 64))  # an earlier writer that comes late
    file.advance(FIVE)
    assert file.read() == FIVE
    with pytest.raises(BrokenLedger, match="Two ledgers"):
        file.advance(Head(5, "a" * 64))
    file.advance(SIX)
    assert file.path.read_text() == f"5 {FIVE.hash}\n6 {SIX.hash}\n"
    assert file.path.stat().st_mode & 0o777 == 0o600


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_heads_reach_the_disk_and_so_does_a_new_file_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda f: (synced.append(stat.S_ISDIR(os.fstat(f).st_mode)), real(f))
    )
    file = HeadFile(tmp_path / "head")
    before = descriptors()
    file.advance(FIVE)
    assert synced == [False, True]  # the file, then the folder that it is new in
    file.advance(SIX)
    assert synced == [False, True, False]
    assert descriptors() == before


def test_a_torn_line_is_closed_before_the_next(tmp_path: Path) -> None:
    file = HeadFile(tmp_path / "head")
    file.path.write_text(f"5 {FIVE.hash}\n6 66")
    assert file.read() == FIVE
    file.advance(SIX)
    assert file.path.read_text() == f"5 {FIVE.hash}\n6 66\n6 {SIX.hash}\n"
    assert file.read() == SIX


@pytest.mark.parametrize("taken", [0, 10, 66])
def test_a_head_that_a_full_disk_took_in_part_is_not_durable(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """`write` may take a part and say so; whoever spends must not go on. With room it goes on."""
    file, before = ledger.journal.head_file, ledger.journal.head_file.read()
    write = os.write
    monkeypatch.setattr(os, "write", lambda f, line: write(f, line[:taken]))
    with pytest.raises(BrokenLedger, match=r"cannot be written \(No space left on device\)"):
        ledger.grant("ann", "0.5")
    assert file.read() == before
    monkeypatch.undo()
    ledger.grant("ann", "0.25")
    assert file.read() != before
    assert ledger.budget("user", "ann").allowed == 1_750_000  # both are on record


def test_a_full_disk_spends_nothing_and_says_so(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        add_user(ledger, "ann")
        pages = ledger.journal.database._connections.get()
        pages.execute(f"PRAGMA max_page_count={pages.execute('PRAGMA page_count').fetchone()[0]}")
        before = list(ledger.entries())
        with pytest.raises(CannotWrite, match="nothing was spent"):
            ledger.grant("ann", "1", by="x" * 100_000)
        assert list(ledger.entries()) == before
        assert ledger.budget("user", "ann").allowed == 0
    Ledger(tmp_path / "ledger.db").close()  # and it opens


@pytest.mark.parametrize("where", ["header", "entries", "index"])
def test_garbage_in_the_file_is_refused_in_a_sentence(tmp_path: Path, where: str) -> None:
    """Entries that are whole do not make a whole database: an index decides what was paid."""
    path = tmp_path / "ledger.db"
    with Ledger(path) as ledger:
        add_user(ledger, "ann")
        for _ in range(100):
            ledger.grant("ann", "0.001", "x" * 200)
        connection = ledger.journal.database._connections.get()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        name = {"header": "entries", "entries": "entries", "index": "entries_question"}[where]
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,))
        page, size = root.fetchone()[0], connection.execute("PRAGMA page_size").fetchone()[0]
    with path.open("r+b") as file:
        file.seek(0 if where == "header" else (page - 1) * size)
        file.write(b"garbage" * 200)
    with pytest.raises(Refused, match=r"damaged|cannot be opened") as refusal:
        Ledger(path)
    assert str(refusal.value).endswith(".")


def test_damage_that_comes_later_is_a_refusal_too(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:

        def broken() -> None:
            with ledger.journal.database.reading():
                raise sqlite3.DatabaseError("database disk image is malformed")

        with pytest.raises(BrokenLedger, match="damaged"):
            broken()


def test_a_ledger_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger(path).close()
    path.chmod(0o644)
    with Ledger(path) as ledger:
        ledger.add_dataset("ab" * 32, "survey", "1")
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert set(modes) >= {"ledger.db", "ledger.db-wal", "ledger.db.head"}
    assert set(modes.values()) == {0o600}


def test_a_long_file_is_read_from_its_end(tmp_path: Path) -> None:
    file = HeadFile(tmp_path / "head")
    file.path.write_text("".join(f"{n} {n:064x}\n" for n in range(1, 400)))
    assert file.read() == Head(399, f"{399:064x}")


@pytest.mark.parametrize("text", ["nonsense\n", "\n", "7", f"x5 {FIVE.hash}\n"])
def test_a_head_file_without_a_head_is_refused(tmp_path: Path, text: str) -> None:
    file = HeadFile(tmp_path / "head")
    file.path.write_text(text)
    with pytest.raises(BrokenLedger, match="holds no head"):
        file.read()
    with pytest.raises(Refused, match="cannot be read"):
        HeadFile(tmp_path).read()


def test_each_thread_has_its_connection_and_all_are_closed(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "x.db")
    mine = database._connections.get()
    assert database._connections.get() is mine
    others: list[sqlite3.Connection] = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: others.append(database._connections.get()))
        thread.start()
        thread.join()
    assert mine.execute("SELECT 1").fetchall() == [(1,)]
    with pytest.raises(sqlite3.ProgrammingError):
        others[0].execute("SELECT 1")  # its thread has ended: the next one closed it
    assert others[1].execute("SELECT 1").fetchall() == [(1,)]
    database.close()
    for connection in (mine, others[1]):
        with pytest.raises(sqlite3.ProgrammingError):
            connection.execute("SELECT 1")


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    connection = SqliteDatabase(tmp_path / "x.db")._connections.get()
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_commit_waits_for_the_disk_whatever_the_role_says(postgres: str) -> None:
    database = PostgresDatabase(f"{postgres}&options=-c%20synchronous_commit%3Doff")
    connection = database._connections.get()
    assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    database.close()
    assert connection.closed


def test_without_a_head_file_only_the_opening_entry_is_believed(tmp_path: Path) -> None:
    database, head = tmp_path / "ledger.db", tmp_path / "ledger.db.head"
    Ledger(database).close()
    head.unlink()  # as if the power had failed between the commit and the file
    with Ledger(database) as ledger:
        assert head.read_text().startswith("1 ")
        ledger.add_dataset("ab" * 32, "survey", "1")
    head.unlink()
    with pytest.raises(BrokenLedger, match="are missing"):
        Ledger(database)


def test_an_entry_holds_no_number_that_json_lacks(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        with pytest.raises(ValueError, match="JSON compliant"), ledger.journal.write() as run:
            ledger.journal.append(run, "release", body={"answer": float("nan")})
        assert [entry.kind for entry in ledger.entries()] == ["open"]


def test_only_known_users_are_shut_out(tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        add_user(ledger, "ann")
        with pytest.raises(UnknownName, match="did you mean `ann`"):
            set_active(ledger, "anm", False)
        assert [user.active for user in list_users(ledger)] == [True]
        assert [entry.kind for entry in ledger.entries()] == ["open", "user"]
    assert (tmp_path / "ledger.db").exists()


def test_a_connection_that_was_lost_is_opened_again(
    ledger: Ledger, ledger_place: tuple[str, str]
) -> None:
    if ledger_place[0].startswith("postgresql"):
        ledger.journal.database._connections.get().close()
    ledger.grant("ann", "0.5")
    assert ledger.budget("user", "ann").allowed == 1_500_000
