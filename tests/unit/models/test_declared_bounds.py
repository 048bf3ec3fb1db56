"""FBS and FBP keep to declared bounds: records outside are drawn again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from scipy import stats

import understudy as us
from understudy.models.contract import OutcomeModel
from understudy.models.density import kept_inside_bounds
from understudy.release.shape import shape_notes
from understudy.survey.codebook import Codebook, Column

N = 400


def topcoded(drafted: frozenset[str] = frozenset()) -> us.Survey:
    chance = np.random.default_rng(4)
    pay = np.minimum(np.exp(chance.normal(10, 0.8, N)), 40_000.0)
    frame = pl.DataFrame(
        {"pay": pay, "g": chance.choice(["a", "b"], N), "w": chance.uniform(1, 3, N)}
    )
    columns = {
        "pay": Column("pay", "sensitive", bounds=(1_000, 40_000), drafted=drafted),
        "g": Column("g", "public", "categorical", levels=("a", "b")),
        "w": Column("w", "weight"),
    }
    return us.Survey(frame, us.Design(weight="w"), Codebook(columns, population_size=800.0))


@pytest.mark.parametrize("model", [us.FBS, us.FBP])
def test_no_value_is_beyond_a_declared_bound(model: Any) -> None:
    few: Any = {"seed": 1, "draws": 1000, "chains": 2}  # as in test_private_releases
    result = us.synthesize(topcoded(), model("pay", "g"), us.Unweighted(), datasets=2, **few)
    for made in result.datasets:
        values = made.frame()["pay"]
        assert values.is_between(1_000, 40_000).all()
        assert not (values == 40_000).any()  # drawn within the bounds, not piled up on one
    drafted = topcoded(frozenset({"bounds"}))
    free = us.synthesize(drafted, model("pay", "g"), us.Unweighted(), **few)
    assert (free.datasets[0].frame()["pay"] > 40_000).any()  # bounds of the data do not count


def test_what_is_drawn_again_follows_the_law_within_the_bounds() -> None:
    rng = np.random.default_rng(0)
    model = SimpleNamespace(inside=lambda drawn: (drawn["y"] > 0.5) & (drawn["y"] < 2))
    values = kept_inside_bounds(
        cast(OutcomeModel, model),
        {"y": rng.normal(size=20_000)},
        lambda _: {"y": rng.normal(size=20_000)},
    )
    assert stats.kstest(values["y"], stats.truncnorm(0.5, 2).cdf).pvalue > 1e-3


def test_the_shape_of_a_file_speaks_against_a_smooth_model() -> None:
    chance = np.random.default_rng(4)
    pay = np.minimum(np.round(chance.lognormal(10, 1, 2000), -2), 40_000.0)
    pay[:300] = 0
    frame = pl.DataFrame({"pay": pay, "score": chance.normal(size=2000), "g": ["a", "b"] * 1000})
    survey = us.Survey(frame, us.Design())
    (note,) = shape_notes(survey, us.Mixture("pay", "g"))
    assert "15% of its values are 0" in note
    assert "are on the largest, 40,000" in note
    assert "multiples of 100" in note
    assert "WholeFile" in note
    assert shape_notes(survey, us.Beta("score", bounds=(-9, 9))) == []
    assert shape_notes(survey, us.Multinomial(["g"])) == []
    hours = np.where(chance.random(2000) < 0.4, 40, chance.integers(1, 80, 2000))
    worked = us.Survey(frame.with_columns(hours=pl.Series(hours)), us.Design())
    (note,) = shape_notes(worked, us.BetaRegression("hours", "g", bounds=(0, 99)))
    assert "`hours`: 4" in note
    assert "% are 40. BetaRegression" in note


def test_piles_that_are_declared_are_no_reason_against_a_model() -> None:
    pay = np.minimum(np.round(np.random.default_rng(4).lognormal(10, 1, 600), -2), 40_000.0)
    pay[:90] = 0
    facts = {"bounds": (0.0, 40_000.0), "special": (0.0, 40_000.0), "rounding": 100.0}
    declared = Codebook({"pay": Column("pay", "sensitive", **facts)})  # type: ignore[arg-type]
    survey = us.Survey(pl.DataFrame({"pay": pay}), codebook=declared)
    assert shape_notes(survey, us.Beta("pay")) == []
    assert len(shape_notes(survey, us.Mixture("pay", "1"))) == 1  # it has none
