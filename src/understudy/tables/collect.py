"""From records to sums: the one pass over the data that every linear statistic needs.

Everything here is an Ibis expression, so DuckDB on a laptop and Spark on a cluster run the
same code. What comes back is small: a row per stratum, PSU and cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from math import isclose, nan
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
from ibis.expr.operations import Literal, Node, Project
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.codebook import Value
from understudy.survey.collected import collected
from understudy.survey.design import Design
from understudy.survey.engine import with_nan
from understudy.survey.survey import Survey
from understudy.tables.computation import NOT_FINITE
from understudy.tables.design_records import DesignRecords
from understudy.tables.first_look import FirstLook, Linear, known, zero_outside
from understudy.tables.numbers import as_float
from understudy.tables.record_terms import RecordTerms
from understudy.tables.replicates import refuse_unknown, replicate_degrees
from understudy.tables.taylor import Rows, RowWeights, Strata, check_strata

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ADDS_UP = 1e-6  # relative: weights may have been rounded in a file


@dataclass(frozen=True)
class Sums:
    """What the pass over the data returned: a row per cell, stratum and PSU."""

    frame: pl.DataFrame
    statistics: tuple[Linear, ...]
    pivots: tuple[float, ...]
    design: Design
    replicates: tuple[str, ...]
    calibrated: bool = False  # the weights of every stratum add up to its public size
    terms: RecordTerms | None = None  # where the variance needs every record

    @cached_property
    def strata(self) -> Strata:
        return _strata(self.frame, self.design)

    def degrees(self, survey: Survey) -> float:
        """Degrees of freedom of the survey that the sums are of."""
        if not self.replicates:
            return self.strata.df
        return replicate_degrees(survey, self.replicates, known=True)

    @cached_property
    def _stratum(self) -> Ints:
        return _codes(self.frame, ["h"])

    @cached_property
    def _psu(self) -> Ints | None:
        return None if self.design.psu is None else _codes(self.frame, ["h", "c"])

    def rows(self, j: int) -> Rows:
        """Statistic j's rows for Taylor linearisation."""
        return self._rows[j]

    @cached_property
    def _rows(self) -> tuple[Rows, ...]:
        return tuple(map(self._rows_of, range(len(self.statistics))))

    def _rows_of(self, j: int) -> Rows:
        frame, zero = self.frame, np.zeros(self.frame.height)
        records = frame["n"].to_numpy().astype(np.float64)

        def sums(name: str) -> Floats:
            return frame[f"{name}{j}"].to_numpy() if f"{name}{j}" in frame.columns else zero

        return Rows(
            stratum=self._stratum,
            psu=self._psu,
            records=records,
            touched=sums("k") > 0,
            u=sums("u"),
            v=sums("v"),
            uu=sums("uu") * records,
            uv=sums("uv") * records,
            vv=sums("vv") * records,
            weights=self._weights(j) if self.calibrated else None,
        )

    def _weights(self, j: int) -> RowWeights:
        frame, zero = self.frame, np.zeros(self.frame.height)
        records = frame["n"].to_numpy().astype(np.float64)

        def about_mean(name: str) -> Floats:
            return frame[name].to_numpy() * records if name in frame.columns else zero

        return RowWeights(
            frame["w"].to_numpy(), *(about_mean(name) for name in ("ww", f"uw{j}", f"vw{j}"))
        )

    def replicated(self, j: int) -> tuple[Floats, Floats]:
        """Statistic j's (rows, 1 + R) sums u and v under the full and each replicate weight."""
        suffixes = ["", *(f"r{r}" for r in range(len(self.replicates)))]
        u = self.frame.select([f"u{j}{suffix}" for suffix in suffixes]).to_numpy()
        if self.statistics[j].x is None:
            return u, np.zeros_like(u)
        return u, self.frame.select([f"v{j}{suffix}" for suffix in suffixes]).to_numpy()

    def records(self, j: int, domain: Ints, count: int) -> Floats:
        """How many records statistic j uses in each domain: those with a value, unweighted."""
        name = f"k{j}" if f"k{j}" in self.frame.columns else "n"
        known, inside = self.frame[name].fill_null(0).to_numpy(), domain >= 0
        return np.bincount(domain[inside], known[inside], count).astype(np.float64)

    def share(self, domain: Ints, count: int) -> Floats:
        """Which part of all records each domain has, unweighted."""
        counted = self.frame["inside" if "inside" in self.frame.columns else "n"]
        known, kept = counted.fill_null(0).to_numpy(), domain >= 0
        return np.asarray(np.bincount(domain[kept], known[kept], count) / max(self.count, 1))

    @property
    def count(self) -> int:
        """All records."""
        return int(self.frame["n"].sum())

    def alone(self, j: int, domain: Ints, count: int) -> NDArray[np.bool_]:
        """Domains whose ratio j rests on one unit (PSU where the design has them, else record)
        that has weight and was not taken with certainty."""
        used = self.frame[f"used{j}"].fill_null(0).cast(pl.Int64).to_numpy()
        counted = (domain >= 0) & (used > 0)
        if self.replicates:
            return np.asarray(np.bincount(domain[counted], used[counted], count) == 1)
        units = np.column_stack([domain, self._stratum, used])[counted]
        if self._psu is not None:
            units[:, 2] = self._psu[counted]
            units = np.unique(units, axis=0)
            units[:, 2] = 1
        number = np.bincount(units[:, 0], units[:, 2], count)
        chance = np.bincount(units[:, 0], self.strata.fraction[units[:, 1]] < 1, count)
        return np.asarray((number == 1) & (chance > 0))

    def cells(self, kept: Sequence[int]) -> tuple[Ints, pl.DataFrame]:
        """Domains made by the by-variables in `kept`: each row's domain, and their levels.

        Domains that no record of the requested domain falls in are left out (-1), except
        the whole, which always has its row.
        """
        names = [f"by{k}" for k in kept]
        if not names:
            return np.zeros(self.frame.height, dtype=np.int64), pl.DataFrame({"": [None]}).drop("")
        counted = "inside" if "inside" in self.frame.columns else "n"
        present = self.frame.filter(pl.col(counted) > 0)
        levels = present.select(names).unique().sort(names, nulls_last=True)
        numbered = levels.with_row_index("domain")
        joined = self.frame.select(names).join(
            numbered, on=names, how="left", nulls_equal=True, maintain_order="left"
        )
        return joined["domain"].cast(pl.Int64).fill_null(-1).to_numpy(), levels


