"""Threats 3, 24 and 25 where somebody can write to everything but the key or another's place."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, understudy
from ledger_samples import FIRST, Unguarded, copy_database, write_history
from small_server import Quiet, serving
from verification_samples import FINGERPRINT, OpenLedger, make_query

from understudy.errors import Refused
from understudy.ledger import journal as journal_module
from understudy.ledger.accounts import add_user, new_key
from understudy.ledger.auditors_copy import auditors_lines, check_copy
from understudy.ledger.chain import BrokenLedger, Entry, Head
from understudy.ledger.head_place import HeadPlace, head_place, parse_head
from understudy.ledger.journal import COLUMNS
from understudy.ledger.ledger import Ledger, OverBudget, Reservation
from understudy.ledger.populations import ChangedFile, Declaration
from understudy.ledger.recovery import recover
from understudy.ledger.requests import open_project
from understudy.ledger.signing import HeadKey, check_signature, make_head_key

Place = tuple[str, str]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elsewhere") / "heads.pem"
    make_head_key(path)
    return path


def paid(ledger: Ledger, **changes: Any) -> Reservation:
    reservation = ledger.reserve("ann", FINGERPRINT, make_query(**changes))
    assert isinstance(reservation, Reservation)
    return reservation


def fill(ledger: Ledger) -> None:
    add_user(ledger, "ann")
    ledger.grant("ann", "5")
    ledger.add_dataset(FINGERPRINT, "survey", "8")


def rewrite(location: Place, change: Any) -> None:
    """What an administrator of the database can do: another chain, with a head that fits it."""
    with Unguarded(location[0]) as run:
        entries = [Entry(*row) for row in run(f"SELECT {COLUMNS} FROM entries ORDER BY number")]
        run("DELETE FROM entries")
        previous = "0" * 64
        for entry in entries:
            values = vars(change(entry)) | {"previous": previous, "hash": ""}
            values["hash"] = previous = Entry(**values).digest()
            texts = ["NULL" if v is None else repr(v) for v in values.values()]
            run(f"INSERT INTO entries ({COLUMNS}) VALUES ({', '.join(texts)})")
        run(f"UPDATE head SET hash = '{previous}'")
    file = Path(location[1])
    last = parse_head(file.read_text().splitlines()[-1])
    assert last is not None
    file.write_text(f"{Head(last.number, previous, last.signature).line}\n")


@pytest.mark.parametrize("signed", [False, True])
def test_a_rewritten_chain_with_its_head_needs_the_key(
    ledger_place: Place, key: Path, signed: bool
) -> None:
    location = (*ledger_place, (), key if signed else None)
    with Ledger(*location) as ledger:
        fill(ledger)

    def more(entry: Entry) -> Entry:
        return replace(entry, micro=entry.micro * (100 if entry.kind == "grant" else 1))

    rewrite(ledger_place, more)
    with Unguarded(ledger_place[0]) as run:
        run("UPDATE budgets SET allowed = allowed * 100")
    if signed:
        with pytest.raises(BrokenLedger, match="is not signed with the ledger's key"):
            Ledger(*location)
    else:  # which is why heads are signed
        with Ledger(*location) as ledger:
            assert ledger.budget("user", "ann").allowed == 500_000_000


def test_a_signed_ledger_is_written_with_its_key_alone(
    ledger_place: Place, key: Path, tmp_path: Path
) -> None:
    with Ledger(*ledger_place) as ledger:
        fill(ledger)
    with pytest.raises(Refused, match="begin with it by `understudy ledger sign`"):
        Ledger(*ledger_place, (), key)
    with Ledger(*ledger_place, (), key, begin=True) as ledger:
        head = ledger.journal.head_file.read()
        assert head is not None
        check_signature(head, HeadKey(key).public)
        with pytest.raises(BrokenLedger):
            check_signature(Head(head.number + 1, head.hash, head.signature), HeadKey(key).public)
    with Ledger(*ledger_place, (), key) as ledger:
        paid(ledger, epsilon="1")
    with pytest.raises(Refused, match="are signed; name the key"):
        Ledger(*ledger_place)
    (tmp_path / "keys").mkdir()
    other = tmp_path / "keys" / "other.pem"
    make_head_key(other)
    with pytest.raises(Refused, match="not signed with this `head_key`"):
        Ledger(*ledger_place, (), other)
    with Ledger(*ledger_place, (), other, begin=True) as ledger:  # a new key, on record
        paid(ledger, epsilon="2")
    with Ledger(*ledger_place, (), other, whole=True) as ledger:
        assert list(ledger.journal.tally.signers.values()) == [
            HeadKey(key).public,
            HeadKey(other).public,
        ]


def test_every_line_of_the_head_file_is_checked_where_all_is(
    ledger_place: Place, key: Path
) -> None:
    """A line before the last one, with another hash, or with the signature of another head."""
    location = (*ledger_place, (), key)
    with Ledger(*location) as ledger:
        fill(ledger)
    file = Path(ledger_place[1])
    lines = file.read_text().splitlines()
    before, head, after = (parse_head(line) for line in lines[-3:])
    assert before and head and after  # noqa: PT018
    for forged, said in (
        (replace(head, hash="ab" * 32), f"entry {head.number} is missing or was changed"),
        (replace(head, signature=before.signature), f"entry {head.number} is not signed with"),
    ):
        file.write_text("\n".join([*lines[:-2], forged.line, lines[-1]]) + "\n")
        Ledger(*location).close()  # which looks at the last one
        with pytest.raises(BrokenLedger, match=said):
            Ledger(*location, whole=True)


def test_a_key_is_kept_apart_and_from_others(ledger_place: Place, tmp_path: Path) -> None:
    beside = tmp_path / "heads.pem"
    make_head_key(beside)
    with pytest.raises(Refused, match="lies in the folder of the ledger"):
        Ledger(*ledger_place, (), beside)
    with pytest.raises(Refused, match="cannot be written"):
        make_head_key(beside)
    (tmp_path / "keys").mkdir()
    apart = beside.rename(tmp_path / "keys" / "heads.pem")
    apart.chmod(0o640)
    with pytest.raises(Refused, match="give it mode 600"):
        Ledger(*ledger_place, (), apart)
    apart.write_text("no key")
    with pytest.raises(Refused, match="no private Ed25519 key"):
        Ledger(*ledger_place, (), apart)


class Notary(Quiet):
    """Somebody else's endpoint, as the description in `head_url.py` has it."""

    lines: dict[int, str]
    broken = False

    def get(self) -> None:
        status = 503 if self.broken else 200 if self.lines else 404
        self.reply(status, self.lines[max(self.lines)] if self.lines else "")

    def post(self) -> None:
        line = self.body().strip()
        number = int(line.split()[0])
        known = self.lines.get(number, line)
        if not self.broken:
            self.lines.setdefault(number, line)
        self.reply(503 if self.broken else 200 if known == line else 409, "")


