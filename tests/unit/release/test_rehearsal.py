"""The rehearsal: half of the records are synthesized and attacked, the others are the control."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.chance import chance_of
from understudy.release.rehearsal import _halves, rehearsed
from understudy.survey.codebook import Codebook, Column

COLUMNS = {
    "home": Column("home", "unit", "integer"),
    "sex": Column("sex", "sensitive", "categorical", levels=(1, 2), blanks=False),
    "age": Column("age", "sensitive", "integer", bounds=(16, 89), blanks=False),
    "w": Column("w", "weight", "continuous", bounds=(1, 9)),
}


def homes(n: int) -> us.Survey:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "home": np.arange(n) // 2,
            "sex": rng.integers(1, 3, n),
            "age": rng.integers(16, 90, n),
            "w": rng.uniform(1, 9, n),
        }
    )
    codebook = Codebook(COLUMNS, unit="home", records_per_unit=2)
    return us.Survey(frame, us.Design(weight="w"), codebook)


def test_units_stay_on_one_side_and_the_sides_are_equal() -> None:
    used, control = _halves(homes(301), np.random.default_rng(1))
    assert used.height == control.height >= 140
    assert not set(used["home"]) & set(control["home"])


def test_attacks_on_everything_but_the_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.POOL", 3_000)
    survey = homes(600)
    names = [name for name in survey.columns if name != "home"]
    plain = us.Survey(survey.frame(names), survey.design, survey.codebook.without_unit())
    result = rehearsed(plain, us.WholeFile(), us.Unweighted(), 1, chance_of(5))
    assert result is not None
    assert result.records == 300
    targets = [each.target for each in result.attacks if each.target]
    assert targets == ["sex", "age"]
    small = us.Survey(plain.frame().head(50), plain.design, plain.codebook)
    assert rehearsed(small, us.WholeFile(), us.Unweighted(), 1, chance_of(5)) is None
