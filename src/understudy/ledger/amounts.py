"""Amounts in whole numbers, caps, and what of a cap is left.

epsilon is counted in millionths, rho in billionths, delta in units of 10^-18. Costs are rounded up
to these, allowances down, and the sums of whole numbers are exact.

A cap of epsilon alone holds the sum of epsilons; deltas are added up beside it. A cap of (epsilon,
delta) fixes, when it is stated, the rho that OpenDP converts to it; then releases may go on as long
as their epsilons add up to no more than epsilon, or their rhos to no more than rho. Either rule
alone keeps the promise when each release is chosen after seeing the last ones, and so does their
union (docs/proofs/accounts.md). Deltas that releases carry themselves (a threshold) come out of a
share of their own, `own`, fixed with the cap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, isqrt

from understudy.dp.accounting import (
    LARGEST_RHO,
    Cost,
    epsilon_of,
    rho_of,
    rounded_down,
    rounded_up,
)
from understudy.errors import Refused
from understudy.ledger.epsilon import LARGEST, MICRO, parse_epsilon, show_epsilon

NANO = 10**9
ATTO = 10**18

_DELTA = re.compile(r"(?:0?\.\d{1,18}|\d{1,2}(?:\.\d{1,6})?[eE]-\d{1,2})", re.ASCII)


class OverBudget(Refused):
    """The request costs more than is left; nothing was spent."""


@dataclass(frozen=True)
class Budget:
    """Micro-epsilon allowed and spent, of a user or of a population; `left` is the largest pure
    epsilon that can still be spent."""

    allowed: int = 0
    spent: int = 0
    room: int | None = None  # where it is not the difference

    @property
    def left(self) -> int:
        return self.allowed - self.spent if self.room is None else self.room


@dataclass(frozen=True)
class Amount:
    """What an entry spends: epsilon and delta of the parts that state them, rho of all parts."""

    micro: int = 0
    nano: int = 0
    atto: int = 0
    concentrated: bool = False  # a part states rho alone, so epsilons do not add up

    @staticmethod
    def pure(micro: int) -> Amount:
        return Amount(micro, -(-micro * micro // 2000))

    @staticmethod
    def of(costs: Sequence[Cost]) -> Amount:
        """The sum of costs in one unit and one relation, rounded up once."""
        amount = Amount(
            ceil(sum((cost.epsilon or Fraction(0) for cost in costs), Fraction(0)) * MICRO),
            ceil(sum((cost.as_rho for cost in costs), Fraction(0)) * NANO),
            ceil(sum((cost.delta for cost in costs), Fraction(0)) * ATTO),
            any(cost.rho is not None for cost in costs),
        )
        if amount.micro > LARGEST:
            raise Refused(f"A ledger counts epsilons up to {LARGEST // MICRO}.")
        return amount

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.micro + other.micro,
            self.nano + other.nano,
            self.atto + other.atto,
            self.concentrated or other.concentrated,
        )

    def __str__(self) -> str:
        if self.concentrated:
            text = f"rho {self.nano / NANO:g}"
            return f"epsilon {show_epsilon(self.micro)} and {text}" if self.micro else text
        text = f"epsilon {show_epsilon(self.micro)}"
        return f"{text} and delta {show_delta(self.atto)}" if self.atto else text


@dataclass(frozen=True)
class Cap:
    """The most that may ever be spent on a population."""

    micro: int = 0
    atto: int = 0  # for converting rho to epsilon; 0: epsilons add up, and nothing else does
    own: int = 0  # for deltas that releases carry themselves
    nano: int = 0  # the rho that follows

    @staticmethod
    def stated(epsilon: str, delta: str = "", own_delta: str = "") -> Cap:
        micro = parse_epsilon(epsilon)
        atto = parse_delta(delta) if delta else 0
        own = parse_delta(own_delta) if own_delta else 0
        return Cap(micro, atto, own).with_rho()

    def with_rho(self) -> Cap:
        """The same cap with the rho that OpenDP converts to (epsilon, delta), rounded down."""
        if not self.atto:
            return self
        epsilon, delta = Fraction(self.micro, MICRO), Fraction(self.atto, ATTO)
        rho = rho_of(rounded_down(epsilon), rounded_down(delta))
        return replace(self, nano=floor(Fraction(rho) * NANO))


@dataclass(frozen=True)
class Standing:
    """A population's cap and what was spent of it."""

    cap: Cap = Cap()
    spent: Amount = Amount()

    def check(self, amount: Amount) -> None:
        """Refused where the cap would be passed."""
        total = self.spent + amount
        if (self.cap.atto or self.cap.own) and total.atto > self.cap.own:
            raise OverBudget(
                f"This carries delta {show_delta(amount.atto)} of its own, and "
                f"{show_delta(max(self.cap.own - self.spent.atto, 0))} is left for such deltas; "
                "state `own_delta` with the cap."
            )
        basic = not total.concentrated and total.micro <= self.cap.micro
        if basic or (self.cap.atto and total.nano <= self.cap.nano):
            return
        if amount.concentrated and not self.cap.atto:
            raise OverBudget(
                f"This needs {amount}, and the cap is stated as epsilon alone; a release under "
                "zCDP needs a cap of epsilon and delta."
            )
        if amount.concentrated:
            left = max(self.cap.nano - self.spent.nano, 0) / NANO
            raise OverBudget(f"This needs {amount}, rho {left:g} is left for this data set.")
        raise OverBudget(
            f"This needs epsilon {show_epsilon(amount.micro)}, {show_epsilon(self.budget.left)} is "
            "left for this data set."
        )

    @property
    def budget(self) -> Budget:
        """In epsilon, at the cap's delta where it has one; what is spent is rounded up."""
        if not self.cap.atto:
            room = 0 if self.spent.concentrated else max(self.cap.micro - self.spent.micro, 0)
            return Budget(self.cap.micro, self.spent.micro, room)
        basic = None if self.spent.concentrated else self.spent.micro
        ways = [] if basic is None else [basic]
        if 0 < self.spent.nano <= LARGEST_RHO * NANO:
            rho, delta = Fraction(self.spent.nano, NANO), Fraction(self.cap.atto, ATTO)
            ways.append(ceil(Fraction(epsilon_of(rounded_up(rho), rounded_down(delta))) * MICRO))
        # epsilon^2/2 <= what is left of rho, in whole numbers
        room = isqrt(2000 * max(self.cap.nano - self.spent.nano, 0))
        if basic is not None:
            room = max(room, self.cap.micro - basic)
        return Budget(self.cap.micro, min(ways, default=0), min(room, self.cap.micro))

    @property
    def rest(self) -> Amount:
        """All that could still be spent, by whatever rule."""
        return Amount(
            max(self.cap.micro - self.spent.micro, 0),
            max(self.cap.nano - self.spent.nano, 0),
            max(self.cap.own - self.spent.atto, 0),
        )

    def merged(self, other: Standing) -> Standing:
        """One population of two: what was spent on either counts, under the larger cap."""
        if (self.cap.atto, self.cap.own) != (other.cap.atto, other.cap.own):
            raise Refused("Populations are merged under one kind of cap; these state other deltas.")
        cap = max(self.cap, other.cap, key=lambda cap: cap.micro)
        return Standing(cap, self.spent + other.spent)


def parse_delta(text: str) -> int:
    """delta in units of 10^-18, from text such as "1e-9"; exact, or refused."""
    if not isinstance(text, str) or not _DELTA.fullmatch(text):
        raise Refused('delta must be text such as "1e-9", above 0 and below 1.')
    atto = Fraction(text) * ATTO
    if atto.denominator != 1 or not 0 < atto < ATTO:
        raise Refused("delta must be above 0, below 1, and a multiple of 1e-18.")
    return int(atto)


def show_delta(atto: int) -> str:
    return f"{atto / ATTO:g}"
