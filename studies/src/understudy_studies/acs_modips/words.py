"""What the page of the MODIPS study says: the report's conclusions beside ours, and its errata."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy_studies.acs_modips.replicate import DATASETS, PRIOR, RELATIONS, Summary, class_bias

NEAR = 0.02  # relative distance of RMSEs that are called the same
SMALL_PRIOR = 0.05  # another prior than the report's, for the question of its last conclusion

ERRATA = (
    "RMSE. The report adds the variance of a count to the squared bias of a share (§3.4), so that "
    "the bias all but vanishes from it. Ours has both in records; the report's form is the column "
    "“report's RMSE”.",
    "Over-coverage. The report finds far more than 95 % for all methods. A cell that is empty in "
    "all sets has an interval of length zero, which does not hold its true share; only if such "
    "cells count as covered does the over-coverage appear (column “empty = covered”).",
    "Prior. Dirichlet(1/2) on every one of K cells adds K/2 records, {share:.0%} of N here. It is "
    "most of the bias of MS, and of MODIPS at large epsilon.",
    "Epsilon. §2.2.3 gives each of m = 5 sets epsilon/m, but §2.2.4 writes Laplace noise of scale "
    "1/epsilon, and the report's figures for empty cells fit a whole epsilon for each set. Here "
    "epsilon is the total and each set has epsilon/5; if the report's is per set, its epsilon 4 "
    "is a total of 20.",
    "Sensitivity. “Global sensitivity 1” is right when a record is added or removed. When one is "
    "replaced it is 2: `replace` at epsilon equals `add-remove` at epsilon/2.",
    "Support. Empty cells stay empty (assumption 3), which shows whose combination occurs. The "
    "figures are therefore no guarantee; see docs/proofs/modips.md.",
)


def errata(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """What differs from the report, and why (methods §8)."""
    share = summaries[0].cells.sum() / 2 / summaries[0].size
    return tuple(text.format(share=share) for text in ERRATA)


def of_relation(summaries: Sequence[Summary], relation: str) -> list[Summary]:
    """MODIPS under one relation, by epsilon."""
    return [one for one in summaries if one.method.relation == relation]


def conclusions(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """(the report's, M §3.6 and §3.7; ours under add-remove; ours under replace)."""
    ori, ms = summaries[:2]
    by_relation = [of_relation(summaries, relation) for relation in RELATIONS]
    return [
        (
            "Epsilon of about 2.7 to 7.4 gives low bias and RMSE with decent coverage; about 4 "
            "should be used.",
            *(_recommended(private, ms) for private in by_relation),
        ),
        (
            "As epsilon increases, MODIPS approaches MS.",
            *(_limit(private[-1], ms) for private in by_relation),
        ),
        (
            "ORI, MS and MODIPS have high over-coverage; the interval may be inappropriate.",
            *(_coverage(private, ori, ms) for private in by_relation),
        ),
        (
            "Future research: other priors, and continuous variables beside the categories.",
            *(_other_prior(private, ms) for private in by_relation),
        ),
        (
            "25.7 % of the cells are empty in ORI, about 5.2 % in MS; over 30 % in one MS set.",
            *[f"ORI {ori.empty:.1%}, MS {ms.empty:.1%}, one MS set {ms.empty_sets:.1%}."] * 2,
        ),
        (
            "MODIPS has very few empty cells (1 %) at small epsilon and 5.1 % at large.",
            *(
                f"{one[0].empty:.1%} at epsilon {one[0].method.epsilon:.4f}, {one[-1].empty:.1%} "
                f"at {one[-1].method.epsilon:.1f}."
                for one in by_relation
            ),
        ),
    ]


def summary_words(summaries: Sequence[Summary], source: str, replicates: int) -> list[str]:
    """What was done and what came out, in a few sentences."""
    first = summaries[0]
    worst = max(abs(one.away) for one in summaries)
    ms = summaries[1]
    near = [_nearest(of_relation(summaries, relation), 1.0) for relation in RELATIONS]
    return [
        f"Report M's simulation at its size: N = {first.size:,.0f} records in K = "
        f"{first.cells.sum():,.0f} cells ({source}), m = {DATASETS} data sets, {replicates} "
        "replicates. Bias and RMSE are in records per cell; epsilon is the total over the sets.",
        f"At epsilon {near[0].method.epsilon:.1f} a cell is off by {near[0].mean('rmse'):.2f} "
        f"records (root mean square) when a record is added or removed, by "
        f"{near[1].mean('rmse'):.2f} when one is replaced, and by {ms.mean('rmse'):.2f} without "
        "noise (MS). None of these is a guarantee, because the support is shown as it is.",
        "The bias agrees with its closed form, which does not come from the simulation: over all "
        f"methods it is at most {worst:.1f} Monte Carlo errors away.",
    ]


def _nearest(private: Sequence[Summary], power: float) -> Summary:
    return min(private, key=lambda one: abs(np.log(one.method.epsilon) - power))


def _recommended(private: Sequence[Summary], ms: Summary) -> str:
    low, high = (_nearest(private, power) for power in (1.0, 2.0))
    return (
        f"At epsilon {low.method.epsilon:.1f} and {high.method.epsilon:.1f}: |bias| "
        f"{low.mean('bias'):.2f} and {high.mean('bias'):.2f} (MS {ms.mean('bias'):.2f}), RMSE "
        f"{low.mean('rmse'):.2f} and {high.mean('rmse'):.2f} (MS {ms.mean('rmse'):.2f}), coverage "
        f"{low.mean('coverage'):.3f} and {high.mean('coverage'):.3f}."
    )


def _limit(last: Summary, ms: Summary) -> str:
    near = abs(last.mean("rmse") - ms.mean("rmse")) < NEAR * ms.mean("rmse")
    return (
        f"{'Agreed' if near else 'Not yet'}. At epsilon {last.method.epsilon:.1f}: |bias| "
        f"{last.mean('bias'):.2f} and RMSE "
        f"{last.mean('rmse'):.2f}, MS {ms.mean('bias'):.2f} and {ms.mean('rmse'):.2f}."
    )


def _coverage(private: Sequence[Summary], ori: Summary, ms: Summary) -> str:
    plain = [one.mean("coverage") for one in private]
    lenient = [one.coverage_report for one in private]
    over = min(ori.mean("coverage"), ms.mean("coverage"), *plain) > 0.95
    return (
        f"{'Agreed' if over else 'Not agreed'}. ORI {ori.mean('coverage'):.3f}, MS "
        f"{ms.mean('coverage'):.3f}, MODIPS {min(plain):.3f} to "
        f"{max(plain):.3f}. With empty cells counted as covered {ori.coverage_report:.3f}, "
        f"{ms.coverage_report:.3f}, {min(lenient):.3f} to {max(lenient):.3f}."
    )


def _other_prior(private: Sequence[Summary], ms: Summary) -> str:
    one = _nearest(private, 2.0)
    found = []
    for method in (ms, one):
        bias = class_bias(method.true, method.cells, SMALL_PRIOR, method.method.scale)
        found.append(float(np.average(np.abs(bias), weights=method.cells)))
    return (
        f"Prior {SMALL_PRIOR:g} in place of {PRIOR:g}: |bias| of MS {found[0]:.2f} (was "
        f"{ms.closed_form:.2f}), at epsilon {one.method.epsilon:.1f} {found[1]:.2f} (was "
        f"{one.closed_form:.2f}), by the closed form. Continuous variables: the mixed recipe."
    )
