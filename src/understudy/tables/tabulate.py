"""Tables with design-based standard errors: `tabulate(survey, ["count", "mean(y)"], by=["a"])`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey, refuse_unusable
from understudy.tables.calibration_hint import warn_of_calibration
from understudy.tables.collect import collect
from understudy.tables.combine import RULES
from understudy.tables.combine import combine as combine_estimates
from understudy.tables.computation import computation
from understudy.tables.domain import as_condition
from understudy.tables.intervals import chosen_kinds, limits_of
from understudy.tables.noise_sets import check_conditions, stands_for, within_sets
from understudy.tables.precision import PrecisionRule, precision_rule
from understudy.tables.sorted_records import SortedRecords
from understudy.tables.statistic import Cells, LinearStatistic, Statistic, parse_statistics
from understudy.tables.student_t import t_quantile
from understudy.tables.taylor import DomainEstimates
from understudy.tables.variance_factor import variance_factor

__public__ = ("tabulate",)

Floats = NDArray[np.float64]
ALL, MISSING = "All", "Missing"
LIMITS = ("lower", "upper")
CELL = "__cell"  # the place of a row's cell, while a table is put together
OWN = (
    "statistic", "estimate", "se", "df", "lower", "upper", "cv", "n", "deff", "note", "variance",
    "dataset", CELL,
)  # fmt: skip


@computation()
def tabulate(
    survey: Survey | Sequence[Survey],
    statistics: str | Statistic | Sequence[str | Statistic],
    by: str | Sequence[str] = (),
    margins: bool = False,
    where: Any = None,
    combine: str | None = None,
    level: float = 0.95,
    *,
    intervals: str | Mapping[str, str] | None = None,
    precision: str | Mapping[str, float] | None = None,
    n: bool = False,
    labels: bool = False,
    deff: bool = False,
) -> pl.DataFrame:
    """Estimates with standard errors, degrees of freedom and confidence limits.

    One row per cell and statistic: the by-columns, statistic, estimate, se, df, lower, upper,
    cv and a note, which is empty where there is nothing to say about a cell. With `margins` all
    margins of the by-variables are added; the by-columns are then texts with "All" on margins and
    "Missing" for records without a level. `where` is a domain: the design stays whole. A list of
    surveys needs `combine`: "partial" or "full" for synthetic ones, "imputed" for implicates of
    one survey, or "none" (the tables one under the other, with their number). Files that were drawn
    from one set of noisy tables (`Release.draw`) are averaged first.

    `proportion(x)` stands for the proportions of all levels of x. Limits stay in the range of what
    they are about: a proportion has logit ones, a count log ones. `intervals` names another kind
    ("t" for all, or {"proportion": "beta", "count": "t"}; intervals.py), `precision` a rule by
    which notes flag estimates of low precision ("nchs", or {"records": 50, "cv": 0.3}).
    `n` adds the number of records behind each estimate, `deff` the design effect (the variance over
    that of a simple random sample without replacement of the same size), and `labels` shows the
    by-columns with the codebook's labels, in the order of its levels.

    >>> import polars as pl, understudy as us
    >>> frame = pl.DataFrame({"w": [2.0, 2.0, 3.0, 3.0], "y": [1.0, 3.0, 2.0, 4.0]})
    >>> us.tabulate(us.Survey(frame, us.Design(weight="w")), "mean(y)")["estimate"].to_list()
    [2.6]
    """
    if not 0 < level < 1:
        raise Refused("The confidence `level` must be between 0 and 1.")
    if isinstance(survey, Survey):
        if combine not in (None, "none"):
            raise Refused("`combine` is for a list of surveys; this is one survey.")
        asked = _Asked(survey, statistics, level, intervals, precision, n, deff)
        wanted = _Wanted(asked.statistics, by, margins, where, level, labels, deff, True)
        return asked.finished(_estimates(survey, wanted))
    if combine is None:
        combine = getattr(survey, "kind", None)  # an opened release knows its rule
    if not hasattr(survey, "__iter__"):
        raise Refused(
            "A table is made of a survey, of a list of them or of an opened release; a synthesis "
            "has its surveys in `datasets`."
        )
    surveys = list(survey)
    _check_list(surveys, combine)
    asked = _Asked(surveys[0], statistics, level, intervals, precision, n, deff)
    parsed = asked.statistics
    collected = combine in ("imputed", "none")  # weights of synthetic files are made, not collected
    wanted = _Wanted(parsed, by, margins, where, level, labels, deff, collected)
    tables = [_estimates(dataset, wanted) for dataset in surveys]
    if combine == "none":
        numbered = [
            asked.finished(t).insert_column(0, pl.lit(i, pl.Int64).alias("dataset"))
            for i, t in enumerate(tables, start=1)
        ]
        return pl.concat(numbered)
    return asked.finished(_combined(surveys, tables, str(combine), parsed))


def _check_list(surveys: list[Survey], combine: str | None) -> None:
    if not surveys or not all(isinstance(dataset, Survey) for dataset in surveys):
        raise Refused("Give one Survey, or a list with at least one Survey.")
    if combine is None:
        raise Refused(
            "Several data sets need a combining rule: combine='partial' where some columns or "
            "records are real, 'full' where all are synthetic, 'imputed' for implicates of one "
            "survey, 'none' for one table each."
        )
    if combine not in (*RULES, "none"):
        raise UnknownName("combining rule", combine, (*RULES, "none"))
    check_conditions(surveys, ())
    for dataset in surveys[1:]:
        differing = set(dataset.columns) ^ set(surveys[0].columns)
        if differing:
            raise Refused(
                f"The data sets have different columns (`{sorted(differing)[0]}` is not in all of "
                "them); give data sets of one synthesis."
            )


class _Wanted(NamedTuple):
    """Which rows a table has, and what they are made of."""

    statistics: Sequence[Statistic]
    by: str | Sequence[str]
    margins: bool
    where: Any
    level: float
    labels: bool
    deff: bool
    collected: bool


def _estimates(survey: Survey, wanted: _Wanted) -> pl.DataFrame:
    """The table of one survey: by-columns, statistic, estimate, variance, df (and limits). Where
    variances have a weight of their own, they are those of the estimates with that weight."""
    table = _weighted(survey, wanted)
    if survey.design.variance_weight is not None:
        other = _weighted(survey.for_variances(), wanted)
        table = table.with_columns(other["variance"], *(pl.lit(np.nan).alias(c) for c in LIMITS))
    return _of_the_sample(table, survey, wanted.statistics)


def _weighted(survey: Survey, wanted: _Wanted) -> pl.DataFrame:
    statistics, by, margins, where, level, labels, deff, collected = wanted
    names = [by] if isinstance(by, str) else list(by)
    for name in names:
        if name not in survey.columns:
            raise UnknownName("by-variable", name, survey.columns)
        if name in OWN:
            raise Refused(f"The table has a column `{name}` of its own; rename the by-variable.")
    refuse_unusable(survey.table, [*names, *(n for each in statistics for n in each.columns)])
    if len(set(names)) < len(names):
        raise Refused("A by-variable is named twice; name each once.")
    check_conditions([survey], [statistic.text for statistic in statistics if statistic.adds_up])
    inside = as_condition(where, survey.table)
    linear = [statistic for statistic in statistics if isinstance(statistic, LinearStatistic)]
    sums = collect(
        survey,
        [statistic.linear(survey.table) for statistic in linear],
        [survey.table[name] for name in names],
        inside,
        by_records=deff,
    )
    if collected:
        warn_of_calibration(survey, sums, names)
    df = sums.degrees(survey)
    own_df = df if stands_for(survey) == 1 else max(df * stands_for(survey), 1.0)  # of the sample
    tables: list[pl.DataFrame] = []
    in_order: dict[str, SortedRecords] = {}
    for kept in _grouping_sets(len(names), margins):
        domain, levels = sums.cells(kept)
        cells = Cells(
            survey, statistics, names, kept, levels, inside, sums, linear, domain, df, level,
            in_order=in_order,
        )  # fmt: skip
        codebook = survey.codebook if labels else Codebook()
        key = _key_columns(levels, kept, names, margins or labels, codebook)
        shown, facts = [names[k] for k in kept], (survey.declared, survey.design)
        share = sums.share(domain, key.height)
        pieces = []
        for statistic in statistics:
            factor = variance_factor(
                *facts, shown, statistic.columns, where, statistic.of_counts, statistic.adds_up
            )
            estimates = statistic.estimates(cells)
            value = estimates.value[: key.height]
            widened = _Widened(
                factor.of(share, sums.count, value),
                df,
                factor.degrees(share, sums.count, own_df, value),
                level,
            )
            pieces.append(_piece(key, statistic, estimates, widened))
        tables.append(pl.concat(pieces).sort(CELL, maintain_order=True))
    return pl.concat(tables).drop(CELL)


def _of_the_sample(
    table: pl.DataFrame, survey: Survey, statistics: Sequence[Statistic]
) -> pl.DataFrame:
    """The table of a further file with the sampling error of the sample (noise_sets.py); without
    design weights its sums are those of its records, and are scaled here."""
    share = stands_for(survey)
    if share == 1:
        return table
    sums = [s.text for s in statistics if s.adds_up and survey.design.weight is None]
    scale = pl.when(pl.col("statistic").is_in(sums)).then(share).otherwise(1.0)
    return table.with_columns(
        pl.col("estimate") * scale,
        pl.col("variance") * scale**2 / share,
        pl.col("n") * share,
        pl.lit(float("nan")).alias("lower"),
        pl.lit(float("nan")).alias("upper"),
    )


def _grouping_sets(count: int, margins: bool) -> list[tuple[int, ...]]:
    full = tuple(range(count))
    if not margins:
        return [full]
    return [kept for size in range(count, -1, -1) for kept in combinations(full, size)]


def _key_columns(
    levels: pl.DataFrame, kept: Sequence[int], names: list[str], texts: bool, codebook: Codebook
) -> pl.DataFrame:
    """The by-columns of a table or a margin; those in the codebook by their labels, and the cells
    in the order of its levels."""
    height = levels.height if kept else 1
    columns, ranks = [], []
    for k, name in enumerate(names):
        if k not in kept:
            columns.append(pl.Series(name, [ALL] * height, dtype=pl.String))
            continue
        column = levels[f"by{k}"].alias(name)
        if name in codebook:
            order = {value: rank for rank, value in enumerate(codebook[name].levels or ())}
            ranks.append([order.get(value, len(order)) for value in column])
            words = codebook[name].value_labels
            column = pl.Series(name, [words.get(v, v) for v in column], strict=False)
        columns.append(_labelled(column) if texts else column)
    cell = np.empty(height, dtype=np.int64)
    cell[np.lexsort(ranks[::-1]) if ranks else np.arange(height)] = np.arange(height)
    return pl.DataFrame([pl.Series(CELL, cell), *columns])


def _labelled(column: pl.Series) -> pl.Series:
    """Levels as texts, beside the words of margins and of missing levels."""
    texts = level_texts(column)
    taken = set(texts.drop_nulls())
    word = ALL if ALL in taken else MISSING
    if ALL in taken or (MISSING in taken and column.null_count()):
        meaning = "margin" if word == ALL else "row of records without a level"
        raise Refused(
            f"`{column.name}` has a level called {word}, which is also the name of the {meaning}; "
            "rename the level, or leave out the margins."
        )
    return texts.fill_null(MISSING)


def level_texts(column: pl.Series) -> pl.Series:
    """Levels as texts: a code that a file holds as 1.0 is 1, as in a file that holds whole ones."""
    if column.dtype.is_float():
        known = column.drop_nulls()
        if (known.is_finite() & (known == known.round())).all() and (known.abs() < 2**53).all():
            column = column.cast(pl.Int64)
    return column.cast(pl.String)


class _Widened(NamedTuple):
    """What cells' variances are multiplied by, and degrees of freedom before and after."""

    factor: Floats
    df: float
    degrees: Floats
    level: float

    @property
    def longer(self) -> Floats:
        """What intervals by the degrees of freedom before are multiplied by."""
        before, after = (t_quantile(df, 0.5 + self.level / 2) for df in (self.df, self.degrees))
        return np.asarray(np.sqrt(self.factor) * after / before, dtype=np.float64)


