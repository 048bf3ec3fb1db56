"""What the public page says about noise, against simulated noise."""

from __future__ import annotations

import numpy as np
import pytest
from release_samples import sample

from understudy.report.noise_quality import noise_quality

# three columns; the first has five fine cells in two coarse ones
DRAW = {
    "columns": ["field", "gender", "salary"],
    "coarse": [[0, 0, 1, 1, 1], [0, 1], [0, 1, 2]],
    "measured": [[0, 2]],
    "one_way_variances": [16.0, 16.0, 0.0],
    "table_variances": [25.0],
    "one_way": [[100, 100, 100, 50, 50], [180, 220], [200, 100, 100]],
}


def test_the_expected_distance_is_that_of_simulated_noise() -> None:
    quality = noise_quality([DRAW] * 3, sample().facts())
    assert quality is not None
    rng = np.random.default_rng(1)
    fine = rng.normal(0, 4, (40_000, 3, 5)).mean(axis=1)  # the average over three sets
    coarse = np.stack([fine[:, :2].sum(axis=1), fine[:, 2:].sum(axis=1)])
    expected = np.abs(coarse).sum(axis=0).mean() / 2 / 400
    labels = [sample().facts().label(name) for name in DRAW["columns"]]
    assert quality["columns"][0][:2] == (labels[0], "2")
    assert float(quality["columns"][0][2]) == pytest.approx(expected, abs=6e-4)
    assert quality["columns"][0][3] == labels[2]
    assert quality["columns"][1][3] == "no other"
    assert float(quality["columns"][2][2]) == 0  # public columns have no noise
    table = np.abs(rng.normal(0, 5, (40_000, 3, 6)).mean(axis=1)).sum(axis=1).mean() / 2 / 400
    assert quality["tables"][0][:2] == (f"{labels[0]} by {labels[2]}", "6")
    assert float(quality["tables"][0][2]) == pytest.approx(table, abs=6e-4)
    assert quality["left"].startswith("2 of 3 pairs")


def test_other_draws_say_nothing_of_tables() -> None:
    assert noise_quality([], sample().facts()) is None
    assert noise_quality([{"beta": 1.0}], sample().facts()) is None
