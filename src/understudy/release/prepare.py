"""From a recipe to what will be synthesized: the survey, its public columns, model, mechanism.

The synthetic files hold only what the recipe names: the sensitive columns, predictors,
classifying and design columns, and `publish`. A column that nobody named is never published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from duckdb import Error as DuckDBError
from formulaic import Formula
from formulaic.errors import FormulaicError
from ibis.common.exceptions import IbisError

from understudy.declarations import OWN
from understudy.errors import Refused, UnknownName
from understudy.ledger.fingerprint import fingerprint
from understudy.models.contract import Model, NumPyroModel
from understudy.models.multinomial import Multinomial
from understudy.models.survey_normal import SurveyNormal
from understudy.release.mixed import Given
from understudy.release.parts import (
    build_mechanism,
    build_model,
    reference_path,
)
from understudy.release.recipe import Recipe
from understudy.survey.codebook_text import codebook_to_toml
from understudy.survey.design import Design
from understudy.survey.file_format import format_of
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.tables.domain import as_condition
from understudy.tables.statistic import parse_statistic
from understudy.version import __version__


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that `synthesize` needs, and the identity of the release."""

    recipe: Recipe
    whole: Survey = field(repr=False)  # all columns, the steward's design
    narrowed: Survey = field(repr=False)  # what is published, with the published design
    model: Model | Multinomial
    mechanism: Any
    given: tuple[Given, ...]
    synthesized: tuple[str, ...]  # every column that is drawn, also a weight
    fingerprint: str  # of the confidential records, as the ledger knows them
    identity: str  # of the release: same identity, same bytes (but for OpenDP's noise)

    @property
    def title(self) -> str:
        return self.recipe.title or self.whole.codebook.title or self.recipe.name


def prepare(recipe: Recipe) -> Prepared:
    """Read and check everything; nothing is spent and nothing is written."""
    format = None
    if recipe.format is not None:
        format = format_of(recipe.path, recipe.format, folder=recipe.folder)
    read = read_survey(recipe.path, recipe.design, recipe.codebook, format)
    print_of = _fingerprint(read)
    whole = _restricted(recipe, read)
    model = build_model(recipe.model, recipe.folder, recipe.missing)
    narrowed = _narrowed(recipe, whole, model)
    drawn = [n for one in recipe.given for n in one.model.sensitive]
    drawn += model.for_survey(narrowed).sensitive if isinstance(model, Model) else model.columns
    reference = _reference(recipe, narrowed)
    given = tuple(
        Given(build_model(one.model, recipe.folder), build_mechanism(one.mechanism))  # type: ignore[arg-type]
        for one in recipe.given
    )
    _check_columns(recipe, narrowed)
    parts = [
        recipe.canonical(),
        _digest(recipe.path),  # the order of the records too
        codebook_to_toml(whole.codebook),
        "" if reference is None else _digest(reference_path(recipe.mechanism, recipe.folder)),
        *_own_files(recipe),
        __version__,
    ]
    identity = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    mechanism = build_mechanism(recipe.mechanism, reference)
    return Prepared(
        recipe, whole, narrowed, model, mechanism, given, tuple(drawn), print_of, identity
    )


def _restricted(recipe: Recipe, read: Survey) -> Survey:
    """The records that the recipe asks for, with whole numbers as decimals where it says so."""
    for name in recipe.floats:
        if name not in read.columns:
            raise UnknownName("column in `floats`", name, read.columns)
        if not read.raw[name].type().is_numeric():
            raise Refused(f"`{name}` holds no numbers; leave it out of `floats`.")
    if recipe.where is None and not recipe.floats:
        return read
    # in memory, in the file's order: rows of synthetic files correspond to these
    frame = read.raw.to_polars().with_columns(pl.col(list(recipe.floats)).cast(pl.Float64))
    if recipe.where is not None:
        frame = frame.filter(_inside(recipe.where, read))
        if frame.is_empty():
            raise Refused(f"No record meets `where = {recipe.where}`.")
    codebook = read.codebook
    for column in list(codebook):  # drafted levels are those of the records that are left
        if "levels" in column.drafted:
            seen = set(frame[column.name].unique())
            left = tuple(level for level in column.levels or () if level in seen)
            codebook = codebook.with_column(replace(column, levels=left or None))
    return Survey(frame, read.design, codebook)


def _inside(where: str, read: Survey) -> pl.Series:
    """Which records a condition holds for; a missing code meets none."""
    try:
        condition = as_condition(where, read.table)
        return pl.Series(read.table.select(inside=condition).to_polars()["inside"])
    except (IbisError, DuckDBError, TypeError):
        raise Refused(
            f"The condition `{where}` does not fit its columns; compare numbers with numbers and "
            "texts with texts."
        ) from None


