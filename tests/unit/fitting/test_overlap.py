"""A reference that is the confidential file in disguise is refused; another is not (threat 34)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.fitting.overlap import overlap, refuse_overlap
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
        with pytest.raises(Refused, match="2,000 of its 2,000 records"):
            refuse_overlap(file, reference, "the reference")


@pytest.mark.parametrize("kind", ["continuous", "cents", "dollars", "hundreds"])
def test_a_subset_and_a_file_with_others_are_refused(kind: str) -> None:
    file = drawn(kind, 2000, 7)
    for reference in (file[:500], np.concatenate([file, drawn(kind, 2000, 8)])):
        with pytest.raises(Refused, match="more than chance explains"):
            refuse_overlap(file, reference, "the reference")


def test_what_is_counted() -> None:
    found = overlap(np.array([[1.0], [1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [4.0], [4.0]]))
    assert (found.equal, found.hits) == (2, 3)
    two = np.array([[1.0, 5.0], [1.0, 6.0]])
    assert overlap(two, two[:, ::-1]).equal == 0  # several columns are one value together


def test_a_coin_that_falls_alike_proves_nothing() -> None:
    """Two files of zeros and ones with equal counts: chance explains that."""
    coins = np.repeat([0.0, 1.0], 500)[:, None]
    refuse_overlap(coins, coins[::-1], "the reference")


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
