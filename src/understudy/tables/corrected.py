"""The table of synthetic files with noisy differences applied: cells, margins and their errors.

    cells: c + share D;  margins: sums of cells, or averages by the cells' counts

Where noise is larger than what synthesis has wrong, a correction would harm: with N the variance of
noise and clipping in D and M = E(c - confidential estimate)^2, synthesis variance and squared bias,
c + share D is off from the confidential estimate by (1 - share)^2 M + share^2 N, least for share =
M/(M + N). M is g times the cell's sampling variance. g comes from all differences of a statistic
together, and is at least what the spread between the files shows, which has no bias in it.

The error of a corrected entry holds the sampling error (the mean of the files' own variances),
noise and clipping as far as they were applied, and what is left of synthesis. All of it is computed
from noisy differences and public files: post-processing (methods §13).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.survey.survey import Survey
from understudy.tables.consistency import membership
from understudy.tables.intervals import limits_of
from understudy.tables.statistic import Statistic
from understudy.tables.tabulate import ALL, tabulate

Floats = NDArray[np.float64]
ROUNDS = 50  # of the estimate of g
ROUNDING = 1e-12
LEVEL = 0.95  # of confidence
NOTE = "estimates were corrected towards the confidential ones by noisy sums; see the claim"
BESIDE = ("released", "noise_se", "share")  # columns beside those of `tabulate`


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """The table of synthetic files with all its margins, and the sampling variance in it."""

    combined: pl.DataFrame
    counts: pl.DataFrame
    within: pl.DataFrame  # keys, `within` and `design_df`: means over the files
    by: tuple[str, ...]
    files: int

    @staticmethod
    def of(
        surveys: Sequence[Survey], statistics: Sequence[Statistic], by: Sequence[str], combine: str
    ) -> ReleasedTable:
        combined = tabulate(surveys, statistics, by, margins=True, combine=combine)
        counts = tabulate(surveys, "count", by, margins=True, combine=combine)
        # by itself, and without the factor for what the fit has wrong: sampling alone
        alone = [Survey(s.raw, s.design, replace(s.codebook, misfit=None)) for s in surveys]
        each = pl.concat(
            tabulate([survey], statistics, by, margins=True, combine="partial") for survey in alone
        )
        within = each.group_by(*by, "statistic").agg(
            within=(pl.col("se") ** 2).fill_nan(None).mean(),
            design_df=pl.col("df").fill_nan(None).min(),
        )
        return ReleasedTable(combined, counts, within, tuple(by), len(surveys))

    def exact_sizes(self) -> dict[tuple[str, ...], float]:
        """The counts without an error: the number of records, where it is the file's own."""
        exact = self.counts.filter(pl.col("se") == 0)
        return {tuple(row): size for *row, size in exact.select(*self.by, "estimate").rows()}

    def corrected(
        self,
        cells: pl.DataFrame,
        statistics: Sequence[Statistic],
        known: Mapping[tuple[str, ...], float],
    ) -> pl.DataFrame:
        """With corrected cells, and margins that follow from them; counts keep the `known` sizes of
        margins. `cells` has by, statistic, difference, noise (a variance) and noise_se; a statistic
        that it does not have stays as it is."""
        keys = [*self.by, "statistic"]
        whole = self.combined.join(self.within, on=keys, how="left", maintain_order="left")
        whole = whole.join(cells, on=keys, how="left", maintain_order="left")
        synthesis = (pl.col("se") ** 2 - pl.col("within")).clip(lower_bound=0.0).fill_nan(0.0)
        whole = whole.with_columns(
            synthesis=synthesis.fill_null(0.0),
            released=pl.col("estimate"),
            share=pl.lit(None, pl.Float64),
        )
        entries = [tuple(row) for row in self.counts.select(self.by).rows()]
        parts = {part["statistic"][0]: part for part in whole.partition_by("statistic")}
        sizes = self.counts["estimate"].to_numpy()
        asked = set(cells["statistic"])
        for statistic in sorted(statistics, key=lambda s: not s.adds_up):
            if statistic.text not in asked:
                continue
            part = parts[statistic.text]
            order = {entry: k for k, entry in enumerate(part.select(self.by).rows())}
            part = _weighed(part[[order[entry] for entry in entries]])
            made = self._follow(part, statistic, entries, sizes, known)
            if statistic.adds_up and not statistic.columns:  # how many there are
                sizes = made["estimate"].to_numpy()
            parts[statistic.text] = made
        ordered = pl.concat(
            [parts[statistic.text] for statistic in statistics], how="diagonal_relaxed"
        )
        return ordered.select(*self.combined.columns, *BESIDE)

    def _follow(
        self,
        part: pl.DataFrame,
        statistic: Statistic,
        entries: list[tuple[str, ...]],
        sizes: Floats,
        known: Mapping[tuple[str, ...], float],
    ) -> pl.DataFrame:
        """Entries from cells: the design that makes them, and what of each error is left."""
        inside = membership(entries, ALL)
        inner = [k for k, entry in enumerate(entries) if ALL not in entry]
        share, apart, added, kept = (
            part[name].fill_null(0.0).to_numpy()[inner]
            for name in ("share", "difference", "added", "kept")
        )
        value = part["estimate"].fill_null(np.nan).to_numpy()[inner] + share * apart
        covariance = np.diag(added)
        if statistic.adds_up and not statistic.columns:
            rows = [entries.index(entry) for entry in known if entry in entries]
            sums = np.array([known[entries[row]] for row in rows])
            value, covariance = to_public_sizes(value, covariance, inside[rows], sums)
        design = inside
        if not statistic.adds_up:
            held = inside * np.maximum(sizes[inner], 0.0)
            empty = held.sum(axis=1) <= 0
            held[empty] = inside[empty]
            design = held / held.sum(axis=1, keepdims=True)
        more = np.einsum("ec,cd,ed->e", design, covariance, design)
        more = np.where(more > ROUNDING * (design**2 @ added), more, 0.0)  # known sizes have none
        # cells are not wrong independently: at least what the files show of the whole entry is left
        lasting = 1 - (design @ share) / design.sum(axis=1)
        spread = lasting**2 * part["synthesis"].to_numpy()
        spread = np.maximum(spread - design**2 @ kept, 0.0)
        made = _with_limits(
            part, design @ np.nan_to_num(value), more, spread, self.files, statistic.intervals[0]
        )
        # a mean that one of its cells does not have stays the files' own, as do other cells
        lacking = (design > 0) @ np.isnan(value)
        untouched = np.zeros(len(entries), dtype=bool)
        untouched[inner] = part["share"].is_null().to_numpy()[inner]
        stays = pl.Series(lacking | untouched)
        changed = ("estimate", "se", "df", "lower", "upper", "cv", "note")
        return made.with_columns(
            pl.when(stays).then(part[name]).otherwise(made[name]).alias(name) for name in changed
        )


