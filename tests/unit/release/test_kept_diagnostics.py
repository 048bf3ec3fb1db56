"""Diagnostics of a stage that is finished come back as they were, with and without a shortfall."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from understudy.fitting.diagnostics import diagnose
from understudy.release.envelope import KEPT, _keep, kept_diagnostics


@pytest.mark.parametrize("variance", [None, np.array([0.5, 2.0])])
def test_they_are_kept_whole(variance: np.ndarray | None, tmp_path: Path) -> None:
    chains = np.random.default_rng(1).normal(size=(4, 100, 2))
    chains[0] += 1.0
    judged = diagnose(chains, 3, ["a", "b"], 8, variance)
    result: Any = SimpleNamespace(
        dropped=0, rows_correspond=True, record_weights=np.ones(3), diagnostics=judged, bounds=None
    )
    (tmp_path / KEPT).mkdir()
    _keep(result, tmp_path / KEPT)
    again = kept_diagnostics(tmp_path)
    assert again is not None
    assert again.failures == judged.failures
    assert again.misses == judged.misses != []
    assert again.largest_shortfall == judged.largest_shortfall
    assert (again.shortfall is None) is (variance is None)
