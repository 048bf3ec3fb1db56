"""A model from a user's own NumPyro function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.models.contract import Arrays, Columns, OutcomeModel, array_column, column_array
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey

__public__ = ("from_numpyro",)


@dataclass(frozen=True)
class NumPyroModel(OutcomeModel):
    """A user's NumPyro function; made by `from_numpyro`."""

    generates_from_records = False
    deepest_tree = 10

    user_function: Callable[..., Any]
    columns: tuple[str, ...]
    synthesized: tuple[str, ...]
    counts_records: bool

    @property
    def sensitive(self) -> tuple[str, ...]:
        return self.synthesized

    @property
    def targets(self) -> tuple[str, ...]:
        return self.synthesized

    def given_columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in self.synthesized)

    @property
    def takes_record_count(self) -> bool:
        return self.counts_records

    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        like = like or survey
        for name in self.columns:
            if name not in survey.columns:
                raise UnknownName(f"column (a parameter of `{self._name}`)", name, survey.columns)
        frame = survey.frame(list(self.columns))
        return {name: column_array(frame[name], like) for name in self.columns}

    def function(self, *arguments: Any, **arrays: Any) -> Any:
        return self.user_function(*arguments, **arrays)

    def restore(self, generated: Mapping[str, NDArray[Any]], survey: Survey) -> Columns:
        return {name: array_column(generated[name], name, survey) for name in self.synthesized}

    def units(self, codebook: Codebook) -> str:  # noqa: ARG002 (the file's units, whatever they are)
        return (
            f"Log-likelihoods are those of the function `{self._name}`, with the columns "
            f"{', '.join(self.synthesized)} in the units of the file"
        )

    def rests_on(self, survey: Survey) -> dict[str, str]:
        empty = survey.table.select(list(self.synthesized)).limit(0).to_polars()
        texts = [s.name for s in empty if not (s.dtype.is_numeric() or s.dtype == pl.Boolean)]
        return dict.fromkeys(texts, "levels")

    def bounded_target(self, codebook: Codebook) -> tuple[str, tuple[float, float]]:
        if len(self.synthesized) > 1:
            raise Refused(
                f"Counts in bins are of one sensitive variable, and `{self._name}` has several; "
                "take a model of one, or Censored or ReferenceCensored with a past file."
            )
        (name,) = self.synthesized
        column = codebook.columns.get(name)
        if column is None or column.bounds is None or not column.declared("bounds"):
            raise Refused(
                f"`{name}` needs declared bounds, between which its values are counted; give them "
                "in the codebook, from what is public about the variable."
            )
        return name, column.bounds

    @property
    def _name(self) -> str:
        return getattr(self.user_function, "__name__", "model")


def from_numpyro(function: Callable[..., Any], sensitive: Sequence[str]) -> NumPyroModel:
    """A model from a NumPyro function, such as

        def salaries(field, salary=None):
            effect = numpyro.sample("effect", dist.Normal(0, 1).expand([8]).to_event(1))
            with numpyro.plate("record", field.shape[0]):
                numpyro.sample("salary", dist.Normal(effect[field], 1), obs=salary)

        model = us.from_numpyro(salaries, sensitive=["salary"])

    - Parameters are columns of the survey. Public columns are always given; `sensitive` ones
      must default to None and are None when the function generates.
    - Numeric columns come as they are stored. Others come as integer codes 0, 1, ...: the position
      of the value among the codebook's levels.
    - A parameter `n` that is not a column is the number of records (for a model without public
      columns). Shapes must not depend on values: write the number of groups as a constant.
    - A generated column is the site of its name (a sample or deterministic site); so a model of
      log(salary) ends with `numpyro.deterministic("salary", jnp.exp(log_salary))`.
    - A record's log-likelihood may depend on its own sensitive values only (this is tested).
    """
    if not callable(function):
        raise Refused("`from_numpyro` takes a NumPyro function, not its result.")
    if isinstance(sensitive, str) or not sensitive:
        raise Refused(
            '`sensitive` must be a list of the columns to synthesize, such as ["salary"].'
        )
    parameters = inspect.signature(function).parameters
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind in loose for parameter in parameters.values()):
        raise Refused("The model's parameters must be columns by name, without *args or **kwargs.")
    for name in sensitive:
        if name not in parameters:
            raise UnknownName("sensitive column (no parameter of the function)", name, parameters)
        if parameters[name].default is not None:
            raise Refused(
                f"The parameter `{name}` must default to None, which asks the model to generate it."
            )
    counts = "n" in parameters and "n" not in sensitive
    columns = tuple(name for name in parameters if not (counts and name == "n"))
    return NumPyroModel(function, columns, tuple(dict.fromkeys(sensitive)), counts)