def resting_on_drawn(
    statistics: Sequence[Statistic], by: Sequence[str], weight: str | None, public: Container[str]
) -> tuple[Statistic, ...]:
    """The statistics whose table can be wrong: of those that rest on public columns alone, which
    are published as they are, it is right already."""
    return tuple(
        statistic
        for statistic in statistics
        if any(name not in public for name in (*statistic.columns, *by, *filter(None, [weight])))
    )


def _weighed(part: pl.DataFrame) -> pl.DataFrame:
    """The share of each difference that is applied, the error that it adds, and how much of that is
    what synthesis has wrong."""
    differences, sampling, noise, between = (
        part[name].fill_null(np.nan).to_numpy()
        for name in ("difference", "within", "noise", "synthesis")
    )
    there = np.isfinite(differences) & (sampling > 0)
    ratio = 0.0
    if there.any():
        ratio = synthesis_error(differences[there], sampling[there], noise[there])
        ratio = max(ratio, float(between[there].sum() / sampling[there].sum()))
    wrong = np.where(there, ratio * sampling, np.nan)
    share = wrong / (wrong + noise)
    return part.with_columns(
        share=pl.Series(share).fill_nan(None),
        added=pl.Series(wrong * noise / (wrong + noise)).fill_nan(None),
        kept=pl.Series((1 - share) ** 2 * wrong).fill_nan(None),
    )


