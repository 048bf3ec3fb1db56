"""Where heads are kept outside the database: a file, a PostgreSQL of somebody else, an address.

A whole database can be replaced by an older copy of itself, which would give spent epsilon back
(threat 3). So the head is also written to other places, after the commit and before anyone acts on
the entry: a database that does not contain what they know is an old copy, and does not open.
Everywhere a head is one line, `number hash signature`, and the last one counts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

from understudy.ledger.chain import BrokenLedger, Head

_LINE = re.compile(r"(\d{1,18}) ([0-9a-f]{64})(?: ([A-Za-z0-9+/=]{88}))?")


class HeadPlace(Protocol):
    """A place that only ever goes forward."""

    name: str

    def read(self) -> Head | None:
        """The last head; None where there is none yet."""

    def advance(self, head: Head) -> None:
        """Make the head durable, unless a later one already is; BrokenLedger where it is not."""

    def close(self) -> None: ...


def parse_head(line: str) -> Head | None:
    match = _LINE.fullmatch(line)
    return Head(int(match[1]), match[2], match[3] or "") if match else None


def is_ahead(name: str, known: Head | None, head: Head) -> bool:
    """Whether a place knows the head already; refused where it knows another of its number."""
    if known is None or known.number < head.number:
        return False
    if known.number == head.number and known.hash != head.hash:
        raise BrokenLedger(f"Two ledgers write to `{name}`; give each its own.")
    return True


def unwritable(name: str, why: str | None) -> BrokenLedger:
    return BrokenLedger(
        f"The ledger's heads at `{name}` cannot be written ({why}); what was asked for is on "
        "record, and nothing is answered."
    )


def head_place(location: str | Path) -> HeadPlace:
    """A file, or by its address a PostgreSQL or an HTTP endpoint."""
    from understudy.ledger.head_file import HeadFile
    from understudy.ledger.head_table import HeadTable
    from understudy.ledger.head_url import HeadUrl

    text = str(location)
    if text.startswith(("postgresql://", "postgres://")):
        return HeadTable(text)
    if text.startswith(("http://", "https://")):
        return HeadUrl(text)
    return HeadFile(Path(text))