@pytest.fixture
def notary() -> Iterator[tuple[str, type[Notary]]]:
    handler = type("Own", (Notary,), {"lines": {}})
    with serving(handler) as address:
        yield f"{address}/heads", handler


@pytest.fixture(params=["file", "postgresql", "http"])
def witness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield str(tmp_path / "other-mount")
    elif request.param == "http":
        yield request.getfixturevalue("notary")[0]
    else:
        import psycopg

        url, name = request.getfixturevalue("postgres"), f"heads_{secrets.token_hex(6)}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
            yield url.replace("/postgres?", f"/{name}?")
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_place_of_heads_only_goes_forward(witness: str) -> None:
    heads: HeadPlace = head_place(witness)
    assert heads.read() is None
    five, six = Head(5, "5" * 64, "A" * 86 + "=="), Head(6, "6" * 64)
    heads.advance(five)
    heads.advance(five)
    known = heads.read()
    assert known == five
    assert known is not None
    assert known.signature == five.signature
    with pytest.raises(BrokenLedger, match="Two ledgers"):
        heads.advance(Head(5, "a" * 64))
    heads.advance(six)
    heads.advance(five)  # an earlier writer that comes late
    assert heads.read() == six
    heads.close()


def test_an_empty_head_file_has_no_head(tmp_path: Path) -> None:
    (tmp_path / "heads").touch()
    assert head_place(str(tmp_path / "heads")).read() is None