def _piece(
    key: pl.DataFrame, statistic: Statistic, estimates: DomainEstimates, widened: _Widened
) -> pl.DataFrame:
    height = key.height
    lower = upper = np.full(height, np.nan)  # filled in by the t interval
    records = lower if estimates.records is None else estimates.records
    effect = np.full(height, np.nan) if estimates.effect is None else estimates.effect
    if statistic.interval == "own" and estimates.limits is not None:
        value = estimates.value[:height]
        lower, upper = (
            value + widened.longer * (limit[:height] - value) for limit in estimates.limits
        )
    return key.with_columns(
        pl.lit(statistic.text).alias("statistic"),
        pl.Series("estimate", estimates.value[:height]),
        pl.Series("variance", widened.factor * estimates.variance[:height]),
        pl.Series("df", widened.degrees),
        pl.Series("lower", lower[:height]),
        pl.Series("upper", upper[:height]),
        pl.Series("note", (estimates.notes or ("",) * height)[:height], dtype=pl.String),
        pl.Series("n", records[:height]),
        pl.Series("deff", effect[:height]),
    )


def _combined(
    surveys: Sequence[Survey],
    tables: list[pl.DataFrame],
    kind: str,
    statistics: Sequence[Statistic],
) -> pl.DataFrame:
    """Cells matched over the data sets; a cell without records has a statistic's empty value."""
    keys = [
        c
        for c in tables[0].columns
        if c not in ("estimate", "variance", "df", "lower", "upper", "note", "n", "deff")
    ]
    every = pl.concat([t.select(keys) for t in tables]).unique(maintain_order=True)
    aligned = [every.join(t, on=keys, how="left", nulls_equal=True) for t in tables]
    empty = {statistic.text: statistic.empty for statistic in statistics}
    fill = np.array([empty[text] for text in every["statistic"]])

    def column(name: str) -> Floats:
        rows = [t[name].fill_null(np.nan).to_numpy() for t in aligned]
        absent = np.array([t["df"].is_null().to_numpy() for t in aligned])
        return within_sets(surveys, np.where(absent, fill, np.array(rows)))

    df = np.array([t["df"].to_numpy() for t in aligned], dtype=np.float64)
    result = combine_estimates(column("estimate"), column("variance"), np.nanmin(df, axis=0), kind)
    notes = [
        "; ".join(dict.fromkeys(note for note in each if note))
        for each in zip(result.note, *(t["note"].fill_null("") for t in aligned), strict=True)
    ]
    return every.with_columns(
        pl.Series("estimate", result.value),
        pl.Series("variance", result.variance),
        pl.Series("df", result.df),
        pl.lit(None, pl.Float64).alias("lower"),
        pl.lit(None, pl.Float64).alias("upper"),
        pl.Series("note", notes),
        pl.Series("n", np.array([t["n"].fill_null(0.0).to_numpy() for t in aligned]).mean(axis=0)),
        pl.Series("deff", np.array([t["deff"].to_numpy() for t in aligned]).mean(axis=0)),
    )


