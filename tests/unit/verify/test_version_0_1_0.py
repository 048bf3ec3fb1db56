"""A ledger that version 0.1.0 wrote: it opens, its keys work, its answers read as they did.

`answers.json` holds the keys of its users (made for this test), and for each answer the digest
of its question, the question in words, and the API's reply, all as 0.1.0 gave them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from understudy.ledger.accounts import WrongKey, authenticate
from understudy.ledger.auditors_copy import auditors_lines, check_copy
from understudy.ledger.chain import BrokenLedger
from understudy.ledger.ledger import Ledger, StoredAnswer
from understudy.verify.catalogue import packaged, read_query
from understudy.verify.receipt import Receipt

FOLDER = Path(__file__).parents[1] / "ledger" / "version_0_1_0"
REWORDED = {  # in the paragraph of a claim, which is written anew from its fields
    "Protected is the": "What is protected is the",
    "Protected are the": "What is protected are the",
    "in which any other values stand in": "with any other values in",
    "needs k times it": "needs k times as much",
    "privacy claim with epsilon": "privacy claim for one record with epsilon",
    "without that record": "without the record",
    "its own epsilon to this one.": "its own epsilon to this one. If the data holder decided to "
    "publish after looking at the confidential values, that decision is not covered.",
}
KNOWN: dict[str, Any] = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))


@pytest.fixture
def old_ledger(tmp_path: Path) -> Any:
    for name in ("ledger.db", "ledger.db.head"):
        shutil.copy(FOLDER / name, tmp_path / name)
    with Ledger(tmp_path / "ledger.db") as opened:
        yield opened


def test_it_opens_with_its_budgets_and_users(old_ledger: Ledger) -> None:
    kinds = {entry.kind for entry in old_ledger.entries()}
    assert kinds >= {"open", "user", "key", "grant", "dataset", "cap", "reserve", "release"}
    assert kinds >= {"fail", "spend", "disable"}
    assert old_ledger.budget("user", "ann").spent == 9_250_000
    assert old_ledger.budget("dataset", KNOWN["fingerprint"]).spent == 12_250_000
    assert authenticate(old_ledger, KNOWN["keys"]["ann"]).role == "analyst"
    assert authenticate(old_ledger, KNOWN["keys"]["stella"]).role == "steward"
    with pytest.raises(WrongKey):
        authenticate(old_ledger, KNOWN["keys"]["bob"])  # shut out


def test_an_auditors_copy_has_none_of_its_hashes(old_ledger: Ledger, tmp_path: Path) -> None:
    """They were made without salt. The chain is checked from the first entry that has one on."""
    old_ledger.grant("ann", "1")
    copy = tmp_path / "ledger.jsonl"
    copy.write_text("".join(auditors_lines(old_ledger)))
    entries = list(old_ledger.entries())
    first = next(entry.number for entry in entries if entry.kind == "version")
    for entry in entries[: first - 2]:  # the first one that is sealed says which it follows
        assert entry.hash not in copy.read_text()
    tally = check_copy(copy)
    assert tally.unseen == first - 1
    assert tally.budgets["user", "ann"].spent == 9_250_000
    lines = copy.read_text().splitlines()
    for number in (first, first + 1):
        fields = json.loads(lines[number - 1])
        for change in ({"micro": 7}, {"hash": ""}, {"previous": ""}):
            changed = [*lines[: number - 1], json.dumps(fields | change), *lines[number:]]
            copy.write_text("\n".join([*changed, ""]))
            with pytest.raises(BrokenLedger):
                check_copy(copy)


def test_its_answers_read_as_they_did(old_ledger: Ledger) -> None:
    stored = old_ledger.answers("ann")
    assert len(stored) == len(KNOWN["answers"]) == 10
    for number, (answer, known) in enumerate(zip(stored, KNOWN["answers"], strict=True), 1):
        receipt = Receipt.from_ledger(answer, packaged())
        written, expected = receipt.model_dump(mode="json"), dict(known["reply"])
        # Receipts had the entry's number, which told of others' questions; now each user's count.
        assert (written.pop("receipt"), expected.pop("receipt") > number) == (number, True)
        # The ledger has the question in its canonical form, with M written out.
        asked = read_query(expected.pop("query"))
        assert asked.in_words() == known["words"]
        assert asked.digest() == receipt.query.digest() == known["digest"]
        question, canonical = written.pop("query"), json.loads(receipt.query.canonical())
        assert {name: question.pop(name) for name in canonical} == canonical
        assert set(question.values()) <= {None}  # fields of later versions
        assert written["synthetic"].pop("influence") is None
        assert (written["synthetic"].pop("name"), written["synthetic"].pop("others")) == ("", [])
        assert written.pop("numbers") == []
        for old, new in REWORDED.items():
            expected["claim"] = expected["claim"].replace(old, new)
        shown, was = written.pop("posterior"), expected.pop("posterior")
        assert written == expected
        assert set(shown) == set(was)
        for name, value in was.items():
            if value is None or isinstance(value, bool):
                assert shown[name] is value
            else:  # special functions may differ in the last digits from one SciPy to the next
                assert shown[name] == pytest.approx(value, rel=1e-9)


def test_the_same_question_is_still_free(old_ledger: Ledger) -> None:
    spent = old_ledger.budget("user", "ann").spent
    for number, known in enumerate(KNOWN["answers"], start=1):
        query = read_query(known["reply"]["query"])
        again = old_ledger.reserve("ann", KNOWN["fingerprint"], query)
        assert isinstance(again, StoredAnswer)
        assert again.number == number
    assert old_ledger.budget("user", "ann").spent == spent
