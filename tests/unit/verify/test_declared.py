"""What every measure and every estimator must keep, whoever wrote it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import Refused
from understudy.tables.influence.unit_sums import GRID
from understudy.verify.catalogue import Catalogue, packaged
from understudy.verify.estimator import Estimator
from understudy.verify.influence_figures import InfluenceFigures
from understudy.verify.measure import Measure, QuestionTerms
from understudy.verify.noise import SAMPLERS
from understudy.verify.question_fields import NumberBox, question_fields

MEASURES = packaged().measures
ESTIMATORS = packaged().estimators
ANY = st.floats(allow_nan=True, allow_infinity=True)


def terms(measure: type[Measure], count: int) -> QuestionTerms:
    return QuestionTerms(
        10.0, 2.0, 3.0, count, 1.0, "adjusted", measure.noises[0], figures(measure, 1.0)
    )


def figures(measure: type[Measure], unit: float) -> InfluenceFigures | None:
    """Noise of half a standard error, for a measure that does not divide the file."""
    if measure.divides:
        return None
    return InfluenceFigures(
        step=unit / GRID, grid_scale=float(GRID), added=0.3 * unit, sampling_se=2 * unit,
        held_se=2 * unit, df=99.0, cut_se=0.2 * unit, touched=0.01,
    )  # fmt: skip


@pytest.mark.parametrize("name", [name for name, kind in MEASURES.items() if kind.divides])
@given(st.lists(ANY, min_size=2, max_size=8))
def test_a_partitions_number_is_its_own_and_within_the_bounds(
    name: str, estimates: list[float]
) -> None:
    """Whatever the other partitions hold, and whatever this one does."""
    measure = MEASURES[name]()
    values = np.array(estimates)
    asked = terms(MEASURES[name], len(values))
    numbers = measure.numbers(asked, values)
    low, high = measure.bounds
    assert numbers.dtype == np.int64
    assert (numbers >= low).all()
    assert (numbers <= high).all()
    for k in range(len(values)):
        assert measure.numbers(asked, values[k : k + 1])[0] == numbers[k]


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_says_the_same_in_numbers_words_and_pictures(name: str) -> None:
    measure = MEASURES[name]()
    asked = terms(MEASURES[name], measure.partitions)
    assert measure.refusal(asked) == ""
    assert set(measure.noises) <= set(SAMPLERS)
    low, high = (measure.partitions * bound for bound in measure.bounds)
    for noisy in (low, (low + high) // 2, high):
        posterior = measure.posterior(asked, noisy)
        lower, upper = posterior.interval(0.9)
        assert lower <= posterior.median <= upper
        assert measure.sentence(asked, posterior).endswith(".")
        assert measure.headline(posterior)
        picture = measure.picture(asked, posterior)
        assert picture.reach[0] < picture.reach[1]
        x, height = posterior.density(101)
        assert np.trapezoid(height, x) == pytest.approx(1, abs=0.05)
        assert all(isinstance(v, (float, bool)) for v in measure.facts(posterior).values())


@pytest.mark.parametrize("name", MEASURES)
def test_a_law_is_a_distribution(name: str) -> None:
    measure = MEASURES[name]()
    asked = terms(MEASURES[name], measure.partitions)
    law = measure.law(asked, np.array([-3.0, 0.0, 3.0]), np.array([2.0, 2.0, 2.0]))
    assert (law["median_low"] <= law["median_mid"]).all()
    assert (law["median_mid"] <= law["median_high"]).all()
    assert (law["says_inside"] >= 0).all()
    assert (law["says_inside"] <= 1 + 1e-12).all()
    assert (law["noisy_sd"] > 0).all()


@pytest.mark.parametrize("kind", [*ESTIMATORS.values(), *MEASURES.values()])
def test_every_field_says_what_it_is(kind: type[Estimator] | type[Measure]) -> None:
    assert set(question_fields(kind)) == {field.name for field in fields(kind)}
    assert kind.title
    assert kind.__doc__


def test_a_class_without_all_facts_cannot_be_defined() -> None:
    facts: dict[str, Any] = {"name": "x", "title": "X", "rank": 9}
    with pytest.raises(TypeError, match="fitted"):
        type("Mine", (Estimator,), facts)


@pytest.mark.parametrize("name", MEASURES)
def test_a_report_is_on_the_scale_of_the_estimate_where_it_says_so(name: str) -> None:
    measure = MEASURES[name]()
    laws = []
    for unit in (1.0, 10.0):
        asked = QuestionTerms(
            10 * unit, 2 * unit, 3 * unit, 8, 1.0, "adjusted", measure.noises[0],
            figures(MEASURES[name], unit),
        )  # fmt: skip
        laws.append(measure.law(asked, np.array([4 * unit]), np.array([2 * unit])))
    factor = 10.0 if measure.reports_difference else 1.0
    for column in ("median_low", "median_high"):
        np.testing.assert_allclose(laws[1][column], factor * laws[0][column], rtol=1e-9)


def test_names_and_fields_mean_one_thing() -> None:
    every, quantile = list(ESTIMATORS.values()), ESTIMATORS["quantile"]
    with pytest.raises(Refused, match="Two classes are called `quantile`"):
        Catalogue([*every, quantile], MEASURES.values())

    @dataclass(frozen=True)
    class Mine(quantile):  # type: ignore[misc, valid-type]
        name = "mine"
        several = False
        probability: Annotated[int, NumberBox("Which", "In percent.", "50")]

    with pytest.raises(Refused, match="`mine` declares `probability` with a different type"):
        Catalogue([*every, Mine], MEASURES.values())


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("mean", {}, "Mean of pay where sex is 2"),
        ("total", {}, "Total of pay where sex is 2"),
        ("proportion", {"level": "low"}, "Proportion with pay = low where sex is 2"),
        ("quantile", {"probability": 0.25}, "25 % quantile of pay where sex is 2"),
    ],
)
def test_what_is_estimated_in_words(name: str, settings: dict[str, Any], words: str) -> None:
    assert ESTIMATORS[name](variable="pay", **settings).in_words("sex is 2") == words