class _Asked:
    """What is wanted of every row: statistics, intervals, flags, the number of records."""

    def __init__(
        self,
        survey: Survey,
        statistics: str | Statistic | Sequence[str | Statistic],
        level: float,
        intervals: str | Mapping[str, str] | None,
        precision: str | Mapping[str, float] | None,
        n: bool,
        deff: bool,
    ) -> None:
        self.statistics = [
            statistic
            for each in parse_statistics(statistics, survey.columns)
            for statistic in each.spread_out(survey)
        ]
        allowed = {statistic.name: statistic.intervals for statistic in self.statistics}
        kinds = chosen_kinds(intervals, allowed)
        self.level, self.n, self.deff = level, n, deff
        self.kinds = {s.text: kinds[s.name] for s in self.statistics}
        self.shares = {s.text for s in self.statistics if "beta" in s.intervals}
        self.rule: PrecisionRule | None = precision_rule(precision)

    def finished(self, table: pl.DataFrame) -> pl.DataFrame:
        """se, limits and cv from variances; limits that a statistic brought are kept."""

        def numbers_in(name: str) -> Floats:
            return table[name].cast(pl.Float64).fill_null(np.nan).to_numpy()

        se, value, df = np.sqrt(numbers_in("variance")), numbers_in("estimate"), numbers_in("df")
        records, lower, upper = (numbers_in(name) for name in ("n", "lower", "upper"))
        own = ~np.isnan(lower) | ~np.isnan(upper)
        texts = table["statistic"]
        for kind in set(self.kinds.values()):
            rows = ~own & texts.is_in([t for t in self.kinds if self.kinds[t] == kind]).to_numpy()
            limits = limits_of(kind, value[rows], se[rows], df[rows], records[rows], self.level)
            (lower, upper) = (np.array(lower), np.array(upper))
            lower[rows], upper[rows] = limits
        with np.errstate(divide="ignore", invalid="ignore"):
            cv = np.where(value != 0, se / np.abs(value), np.nan)
        numbers = {"estimate": value, "se": se, "df": df, "lower": lower, "upper": upper, "cv": cv}
        if self.n:
            numbers["n"] = records
        if self.deff:
            numbers["deff"] = numbers_in("deff")
        notes = table["note"].to_list()
        if self.rule is not None:
            shares = texts.is_in(list(self.shares)).to_numpy()
            flags = self.rule.flags(shares, value, se, df, records)
            notes = ["; ".join(t for t in pair if t) for pair in zip(notes, flags, strict=True)]
        passed = ("variance", "estimate", "df", "lower", "upper", "note", "n", "deff")
        return table.drop(passed).with_columns(
            *(pl.Series(name, array).fill_nan(None) for name, array in numbers.items()),
            pl.Series("note", notes, dtype=pl.String),
        )