def test_an_old_copy_with_its_old_heads_is_known_elsewhere(tmp_path: Path, witness: str) -> None:
    """The database and its file of heads are restored together; the other place knows better."""
    files = str(tmp_path / "ledger.db"), str(tmp_path / "heads")
    with Ledger(*files, (witness,)) as ledger:
        fill(ledger)
    for name in files:
        copy_database(name, f"{name}.old")
    with Ledger(*files, (witness,)) as ledger:
        paid(ledger)
    for name in files:
        copy_database(f"{name}.old", name)
    Ledger(*files).close()  # nobody would know
    with pytest.raises(BrokenLedger, match="old copy"):
        Ledger(*files, (witness,))


def test_nothing_is_answered_while_a_witness_is_away(
    tmp_path: Path, notary: tuple[str, type[Notary]]
) -> None:
    url, handler = notary
    with Ledger(tmp_path / "ledger.db") as ledger:
        fill(ledger)
    with pytest.raises(BrokenLedger, match=r"heads at `127.0.0.1` are missing"):
        Ledger(tmp_path / "ledger.db", None, (url,))
    with Ledger(tmp_path / "ledger.db", None, (url,), begin=True) as ledger:
        handler.broken = True
        with pytest.raises(BrokenLedger, match=r"cannot be written \(HTTP 503\)"):
            paid(ledger)
        assert ledger.budget("user", "ann").spent > 0  # it is on record
        with pytest.raises(Refused, match="cannot be"):
            ledger.journal.try_write()  # nor is the server well
        handler.broken = False
        ledger.grant("ann", "1")
        ledger.journal.try_write()
        handler.broken = True
        with pytest.raises(Refused, match="cannot be read"):
            ledger.journal.try_write()  # without anything to write
        handler.broken = False
    assert max(handler.lines) == len(list(ledger.entries()))
    (tmp_path / "ledger.db.head").unlink()
    handler.lines.clear()
    with pytest.raises(BrokenLedger, match="are missing"):  # no place vouches for it
        Ledger(tmp_path / "ledger.db", None, (url,), begin=True)


# Checkpoints -------------------------------------------------------------------------------


def test_opening_reads_what_came_after_the_checkpoint(
    ledger_place: Place, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "CHECKPOINT", 10)
    ledger = open_ledger()
    write_history(ledger)
    for number in range(15):
        ledger.release(ledger_reserve(ledger, number), {"noisy": number})
    points = [e for e in ledger.entries() if e.kind == "checkpoint"]
    assert [e.number for e in points] == [11, 22, 33, 44]
    again = open_ledger()
    assert [e for e in again.entries() if e.kind == "checkpoint"] == points  # none before its time
    assert vars(again.journal.tally) | {"_ties": 0} == vars(replayed(again)) | {"_ties": 0}
    with Unguarded(ledger_place[0]) as run:
        before = min(e.number for e in ledger.entries() if e.kind == "release")
        run(f"UPDATE entries SET at = '2001-01-01' WHERE number = {before}")
    open_ledger()  # a payment before the checkpoint is not read again ...
    with pytest.raises(BrokenLedger, match=f"entry {before} is missing or was changed"):
        Ledger(*ledger_place, whole=True)  # ... but by `ledger verify`


def ledger_reserve(ledger: Ledger, number: int) -> Reservation:
    reservation = ledger.reserve("ann", FIRST, make_query(epsilon="0.01", estimate=number + 1.0))
    assert isinstance(reservation, Reservation)
    return reservation


