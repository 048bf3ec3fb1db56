"""An account in a ledger, for whoever spends outside a recipe: a table, a study of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.dp.accounting import Cost
from understudy.ledger.fingerprint import identify
from understudy.ledger.ledger import Ledger
from understudy.ledger.populations import Declaration

__public__ = ("LedgerAccount",)


@dataclass(frozen=True)
class LedgerAccount:
    """The account of a population in a `ledger` (a file or a postgresql:// address).

    `population` and `cap` declare it when it first spends; later the ledger's cap counts.
    """

    ledger: str | Path
    population: str
    cap: str
    head: str | Path | None = None
    witnesses: tuple[str | Path, ...] = ()
    head_key: str | Path | None = None

    def spend(self, survey: Any, costs: Sequence[Cost], what: str) -> str:
        """Charge the population before anything is drawn; a sentence for the claim. Refused where
        the cap would be passed, or the file is not one of the population."""
        file, _ = identify(survey.untyped, survey.raw)
        with Ledger(self.ledger, self.head, self.witnesses, self.head_key) as opened:
            opened.admit(file, Declaration(self.population, self.cap), "account")
            opened.record_spending(file.fingerprint, costs, what)
        return f"It was counted in a ledger, for the population `{self.population}`"