def collect(
    survey: Survey,
    statistics: Sequence[Linear],
    by: Sequence[ir.Value],
    inside: ir.BooleanValue | None,
    by_records: bool = False,
) -> Sums:
    """All sums of all statistics in one GROUP BY, after a look at the first records; and the
    records' own terms where the design needs them, or `by_records` asks for them.

    Where the first records of a file lack no value the sums are made without masks of missing
    values, which cost as much as several sums, and values are counted; if some are missing after
    all, the sums are made again."""
    design, table = survey.design, survey.table
    replicates = (
        design.replicates.matching(survey.columns, design.weight)
        if design.replicates is not None and design.weight is not None
        else ()
    )
    by_records = bool(statistics) and (by_records or design.by_records)
    look = FirstLook(survey, statistics, inside)
    asked = _Asked(survey, tuple(statistics), tuple(by), inside, look.pivots(), replicates)
    if not replicates and not by_records and look.seems_whole():
        frame = asked.whole()
        if frame is not None:
            return asked.sums(frame)
        look.remember_missing()
    masks = [known(statistic, inside) for statistic in statistics]
    if replicates:  # a mask that lets everything through would cost a sum for every replicate
        masks = _without_idle(table, masks)
    records = asked.records(masks)
    frame = asked.summed(records)
    if replicates:
        _check_replicates(survey, replicates, frame)
    if not _finite(frame):
        raise Refused(NOT_FINITE)
    sums = asked.sums(frame)
    if by_records:
        survey.refuse_on_cluster("A design effect, a comparison or a design with stages")
        terms = RecordTerms(records.to_polars(), DesignRecords(survey, sums.calibrated))
        return replace(sums, terms=terms)
    return sums