def _reference(recipe: Recipe, like: Survey) -> Survey | None:
    """The historical survey with the columns, design and codebook of the confidential one."""
    path = reference_path(recipe.mechanism, recipe.folder)
    if path is None:
        return None
    found = _restricted(recipe, read_survey(path))
    for name in like.columns:
        if name not in found.columns:
            raise UnknownName(f"column of `{path.name}`", name, found.columns)
    table = found.raw.select(list(like.columns)).cast(dict(like.raw.schema().items()))
    return Survey(table, like.design, like.codebook)


def _narrowed(recipe: Recipe, whole: Survey, model: Model | Multinomial) -> Survey:
    for what, columns in (
        ("sensitive column", recipe.model.sensitive),
        ("classifying column", recipe.by),
        ("column in `publish`", recipe.publish),
        ("known column", tuple(name for names in recipe.known for name in names)),
    ):
        for name in columns:
            if name not in whole.columns:
                raise UnknownName(what, name, whole.columns)
    if isinstance(model, Multinomial):
        more = [n for one in recipe.given for n in one.model.sensitive]
        names = [*recipe.model.sensitive, *more]
        design = Design()
    else:
        predictors = _variables(recipe.model.predictors)
        if recipe.model.predictors is not None and not predictors:
            raise Refused("The predictors name no column; name at least one public column.")
        if isinstance(model, NumPyroModel):
            predictors = [n for n in model.columns if n not in recipe.model.sensitive]
        design = whole.design
        if isinstance(model, SurveyNormal):  # the weight is synthesized: replicates would tell it
            design = replace(design, replicates=None)
        names = [*recipe.model.sensitive, *predictors, *recipe.by, *recipe.publish]
        names += design.columns(whole.columns)
    for name in names:
        if name not in whole.columns:
            raise UnknownName("column", name, whole.columns)
        if recipe.codebook is not None and name not in whole.codebook:
            raise Refused(
                f"`{name}` would be published, and the codebook does not know it; declare it there."
            )
        kind = whole.raw[name].type()
        if not (kind.is_numeric() or kind.is_string() or kind.is_boolean() or kind.is_date()):
            raise Refused(f"`{name}` is no number, text, date or true/false; convert it first.")
        if name in whole.codebook and whole.codebook[name].role == "unit":
            raise Refused(f"`{name}` identifies units and cannot be published; leave it out.")
    kept = [name for name in whole.columns if name in names]
    codebook = whole.codebook.only(kept)
    by = {name: totals for name, totals in codebook.population_by.items() if name in kept}
    codebook = replace(codebook, population_by=by)
    return Survey(whole.raw.select(kept), design, codebook)


def _check_columns(recipe: Recipe, narrowed: Survey) -> None:
    """Statistics and formulas must be possible with the published columns alone."""
    for text in recipe.statistics:
        parse_statistic(text, narrowed.columns, recipe.folder)
    for name in (*recipe.by, *(n for names in recipe.known for n in names)):
        if name not in narrowed.columns:
            raise UnknownName("published column", name, narrowed.columns)
        if name in recipe.model.sensitive and name in [n for k in recipe.known for n in k]:
            raise Refused(f"`{name}` is synthesized; an intruder knows public columns, not this.")
    for name in _variables(recipe.regression):
        if name not in narrowed.columns:
            raise UnknownName("column of the regression", name, narrowed.columns)


def _variables(formula: str | None) -> list[str]:
    if formula is None:
        return []
    try:
        found = Formula(formula).required_variables
    except (FormulaicError, SyntaxError, ValueError, TypeError):
        raise Refused(f"The formula `{formula}` cannot be read.") from None
    return sorted(str(name) for name in found)


def _fingerprint(read: Survey) -> str:
    try:
        return fingerprint(read.raw)
    except (pa.ArrowException, DuckDBError, IbisError):
        raise Refused(
            "The file has columns that are no numbers, texts or dates (lists, bytes); leave them "
            "out of it."
        ) from None


def _digest(path: Path | None) -> str:
    if path is None:
        return ""
    with path.expanduser().open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _own_files(recipe: Recipe) -> list[str]:
    """The steward's own files decide the bytes too."""
    parts: Sequence[Any] = (recipe.model, *(one.model for one in recipe.given))
    named = [*(part.name for part in parts), recipe.format or "", *recipe.formats]
    named += recipe.statistics
    files = [recipe.folder / name.partition(":")[0] for name in named if OWN in name]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
