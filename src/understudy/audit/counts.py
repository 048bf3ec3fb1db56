"""Audit of the mechanisms on tables of counts: MODIPS by support, and Marginals.

Neighbouring files are small surveys that go through the mechanisms' own code up to the noise; the
noise is OpenDP's, all trials in one vector. Cells with the same count on both files cancel in the
ratio and are not drawn. Two pairs each: a record among others, and a record that is alone in its
cell. The second shows that `support="observed"` leaks: on one file the cell is there, on the other
it is not, whatever epsilon is.

`add-remove` and `replace` are the relations of the claim. `blank` asks of a mechanism for `replace`
that a record leaves the table while the number of records stays: half of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.audit.audit import ALPHA, AuditResult, judge
from understudy.audit.epsilon_bound import choose_event, clopper_pearson
from understudy.claim import checked_epsilon
from understudy.dp.noise import Counts, exact_scale, integer_laplace
from understudy.errors import Refused, UnknownName
from understudy.mechanisms.marginals import Marginals, marginal_counts
from understudy.mechanisms.modips import CountRelation, Modips
from understudy.mechanisms.row_counts import RowCounts
from understudy.models.multinomial import Multinomial
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey

COUNT_MUTANTS = {
    "modips-public": ("scale-halved", "two-sets"),
    "modips-threshold": ("scale-halved", "threshold-missing"),
    "modips-observed": (),
    "marginals": ("scale-halved", "one-table"),
}
COUNT_MECHANISMS = tuple(COUNT_MUTANTS)
LEAKING = ("modips-observed",)  # its claim is of kind `local`, and the audit must show why
CountAudit = Literal["add-remove", "replace", "blank"]
DELTA = 1e-3  # of the threshold audit: large enough to be seen in simulations
MANY = 60  # records in a full cell: far above any threshold of the audit
# At epsilon 1 these show more than .9 of it. The marginals' deciding event is four counts at once,
# with chance .10 and .04; OpenDP takes 8 microseconds for each count.
TRIALS = dict.fromkeys(COUNT_MECHANISMS, 200_000) | {"marginals": 400_000}


def check_count_audit(
    mutants: Mapping[str, tuple[str, ...]],
    mechanism: str,
    mutant: str | None,
    relations: Sequence[str],
    relation: str,
    epsilon: float,
    trials: int | None,
) -> None:
    """Refuse what an audit of counts does not know, and what it could not show."""
    if mechanism not in mutants:
        raise UnknownName("mechanism to audit", mechanism, tuple(mutants))
    if mutant is not None and mutant not in mutants[mechanism]:
        raise UnknownName(f"mutant of {mechanism}", mutant, mutants[mechanism])
    if relation not in relations:
        raise UnknownName("relation of a table of counts", str(relation), relations)
    if checked_epsilon(epsilon) > 4:
        raise Refused("The audit runs up to epsilon 4; the mechanism is the same above it.")
    if trials and trials < 100:
        raise Refused("An audit needs at least 100 trials on each file.")


def audit_count_mechanism(
    mechanism: str,
    epsilon: float = 1.0,
    trials: int | None = None,
    mutant: str | None = None,
) -> list[AuditResult]:
    """One result per relation, as `audit.audit` has them for the other mechanisms."""
    return [
        audit_counts(mechanism, relation, epsilon, trials, mutant)
        for relation in get_args(CountAudit)
    ]


def audit_counts(
    mechanism: str,
    relation: CountAudit,
    epsilon: float = 1.0,
    trials: int | None = None,
    mutant: str | None = None,
) -> AuditResult:
    """The lower bound on epsilon for one mechanism; the larger one over the pairs of files.

    `epsilon` is what the mechanism is asked for; under `blank` half of it is claimed.
    """
    known = get_args(CountAudit)
    check_count_audit(COUNT_MUTANTS, mechanism, mutant, known, relation, epsilon, trials)
    trials = trials or TRIALS[mechanism]
    asked: CountRelation = "add-remove" if relation == "add-remove" else "replace"
    pairs = neighbours(relation)
    if mechanism == "marginals":
        pairs = pairs[:1]  # one-way tables do not know who is alone in a cell of the cross
    if mechanism == "modips-public":
        pairs = pairs[1:]  # the noise is the same in all cells: who is alone stands for everyone
    alpha = ALPHA / len(pairs)
    shown, exact = 0.0, 0.0
    for first, second in pairs:
        if mechanism == "marginals":
            losses = _marginals(first, second, asked, epsilon, trials, mutant, alpha)
        else:
            support = mechanism.removeprefix("modips-")
            losses = _modips(first, second, support, asked, epsilon, trials, mutant, alpha)
        shown, exact = max(shown, losses[0]), max(exact, losses[1])
    claimed = epsilon / 2 if relation == "blank" else epsilon
    verdict = judge(claimed, shown, exact)
    return AuditResult(
        mechanism, cast(Any, relation), claimed, shown, exact, trials, verdict, mutant
    )


def neighbours(relation: CountAudit) -> list[tuple[Survey, Survey]]:
    """Pairs of files of two columns: the record among others; the record alone in its cell."""
    full = [("a", "x")] * MANY + [("b", "y")] * MANY
    pairs = []
    # both columns change, so that every marginal table is touched twice under `replace`
    for record, instead in ((("a", "x"), ("b", "y")), (("a", "y"), ("b", "x"))):
        other = [*full, instead] if relation == "replace" else full
        pairs.append((_survey([*full, record]), _survey(other)))
    return pairs


def _survey(rows: list[tuple[str, str]]) -> Survey:
    columns = {
        name: Column(name, role="sensitive", type="categorical", levels=levels)
        for name, levels in (("g", ("a", "b")), ("h", ("x", "y")))
    }
    return Survey(pl.DataFrame(rows, schema=["g", "h"], orient="row"), codebook=Codebook(columns))


def _modips(
    first: Survey, second: Survey, support: str, relation: CountRelation,
    epsilon: float, trials: int, mutant: str | None, alpha: float,
) -> tuple[float, float]:  # fmt: skip
    delta = DELTA if support == "threshold" else 0.0
    mechanism = Modips(epsilon, cast(Any, support), relation, delta)
    used = Modips(2 * epsilon, mechanism.support, relation, delta)
    used = used if mutant == "scale-halved" else mechanism
    tables = [
        mechanism.cells(RowCounts(Multinomial(["g", "h"]), file, 1)) for file in (first, second)
    ]
    # each file's counts over the full domain; -1 where a cell is not in the file's support
    placed = [np.full(4, -1, dtype=np.int64) for _ in tables]
    for table, counts in zip(tables, placed, strict=True):
        counts[table.categories.places(table.codes)] = table.counts
    differing = np.flatnonzero(placed[0] != placed[1])
    repeats = 2 if mutant == "two-sets" else 1
    symbols = []
    for counts in placed:
        seen = np.zeros((repeats * trials, differing.size), dtype=np.int64)
        for column, cell in enumerate(differing):
            if counts[cell] < 0:
                continue  # never shown
            tiled = np.full(repeats * trials, counts[cell])
            if mutant == "threshold-missing":
                noisy = integer_laplace(tiled, used.sensitivity, epsilon)
            else:
                noisy = used.noisy(tiled, 1)
            # counts differ by 1, and the ratio is constant on either side of the larger one
            steps = (noisy >= max(placed[0][cell], placed[1][cell])) + 1
            dropped = (noisy == 0) & (support == "threshold") & (mutant != "threshold-missing")
            seen[:, column] = np.where(dropped, 0, steps)
        symbols.append(_numbered(seen.reshape(trials, -1), 3))
    cells = 3 ** (differing.size * repeats)
    distance = int(np.abs(np.maximum(placed[0], 0) - np.maximum(placed[1], 0)).sum())
    exact = repeats * distance / exact_scale(used.sensitivity, used.epsilon)
    if (placed[0] < 0).tolist() != (placed[1] < 0).tolist():
        hidden = support == "threshold" and mutant != "threshold-missing"
        exact = 0.0 if hidden else math.inf
    return shown_loss(symbols[0], symbols[1], cells, delta, alpha), exact


def _marginals(
    first: Survey, second: Survey, relation: CountRelation,
    epsilon: float, trials: int, mutant: str | None, alpha: float,
) -> tuple[float, float]:  # fmt: skip
    mechanism = Marginals(epsilon, order=1, relation=relation)
    columns = mechanism.columns(2)
    sensitivity = mechanism.sensitivity(1 if mutant == "one-table" else len(columns), 1)
    spent = 2 * epsilon if mutant == "scale-halved" else epsilon
    tables = [
        mechanism.cells(RowCounts(Multinomial(["g", "h"]), file, 1)) for file in (first, second)
    ]
    exact = [np.concatenate(marginal_counts(table, columns)) for table in tables]
    differing = np.flatnonzero(exact[0] != exact[1])
    # One draw of noise serves both files, because it is the dear part: the confidence limits of the
    # two chances hold together whether or not the files' outputs are independent.
    base = np.tile(exact[0][differing], trials)
    noise = integer_laplace(base, sensitivity, spent) - base
    symbols = []
    for counts in exact:
        noisy = np.tile(counts[differing], trials) + noise
        # how many counts speak for the first file: each multiplies the ratio by the same factor
        above = noisy.reshape(trials, -1) >= np.maximum(exact[0], exact[1])[differing]
        symbols.append((above == (exact[0] > exact[1])[differing]).sum(axis=1))
    distance = int(np.abs(exact[0] - exact[1]).sum())
    cells = differing.size + 1
    shown = shown_loss(symbols[0], symbols[1], cells, 0.0, alpha)
    return shown, distance / exact_scale(sensitivity, spent)


def _numbered(symbols: Counts, base: int) -> Counts:
    return np.asarray(symbols @ base ** np.arange(symbols.shape[1]), dtype=np.int64)


def shown_loss(first: Counts, second: Counts, cells: int, delta: float, alpha: float) -> float:
    """log((P_a - delta)/P_b) at confidence limits; the event is chosen on a tenth of the trials."""
    cut = first.size // 10
    early = [np.bincount(drawn[:cut], minlength=cells) for drawn in (first, second)]
    late = [np.bincount(drawn[cut:], minlength=cells) for drawn in (first, second)]
    event = choose_event(early[0], early[1], alpha)
    likely, unlikely = late if event.likelier_on_first else late[::-1]
    low = _limit(likely, event.cells, 0, alpha) - delta
    high = _limit(unlikely, event.cells, 1, alpha)
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def _limit(counts: Counts, cells: NDArray[np.bool_], side: int, alpha: float) -> float:
    return float(clopper_pearson(counts[cells].sum(), int(counts.sum()), alpha / 2)[side])
