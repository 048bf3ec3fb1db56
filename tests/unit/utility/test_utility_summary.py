"""The one-look summary of utility puts the right measures together."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import ks_2samp

from understudy import Refused
from understudy.utility.propensity import propensity_score
from understudy.utility.summary import summarise_utility


def test_every_part_is_the_measure_on_its_own():
    rng = np.random.default_rng(1)
    ours = pl.DataFrame({"y": [*rng.normal(0, 1, 200), None], "g": ["a", "b", "c"] * 67})
    files = [ours.with_columns(y=pl.Series(rng.normal(0.5, 1, 201))) for _ in range(3)]
    summary = summarise_utility(ours, files, ["y", "g"], rng=rng, replicates=300)
    [row] = summary.distances.rows(named=True)
    present = ours["y"].drop_nulls().to_numpy()
    distances = [ks_2samp(present, f["y"].to_numpy()).statistic for f in files]
    assert row["U_m"] == pytest.approx(np.mean(distances))
    assert (row["missing_confidential"], row["missing_synthetic"]) == (1, 0)
    assert summary.datasets == 3
    assert summary.propensity[1] == propensity_score(ours, files[1], ["y", "g"])
    assert summary.mean_pmse_ratio == pytest.approx(np.mean([p.ratio for p in summary.propensity]))
    mean = summary.intervals.row(0, named=True)
    assert mean["statistic"] == "mean"
    assert mean["confidential"] == pytest.approx(present.mean(), abs=0.02)
    assert mean["overlap"] < 0.5


def test_text_alone_has_a_pmse_and_no_distance():
    ours = pl.DataFrame({"g": ["a", "b"] * 20})
    summary = summarise_utility(ours, [ours[:30]], ["g"], rng=np.random.default_rng(0))
    assert summary.distances.height == 0
    assert summary.propensity[0].pmse == pytest.approx(0.0, abs=1e-12)


def test_two_values_in_each_file_are_enough():
    ours = pl.DataFrame({"y": [1.0, 3.0, None]})
    made = pl.DataFrame({"y": [2.0, None, 4.0]})
    summary = summarise_utility(ours, [made], ["y"], rng=np.random.default_rng(0))
    assert summary.distances["U_m"].item() == 0.5
    for files in ((ours, made[:1]), (ours[:1], made)):
        with pytest.raises(Refused, match="fewer than 2 values"):
            summarise_utility(files[0], [files[1]], ["y"], rng=np.random.default_rng(0))


def test_nothing_to_compare_is_refused():
    frame = pl.DataFrame({"y": [1.0, 2.0, None], "z": [None, None, 1.0]})
    with pytest.raises(Refused, match="at least one synthetic"):
        summarise_utility(frame, [], ["y"], rng=np.random.default_rng(0))
    with pytest.raises(Refused, match="fewer than 2 values"):
        summarise_utility(frame, [frame], ["z"], rng=np.random.default_rng(0))