def replayed(ledger: Ledger) -> Any:
    tally = type(ledger.journal.tally)()
    for entry in ledger.entries():
        tally.follow(entry)
    return tally


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET holder = 'bob' WHERE kind = 'grant'",
        "DELETE FROM entries WHERE kind = 'dataset'",
        "UPDATE entries SET body = replace(body, 'analyst', 'steward') WHERE kind = 'user'",
        "UPDATE entries SET body = replace(body, 'users', 'user') WHERE kind = 'checkpoint'",
        "DELETE FROM entries WHERE kind = 'project'",  # of which no table knows
        "UPDATE budgets SET spent = 0",
    ],
)
def test_what_governs_is_read_again_from_the_first_entry(
    ledger_place: Place, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(journal_module, "CHECKPOINT", 10)
    ledger = open_ledger()
    open_project(ledger, "ann", "Wages", "A paper.")
    write_history(ledger)
    assert ledger.journal.tally.checkpoint
    with Unguarded(ledger_place[0]) as run:
        run(change)
    with pytest.raises(BrokenLedger):
        open_ledger()


def test_tables_changed_while_the_server_runs_are_found_at_the_next_checkpoint(
    ledger: Ledger, ledger_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Unguarded(ledger_place[0]) as run:
        run("UPDATE users SET role = 'steward' WHERE name = 'ann'")
    ledger.grant("ann", "0.1")
    monkeypatch.setattr(journal_module, "CHECKPOINT", 5)
    before = list(ledger.entries())
    with pytest.raises(BrokenLedger, match="users, roles or keys"):
        ledger.grant("ann", "0.1")
    assert list(ledger.entries()) == before


# Recovery, verification, auditors ------------------------------------------------------------


def test_two_stewards_write_off_what_a_lost_disk_may_have_spent(ledger_place: Place) -> None:
    with Ledger(*ledger_place) as ledger:
        fill(ledger)
        keys = {name: add_user(ledger, name, "steward") for name in ("stella", "stan")}
        other = new_key(ledger, "ann")
        paid(ledger, epsilon="1")
    copy_database(ledger_place[0], ledger_place[0].replace("ledger", "backup", 1))
    second = FINGERPRINT[::-1]
    with Ledger(*ledger_place) as ledger:
        paid(ledger, epsilon="2")
        ledger.add_dataset(second, "wages", "1")
        last = ledger.journal.tally.head.number
    copy_database(ledger_place[0].replace("ledger", "backup", 1), ledger_place[0])
    for signed in (["stella"], ["stella", "stella"]):
        with pytest.raises(Refused, match="by two stewards"):
            recover(ledger_place, [keys[name] for name in signed], "the disk was lost")
    with pytest.raises(Refused, match="by two stewards"):
        recover(ledger_place, [keys["stella"], other], "the disk was lost")
    with pytest.raises(Refused, match="reason"):
        recover(ledger_place, list(keys.values()), " ")
    assert recover(ledger_place, list(keys.values()), "the disk was lost") == 2
    with Ledger(*ledger_place, whole=True) as ledger:
        assert ledger.budget("dataset", FINGERPRINT).left == 0
        entry = next(e for e in ledger.entries() if e.kind == "recover")
        assert entry.content() == {
            "after": entry.number - 3,
            "by": ["stan", "stella"],
            "lost": entry.number - 1,
            "reason": "the disk was lost",
        }
        assert entry.number > last
        with pytest.raises(OverBudget):
            paid(ledger, epsilon="0.000001", estimate=3.0)
        ledger.raise_cap(FINGERPRINT, "1", by="stella")
        paid(ledger, epsilon="0.5", estimate=4.0)
        with pytest.raises(ChangedFile, match="Entries of this ledger were lost"):
            ledger.add_dataset(second, "wages", "1")  # what was spent on it is not known
        ledger.separate(second, Declaration("wages", "0.2"), "nothing was asked about it")
        assert ledger.add_dataset(second, "wages", "1") == second
    with pytest.raises(Refused, match="nothing is lost"):
        recover(ledger_place, list(keys.values()), "again")


def test_an_auditor_checks_the_chain_without_seeing_answers(
    ledger_place: Place, key: Path, tmp_path: Path
) -> None:
    with Ledger(*ledger_place, (), key) as ledger:
        fill(ledger)
        ledger.release(paid(ledger, epsilon="1", estimate=4711.5), {"noisy": "an answer"})
        copy = tmp_path / "ledger.jsonl"
        copy.write_text("".join(auditors_lines(ledger)))
        question = make_query(epsilon="1", estimate=4711.5).digest()
        with ledger.journal.database.reading() as run:
            hashes = [row[0] for row in run("SELECT key_hash FROM users")]
    text = copy.read_text()
    for secret in ('income\\"', "an answer", question, *hashes):
        assert secret not in text
    tally = check_copy(copy, HeadKey(key).public)
    assert tally.budgets["user", "ann"].spent == 1_000_000
    assert tally.head.number == len(text.splitlines()) - 1
    lines = [json.loads(line) for line in text.splitlines()]
    for position, change in ((3, {"micro": 1}), (-2, {"body": '{"sealed":""}'}), (2, {"at": "x"})):
        changed = [line | change if line is lines[position] else line for line in lines]
        copy.write_text("".join(json.dumps(line) + "\n" for line in changed))
        with pytest.raises(BrokenLedger, match="missing or was changed"):
            check_copy(copy)
    copy.write_text("".join(json.dumps(line) + "\n" for line in lines[:-2]))
    with pytest.raises(BrokenLedger, match="cut off"):
        check_copy(copy)
    copy.write_text("no copy\n")
    with pytest.raises(Refused, match="no copy of a ledger"):
        check_copy(copy)


def test_an_answer_that_was_taken_out_is_missed_in_the_ledger_itself(
    ledger: Ledger, ledger_place: Place, open_ledger: OpenLedger
) -> None:
    """What an auditor is shown in its place does not stand for it here."""
    ledger.release(paid(ledger), {"noisy": 1})
    last = list(ledger.entries())[-1]
    with Unguarded(ledger_place[0]) as run:
        run(f"UPDATE entries SET body = '{last.shown().body}' WHERE number = {last.number}")
    with pytest.raises(BrokenLedger, match="changed"):
        open_ledger()


def run_command(*words: object) -> Ran:
    return understudy(*map(str, words))


def test_the_commands_of_a_security_office(tmp_path: Path) -> None:
    """Key, sign, verify, export, verify the export, recover: step by step."""
    folder, keys = tmp_path / "server", tmp_path / "keys"
    folder.mkdir()
    keys.mkdir()
    config = folder / "server.toml"
    dataset = '[datasets.survey]\npath = "x.csv"\ncap = "10"\n'
    config.write_text(f'ledger = "ledger.db"\n{dataset}')
    for name in ("stella", "stan"):
        (keys / name).write_text(
            run_command("user", "add", config, name, "--role", "steward").stdout
        )
    public = run_command("ledger", "key", keys / "heads.pem").stdout.strip()
    named = 'ledger = "ledger.db"\nhead_key = "../keys/heads.pem"\nwitnesses = ["../keys/heads"]\n'
    config.write_text(named + dataset)
    assert run_command("user", "list", config).returncode == 2
    assert public in run_command("ledger", "sign", config).stdout
    verified = run_command("ledger", "verify", config).stdout
    assert verified.startswith("All 4 entries hold; the head is ")
    copy = tmp_path / "ledger.jsonl"
    assert "cannot be written" in run_command("ledger", "export", config, tmp_path).stderr
    run_command("ledger", "export", config, copy)
    assert run_command("ledger", "verify", copy, "--public", public).stdout == verified
    refused = run_command("ledger", "verify", copy, "--public", "A" * 43 + "=")
    assert (refused.returncode, "not signed" in refused.stderr) == (2, True)
    backup = (folder / "ledger.db").read_bytes()
    run_command("user", "disable", config, "stan")
    (folder / "ledger.db").write_bytes(backup)
    unread = run_command("ledger", "recover", config, "--key-file", keys / "none")
    assert "check the paths" in unread.stderr
    assert "understudy ledger recover" in run_command("ledger", "verify", config).stderr
    signed = [each for name in ("stella", "stan") for each in ("--key-file", keys / name)]
    done = run_command("ledger", "recover", config, "--reason", "a lost disk", *signed)
    assert done.stdout.startswith("1 lost entries are written off")
    assert run_command("ledger", "verify", config).returncode == 0
