"""Mechanisms share a fit exactly when data and terms are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import Settings
from understudy.mechanisms.contract import plain_terms
from understudy.models.beta import Beta
from understudy.studies.censoring_designs import SHAPES, simulated
from understudy.studies.shared_fits import shared_fits


def test_same_terms_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fit(_self: ModelFitter, terms: Any, stage: str, _start: Any = None) -> Any:
        asked.append(stage)
        return terms

    monkeypatch.setattr(ModelFitter, "fit", fit)
    rng = np.random.default_rng(1)
    survey, other = (simulated(SHAPES, 50, rng) for _ in range(2))
    fitter = shared_fits(survey, Beta("y"), Settings(), 1)
    first = fitter.fit(plain_terms(fitter), "weights")
    assert fitter.fit(plain_terms(fitter), "release", np.zeros((4, 2))) is first
    assert asked == ["weights"]

    fitter.fit(plain_terms(fitter, limit=2.0), "limit")
    fitter.fit(plain_terms(fitter, np.full(50, 0.5)), "alpha")
    reference = fitter.on(other, "the reference")
    reference.fit(plain_terms(reference), "reference")
    assert asked == ["weights", "limit", "alpha", "reference"]

    again = fitter.on(other, "the reference")
    again.fit(plain_terms(again), "reference again")
    assert len(asked) == 4
