"""Mechanisms share a fit exactly when data and terms are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy_studies.censoring.replicate import SHAPES, simulated
from understudy_studies.shared_fits import shared_fits


def test_same_terms_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fit(_self: us.ModelFitter, terms: Any, stage: str, _start: Any = None) -> Any:
        asked.append(stage)
        return terms

    monkeypatch.setattr(us.ModelFitter, "fit", fit)
    rng = np.random.default_rng(1)
    survey, other = (simulated(SHAPES, 50, rng) for _ in range(2))
    fitter = shared_fits(survey, us.Beta("y"), us.SamplerSettings(), 1)
    first = fitter.fit(us.plain_terms(fitter), "weights")
    assert fitter.fit(us.plain_terms(fitter), "release", np.zeros((4, 2))) is first
    assert asked == ["weights"]

    fitter.fit(us.plain_terms(fitter, limit=2.0), "limit")
    fitter.fit(us.plain_terms(fitter, np.full(50, 0.5)), "alpha")
    reference = fitter.on(other, "the reference")
    reference.fit(us.plain_terms(reference), "reference")
    assert asked == ["weights", "limit", "alpha", "reference"]

    again = fitter.on(other, "the reference")
    again.fit(us.plain_terms(again), "reference again")
    assert len(asked) == 4
