"""A random part of a survey: records of it, with weights for the others too."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.survey.random_part import random_part

N = 5_000


def whole(weight: str | None) -> us.Survey:
    rng = np.random.default_rng(1)
    columns = {"number": np.arange(N), "w": rng.integers(1, 9, N)}
    book = us.Codebook({"number": us.Column("number"), "w": us.Column("w")})
    return us.Survey(pl.DataFrame(columns), us.Design(weight), book)


@pytest.mark.parametrize("weight", ["w", None])
def test_a_part_has_records_of_the_whole_and_weights_for_the_others(weight: str | None) -> None:
    survey = whole(weight)
    frames = [random_part(survey, 500, np.random.default_rng(k)).frame() for k in (3, 3, 4)]
    assert frames[0].equals(frames[1])
    assert not frames[0]["number"].equals(frames[2]["number"])
    for frame in frames:
        assert frame["number"].n_unique() == frame.height == 500
        old = survey.frame()["w"].gather(frame["number"])
        assert frame["w"].to_list() == (old * (N / 500 if weight else 1)).to_list()
    known = random_part(survey, 500, np.random.default_rng(3))
    assert known.design == survey.design
    assert known.codebook == survey.codebook
    total = survey.frame()["w"].sum()
    if weight:  # within four standard errors of a sum of 500 weights
        assert frames[0]["w"].sum() == pytest.approx(total, rel=4 * 2.3 / 4.5 / np.sqrt(500))


def test_every_record_may_be_in_a_part() -> None:
    survey, rng = whole("w"), np.random.default_rng(5)
    chosen = [random_part(survey, 500, rng).frame()["number"].to_numpy() for _ in range(60)]
    times = np.bincount(np.concatenate(chosen), minlength=N)
    assert times.var() == pytest.approx(60 * 0.1 * 0.9, rel=0.1)
    assert np.corrcoef(times, np.arange(N))[0, 1] == pytest.approx(0, abs=0.06)


def test_a_survey_without_more_records_is_its_own_part() -> None:
    survey = whole("w")
    assert random_part(survey, N, np.random.default_rng(0)) is survey