def synthesis_error(differences: Floats, sampling: Floats, noise: Floats) -> float:
    """g with E(c - confidential)^2 = g sampling, from D^2 = g sampling + noise in expectation.

    The weighted moment estimate with the weights of normal differences, 1/(g + noise/sampling)^2,
    which are computed again until g stays; at least 0.
    """
    squares, ratio = differences**2 / sampling, noise / sampling
    g = max(float(np.mean(squares - ratio)), 0.0)
    for _ in range(ROUNDS):
        weight = 1 / (g + ratio) ** 2
        g = max(float(weight @ (squares - ratio) / weight.sum()), 0.0)
    return g


def public_sizes(survey: Survey, by: Sequence[str]) -> dict[tuple[str, ...], float]:
    """The margins whose size the codebook knows; weights add up to these, records do not."""
    if survey.design.weight is None:
        return {}
    codebook, sizes = survey.codebook, {}
    if codebook.population_size is not None:
        sizes[tuple(ALL for _ in by)] = codebook.population_size
    for name in by:
        for level, size in codebook.population_by.get(name, {}).items():
            sizes[tuple(str(level) if other == name else ALL for other in by)] = size
    return sizes


def to_public_sizes(
    cells: Floats, covariance: Floats, inside: Floats, sums: Floats
) -> tuple[Floats, Floats]:
    """Cells whose sums are the public ones, none negative, and the covariance of their errors.

    Least squares: x - V A'(A V A')^+ (A x - t), whose errors have the covariance V - V A'(A V A')^+
    A V. A cell that this makes negative becomes 0, and the others of its margin are scaled.
    """
    if len(sums):
        gain = covariance @ inside.T @ np.linalg.pinv(inside @ covariance @ inside.T)
        cells = cells - gain @ (inside @ cells - sums)
        covariance = covariance - gain @ inside @ covariance
    cells = np.maximum(cells, 0.0)
    for row, total in zip(inside, sums, strict=True):
        held = float(row @ cells)
        if held > 0:
            cells = np.where(row > 0, cells * total / held, cells)
    return cells, covariance


def _with_limits(
    part: pl.DataFrame,
    value: Floats,
    more: Floats,
    spread: Floats,
    files: int,
    kind: str,
) -> pl.DataFrame:
    """The entries with their errors; degrees of freedom as in the rule for partial synthesis, with
    what is left of the spread between the files."""
    within, before = (part[name].fill_null(np.nan).to_numpy() for name in ("within", "se"))
    variance = within + more + spread
    with np.errstate(divide="ignore", invalid="ignore"):
        uncertain = within**2 / part["design_df"].fill_null(np.nan).to_numpy()
        uncertain = uncertain + (spread**2 / (files - 1) if files > 1 else 0.0)
        df = np.where(uncertain > 0, variance**2 / uncertain, np.inf)
    known = np.isfinite(variance)
    se = np.where(known, np.sqrt(np.maximum(variance, 0.0)), np.sqrt(before**2 + more))
    df = np.where(known & ~np.isnan(df), df, part["df"].to_numpy())
    records = np.full(len(value), np.nan)
    lower, upper = limits_of(kind, value, se, np.maximum(df, 1.0), records, LEVEL)
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = se / np.abs(value)
    return part.with_columns(
        note=pl.concat_str(pl.col("note"), pl.lit(f" {NOTE}")).str.strip_chars(),
        estimate=value,
        se=se,
        df=df,
        lower=lower,
        upper=upper,
        cv=cv,
    )
