"""A confidential data set as the verification server holds it.

It is opened once by the steward. Everything that could fail because of what is in the file
fails here, before any analyst asks; afterwards a query can fail only because of what is in
the query. Records never leave this object except into partition statistics.
"""

from __future__ import annotations

import threading
import weakref
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from understudy.claim import RECORD, Relation
from understudy.dp.accounting import Cost
from understudy.errors import Refused
from understudy.influence import UnitRelation
from understudy.ledger.amounts import ATTO, parse_delta
from understudy.ledger.epsilon import exact_epsilon
from understudy.ledger.fingerprint import FileIdentity, identify
from understudy.survey.codebook import Codebook, Column
from understudy.survey.engine import limit_duckdb, new_scratch_file
from understudy.survey.engine_setting import Engine
from understudy.survey.survey import Survey
from understudy.tables.domain import as_condition
from understudy.tables.units import refuse_missing_ids
from understudy.verify.exact_sums import exact_decimal
from understudy.verify.nonresponse import RESPONDED, Nonresponse
from understudy.verify.partitions import UNIT_HEAD, UNIT_NUMBER, UNIT_TAIL, unit_digests
from understudy.verify.query import Query
from understudy.verify.workers import WorkerPool

WEIGHT = "__weight"
EXACT_WEIGHT = "__exact_weight"
KEPT = "__kept"
MOST_CODES = 1000  # levels of a text that get codes

RecordStore = Literal["memory", "disk", "source"]