@dataclass(frozen=True)
class _Asked:
    """What is summed, in which groups."""

    survey: Survey
    statistics: tuple[Linear, ...]
    by: tuple[ir.Value, ...]
    inside: ir.BooleanValue | None
    pivots: tuple[float, ...]
    replicates: tuple[str, ...]

    def records(self, masks: Sequence[ir.BooleanValue | None]) -> ir.Table:
        """A row per record: weights, groups, what the design says, and terms of the statistics."""
        design, table = self.survey.design, self.survey.table
        weight = table[design.weight].cast("float64") if design.weight else ibis.literal(1.0)
        columns: dict[str, Any] = {"w": weight}
        if self.inside is not None:
            columns["inside"] = self.inside
        for k, variable in enumerate(self.by):
            columns[f"by{k}"] = variable
        each = zip(self.statistics, self.pivots, masks, strict=True)
        for j, (statistic, pivot, mask) in enumerate(each):
            a, x = statistic.a, statistic.x
            columns[f"a{j}"] = zero_outside(a if x is None else a - pivot * x, mask)
            if x is not None:
                columns[f"x{j}"] = zero_outside(x, mask)
            if mask is not None or x is not None or design.lonely_psu == "average":
                columns[f"k{j}"] = ibis.literal(True) if mask is None else mask
        if self.replicates:
            for r, name in enumerate(self.replicates):
                columns[f"r{r}"] = table[name].cast("float64")  # NaN shows in the sums
        else:
            if design.strata:
                columns["h"] = table[design.strata]
            if design.psu:
                columns["c"] = table[design.psu]
            if design.fpc:
                columns["f"] = as_float(table[design.fpc])
        return table.select(**columns)

    def whole(self) -> pl.DataFrame | None:
        """The sums if no record lacks a value, and None if one does."""
        records = self.records([None] * len(self.statistics))
        values = [c for c in records.columns if c[0] in "ax" and not _is_one(_value(records, c))]
        groups = [c for c in records.columns if c[:2] == "by" or c in "hcf"]
        if not any(records[name].type().is_floating() for name in groups):
            records = with_nan(records)  # NaN shows in the sums
        try:
            frame = self.summed(records, counted=values)
        except duckdb.OutOfRangeException:  # a variance with NaN
            return None
        complete = not values or frame["known"].sum() == frame["n"].sum()
        return frame if complete and _finite(frame) else None

    def summed(self, records: ir.Table, counted: Sequence[str] = ()) -> pl.DataFrame:
        """A row per cell, stratum and PSU; and how many records have all values in `counted`."""
        names = records.columns
        keys = [name for name in names if name[:2] == "by"]
        keys += [key for key in ("h", "c") if key in names]
        same = next((k for k in keys if k != "h" and "h" in keys and _same(records, k)), None)
        asked = [key for key in keys if key != "h" or same is None]
        ones = {name for name in names if _is_one(_value(records, name))}
        sums = _aggregates(records, self.survey, len(self.statistics), len(self.replicates), ones)
        if self.sizes:
            sums |= _weight_sums(records, self.survey.design, len(self.statistics))
        if counted:
            sums["known"] = _added([records[name] for name in counted]).count()
        grouped = records.group_by(asked).aggregate(**sums) if asked else records.aggregate(**sums)
        frame = _with_counts(collected(grouped), [name for name in names if name[0] == "k"])
        if same is not None:
            frame = frame.with_columns(h=pl.col(same))
        frame = frame.sort(keys, nulls_last=True) if keys else frame
        return frame if self.replicates or "h" in names else frame.with_columns(h=pl.lit(1))

    @cached_property
    def sizes(self) -> Mapping[Value, float]:
        """The public sizes of the strata, to which weights may add up."""
        design = self.survey.design
        if design.weight is None or self.replicates:
            return {}
        return self.survey.declared.population_by.get(design.strata or "", {})

    def sums(self, frame: pl.DataFrame) -> Sums:
        calibrated = bool(self.sizes) and _adds_up(frame, self.sizes)
        design = self.survey.design
        return Sums(frame, self.statistics, self.pivots, design, self.replicates, calibrated)


