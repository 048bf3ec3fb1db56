"""Files of the public guess, and files that are drawn from a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats

from understudy.errors import Refused
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter, whole_units
from understudy.fitting.public_guess import _effect, guessed_survey
from understudy.models.negative_binomial import NegativeBinomial
from understudy.models.normal_sample import FBS
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey

N = 4000
FIELDS = ("art", "law", "war")


def survey_of(seed: int, **facts: Any) -> Survey:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "field": np.array(FIELDS)[np.arange(N) % 3],
            "age": np.arange(N) % 50 + 20,
            "y": rng.integers(1, 90, N).astype(float),
            "w": rng.uniform(1, 3, N),
            "home": np.arange(N) // 2,
        }
    )
    columns = {
        "field": Column("field", type="categorical", levels=FIELDS),
        "age": Column("age", type="integer"),
        "y": Column("y", role="sensitive", **facts),
        "w": Column("w", role="weight"),
    }
    codebook = Codebook(columns, population_size=2e6, unit="home", records_per_unit=2)
    return Survey(frame, Design(weight="w"), codebook)


def guess(survey: Survey, apart: bool = False, seed: int = 1) -> pl.DataFrame:
    model = FBS("y", "field + age").for_survey(survey)
    return guessed_survey(survey, model, survey, np.random.default_rng(seed), apart).frame()


def test_a_guess_has_the_typical_value_and_the_spread() -> None:
    """A log-normal of median 50 with sd of the log s has sd 50 sqrt(e^s2 (e^s2 - 1)), s2 =
    log(1 + (20/50)^2): 23.2; the weight has N/n and .6 of it."""
    frame = guess(survey_of(1, typical=50.0, spread=20.0))
    assert frame["y"].median() == pytest.approx(50, rel=0.03)
    assert frame["y"].std() == pytest.approx(50 * np.sqrt(1.16 * 0.16), rel=0.08)
    assert frame["w"].median() == pytest.approx(500, rel=0.04)
    assert frame["w"].log().std() == pytest.approx(np.sqrt(np.log(1.36)), rel=0.08)
    wide = guess(survey_of(1, typical=50.0, spread=50.0))["y"].log()
    assert wide.std() == pytest.approx(np.sqrt(np.log(2.0)), rel=0.08)
    assert frame["y"].min() > 0  # type: ignore[operator]
    by_field = frame.group_by("field").agg(pl.col("y").log().mean())["y"]
    assert float(by_field.max() - by_field.min()) < 0.06  # type: ignore[operator]
    below = guess(survey_of(1, typical=-3.0, spread=2.0))["y"]
    assert below.mean() == pytest.approx(-3, abs=0.15)
    assert below.std() == pytest.approx(2, rel=0.06)


def test_a_guess_keeps_to_declarations() -> None:
    facts: dict[str, Any] = {"typical": 5.0, "spread": 5.0, "bounds": (0.0, 8.0), "type": "integer"}
    for apart in (False, True):
        values = guess(survey_of(1, **facts), apart)["y"]
        assert values.dtype == pl.Int64
        assert (values.min(), values.max()) == (0, 8)
    with pytest.raises(Refused, match="declare `typical` and `spread` of `y`"):
        guess(survey_of(1, typical=5.0))


def test_a_guess_between_bounds_is_a_log_normal_cut_off_there() -> None:
    """Against SciPy's normal law between the logarithms of 30 and 60."""
    values = guess(survey_of(1, typical=50.0, spread=20.0, bounds=(30.0, 60.0)))["y"].log()
    sd = np.sqrt(np.log1p(0.16))
    low, high = (np.log([30.0, 60.0]) - np.log(50.0)) / sd
    law = scipy.stats.truncnorm(low, high, np.log(50.0), sd)
    assert scipy.stats.kstest(values.to_numpy(), law.cdf).pvalue > 1e-6


