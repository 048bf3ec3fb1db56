"""The model contract: what every model must say about itself.

A model declares what it synthesizes (an outcome given public columns, or whole rows) and its
recipe keys, as typed fields with their meaning (declarations.py); its first field names the
sensitive columns.

A model of an outcome is one NumPyro function that both evaluates and generates (methods §4). It
gets the survey's columns as arrays. With the sensitive arrays given, its observed sites inside the
plate named `record` are the data, and f_i is the sum of record i's log-probabilities; with them
None, the same sites are drawn. `density.py` turns the function into the pure functions that the
sampler needs.
"""

from __future__ import annotations

import inspect
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.declarations import Declared
from understudy.errors import Refused
from understudy.survey.cells import ColumnCells
from understudy.survey.codebook import Codebook, Value
from understudy.survey.design import Design
from understudy.survey.formula import formula_columns
from understudy.survey.published_type import declared_dtype, published_dtype
from understudy.survey.rounding import on_rounding
from understudy.survey.survey import Survey

if TYPE_CHECKING:
    import jax

__public__ = ("FileModel", "Model", "OutcomeModel", "RowsModel")

# Bounds are maxima of sums over many records, and a claim prints them: single precision is noise.
# JAX reads the variable when it is imported; a whole file is released without it.
os.environ["JAX_ENABLE_X64"] = "1"
if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)

Arrays = dict[str, NDArray[Any]]
Columns = dict[str, pl.Series]


class Model(Declared, ABC, abstract=True):
    """A synthesizer."""

    # given public columns; every column, from one table of counts; every column, from many
    synthesizes: ClassVar[Literal["outcome", "rows", "file"]]

    @property
    @abstractmethod
    def sensitive(self) -> tuple[str, ...]:
        """The columns that are synthesized."""

    @property
    @abstractmethod
    def needs_records(self) -> bool:
        """Whether it must have every record in memory; else it works from tables alone, which are
        made where the records are (Spark)."""

    def for_survey(self, survey: Survey) -> Model:  # noqa: ARG002
        """The model with what it must know of this survey, such as its weight column."""
        return self

    def given_columns(self) -> tuple[str, ...]:
        """The public columns that it looks at."""
        return ()

    def published_design(self, design: Design) -> Design:
        """The design of the synthetic files, from that of the confidential one."""
        return design


class RowsModel(Model, abstract=True):
    """A model of whole rows: every column is synthesized, from a table of counts."""

    synthesizes = "rows"
    needs_records = False

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns, all of them synthesized."""

    @property
    @abstractmethod
    def missing(self) -> Literal["refuse", "level"]:
        """Whether missing values are a level of their own."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """The number of synthetic records: that of the file when None."""

    @abstractmethod
    def draw(self, counts: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """One synthetic table of `size` records from (sanitised) counts."""

    @property
    def sensitive(self) -> tuple[str, ...]:
        return self.columns

    def published_design(self, design: Design) -> Design:  # noqa: ARG002
        """No record of the files is one of the sample: they stand for it, each once."""
        return Design()


class FileModel(Model, abstract=True):
    """A model of a whole file: every column is drawn, from many tables over declared cells, but for
    public ones that are kept as they are."""

    synthesizes = "file"

    def for_survey(self, survey: Survey) -> Self:  # noqa: ARG002
        return self

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...] | None:
        """All columns of the synthetic files; None before `for_survey`: the default ones."""

    @property
    @abstractmethod
    def keep(self) -> tuple[str, ...] | None:
        """The public columns among them that stay as they are, row by row."""

    @property
    @abstractmethod
    def size(self) -> int | Literal["noisy"] | None:
        """The number of synthetic records: that of the file when None."""

    @property
    def needs_records(self) -> bool:
        """Columns that are kept come row by row."""
        return bool(self.keep)

    @abstractmethod
    def cells(self, survey: Survey) -> tuple[ColumnCells, ...]:
        """The cells of every column."""

    @abstractmethod
    def check_declared(self, survey: Survey) -> None:
        """Refused where a cell rests on something that was drafted from the records."""

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The columns that are drawn; of a survey, after `for_survey`."""
        kept = self.keep or ()
        return tuple(name for name in self.columns or () if name not in kept)

    def given_columns(self) -> tuple[str, ...]:
        return self.keep or ()

    def kept_positions(self) -> tuple[int, ...]:
        """The positions of the kept columns among all."""
        kept = self.keep or ()
        return tuple(j for j, name in enumerate(self.columns or ()) if name in kept)


class Predicted(NamedTuple):
    """Numbers of one draw on which chains are judged, by name. Where they are those of a file that
    was drawn from it, and nothing but such files is released: also the sampling variance of each
    in a file of this size (docs/proofs/diagnostics.md)."""

    numbers: dict[str, jax.Array]
    variance: dict[str, jax.Array] | None = None


