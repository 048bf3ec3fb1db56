"""The loss of all draws of a release without history, exactly, on a grid of parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from understudy.audit.epsilon_bound import exact_epsilon
from understudy.audit.problems import BLANK, COMMON, FLAT, GRID, RARE, GridFitter
from understudy.dp.contributions import clip_bound
from understudy.mechanisms.contract import Terms
from understudy.mechanisms.reference_censored import ReferenceCensored

EPSILON, SHARE = 2.0, 0.75
SIGMA = 0.05  # one unit away, a record loses far more than the limit


@dataclass(frozen=True, eq=False)
class StagedFitter(GridFitter):
    """Its first stage draws the one theta that is asked about."""

    drawn: float = 0.0
    stages: list[Terms] = field(default_factory=list)

    def on_guess(self, number: int) -> StagedFitter:  # noqa: ARG002
        return StagedFitter(np.full(50, 0.5), self.sigma, FLAT, drawn=0.5)

    def rehearsing(self, fast: bool) -> StagedFitter:  # noqa: ARG002
        return self

    def fit(self, terms: Terms, stage: str, start: Any = None) -> Any:  # noqa: ARG002
        self.stages.append(terms)
        return SimpleNamespace(positions=np.array([[self.drawn]]), check=lambda: None)


def joint(values: list[float], log_prior: np.ndarray) -> np.ndarray:
    """log P(theta_1, theta_2) of a stage and one data set, with the mechanism's own terms."""
    mechanism = ReferenceCensored(EPSILON, "none", scale=0.1, stages=(SHARE,))
    rows = []
    for k, drawn in enumerate(GRID):
        fitter: Any = StagedFitter(np.array(values), SIGMA, log_prior, drawn=float(drawn))
        last = mechanism.prepare(fitter, 1).terms
        (first,) = fitter.stages
        rows.append(fitter.log_posterior(first)[k] + fitter.log_posterior(last))
    return np.concatenate(rows)


def loss() -> float:
    """Of a record at a rare theta against none; the prior is proper and the same for both."""
    prior = np.full(GRID.size, 1e-6)
    prior[np.argmin(np.abs(GRID - COMMON))] = 1.0
    prior[np.argmin(np.abs(GRID - RARE))] = 1e-3
    log_prior = np.log(prior / prior.sum())
    first, second = (joint([COMMON, other], log_prior) for other in (RARE, BLANK))
    assert np.exp(first).sum() == pytest.approx(1.0)
    return exact_epsilon(first, second)


def test_all_draws_together_lose_at_most_epsilon() -> None:
    assert 0.99 * EPSILON < loss() <= EPSILON


def test_a_stage_that_is_not_charged_shows_in_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_epsilon(mechanism: ReferenceCensored, datasets: int) -> float:
        return clip_bound(mechanism.epsilon, datasets)

    monkeypatch.setattr(ReferenceCensored, "_last_limit", all_of_epsilon)
    assert loss() > 1.7 * EPSILON
