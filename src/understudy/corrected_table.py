"""Tables of a release, corrected by influence: part of the epsilon goes into the published numbers.

    synthetic files -> every cell's estimate c and its influences        (public)
    confidential file -> sums of clipped influences, one pass; OpenDP's noise -> differences D
    cells: c + share D;  margins: sums of cells, or averages by the cells' counts

A record is in one cell, so the cells of a table share one price; all numbers of a unit are clipped
together. Where noise is larger than what synthesis has wrong, a correction would harm: with N the
variance of noise and clipping in D and M = E(c - confidential estimate)^2, synthesis variance and
squared bias, c + share D is off from the confidential estimate by (1 - share)^2 M + share^2 N,
least for share = M/(M + N). M is g times the cell's sampling variance, and g comes from all
differences of a statistic together, which is post-processing (methods §13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.claim import RECORD, Claim, Relation
from understudy.dp.account import PayingAccount, charged, said_of_account
from understudy.dp.accounting import Cost
from understudy.dp.additive import noise_for
from understudy.errors import Refused
from understudy.influence import (
    CONDITIONS,
    UnitRelation,
    influence_pass,
    measured_for,
    settled,
)
from understudy.survey.codebook import Value
from understudy.survey.survey import Survey
from understudy.tables.combine import RULES
from understudy.tables.consistency import membership
from understudy.tables.influence.arithmetic import unit_weight
from understudy.tables.influence.ask import questions_of
from understudy.tables.influence.question import InfluenceQuestion, SyntheticFile
from understudy.tables.influence.unit_sums import steps_of
from understudy.tables.intervals import limits_of
from understudy.tables.statistic import Statistic, parse_statistics
from understudy.tables.tabulate import ALL, tabulate
from understudy.tables.units import unit_of

__public__ = ("CorrectedTable", "corrected_table")

Floats = NDArray[np.float64]
ROUNDS = 50  # of the estimate of g
LEVEL = 0.95  # of confidence
NOTE = "estimates were corrected towards the confidential ones by noisy sums; see the claim"


@dataclass(frozen=True, eq=False)
class CorrectedTable:
    """The table and its claim, which is about the corrections alone.

    Columns: those of `tabulate` with corrected estimates and errors, `released` (the estimate of
    the synthetic files), `noise_se`, and `share`, how much of the difference was applied.
    """

    table: pl.DataFrame
    claim: Claim


def corrected_table(
    confidential: Survey,
    synthetic: Sequence[Survey],
    statistics: str | Statistic | Sequence[str | Statistic],
    by: str | Sequence[str],
    epsilon: float,
    *,
    delta: float = 0.0,
    margins: bool = True,
    combine: str = "partial",
    relation: Relation = "replace",
    account: PayingAccount | None = None,
) -> CorrectedTable:
    """Counts, totals and means by cells, corrected towards the confidential ones at a price.

    `relation` is that of the claim; noise for `replace` is enough for `blank` too. `combine` is the
    rule of the synthetic files. The price is charged to `account` (`LedgerAccount`) before the
    records are looked at; without one the claim says that it was not charged to any ledger.
    """
    names = [by] if isinstance(by, str) else list(by)
    if combine not in RULES:
        raise Refused(f"The combining rule of a corrected table is one of {', '.join(RULES)}.")
    parsed = parse_statistics(statistics, synthetic[0].columns)
    check_corrected(parsed, names, epsilon, delta)
    noise = noise_for(epsilon, delta)
    declared = unit_of(confidential)
    unit = None if declared is None else declared.column
    files = [SyntheticFile(survey, unit) for survey in synthetic]
    questions, keys = _cell_questions(parsed, synthetic, names)
    # sums without a number per unit: a record then counts in its own cell alone
    neighbours: UnitRelation = "add-remove" if relation == "add-remove" else "replace"
    measured = measured_for(questions, files, neighbours)
    if not measured.varies.all():  # a cell of one record says nothing about its errors
        kept = np.flatnonzero(measured.varies)
        if not len(kept):
            raise Refused("No cell of this table has a sampling error; use fewer columns.")
        questions, keys = [questions[k] for k in kept], [keys[k] for k in kept]
        measured = measured_for(questions, files, neighbours)
    plan = settled(measured, noise, neighbours)
    stated = "replace" if relation == "blank" and delta else relation
    claim = Claim(
        "formal",
        epsilon,
        delta=delta,
        relation=stated,
        conditions=CONDITIONS,
        mechanism=f"tables corrected by clipped influences, {noise.word}",
        epsilon_replace=epsilon if stated == "blank" else None,
        unit=unit or RECORD,
    )
    cost = Cost((neighbours,), Fraction(repr(float(epsilon))), Fraction(repr(float(delta))))
    paid = charged(account, confidential, [cost], claim.unit, "a corrected table")
    table, weight = confidential.table, confidential.design.weight
    weights = unit_weight() if weight is None else table[weight].cast("float64")
    row = influence_pass(plan.prepared, table, weights, unit).to_pyarrow().to_pylist()[0]
    noisy = noise.add(steps_of(row, len(questions)), plan.unit_moves)
    prepared = plan.prepared
    differences = noisy * plan.step + prepared.loss - prepared.constant
    cells = pl.DataFrame(
        {
            **{name: [key[0][k] for key in keys] for k, name in enumerate(names)},
            "statistic": [key[1] for key in keys],
            "difference": differences,
            "sampling": prepared.sampling_se**2,
            "noise": plan.error**2,
            "noise_se": plan.noise_se,
        }
    )
    base = tabulate(list(synthetic), parsed, names, margins=True, combine=combine)
    counts = tabulate(list(synthetic), "count", names, margins=True, combine=combine)
    totals = {n: t for n, t in confidential.codebook.population_by.items() if n in names}
    made = _finished(_weighed(cells), base, counts, names, parsed, totals)
    if not margins:
        made = made.filter(pl.all_horizontal(pl.col(name) != ALL for name in names))
    return CorrectedTable(made, said_of_account(claim, paid))


def check_corrected(
    statistics: Sequence[Statistic], by: Sequence[str], epsilon: float, delta: float
) -> None:
    """Refuse, before anything is spent, what has no corrected table."""
    if not by:
        raise Refused("A corrected table has at least one classifying column; name it in `by`.")
    for statistic in statistics:
        if not (statistic.adds_up or statistic.averages):
            raise Refused(
                f"`{statistic.text}` cannot be corrected with margins that add up; ask for counts, "
                "totals and means."
            )
    noise_for(epsilon, delta)


def _cell_questions(
    statistics: Sequence[Statistic], surveys: Sequence[Survey], by: Sequence[str]
) -> tuple[list[InfluenceQuestion], list[tuple[tuple[str, ...], str]]]:
    """A question for each statistic and cell that all synthetic files have, and its key."""
    questions, keys = [], []
    for statistic in statistics:
        for question in questions_of(statistic, surveys, by):
            questions.append(question)
            keys.append((tuple(map(str, question.cell)), statistic.text))
    if not questions:
        raise Refused("The synthetic files share no cell of this table; use fewer columns.")
    return questions, keys


def _weighed(cells: pl.DataFrame) -> pl.DataFrame:
    """The share of each difference that is applied, and the error that it adds."""
    parts = []
    for part in cells.partition_by("statistic", maintain_order=True):
        sampling, noise = part["sampling"].to_numpy(), part["noise"].to_numpy()
        ratio = synthesis_error(part["difference"].to_numpy(), sampling, noise)
        wrong = ratio * sampling
        share = wrong / (wrong + noise)
        parts.append(part.with_columns(share=share, added=wrong * noise / (wrong + noise)))
    return pl.concat(parts)


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


def _finished(
    cells: pl.DataFrame,
    base: pl.DataFrame,
    counts: pl.DataFrame,
    by: list[str],
    statistics: Sequence[Statistic],
    totals: Mapping[str, Mapping[Value, float]],
) -> pl.DataFrame:
    """The table with corrected cells, and margins that follow from them; counts keep the sizes
    that are public."""
    keys = [*by, "statistic"]
    whole = base.join(cells, on=keys, how="left", maintain_order="left", nulls_equal=True)
    entries = [tuple(row) for row in counts.select(by).rows()]
    inside = membership(entries, ALL)
    inner = [k for k, entry in enumerate(entries) if ALL not in entry]
    sizes = counts["estimate"].to_numpy()[inner]
    tables = {part["statistic"][0]: part for part in whole.partition_by("statistic")}
    parts = []
    for statistic in sorted(statistics, key=lambda s: not s.adds_up):
        part = tables[statistic.text]
        order = {entry: k for k, entry in enumerate(part.select(by).rows())}
        part = part[[order[entry] for entry in entries]]
        share, apart = (part[n].fill_null(0.0).to_numpy()[inner] for n in ("share", "difference"))
        value = part["estimate"].to_numpy()[inner] + share * apart
        added = np.diag(part["added"].fill_null(0.0).to_numpy()[inner])
        if statistic.adds_up and not statistic.columns:  # how many there are
            rows, sums = _public_sizes(entries, by, totals)
            value, added = to_public_sizes(value, added, inside[rows], sums)
            sizes = value
        if statistic.adds_up:
            design = inside
        else:
            held = inside * sizes
            design = held / np.maximum(held.sum(axis=1, keepdims=True), 1e-300)
            empty = held.sum(axis=1) <= 0
            design[empty] = inside[empty] / inside[empty].sum(axis=1, keepdims=True)
        more = np.einsum("ec,cd,ed->e", design, added, design)
        se = np.sqrt(part["se"].to_numpy() ** 2 + np.maximum(more, 0.0))
        parts.append(_with_limits(part, design @ value, se, statistic))
    made = pl.concat(parts)
    places = {statistic.text: k for k, statistic in enumerate(statistics)}
    made = made.with_columns(__at=pl.col("statistic").replace_strict(places))
    shown = [*base.columns, "released", "noise_se", "share"]
    return made.sort("__at", maintain_order=True).select(shown)


def _public_sizes(
    entries: Sequence[tuple[str, ...]],
    by: Sequence[str],
    totals: Mapping[str, Mapping[Value, float]],
) -> tuple[list[int], Floats]:
    """The margins whose size the codebook knows, by their places, and these sizes."""
    rows, sums = [], []
    for name, sizes in totals.items():
        for level, size in sizes.items():
            wanted = tuple(str(level) if other == name else ALL for other in by)
            if wanted in entries:
                rows.append(list(entries).index(wanted))
                sums.append(size)
    return rows, np.array(sums)


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
    part: pl.DataFrame, value: Floats, se: Floats, statistic: Statistic
) -> pl.DataFrame:
    df, records = np.maximum(part["df"].to_numpy(), 1.0), np.full(len(value), np.nan)
    lower, upper = limits_of(statistic.intervals[0], value, se, df, records, LEVEL)
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = se / np.abs(value)
    return part.with_columns(
        released=pl.col("estimate"),
        note=pl.concat_str(pl.col("note"), pl.lit(f" {NOTE}")).str.strip_chars(),
        estimate=value,
        se=se,
        lower=lower,
        upper=upper,
        cv=cv,
    )
