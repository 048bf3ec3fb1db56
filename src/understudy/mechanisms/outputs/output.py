"""What a mechanism hands out, and how records are made of it: post-processing, wherever it is done.

A release makes its records outside, in a process that never had the confidential file: from a
mechanism's output, read from the envelope, and the `Ground`, which is declared or public.
`synthesize` makes them from the same two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import polars as pl

from understudy.chance import Chance
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.survey import Survey

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from understudy.models.contract import Model

DrawValues = dict[str, Any]
Made = Callable[[int, int], None]  # is told how many records there are now, of how many


def nobody(made: int, of: int) -> None:
    """Is told of records, and says nothing."""


@dataclass(frozen=True, eq=False)
class Ground:
    """All that records are made of beside a mechanism's output.

    `models`: of each step, one but for mixed data. `public`: the columns that stay as they are, in
    the order of the rows to be made, or a table where rows stay on disk or on Spark; `known`: what
    is public of the others, row by row. `types`: those in which the columns that are made are
    published. `codebook` and `design` are those of the published files, `records` the public number
    of records.

    `cluster` is a table on Spark beside which the workers make files of rows and whole files; they
    are made here where it is None, as in every release (decision 080). `made` is told of records
    while files are made.

    Where nothing is claimed (kind `risk`) the model may look at the records: `known` are then their
    values, and `codings` the surveys by which the steps of mixed data are coded.
    """

    models: tuple[Model, ...]
    columns: tuple[str, ...]
    codebook: Codebook
    design: Design
    records: int
    public: pl.DataFrame | ir.Table = field(default_factory=pl.DataFrame, repr=False)
    known: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    codings: tuple[Survey | None, ...] = field(default=(), repr=False)
    cluster: ir.Table | None = field(default=None, repr=False)
    made: Made = field(default=nobody, repr=False)


class MechanismOutput(ABC):
    """One draw for each data set: parameters, a histogram, noisy tables."""

    needs_models: ClassVar[bool] = True
    noted: ClassVar[bool] = True  # an envelope can hold its draws under its name

    @abstractmethod
    def draws(self) -> list[DrawValues]:
        """A draw for each data set, of numbers, texts and arrays."""

    @classmethod
    @abstractmethod
    def from_draws(cls, draws: Sequence[Mapping[str, Any]]) -> Self:
        """The output that `draws` wrote, also as JSON values."""

    @abstractmethod
    def datasets(self, ground: Ground, chance: Chance) -> list[Survey]:
        """A data set from each draw."""

    @property
    def names(self) -> tuple[str, ...]:
        """Which outputs the draws are, as the envelope notes it."""
        return (type(self).__name__,)


@dataclass(frozen=True, eq=False)
class DrawnOutput(MechanismOutput):
    """The draws as the mechanism made them, or as they were read from an envelope."""

    drawn: tuple[DrawValues, ...] = field(repr=False)

    def draws(self) -> list[DrawValues]:
        return list(self.drawn)

    @classmethod
    def from_draws(cls, draws: Sequence[Mapping[str, Any]]) -> Self:
        return cls(tuple(dict(draw) for draw in draws))


@dataclass(frozen=True, eq=False)
class MadeRows(MechanismOutput):
    """Data sets that are there already, read from a working folder."""

    noted = False

    made: tuple[Survey, ...] = field(repr=False)

    def draws(self) -> list[DrawValues]:
        return []

    @classmethod
    def from_draws(cls, draws: Sequence[Mapping[str, Any]]) -> Self:
        raise NotImplementedError("rows are not draws")

    def datasets(self, ground: Ground, chance: Chance) -> list[Survey]:  # noqa: ARG002
        return list(self.made)


def without_drafts(codebook: Codebook, columns: Sequence[str]) -> Codebook:
    """The codebook without facts of these columns that were drafted from the records' values."""
    for name in columns:
        if name in codebook:
            codebook = codebook.with_column(codebook[name].without_drafted())
    return codebook
