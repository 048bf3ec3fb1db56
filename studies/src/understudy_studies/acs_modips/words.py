"""The conclusions of report M beside ours, under both relations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy_studies.acs_modips.replicate import (
    PRIOR,
    RELATIONS,
    Summary,
    class_bias,
    of_relation,
)

NEAR = 0.02  # relative distance of RMSEs that are called the same
SMALL_PRIOR = 0.05  # another prior than the report's, for the question of its last conclusion


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
                f"{private[0].empty:.1%} at epsilon {private[0].method.epsilon:.4f}, "
                f"{private[-1].empty:.1%} at {private[-1].method.epsilon:.1f}."
                for private in by_relation
            ),
        ),
    ]


def nearest(private: Sequence[Summary], power: float) -> Summary:
    return min(private, key=lambda summary: abs(np.log(summary.method.epsilon) - power))


def _recommended(private: Sequence[Summary], ms: Summary) -> str:
    low, high = (nearest(private, power) for power in (1.0, 2.0))
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
    plain = [summary.mean("coverage") for summary in private]
    lenient = [summary.coverage_report for summary in private]
    over = min(ori.mean("coverage"), ms.mean("coverage"), *plain) > 0.95
    return (
        f"{'Agreed' if over else 'Not agreed'}. ORI {ori.mean('coverage'):.3f}, MS "
        f"{ms.mean('coverage'):.3f}, MODIPS {min(plain):.3f} to "
        f"{max(plain):.3f}. With empty cells counted as covered {ori.coverage_report:.3f}, "
        f"{ms.coverage_report:.3f}, {min(lenient):.3f} to {max(lenient):.3f}."
    )


def _other_prior(private: Sequence[Summary], ms: Summary) -> str:
    chosen = nearest(private, 2.0)
    biases = []
    for method in (ms, chosen):
        bias = class_bias(method.true, method.cells, SMALL_PRIOR, method.method.scale)
        biases.append(float(np.average(np.abs(bias), weights=method.cells)))
    return (
        f"Prior {SMALL_PRIOR:g} in place of {PRIOR:g}: |bias| of MS {biases[0]:.2f} (was "
        f"{ms.closed_form:.2f}), at epsilon {chosen.method.epsilon:.1f} {biases[1]:.2f} (was "
        f"{chosen.closed_form:.2f}), by the closed form. Continuous variables: the mixed recipe."
    )
