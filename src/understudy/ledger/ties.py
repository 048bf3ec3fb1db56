"""Which file belongs to which population, as the ledger's entries say it.

A population goes by the fingerprint of its first file. Further fingerprints are tied to it: a
`successor` (a corrected file, which shares the cap), `same` (the same file by a fingerprint of
version 0.1.0 and by today's). `merge` makes two populations one; nothing ever splits one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from understudy.ledger.database import Run
from understudy.ledger.entry_kinds import TYING


class Ties:
    """fingerprint -> population, following the entries in their order."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._same: dict[str, str] = {}

    def follow(self, kind: str, file: str, content: Mapping[str, Any]) -> None:
        if kind in ("same", "successor"):
            self._of[file] = self.of(content["of"])
        if kind == "same":
            self._same[file] = content["of"]
        if kind == "dataset":
            self._of.setdefault(file, file)
        if kind == "merge":
            gone, kept = self.of(file), self.of(content["into"])
            self._of = {f: kept if name == gone else name for f, name in self._of.items()}

    def __contains__(self, file: str) -> bool:
        return file in self._of

    def of(self, file: str) -> str:
        """The population of a file; an unknown file stands for itself."""
        return self._of.get(file, file)

    def alike(self, file: str) -> list[str]:
        """All fingerprints of the same file, this one first."""
        first = self._same.get(file, file)
        others = [other for other, of in self._same.items() if of == first]
        return list(dict.fromkeys([file, first, *others]))


def read_ties(run: Run) -> Ties:
    ties = Ties()
    marks = ", ".join("?" * len(TYING))
    select = f"SELECT kind, dataset, body FROM entries WHERE kind IN ({marks}) ORDER BY number"
    for kind, file, body in run(select, *TYING):
        ties.follow(kind, file, json.loads(body))
    return ties