class Judged(NamedTuple):
    """What chains are judged on: names, numbers (chains, draws, names), and where these are of
    drawn files, the mean of each one's own sampling variance in a file, (names,)."""

    names: list[str]
    numbers: NDArray[np.float64]
    variance: NDArray[np.float64] | None = None


class OutcomeModel(Model, abstract=True):
    """A model of sensitive columns given public ones: hashable, so that equal models share one
    compiled program.

    Parts, in this order: which columns it synthesizes, how it sees the survey (`prepare`), the
    NumPyro `function`, how generated arrays become columns again (`restore`), and what a claim
    must say about it (`units`, `rests_on`).
    """

    synthesizes = "outcome"
    needs_records = True

    def for_survey(self, survey: Survey) -> OutcomeModel:  # noqa: ARG002
        return self

    def shown_values(self) -> tuple[float, ...]:
        """Special values of the outcome that have a probability of their own."""
        return ()

    @property
    def plain(self) -> OutcomeModel:
        """The model without what is wrapped around it (models/piled.py)."""
        return self

    def published_design(self, design: Design) -> Design:
        return design.published(self.sensitive)

    def given_columns(self) -> tuple[str, ...]:
        predictors = getattr(self, "predictors", None)
        return () if predictors is None else tuple(formula_columns(predictors))

    @property
    @abstractmethod
    def targets(self) -> tuple[str, ...]:
        """The arrays of `prepare` that hold them, in their order, and perhaps others that are as
        sensitive; None when the function generates."""

    @abstractmethod
    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        """The function's arrays, one row per record.

        `like` is the survey whose codebook and public columns decide the encoding; a reference
        survey is prepared like the confidential one, so that both mean the same parameters.
        """

    def check_records(self, arrays: Arrays) -> None:
        """Refuse confidential records that no fit can end well on, before one is paid for."""

    @abstractmethod
    def function(self, *arguments: Any, **arrays: Any) -> Any:
        """The NumPyro model; a parameter for each array, and perhaps `n`."""

    @abstractmethod
    def restore(self, generated: Mapping[str, NDArray[Any]], survey: Survey) -> Columns:
        """Generated arrays as columns of the survey, in its units and types."""

    def inside(self, generated: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_] | None:  # noqa: ARG002
        """Which generated records keep to declared bounds; None where there is nothing to ask.

        The others are drawn again, so that what is published is the law within the bounds.
        """
        return None

    def possible_value(self, name: str, codebook: Codebook) -> Value:
        """A value that a sensitive column can hold, by declarations alone. It stands in its place
        where records are generated, and nothing depends on it."""
        column = codebook.columns.get(name)
        if column is not None and column.levels:
            return column.levels[0]
        if column is not None and column.bounds is not None and isfinite(column.bounds[1]):
            return column.bounds[1]
        return 1

    def known(self, survey: Survey) -> Columns:  # noqa: ARG002
        """What is public of the sensitive columns, row by row, as values that say no more than
        that; nothing by default."""
        return {}

    @abstractmethod
    def units(self, codebook: Codebook) -> str:
        """The sentence of the claim that names the units of the log-likelihoods."""

    @abstractmethod
    def rests_on(self, survey: Survey) -> dict[str, str]:
        """{column: fact} of the codebook that a formal claim needs declared, not drafted."""

    @abstractmethod
    def bounded_target(self, codebook: Codebook) -> tuple[str, tuple[float, float]]:
        """The one sensitive array with its declared bounds, for a histogram; or refused."""

    @property
    @abstractmethod
    def generates_from_records(self) -> bool:
        """Whether a synthetic record depends on its confidential values beyond the parameters.

        Then the parameters are not all that is released, and no claim with epsilon holds.
        """

    @property
    @abstractmethod
    def deepest_tree(self) -> int:
        """A trajectory of the sampler has at most 2 to this power steps, less one."""

    def start(
        self,
        arrays: Arrays,  # noqa: ARG002
        alpha: NDArray[np.float64],  # noqa: ARG002
        chain: int = 0,  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """Parameters by site name where this chain starts; None leaves it to the sampler."""
        return None

    def rough_start(
        self,
        arrays: Arrays,  # noqa: ARG002
        alpha: NDArray[np.float64],  # noqa: ARG002
        chain: int,  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """The same where the model is part of another (models/piled.py)."""
        return None

    def start_scale(
        self,
        parameters: Mapping[str, Any],  # noqa: ARG002
        arrays: Arrays,  # noqa: ARG002
        alpha: NDArray[np.float64],  # noqa: ARG002
    ) -> dict[str, Any]:
        """Rough posterior standard deviations around `start`, by site, on the free scale.

        They only make the sampler's first steps fit; sites that are left out count as 1.
        """
        return {}

    def predictive(
        self,
        key: jax.Array,  # noqa: ARG002
        parameters: Mapping[str, jax.Array],  # noqa: ARG002
        arrays: Mapping[str, Any],  # noqa: ARG002
    ) -> Predicted | None:
        """Numbers on which chains are judged; None judges the parameters themselves.

        `key` is fixed for each kept draw, for numbers of data that are drawn from it. For
        models whose parameters are not identified (a mixture's labels).
        """
        return None

    @property
    def takes_record_count(self) -> bool:
        """Whether the function has a parameter `n` that is not a column: the number of records."""
        return "n" in inspect.signature(self.function).parameters


class SummedModel(OutcomeModel, abstract=True):
    """A model whose unclipped likelihood follows from a few sums over the records (exponential
    families): the cost of such a fit does not depend on their number."""

    @abstractmethod
    def moments(self, arrays: Arrays, alpha: NDArray[np.float64]) -> dict[str, Any]:
        """The sums over the records."""

    @abstractmethod
    def summed_loglik(
        self, parameters: Mapping[str, jax.Array], moments: Mapping[str, Any]
    ) -> jax.Array:
        """sum_i alpha_i f_i(theta) from the moments alone."""


def is_weighted(alpha: NDArray[np.float64]) -> bool:
    """Whether some record that counts at all has a weight other than 1."""
    return bool(((alpha > 0) & (alpha != 1.0)).any())


class GibbsModel(OutcomeModel, abstract=True):
    """A model that is sampled faster by its full conditionals than by gradients; its density is
    the prior times prod_i exp(alpha_i f_i), 0 <= alpha_i <= 1."""

    @abstractmethod
    def gibbs_data(self, arrays: Arrays, alpha: NDArray[np.float64]) -> dict[str, Any]:
        """The arrays that a sweep needs."""

    @abstractmethod
    def gibbs_state(self, parameters: Mapping[str, Any]) -> Any:
        """What a chain carries along, from parameters by site name."""

    @abstractmethod
    def gibbs_sweep(
        self, key: jax.Array, state: Any, data: Mapping[str, Any], weighted: bool
    ) -> Any:
        """The state after all parameters were updated once; `weighted` as by `is_weighted`."""

    @abstractmethod
    def gibbs_parameters(
        self, key: jax.Array, state: Any, data: Mapping[str, Any]
    ) -> dict[str, jax.Array]:
        """The parameters by site name; those that nothing depends on are drawn here."""


def levels_of(survey: Survey, name: str) -> tuple[Value, ...]:
    """The levels of a column that is not numeric, in the codebook's order."""
    levels = survey.codebook[name].levels if name in survey.codebook else None
    if not levels:
        raise Refused(
            f"Column `{name}` is not numeric; declare its levels in the codebook, and the model "
            "gets each value's position among them."
        )
    return levels


def column_array(values: pl.Series, like: Survey) -> NDArray[Any]:
    """Numbers as they are (float64 or int64), other values as codes by the codebook's levels."""
    if values.null_count() or (values.dtype.is_float() and values.is_nan().any()):
        raise Refused(
            f"Column `{values.name}` has missing values; impute it, or leave it out of the model."
        )
    if values.dtype.is_numeric():
        values = _as_declared(values, like)
    if values.dtype.is_float() or values.dtype.is_decimal():
        return values.cast(pl.Float64).to_numpy()
    if values.dtype.is_integer() or values.dtype == pl.Boolean:
        return values.cast(pl.Int64).to_numpy()
    levels = levels_of(like, values.name)
    code = {str(level): number for number, level in enumerate(levels)}
    codes = values.cast(pl.String).replace_strict(code, default=None, return_dtype=pl.Int64)
    if codes.null_count():
        raise Refused(
            f"Column `{values.name}` has values that are not among the levels of the survey's "
            "codebook; both surveys need the same levels."
        )
    return codes.to_numpy()


def _as_declared(values: pl.Series, like: Survey) -> pl.Series:
    """Numbers in the type that is declared for them: one record must not decide it for all."""
    declared = declared_dtype(like.codebook.columns.get(values.name))
    if declared is None or not declared.is_numeric():
        return values
    if declared.is_integer() and values.dtype.is_float() and (values != values.round()).any():
        raise Refused(
            f"Column `{values.name}` is declared as whole numbers, and some values are not; "
            "declare it as `continuous`, or correct the file."
        )
    return values.cast(declared)


def array_column(array: NDArray[Any], name: str, survey: Survey) -> pl.Series:
    """The inverse of `column_array`, in the type that is published: codes become levels, and
    numbers are put on the declared rounding, those of a whole-number column on whole numbers."""
    array = np.asarray(array)
    dtype = published_dtype(survey, name)
    if dtype.is_numeric():
        array = on_rounding(array, survey.codebook.columns.get(name))
    if dtype.is_float() or dtype.is_decimal():
        return pl.Series(name, array.astype(np.float64)).cast(dtype)
    if dtype.is_integer():
        return pl.Series(name, np.rint(array).astype(np.int64)).cast(dtype)
    if dtype == pl.Boolean:
        return pl.Series(name, array.astype(np.int64) != 0)
    levels = pl.Series(name, [str(level) for level in levels_of(survey, name)])
    return levels.gather(array.astype(np.int64)).cast(dtype)
