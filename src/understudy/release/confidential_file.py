"""The confidential file of a release: read once, restricted, put in order, known by its digest.

Records on a cluster stay there: what is done with them is a query, and the internal evidence, which
looks at records one by one, gets a sample.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import ibis.expr.types as ir
import polars as pl
import pyarrow as pa
from duckdb import Error as DuckDBError
from ibis.common.exceptions import IbisError
from ibis.expr.operations import InMemoryTable

from understudy.cluster import spark_frame
from understudy.errors import Refused, UnknownName
from understudy.ledger.fingerprint import FileIdentity, identify
from understudy.release.recipe import Recipe
from understudy.survey.codebook import Codebook
from understudy.survey.file_format import format_of
from understudy.survey.published_type import declared_dtype
from understudy.survey.read import read_survey, read_table
from understudy.survey.survey import Survey, without_codes
from understudy.tables.domain import as_condition

PLACE = "__place"  # of a record in its file, while records are put in order
SAMPLED = 100_000  # records of a cluster that the evidence looks at, about


def read_file(recipe: Recipe) -> Survey:
    """The file in memory, opened once; or the table that the engine has."""
    data, engine = recipe.data, recipe.engine
    if data.table is not None:
        return read_table(data.table, recipe.design, recipe.codebook, engine)
    format = None
    if data.format is not None:
        format = format_of(recipe.path, data.format, folder=recipe.folder)
    return read_survey(
        recipe.path, recipe.design, recipe.codebook, format, in_memory=True, engine=engine
    )


def identified(read: Survey) -> tuple[FileIdentity, str]:
    """By what the ledger knows the file, and the digest by which a release does."""
    try:
        return identify(read.untyped, read.raw)
    except Exception as error:
        if not read.on_cluster and not isinstance(
            error, pa.ArrowException | DuckDBError | IbisError
        ):
            raise
        raise Refused(
            "The file has columns that are not numbers, text or dates (lists, bytes); leave them "
            "out of it."
        ) from None


def restricted(recipe: Recipe, read: Survey) -> Survey:
    """The records that the recipe asks for, with whole numbers as decimals where it says so."""
    for name in recipe.data.floats:
        if name not in read.columns:
            raise UnknownName("column in `floats`", name, read.columns)
        if not read.raw[name].type().is_numeric():
            raise Refused(f"`{name}` does not hold numbers; leave it out of `floats`.")
    domain = read.codebook.for_domain(recipe.data.where)
    if recipe.data.where is None and not recipe.data.floats and domain is read.codebook:
        return read
    left = _left_here(recipe, read) if read.in_memory else _left_there(recipe, read)
    codebook: Codebook = domain
    for column in list(codebook):  # drafted levels are those of the records that are left
        if "levels" in column.drafted:
            seen = _values(left, column.name, len(column.levels or ()) + len(column.missing))
            levels = tuple(level for level in column.levels or () if level in seen)
            codebook = codebook.with_column(replace(column, levels=levels or None))
    return Survey(left, read.design, codebook)


def with_whole_codes(survey: Survey, drafted: bool) -> Survey:
    """The records with codes as whole numbers where levels are: what is made of them is, and the
    evidence compares levels by their names. `drafted`: also where levels are only drafted."""
    table, schema = survey.raw, survey.raw.schema()
    names = [
        column.name
        for column in survey.codebook
        if column.name in schema
        and schema[column.name].is_floating()
        and (drafted or declared_dtype(column) is not None)
        and {type(code) for code in (*(column.levels or ()), *column.missing)} == {int}
    ]
    if not names:
        return survey
    if table.op().find(InMemoryTable):
        frame = pl.DataFrame(table.to_polars())
        whole = frame.with_columns(pl.col(names).fill_nan(None).cast(pl.Int64))
        return Survey(whole, survey.design, survey.codebook)
    known = {name: table[name].nullif(float("nan")) for name in names}
    codes = {name: values.cast("int64") for name, values in known.items()}
    return Survey(table.mutate(**codes), survey.design, survey.codebook)


def _left_here(recipe: Recipe, read: Survey) -> pl.DataFrame:
    """In memory, in the file's order: rows of synthetic files correspond to these."""
    records: pl.DataFrame = read.raw.to_polars()
    frame = records.with_columns(pl.col(list(recipe.data.floats)).cast(pl.Float64))
    if recipe.data.where is not None:
        frame = frame.filter(_inside(recipe.data.where, read))
        if frame.is_empty():
            raise Refused(f"No record meets `where = {recipe.data.where}`.")
    return frame


def _left_there(recipe: Recipe, read: Survey) -> ir.Table:
    """A query. Missing codes meet no condition, and are there again among the records left."""
    table, where = read.raw, recipe.data.where
    if where is not None:
        coded = [column for column in read.declared if column.missing]
        held = table.mutate(**{f"__held{k}": table[c.name] for k, c in enumerate(coded)})
        blank = held.mutate(**{column.name: without_codes(held, column) for column in coded})
        try:
            left = blank.filter(as_condition(where, blank))
        except (IbisError, TypeError):
            raise _unfitting(where) from None
        left = left.mutate(**{c.name: left[f"__held{k}"] for k, c in enumerate(coded)})
        table = left.select(list(read.columns))
        if not table.limit(1).to_pyarrow().num_rows:
            raise Refused(f"No record meets `where = {where}`.")
    floats = {name: table[name].cast("float64") for name in recipe.data.floats}
    return table.mutate(**floats) if floats else table


def _values(records: Any, name: str, levels: int) -> set[Any]:
    if isinstance(records, pl.DataFrame):
        return set(records[name].unique())
    different = records.select(name).distinct().limit(levels + 1)  # null is one
    return set(different.to_polars()[name].to_list())


def _inside(where: str, read: Survey) -> pl.Series:
    """Which records a condition holds for; a missing code meets none."""
    try:
        condition = as_condition(where, read.table)
        return pl.Series(read.table.select(inside=condition).to_polars()["inside"])
    except (IbisError, DuckDBError, TypeError):
        raise _unfitting(where) from None


def _unfitting(where: str | None) -> Refused:
    return Refused(
        f"The condition `{where}` does not fit its columns; compare numbers with numbers and text "
        "with text."
    )


def public_order(whole: Survey, public: list[str]) -> pl.Series | None:
    """The order of the records by their public values: what is drawn for a row must not depend on
    where its record stood in the file."""
    if not public:
        return None
    frame = pl.DataFrame(whole.raw.select(public).to_polars()).with_row_index(PLACE)
    return frame.sort(public, maintain_order=True)[PLACE]


def in_order(survey: Survey, order: pl.Series) -> Survey:
    return Survey(survey.raw.to_polars()[order], survey.design, survey.codebook)


def sampled(survey: Survey, identity: str) -> Survey:
    """The records themselves; of those on a cluster a random sample, each of them with the same
    probability."""
    if not survey.on_cluster:
        return survey
    seed = int.from_bytes(hashlib.sha256(f"sample {identity}".encode()).digest()[:7], "big")
    frame = spark_frame(survey.raw)
    share = min(1.0, SAMPLED / survey.n)
    records = frame if share == 1.0 else frame.sample(False, share, seed)
    return Survey(pl.DataFrame(pl.from_arrow(records.toArrow())), survey.design, survey.codebook)
