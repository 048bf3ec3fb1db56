"""What a case of the bench declares: what is measured, the peers beside it, and at which sizes."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

OURS = "ours"


@dataclass(frozen=True)
class Outcome:
    """What a run gave, where its price is not simply what this process spent.

    `worth` is what the run is divided by: effective draws, say. `cpu` and `wall` are set where the
    peer has measured itself, without its imports, in a process of its own.
    """

    value: Any = None
    worth: float = 1.0
    cpu: float | None = None
    wall: float | None = None


@dataclass(frozen=True)
class Side:
    """One way to do it. `run` may give a value, which the sides are compared by, or an Outcome.

    `most` caps the repeats of a peer that takes minutes; the table says how many there were.
    `compared` is False for a way that cannot give the same value (another statistic's plain sum).
    `outside` is True where it starts a program of another environment, which no test does.
    """

    run: Callable[[], Any]
    most: int | None = None
    compared: bool = True
    outside: bool = False


@dataclass(frozen=True)
class NotRun:
    """A peer that is not here, and why."""

    why: str


class Case(ABC):
    """One file of bench/cases each; its name is the file's."""

    what: ClassVar[str]
    peers: ClassVar[Mapping[str, str]]  # name: what it is
    sizes: ClassVar[tuple[int, ...]]  # of records; three, for the growth
    quick: ClassVar[tuple[int, ...]]
    tiny: ClassVar[int]
    per: ClassVar[str] = ""  # "effective draw": what seconds are divided by
    bars: ClassVar[Mapping[str, float]] = {}  # ours over this peer, at most
    most_growth: ClassVar[float | None] = None
    compiles: ClassVar[bool] = False  # programs of JAX: the tests run it among the slow ones

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    @abstractmethod
    def sides(self, n: int, folder: Path) -> Mapping[str, Side | NotRun]:
        """Ours first, and every peer, with their data ready in memory or in `folder`."""

    def check(self, ours: Any, theirs: Any, peer: str) -> None:  # noqa: B027
        """Raise where the two did not compute the same; cases whose draws differ pass."""


def names() -> list[str]:
    """Of all cases, in the order of the tables."""
    return sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parents[1] / "cases")]))


def case_named(name: str) -> Case:
    """Loads its file alone: what others import would stand in its memory."""
    module = importlib.import_module(f"bench.cases.{name}")
    (kind,) = (thing for thing in vars(module).values() if _is_case(thing, module.__name__))
    return kind()


def _is_case(thing: Any, module: str) -> bool:
    return isinstance(thing, type) and issubclass(thing, Case) and thing.__module__ == module
