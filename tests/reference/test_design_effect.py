"""Design effects that a release measures, without noise to speak of, beside R survey's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.mechanisms.whole_file.noisy_file import MeasuredClusters, from_draws
from understudy.survey.codebook import Codebook, Column

HERE = Path(__file__).parent
RATIOS = pl.read_csv(HERE / "design_effect_r.csv")
LEVELS = {"h": 4, "b": 3, "c": 2, "d": 3}


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.POOL", 20_000)
    monkeypatch.setattr("understudy.mechanisms.whole_file.measure.SMALL_POOL", 20_000)


def measured(design: us.Design) -> MeasuredClusters:
    frame = pl.read_csv(HERE / "data" / "psus.csv")
    names = ["y", "x", "b", "c", "d", *(n for n in ("h", "w") if n in design.named)]
    columns = {
        name: Column(name, "sensitive", "categorical", levels=tuple(range(count)), blanks=False)
        for name, count in LEVELS.items()
    }
    for name in ("y", "x"):
        columns[name] = Column(name, "sensitive", "integer", bounds=(0, 120), blanks=False)
    columns["w"] = Column("w", "weight", "continuous", bounds=(1.0, 3.0), rounding=0.01)
    survey = us.Survey(frame, design, Codebook(columns))
    mechanism = us.Marginals(20_000.0, 1e-6, order=2, clusters=0.2)
    result = us.synthesize(survey, us.WholeFile(names), mechanism, seed=3)
    clusters = from_draws(result.draws).clusters
    assert clusters is not None
    assert clusters.error < 0.01
    return clusters


def of_column(rows: pl.DataFrame, figure: str) -> dict[str, float]:
    """R's, with the levels of a column by their part in a distance: the root mean, squared."""
    means = rows.group_by("column").agg((pl.col(figure).sqrt().mean() ** 2).alias("figure"))
    return dict(zip(means["column"], means["figure"], strict=True))


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("weighted", ["no", "yes"])
def test_figures_are_those_of_the_variances_with_and_without_psus(weighted: str) -> None:
    """Sizes of 80 sums instead of their squares: a standard error of 6 %; and what clusters add is
    taken as double exponential, which makes more of it."""
    design = us.Design("w" if weighted == "yes" else None, "h", "psu")
    ours = measured(design).columns
    expected = of_column(RATIOS.filter(pl.col("weighted") == weighted), "ratio")
    assert set(ours) == set(expected)
    for name in expected:
        assert max(0.9 * expected[name], 1.0) <= ours[name] <= max(1.2 * expected[name], 1.1)
    assert expected["c"] > 4  # there are clusters


@pytest.mark.usefixtures("stand_in_noise")
def test_without_weights_and_strata_they_are_the_usual_design_effects() -> None:
    ours = measured(us.Design(psu="psu")).columns
    expected = of_column(RATIOS.filter(pl.col("weighted") == "no"), "flat")
    together = [np.sqrt(ours[name] / max(expected[name], 1.0)) for name in expected]
    assert 0.95 <= np.mean(together) ** 2 <= 1.2