class ConfidentialData:
    """A survey under a public name, prepared for partition passes.

    With a column of role `unit` in the codebook, a unit is all records with the same id.
    Without one, a unit is one record, known by its row number: then only `replace` is
    promised, because removing a row would renumber the others. `where` keeps the records of a
    domain, as a release's `where` does; units outside are there and contribute nothing.
    `kept` says where the prepared records are: "memory", "disk" (the private scratch folder, for
    files larger than memory), or "source", the table itself (Spark), which hashes ids in every
    pass. With `nonresponse`, the weights are those of the design, adjusted in each partition.
    """

    def __init__(
        self,
        name: str,
        survey: Survey,
        *,
        workers: int = 2,
        deadline: float = 2.0,
        where: str | None = None,
        kept: RecordStore = "memory",
        nonresponse: Nonresponse | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.name = name
        self.where = where
        self.nonresponse = nonresponse
        self.codebook: Codebook = survey.codebook.for_domain(where)
        self.population = self.codebook.population_size
        self.pool = WorkerPool(workers, deadline)
        self._survey = survey
        self._lock = threading.Lock()
        self.unit = _unit_column(self.codebook)
        _check_schema(survey, self.unit)
        file = new_scratch_file(".parquet") if kept == "disk" else None
        self._end = weakref.finalize(self, _end, self.pool, file)
        if nonresponse is not None:
            nonresponse.check(self.codebook)
        prepared = _prepared(survey, self.unit, where, nonresponse)
        if kept == "memory":
            own = ibis.duckdb.connect()
            limit_duckdb(engine or Engine(), own)
            prepared = own.create_table("records", prepared.to_pyarrow())
        if file is not None:
            prepared.to_parquet(file)
            own = ibis.duckdb.connect(temp_directory=str(file.with_suffix(".spill")))
            limit_duckdb(engine or Engine(), own)
            prepared = own.read_parquet(file)
        self.records: ir.Table = prepared
        if where is not None and not self.run(prepared.limit(1)).num_rows:
            raise Refused(f"No record of `{name}` meets `where = {where}`.")

    @property
    def relation(self) -> UnitRelation:
        """The widest relation that a keyed-hash answer protects at its epsilon."""
        return "replace" if self.unit is None else "add-remove"

    @cached_property
    def file(self) -> FileIdentity:
        """By this the population is found, whatever the data set is called (threats 15, 19)."""
        return identify(self._survey.untyped, self._survey.raw)[0]

    @property
    def fingerprint(self) -> str:
        """Of the file, as the ledger knows it."""
        return self.file.fingerprint

    def cost(self, query: Query) -> Cost:
        """What an answer costs one unit, under each relation (docs/proofs/verification.md)."""
        both = self.unit is not None and query.partitioning == "hash"
        relations: tuple[Relation, ...] = ("replace", "add-remove") if both else ("replace",)
        delta = Fraction(parse_delta(query.delta), ATTO) if query.delta else Fraction(0)
        return Cost(relations, exact_epsilon(query.micro), delta, unit=self.unit or RECORD)

    def refuse_on_cluster(self, query: Query) -> None:
        """Refuse a question that would bring records of a cluster here."""
        if not self._survey.on_cluster or not query.measured_by.divides:
            return
        if self.unit is None:
            raise Refused(
                f"`{self.name}` is on Spark, where records have no order to number them by; name "
                "the column of its units' ids, or ask by influence."
            )
        if query.partitioning != "hash":
            raise Refused(
                f"`{self.name}` is on Spark, where an equal shuffle would have to number every "
                'unit here; ask with partitioning = "hash".'
            )
        if query.estimand.fitted:
            raise Refused(
                f"`{self.name}` is on Spark, and {query.estimand.name} is fitted to the records of "
                "every partition, which stay there; ask by influence, or for what is made of sums."
            )

    @cached_property
    def units(self) -> int:
        """How many units there are in the whole file: public under `replace`, used for nothing
        else."""
        if self.unit is None:
            return self._survey.n
        return int(self._survey.raw[self.unit].nunique().execute())

    @cached_property
    def single_records(self) -> bool:
        """Whether every unit has one record: then nothing need be added up within units."""
        if self.unit is None:
            return True
        numbers = self.records[UNIT_NUMBER]
        counted = self.run(self.records.aggregate(n=numbers.count(), units=numbers.nunique()))
        return bool(counted["n"][0] == counted["units"][0])

    def run(self, expression: ir.Table) -> pa.Table:
        """Run one pass; a DuckDB connection serves one thread at a time."""
        with self._lock:
            return expression.to_pyarrow()

    def close(self) -> None:
        """End workers and remove what was kept; so does the end of the last question about it."""
        self._end()

    def __enter__(self) -> ConfidentialData:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ConfidentialData({self.name!r})"


def _end(pool: WorkerPool, file: Path | None) -> None:
    pool.close()
    if file is not None:
        file.unlink(missing_ok=True)


def _prepared(
    survey: Survey, unit: str | None, where: str | None, nonresponse: Nonresponse | None
) -> ir.Table:
    """Codebook columns, the weight, and the unit's digests; not-a-number becomes null.

    What every pass would compute again is kept: codes of text levels, the weight as a decimal.
    Units have the numbers that they have in the whole file.
    """
    inside = as_condition(where, survey.table)
    kept = ibis.literal(True) if inside is None else inside
    table = survey.table.mutate(**{"__row": ibis.row_number(), KEPT: kept})
    columns: dict[str, Any] = {}
    for column in survey.codebook:
        if column.role not in ("unit", "replicate"):
            columns[column.name] = _finite(table[column.name])
            if _has_codes(column) and table[column.name].type().is_string():
                codes = [(level, code) for code, level in enumerate(column.levels or ())]
                columns[level_code(column.name)] = table[column.name].cases(*codes).cast("int16")
    weight = survey.design.weight
    columns[WEIGHT] = ibis.literal(1.0) if weight is None else table[weight].cast("float64")
    columns[EXACT_WEIGHT] = exact_decimal(columns[WEIGHT])
    if nonresponse is not None:
        columns[RESPONDED] = as_condition(nonresponse.responded, table)
    identity = table["__row"] if unit is None else table[unit]
    columns[UNIT_HEAD], columns[UNIT_TAIL] = unit_digests(identity)
    if unit is None:
        columns[UNIT_NUMBER] = table["__row"]
        prepared = table.select(table[KEPT], **columns)
    else:
        digested = table.select(table[KEPT], **columns)
        order = [digested[UNIT_HEAD], digested[UNIT_TAIL]]
        prepared = digested.mutate(**{UNIT_NUMBER: ibis.dense_rank().over(order_by=order)})
    return (prepared if inside is None else prepared.filter(prepared[KEPT])).drop(KEPT)


def level_code(name: str) -> str:
    """The column of the codes of a text column's public levels."""
    return f"__code_{name}"


def _has_codes(column: Column) -> bool:
    levels = column.levels or ()
    return 0 < len(levels) <= MOST_CODES and all(isinstance(level, str) for level in levels)


def _finite(values: ir.Value) -> ir.Value:
    if not values.type().is_floating():
        return values
    number: Any = values
    return ibis.ifelse(number.isnan() | number.isinf(), ibis.null(number.type()), number)


def _unit_column(codebook: Codebook) -> str | None:
    if codebook.unit in codebook:
        return codebook.unit
    units = [column.name for column in codebook if column.role == "unit"]
    if len(units) > 1:
        names = " and ".join(f"`{name}`" for name in units)
        raise Refused(f"The codebook has two unit columns, {names}; keep only one of them.")
    return units[0] if units else None


def _check_schema(survey: Survey, unit: str | None) -> None:
    for column in survey.codebook:
        if _is_number(column) and not survey.raw[column.name].type().is_numeric():
            raise Refused(
                f"The codebook calls `{column.name}` {column.type}, but the file does not hold "
                "numbers there; correct the codebook or the file."
            )
    if unit is None:
        return
    kind = survey.raw[unit].type()
    if not (kind.is_integer() or kind.is_string()):
        raise Refused(f"The unit column `{unit}` must hold whole numbers or text.")
    refuse_missing_ids(survey, unit)


def _is_number(column: Column) -> bool:
    return column.type in ("continuous", "integer") and column.role != "unit"