def _finite(frame: pl.DataFrame) -> bool:
    added = [c for c in frame.columns if c[0] in "uv" and c[1:].isdigit()]
    return all(frame[c].cast(pl.Float64).is_finite().all() for c in added)


def _value(records: ir.Table, name: str) -> Node:
    """What the column is made of."""
    project: Project = records.op()
    return project.values[name]


def _same(records: ir.Table, name: str) -> bool:
    """Whether it is the stratum."""
    return bool(_value(records, name) == _value(records, "h"))


def _without_idle(
    table: ir.Table, masks: Sequence[ir.BooleanValue | None]
) -> list[ir.BooleanValue | None]:
    """The masks, with None for those that are true for every record."""
    asked = {f"m{j}": (~mask).any() for j, mask in enumerate(masks) if mask is not None}
    if not asked:
        return list(masks)
    leaves_out = collected(table.aggregate(**asked)).row(0, named=True)
    return [mask if leaves_out.get(f"m{j}") else None for j, mask in enumerate(masks)]


def _is_one(value: Node) -> bool:
    return isinstance(value, Literal) and value.value == 1


def _check_replicates(survey: Survey, replicates: Sequence[str], frame: pl.DataFrame) -> None:
    known, total = frame["r_known"].sum(), frame["r_sum"].cast(pl.Float64).fill_null(0.0)
    if known < frame["n"].sum() or not total.is_finite().all():
        refuse_unknown(survey, replicates)


def _aggregates(
    records: ir.Table, survey: Survey, count: int, replicates: int, ones: Set[str]
) -> dict[str, Any]:
    """Sums of w a and w x, and what the variance needs: replicated sums, or second moments. `ones`
    are columns that are 1 throughout; counts that follow from others are left to _with_counts."""
    design = survey.design
    sums: dict[str, Any] = {"n": records.count(), "w": records.w.sum()}
    if survey.zero_weights:
        sums["weighing"] = (records.w > 0).sum()
    if "inside" in records.columns:
        sums["inside"] = records.inside.sum()
    for j in range(count):
        parts = [(letter, f"{letter_of}{j}") for letter, letter_of in (("u", "a"), ("v", "x"))]
        parts = [(letter, name) for letter, name in parts if name in records.columns]
        weighted = {
            letter: records.w if name in ones else records.w * records[name]
            for letter, name in parts
        }
        sums |= {f"{letter}{j}": value.sum() for letter, value in weighted.items()}
        if f"k{j}" in records.columns and f"k{j}" not in ones:
            sums[f"k{j}"] = records[f"k{j}"].sum()
            if survey.zero_weights:
                sums[f"used{j}"] = (records[f"k{j}"] & (records.w > 0)).sum()
        for r in range(replicates):
            for letter, name in parts:
                weight = records[f"r{r}"]
                sums[f"{letter}{j}r{r}"] = (
                    weight if name in ones else weight * records[name]
                ).sum()
        if not replicates and design.psu is None:
            sums |= {f"{k}{k}{j}": value.var(how="pop") for k, value in weighted.items()}
            if "v" in weighted:
                sums[f"uv{j}"] = weighted["u"].cov(weighted["v"], how="pop")
    if replicates:
        every = _added([records[f"r{r}"] for r in range(replicates)])
        sums |= {"r_known": every.count(), "r_sum": every.sum()}
    if design.fpc and not replicates:
        sums |= {"f_low": records.f.min(), "f_high": records.f.max()}
        sums["f_missing"] = records.f.isnull().sum()
    return sums


