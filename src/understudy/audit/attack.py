"""What an attack on a mechanism declares about itself; `understudy audit` knows it from there.

An attack is a class in a file of `audit/attacks`. It runs one mechanism many times on neighbouring
databases that are as bad for it as we know, and counts what comes out.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from understudy.declarations import Declared, declared_in
from understudy.errors import UnknownName

AuditRelation = Literal["blank", "replace", "add-remove"]

ALPHA = 1e-6  # the chance that a bound exceeds the true epsilon


@dataclass(frozen=True, eq=False)
class Simulation:
    """What is asked of an attack; `epsilon` is what the mechanism is asked for.

    `rng` is for draws from an exact posterior; noise is OpenDP's and has no seed.
    """

    relation: AuditRelation
    epsilon: float
    trials: int
    mutant: str | None
    rng: np.random.Generator


class Losses(NamedTuple):
    """`exact` is the largest privacy loss on these databases, computed without simulation."""

    claimed: float
    lower_bound: float
    exact: float


class MechanismAttack(Declared, abstract=True):
    """An attack on one mechanism, with the errors that can be planted in it."""

    name: ClassVar[str]  # in `understudy audit NAME`
    relations: ClassVar[tuple[AuditRelation, ...]]  # of neighbouring databases, one result each
    mutants: ClassVar[tuple[str, ...]]  # errors that must be caught
    trials: ClassVar[int]  # enough to show .9 of epsilon 1
    leaks: ClassVar[bool]  # its claim is of kind `local`, and the audit must show why

    @abstractmethod
    def losses(self, simulation: Simulation) -> Losses:
        """The claim, what the simulation shows, and the exact loss."""


@cache
def attacks() -> dict[str, MechanismAttack]:
    """The attacks by name, those of one file together."""
    known = declared_in("understudy.audit.attacks", MechanismAttack).values()
    return {cls.name: cls() for cls in known}


def attack_named(name: str) -> MechanismAttack:
    if name not in attacks():
        raise UnknownName("mechanism to audit", name, attacks())
    return attacks()[name]