def test_what_a_number_adds_is_a_line_around_nothing() -> None:
    ages = pl.Series(np.arange(20.0, 70.0))
    for seed in range(5):
        effect = _effect(ages, np.random.default_rng(seed))
        assert effect.mean() == pytest.approx(0, abs=1e-12)
        assert effect.std() == pytest.approx(0.4 * abs(np.random.default_rng(seed).normal()))
        assert np.ptp(np.diff(effect)) < 1e-12


def test_a_guessed_weight_weighs() -> None:
    survey, rng = survey_of(1, typical=5.0, spread=5.0), np.random.default_rng(1)
    for model, weight in ((FBS("y", "field"), "w"), (NegativeBinomial("y", "field"), None)):
        bound = model.for_survey(survey)
        assert guessed_survey(survey, bound, survey, rng, False).design.weight == weight


def test_a_guess_does_not_depend_on_the_sensitive_values() -> None:
    for apart in (False, True):
        first, second = (
            guess(survey_of(seed, typical=50.0, spread=20.0), apart) for seed in (1, 2)
        )
        assert first.equals(second)


def test_files_apart_from_the_guess_differ_in_level_effects_and_tails() -> None:
    survey = survey_of(1, typical=50.0, spread=20.0)
    logs = [guess(survey, apart=True, seed=k).select("field", pl.col("y").log()) for k in range(8)]
    middles = [float(each["y"].median()) for each in logs]  # type: ignore[arg-type]
    assert np.ptp(middles) > 0.2
    effects = [each.group_by("field").agg(pl.col("y").median())["y"] for each in logs]
    assert max(float(e.max() - e.min()) for e in effects) > 0.2  # type: ignore[operator]
    tails = [each["y"] - each["y"].median() for each in logs]  # type: ignore[operator]
    assert np.mean([(t**4).mean() / (t**2).mean() ** 2 for t in tails]) > 3.5  # type: ignore[operator]


def test_units_are_drawn_whole() -> None:
    units = np.repeat(np.arange(40), [1, 2, 3, 2] * 10).astype(np.int32)
    rows, groups = whole_units(units, 57, np.random.default_rng(0))
    assert rows.shape == groups.shape == (57,)
    for group in range(groups.max()):  # the last one may lack some
        members = rows[groups == group]
        assert sorted(members) == np.flatnonzero(units == units[members[0]]).tolist()


def test_a_file_is_drawn_from_a_reference_by_public_chance() -> None:
    survey = survey_of(1)
    model = NegativeBinomial("y", "field")
    arrays = model.prepare(survey)
    missing = np.zeros(N, dtype=bool)
    fitters = [ModelFitter(model, survey, arrays, missing, Settings(), seed) for seed in (1, 2)]
    first, second = (fitter.resampled(300, 4) for fitter in fitters)
    np.testing.assert_array_equal(first.arrays["y"], second.arrays["y"])
    assert first.n == len(first.units) == 300  # type: ignore[arg-type]
    assert np.isin(first.arrays["y"], arrays["y"]).all()
    assert not np.array_equal(first.arrays["y"], fitters[0].resampled(300, 5).arrays["y"])
    rehearsing = first.rehearsing(fast=True)
    assert (rehearsing.settings.most_thinning, rehearsing.settings.fast) == (2, True)
    assert rehearsing.seed == second.rehearsing(fast=True).seed
    np.testing.assert_array_equal(rehearsing.units, first.units)
    assert rehearsing.show_progress is False


def test_files_around_a_guess_have_the_same_guess() -> None:
    """The one that is made once has the arrays that each of them would make of itself."""
    survey = survey_of(1, typical=50.0, spread=20.0)
    model = FBS("y", "field + age").for_survey(survey)
    nobody = np.zeros(N, dtype=bool)
    fitter = ModelFitter(model, survey, model.prepare(survey), nobody, Settings(), 7)
    guessed = fitter.on_guess(0)
    assert fitter.on_guess(0) is guessed
    for number in (1, 2):
        file = fitter.on_guess(number).rehearsing(fast=False)
        assert file.on_guess(0) is guessed
        own = file._guessed(0)
        for name, array in guessed.arrays.items():
            np.testing.assert_array_equal(own.arrays[name], array)
        np.testing.assert_array_equal(own.units, guessed.units)
