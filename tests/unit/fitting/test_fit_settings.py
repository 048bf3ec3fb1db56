"""What stewards ask of the sampler, with the defaults that docs/recipe.md states."""

from __future__ import annotations

import pytest

import understudy as us
from understudy.errors import UnknownName
from understudy.fitting.continuation import MOST
from understudy.fitting.fit_settings import FitSettings, Settings
from understudy.synthesis_checks import settled


def test_four_chains_of_five_hundred_draws_after_five_hundred_of_warm_up() -> None:
    expected = Settings(4 * 500, 4, 500, 0.8, MOST, tolerant=False)
    assert FitSettings().sampler == Settings() == expected
    assert FitSettings(diagnostics="report").sampler.most_thinning == 2


def test_other_ways_than_the_known_ones_are_refused() -> None:
    with pytest.raises(UnknownName, match="missing values"):
        FitSettings(missing="impute")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="failed diagnostics"):
        FitSettings(diagnostics="ignore")  # type: ignore[arg-type]


def test_a_fit_has_as_many_chains_as_data_sets_that_an_epsilon_counts() -> None:
    settings = FitSettings().sampler
    assert [settings.chains_for(number) for number in (1, 4, 5, 8, 20)] == [4, 4, 5, 8, 8]
    assert Settings(draws=24).chains_for(8) == 6  # each needs four draws


@pytest.mark.parametrize("mechanism", [us.Unweighted(), us.NoisyMoments(3.0)])
def test_a_release_asks_for_them(mechanism: us.Mechanism) -> None:
    fit = settled(FitSettings(), mechanism, 6)
    assert fit.chains == (4 if mechanism.claims == "risk" else 6)
