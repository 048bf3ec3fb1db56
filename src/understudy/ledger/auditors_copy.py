"""The ledger for an auditor: every entry without questions, answers and keys, one JSON line each.

The chain can be checked from it, and what was spent recomputed; the last line is the head, with its
signature where heads are signed. Hashes of earlier versions have no salt, so that guesses at an
answer could be tried: they are left out, and the chain begins after them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from understudy.errors import Refused
from understudy.ledger.chain import BrokenLedger, Entry
from understudy.ledger.head_place import parse_head
from understudy.ledger.ledger import Ledger
from understudy.ledger.signing import check_signature
from understudy.ledger.tally import Tally


def auditors_lines(ledger: Ledger) -> Iterator[str]:
    """The lines of the copy; it ends with the head that is durable outside."""
    head, sealed = ledger.journal.head_file.read(), False
    for entry in ledger.entries():
        sealed = sealed or entry.begins_seals
        if head is not None and entry.number <= head.number:
            shown = entry.shown() if sealed else replace(entry.shown(), hash="", previous="")
            yield json.dumps(asdict(shown)) + "\n"
    if head is not None:
        yield json.dumps({"head": head.line}) + "\n"


def check_copy(path: Path, public: str = "") -> Tally:
    """Follow an auditor's copy; `public` is the key that its head must be signed with."""
    tally, head = Tally(), None
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                fields = json.loads(line)
                if "head" in fields:
                    head = parse_head(fields["head"])
                else:
                    tally.follow(Entry(**fields), shown=True)
    except (OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"`{path.name}` is no copy of a ledger for auditors.") from None
    if head is None or head != tally.head:
        raise BrokenLedger(f"`{path.name}` does not end with its head; it was cut off.")
    check_signature(head, public or tally.signer)
    return tally
