"""What a release costs in the ledger: recorded before any record is fitted, and again for chance
that is new.

One payment is for one value of the mechanism (threat 32). Noise from OpenDP is on the disk before
it is used, so that a run that was killed goes on with the same noise. What is seeded comes out the
same on the same machine; where a run comes out differently from what an earlier one had written
(another processor, library, or file of the steward's own), the release is paid for again.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from understudy.claim import RECORD, Claim
from understudy.dp.accounting import Cost
from understudy.dp.kept_noise import OtherQuestion, forget, keeping
from understudy.errors import Refused
from understudy.ledger.amounts import OverBudget
from understudy.ledger.ledger import Ledger
from understudy.ledger.populations import Declaration
from understudy.release.inside import Inside
from understudy.release.outside import ENVELOPE
from understudy.release.stages import Leavings, Workspace, files_of

SYNTHESIS = "1-synthesis"


def costs_of(inside: Inside) -> list[Cost]:
    """What each part of a release costs the codebook's unit; refused where one states nothing."""
    unit = inside.narrowed.codebook.unit_column or RECORD
    costs = []
    for mechanism in inside.mechanisms:
        cost = mechanism.cost()
        if cost is None:
            raise Refused(
                f"A ledger counts epsilon, and {type(mechanism).__name__} states none beforehand; "
                "give `epsilon`, or leave out [ledger]."
            )
        costs.append(replace(cost, unit=unit))
    if inside.corrections is not None:
        costs.append(replace(inside.corrections.cost, unit=unit))
    return costs


def declaration(inside: Inside) -> Declaration:
    """The population that the recipe names, or the release's title."""
    keys = inside.recipe.ledger
    if keys is None:
        raise Refused("The recipe has no [ledger]; add one with `place` and `cap`.")
    return Declaration(
        keys.population or inside.title, keys.cap, keys.delta, keys.own_delta, keys.unit,
        keys.records_per_unit, keys.relation,
    )  # fmt: skip


def price(inside: Inside) -> str:
    """What the ledger will be charged, in words."""
    population = declaration(inside).population()
    return f"{population.amount(costs_of(inside))} ({population.relation}, {population.unit})"


def paid_synthesis(
    inside: Inside, work: Workspace, nonce: str, words: str, make: Callable[[Path], None]
) -> Path:
    """The folder of the synthesis, made and paid for.

    `nonce` tells releases of one recipe apart that are made with other random numbers.
    """
    payment = _Payment(inside, work, nonce)
    noise = work.folder / "noise"
    leavings = Leavings(work.folder / f"{SYNTHESIS}.left")
    leavings.take(work.part(SYNTHESIS) / ENVELOPE)
    if payment.started and not payment.keeps_noise:
        payment.anew()
    payment.make()
    try:
        with keeping(noise):
            stage = work.stage(SYNTHESIS, words, make)
    except OtherQuestion:
        payment.anew()
        forget(noise)
        leavings.forget()
        work.say("The noise of an earlier run does not fit: the release is paid for again.")
        with keeping(noise):
            stage = work.stage(SYNTHESIS, words, make)
    try:
        if not leavings.same(stage / ENVELOPE):
            work.say("This run gave other draws than an earlier one: it is paid for again.")
            payment.anew()
        payment.settle(stage)
    except Refused:
        shutil.rmtree(stage)  # it was not paid for
        raise
    leavings.forget()
    return stage


class _Payment:
    """The payments of one release; how many there were is kept beside its stages."""

    def __init__(self, inside: Inside, work: Workspace, nonce: str) -> None:
        self.inside, self.work, self.nonce = inside, work, nonce
        self._count = work.folder / "payments"

    @property
    def started(self) -> bool:
        """Whether an earlier run paid and did not finish the synthesis."""
        return self._count.exists() and not (self.work.folder / SYNTHESIS).is_dir()

    @property
    def keeps_noise(self) -> bool:
        """Whether all noise is drawn where it is kept; the steward's own mechanisms may not."""
        return all(
            mechanism.seeded or type(mechanism).__module__.startswith("understudy.")
            for mechanism in self.inside.mechanisms
        )

    @property
    def number(self) -> int:
        return int(self._count.read_text(encoding="utf-8")) if self._count.exists() else 1

    def make(self) -> int | None:
        """Record the price of the last payment, once; its entry. Refused when the cap is passed."""
        if not self._count.exists():
            self._write(1)
        return self._pay("" if self.number == 1 else f":{self.number}")

    def anew(self) -> None:
        """Pay again for new chance; noted before it is paid, so that a kill cannot undo it."""
        self._write(self.number + 1)
        self.make()

    def settle(self, stage: Path) -> None:
        """Note in the ledger what the payment gave; another result was not paid for."""
        entry = self.make()
        if entry is None:
            return
        digest = _digest(stage / ENVELOPE)
        with self._ledger() as ledger:
            same = ledger.record_envelope(entry, digest)
        if not same:
            self._pay(f":{digest}")

    def _pay(self, mark: str) -> int | None:
        inside = self.inside
        if inside.recipe.ledger is None:
            return None
        with self._ledger() as ledger:
            ledger.admit(inside.file, declaration(inside), "release")
            what = f"release `{inside.title}`"
            reference = f"{inside.identity}:{self.nonce}{mark}"
            try:
                return ledger.record_spending(
                    inside.file.fingerprint, costs_of(inside), what, reference
                )
            except OverBudget as refusal:
                raise Refused(
                    f"{refusal} The release was not made; raise the cap on record, or ask for less."
                ) from None

    def _ledger(self) -> Ledger:
        location = self.inside.recipe.ledger_location
        assert location is not None
        return Ledger(*location)

    def _write(self, number: int) -> None:
        whole = self._count.with_name("payments.part")
        whole.write_text(str(number), encoding="utf-8")
        whole.rename(self._count)


def check_price(inside: Inside, claim: Claim) -> None:
    """The claim may not cost more than was recorded for it, but for the last of its digits.

    A recorded rho is the mechanism's own figure, from which it computed what it claims.
    """
    if inside.recipe.ledger is None or claim.epsilon is None:
        return
    population = declaration(inside).population()
    recorded, stated = population.amount(costs_of(inside)), population.amount([cost_of(claim)])
    if recorded.concentrated:
        return
    if stated.micro > recorded.micro + 1 or stated.atto > recorded.atto * (1 + 1e-9):
        raise Refused(
            "The claim turned out larger than what the ledger holds for it; nothing is published."
        )


def cost_of(claim: Claim) -> Cost:
    """What a claim with an epsilon costs, in its own relation or under `replace`."""
    if claim.epsilon_replace is not None:
        return Cost(("replace",), Fraction(repr(claim.epsilon_replace)), unit=claim.unit)
    epsilon, delta = Fraction(repr(claim.epsilon)), Fraction(repr(claim.delta))
    return Cost((claim.relation,), epsilon, delta, unit=claim.unit)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in files_of(folder):
        digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
