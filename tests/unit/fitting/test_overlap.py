"""A reference that is the confidential file in disguise is refused; another is not (threat 34)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from understudy.errors import Refused
from understudy.fitting.overlap import IMPROBABLE, overlap, refuse_overlap, rounded
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.reference_censored import ReferenceCensored
from understudy.models.beta import Beta
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.synthesis import synthesize


def drawn(kind: str, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "continuous":
        values = rng.lognormal(10, 1, n)
    elif kind == "cents":
        values = np.round(rng.lognormal(10, 1, n), 2)
    elif kind == "dollars":
        values = np.round(rng.lognormal(10, 1, n))
    elif kind == "hundreds":
        values = np.round(rng.lognormal(10, 1, n), -2)
    elif kind == "heaped":
        values = np.where(rng.random(n) < 0.7, np.round(rng.lognormal(10, 1, n), -3), 0.0)
    else:
        values = rng.integers(0, 30, n).astype(float)
    return values[:, None]


KINDS = ["continuous", "cents", "dollars", "hundreds", "heaped", "ages"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "m"), [(800, 800), (3000, 1000), (400, 5000)])
def test_other_records_of_the_same_population_pass(kind: str, n: int, m: int) -> None:
    for seed in range(5):
        refuse_overlap(drawn(kind, n, seed), drawn(kind, m, 100 + seed), "the reference")


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_itself_is_refused_in_every_disguise(kind: str) -> None:
    rng = np.random.default_rng(1)
    file = drawn(kind, 2000, 7)
    shuffled = rng.permutation(file)
    jittered = np.nextafter(shuffled, np.inf)
    for reference in (file, shuffled, jittered):
        # an ulp may turn the tenth digit of a record or two
        with pytest.raises(Refused, match=r"(2,000|1,99\d) of its 2,000 records"):
            refuse_overlap(file, reference, "the reference")


@pytest.mark.parametrize("kind", ["continuous", "cents", "dollars", "hundreds"])
def test_a_subset_and_a_file_with_others_are_refused(kind: str) -> None:
    file = drawn(kind, 2000, 7)
    for reference in (file[:500], np.concatenate([file, drawn(kind, 2000, 8)])):
        with pytest.raises(Refused, match="more than chance explains"):
            refuse_overlap(file, reference, "the reference")


def test_what_is_counted() -> None:
    shared = overlap(np.array([[1.0], [1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [4.0], [4.0]]))
    assert (shared.equal, shared.hits) == (2, 3)
    two = np.array([[1.0, 5.0], [1.0, 6.0]])
    assert overlap(two, two[:, ::-1]).equal == 0  # several columns are one value together


def test_amounts_in_cents_may_meet_by_luck_and_longer_numbers_do_not() -> None:
    """Three common values where neither file repeats one of its own."""
    ours, theirs = np.arange(1.0, 3001.0) * 1000.01, np.arange(1.0, 1001.0) * 2000.03
    theirs[:3] = ours[1001:1004]
    assert len(np.unique(theirs)) == 1000
    refuse_overlap(ours[:, None], theirs[:, None], "the reference")
    with pytest.raises(Refused, match="3 of its 1,000 records"):
        refuse_overlap(np.sqrt(ours)[:, None], np.sqrt(theirs)[:, None], "the reference")


@pytest.mark.parametrize(("digits", "luck"), [(12_345_678.0, True), (123_456_789.0, False)])
def test_eight_digits_may_meet_by_luck_and_nine_do_not(digits: float, luck: bool) -> None:
    theirs = digits * 10.0 ** -np.arange(20.0)[:, None]  # no two alike
    assert (overlap(theirs + 1e9, theirs).explained > 2.0) is luck


def test_one_value_that_two_records_have_shows_that_values_meet() -> None:
    theirs = np.sqrt(np.arange(2.0, 22.0))[:, None]
    assert overlap(theirs + 1e3, theirs).explained == 2.0
    theirs[1] = theirs[0]
    most = stats.chi2.isf(IMPROBABLE, 4) / 2  # Garwood's limit where one was seen
    assert overlap(theirs + 1e3, theirs).explained == stats.poisson.isf(IMPROBABLE, 2 * most)


def test_a_coin_that_falls_alike_proves_nothing() -> None:
    """Two files of zeros and ones with equal counts: chance explains that."""
    coins = np.repeat([0.0, 1.0], 500)[:, None]
    refuse_overlap(coins, coins[::-1], "the reference")


def test_one_record_may_be_refused_and_none_cannot() -> None:
    file = np.array([5.0, 5.0, 5.0, 1.0, 2.0])[:, None]
    with pytest.raises(Refused, match="1 of its 1 records"):
        refuse_overlap(np.sqrt(file), np.sqrt(file[:1]), "the reference")
    refuse_overlap(file, file[:1], "the reference")  # many have five of something
    refuse_overlap(file, file[3:4], "the reference")
    refuse_overlap(file, file[:0], "the reference")
    refuse_overlap(file[:0], file, "the reference")


SHARES = Codebook({"share": Column("share", "sensitive", bounds=(0.0, 1.0))})


def test_mechanisms_refuse_references_and_weights_from_the_same_file() -> None:
    values = np.random.default_rng(3).beta(2, 3, 150)
    survey = Survey(pl.DataFrame({"share": values}), codebook=SHARES)
    shuffled = Survey(pl.DataFrame({"share": values[::-1]}), codebook=SHARES)
    few: dict[str, Any] = {"seed": 1, "draws": 800, "chains": 2, "warmup": 300}
    for mechanism in (ReferenceCensored(2.0, shuffled), Censored(2.0, weights=shuffled)):
        with pytest.raises(Refused, match="150 of its 150 records"):
            synthesize(survey, Beta("share"), mechanism, **few)
    first = synthesize(shuffled, Beta("share"), Censored(2.0), **few)
    with pytest.raises(Refused, match="The record weights must not come from the confidential"):
        synthesize(survey, Beta("share"), Censored(2.0).fixed_from(first), **few)


def test_the_chance_of_the_same_multiset_is_counted_out() -> None:
    """All ways to deal six records into two files of three: how many have the same multisets."""
    values = np.array([1.0, 1.0, 2.0, 1.0, 1.0, 2.0])
    ways = list(combinations(range(6), 3))
    alike = [sorted(values[list(way)]) == sorted(np.delete(values, list(way))) for way in ways]
    same = overlap(values[:3, None], values[3:, None])
    assert same.too_equal == pytest.approx(np.mean(alike), rel=1e-12)


def test_a_few_values_many_times_are_seen_when_they_are_the_same_records() -> None:
    values = np.rint(np.exp(np.random.default_rng(1).normal(3, 0.6, 150)))[:, None]
    assert overlap(values, values[::-1]).improbable
    assert not overlap(values[:75], values[75:]).improbable


@pytest.mark.parametrize(("n", "m"), [(60, 25), (25, 60)])
def test_hits_misses_and_likeness_by_their_definitions(n: int, m: int) -> None:
    """Garwood's limits of a Poisson mean by chi-square quantiles, the statistic of homogeneity by
    its table of expected counts."""
    rng = np.random.default_rng(2)
    values = [np.rint(rng.exponential(12.0, size)) for size in (n, m)]
    ours, theirs = (Counter(file.tolist()) for file in values)
    result = overlap(*(file[:, None] for file in values))
    doubles = sum(number == 2 for number in theirs.values())
    assert doubles > 0
    most = stats.chi2.isf(IMPROBABLE, 2 * (doubles + 1)) / 2
    assert result.explained == stats.poisson.isf(IMPROBABLE, n * 2 * most / m)
    assert result.hits == sum(ours[value] for value, number in theirs.items() if number == 1)
    few = []
    for first, second in ((ours, theirs), (theirs, ours)):
        least = stats.chi2.ppf(IMPROBABLE, 2 * sum(c == 1 for c in first.values())) / 2
        misses = sum(number for value, number in second.items() if value not in first)
        few.append(stats.poisson.cdf(misses, second.total() * least / first.total()))
    assert result.few_misses == pytest.approx(min(few), rel=1e-9)
    both = sorted(ours | theirs)
    table = np.array([[file[value] for value in both] for file in (ours, theirs)])
    expected = stats.contingency.expected_freq(table)
    square = ((np.abs(table - expected) + 0.5) ** 2 / expected).sum()
    assert result.too_equal == pytest.approx(stats.chi2.cdf(square, len(both) - 1), rel=1e-9)


def test_files_of_one_value_prove_nothing() -> None:
    same = np.full((5, 1), np.pi)
    result = overlap(same, same)
    assert (result.explained, result.few_misses, result.too_equal) == (2.0, 1.0, 1.0)
    assert overlap(same, same[:4]).too_equal == 1.0
    garwood = stats.chi2.isf(IMPROBABLE, 2) / 2  # the most doubles where none was seen
    assert overlap(np.ones((5, 1)), same).explained == 2.0
    assert overlap(same, np.ones((5, 1))).explained == stats.poisson.isf(IMPROBABLE, 2 * garwood)


def test_numbers_are_compared_to_ten_digits() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(200, 2)) * 10.0 ** rng.integers(-4, 5, (200, 2)) * [1.0, 1e6]
    expected = np.array([[float(f"{value:.9e}") for value in row] for row in values])
    np.testing.assert_allclose(rounded(values), expected, rtol=1e-15)
    small = np.array([[1.0, 1e6], [1.5e-15, 1.5e-9], [0.9e-15, 0.9e-9], [0.0, 0.0]])
    assert ((rounded(small) == 0) == [[False] * 2, [False] * 2, [True] * 2, [True] * 2]).all()