def _with_counts(frame: pl.DataFrame, known: Sequence[str]) -> pl.DataFrame:
    """With the counts that the query could spare: of the records with weight where all have it,
    and of those with a value (`known`), and with both, where none lacks it."""
    weighing = "weighing" if "weighing" in frame.columns else "n"
    counts = {"weighing": weighing}
    for name in known:
        counts[name] = name if name in frame.columns else "n"
        used = f"used{name[1:]}"
        if used not in frame.columns:
            counts[used] = counts[name] if weighing == "n" else weighing
    return frame.with_columns(**{name: pl.col(source) for name, source in counts.items()})


def _added(values: list[Any]) -> Any:
    """The sum of several columns: null where one of them is. In halves, since a deep expression
    cannot be written."""
    middle = len(values) // 2
    return _added(values[:middle]) + _added(values[middle:]) if middle else values[0]


def _weight_sums(records: ir.Table, design: Design, count: int) -> dict[str, Any]:
    """Sums of the weights and their products with each statistic, for public stratum sizes."""
    sums: dict[str, Any] = {}
    if design.psu is None:
        sums["ww"] = records.w.var(how="pop")
        for j in range(count):
            for letter, name in ((f"uw{j}", f"a{j}"), (f"vw{j}", f"x{j}")):
                if name in records.columns:
                    sums[letter] = (records.w * records[name]).cov(records.w, how="pop")
    return sums


def _adds_up(frame: pl.DataFrame, sizes: Mapping[Value, float]) -> bool:
    """Whether the weights of every stratum add up to its public size."""
    by_stratum = frame.group_by("h").agg(pl.col("w").sum())
    public = {str(level): size for level, size in sizes.items()}
    return all(
        isclose(total, public.get(str(level), nan), rel_tol=ADDS_UP)
        for level, total in by_stratum.iter_rows()
    )


def _codes(frame: pl.DataFrame, names: list[str]) -> Ints:
    """Dense numbers for the distinct rows of some columns (null counts as a value)."""
    return frame.select(pl.struct(names).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()


def _strata(frame: pl.DataFrame, design: Design) -> Strata:
    if frame["h"].null_count():
        raise Refused(
            f"The stratum `{design.strata}` is missing for some records; give them a stratum."
        )
    if design.psu is not None and frame["c"].null_count():
        raise Refused(f"The PSU `{design.psu}` is missing for some records; give them a PSU.")
    facts = [pl.col("n").sum().alias("psus"), pl.col("weighing").sum()]
    if design.psu is not None:
        if not design.nest and frame.select("h", "c").n_unique() > frame["c"].n_unique():
            raise Refused(
                f"The same PSU number in `{design.psu}` occurs in several strata; if numbering "
                "starts again in each stratum, say nest=True, or else correct the PSU column."
            )
        psu = pl.col("c")
        with_weight = psu.filter(pl.col("weighing") > 0).n_unique()
        facts = [psu.n_unique().alias("psus"), with_weight.alias("weighing")]
    if design.fpc is not None:
        facts += [
            pl.col("f_low").min(),
            pl.col("f_high").max(),
            pl.col("f_missing").sum(),
        ]
    by_stratum = frame.group_by("h").agg(facts).sort("h")
    psus, weighing = (by_stratum[c].cast(pl.Float64).to_numpy() for c in ("psus", "weighing"))
    fraction = np.zeros(len(psus))
    if design.fpc is not None and design.pps is None:
        fraction = _fractions(by_stratum, psus, design.fpc)
    strata = Strata(psus, weighing, fraction, design.lonely_psu)
    check_strata(strata)
    return strata


def _fractions(by_stratum: pl.DataFrame, psus: Floats, name: str) -> Floats:
    low, high = by_stratum["f_low"].to_numpy(), by_stratum["f_high"].to_numpy()
    if by_stratum["f_missing"].sum() or np.any(low <= 0):
        raise Refused(f"The fpc `{name}` must be above 0 and known for every record.")
    if not np.allclose(low, high, rtol=1e-9):
        raise Refused(
            f"The fpc `{name}` varies inside a stratum; give every record of a stratum "
            "the same value."
        )
    return low if np.all(high <= 1) else psus / low
