"""What stewards ask of the sampler, with the defaults that docs/recipe.md states."""

from __future__ import annotations

import pytest

from understudy.errors import UnknownName
from understudy.fitting.continuation import MOST
from understudy.fitting.fit_settings import FitSettings, Settings


def test_four_chains_of_five_hundred_draws_after_five_hundred_of_warm_up() -> None:
    expected = Settings(4 * 500, 4, 500, 0.8, MOST, tolerant=False)
    assert FitSettings().sampler == Settings() == expected
    assert FitSettings(diagnostics="report").sampler.most_thinning == 2


def test_other_ways_than_the_known_ones_are_refused() -> None:
    with pytest.raises(UnknownName, match="missing values"):
        FitSettings(missing="impute")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="failed diagnostics"):
        FitSettings(diagnostics="ignore")  # type: ignore[arg-type]
