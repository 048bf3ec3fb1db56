"""Weights that look calibrated: who is warned, and who is not."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.tables.calibration_hint import CalibrationWarning


def plain(rows: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "w": rng.uniform(1, 9, rows),
            "sex": rng.choice(["F", "M"], rows),
            "region": rng.integers(1, 5, rows),
            "h": rng.integers(1, 4, rows),
            "y": rng.normal(size=rows),
        }
    )


def raked() -> us.Survey:
    sexes = {"F": 1200.0, "M": 1100.0}
    return us.calibrate(us.Survey(plain(), us.Design("w", "h")), {"sex": sexes})


def warned(survey: us.Survey, by: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        us.tabulate(survey, "mean(y)", by=by)
    return [str(w.message) for w in caught if w.category is CalibrationWarning]


def test_whole_sums_of_broken_weights_are_noticed_once() -> None:
    survey = raked()
    forgotten = us.Survey(survey.raw, us.Design("w_calibrated", "h"))
    assert warned(survey, "sex") == []  # its design says so
    (text,) = warned(forgotten, "sex")
    assert 'calibrated="sex"' in text
    assert warned(forgotten, "sex") == []
    assert warned(forgotten, "region") == []


def test_one_level_that_adds_up_may_be_chance() -> None:
    women = pl.when(pl.col("sex") == "F").then("sex")  # nobody else has a level
    frame = raked().raw.to_polars().with_columns(sex=women)
    assert warned(us.Survey(frame, us.Design("w_calibrated", "h")), "sex") == []


def test_declared_totals_are_noticed() -> None:
    frame = plain()
    totals = dict(frame.group_by("region").agg(pl.col("w").sum()).iter_rows())
    book = replace(us.Survey(frame).codebook, population_by={"region": totals})
    (text,) = warned(us.Survey(frame, us.Design("w", "h"), book), "region")
    assert "C(region)" in text


def test_weights_of_synthetic_files_are_not() -> None:
    """They are raked to public totals by the synthesis, whose rule knows nothing of calibration."""
    forgotten = us.Survey(raked().raw, us.Design("w_calibrated", "h"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        us.tabulate([forgotten, forgotten], "mean(y)", by="sex", combine="partial")
    with pytest.warns(CalibrationWarning):
        us.tabulate([forgotten, forgotten], "mean(y)", by="sex", combine="imputed")


@pytest.mark.parametrize("by", ["sex", "region", "h"])
def test_ordinary_weights_are_not(by: str) -> None:
    assert warned(us.Survey(plain(), us.Design("w", "h")), by) == []


def test_sizes_known_by_design_are_not() -> None:
    """Weights N_h/n_h add up to N_h in every union of strata."""
    frame = plain().with_columns(w=(pl.col("h") * 1000) / pl.len().over("h"))
    frame = frame.with_columns(half=pl.col("h") > 1)
    assert warned(us.Survey(frame, us.Design("w", "h")), "half") == []


def test_a_calibrated_design_has_the_smaller_error() -> None:
    survey = raked()
    forgotten = us.Survey(survey.raw, us.Design("w_calibrated", "h"))
    known = us.tabulate(survey, "proportion(sex == 'F')")["se"][0]
    assert known < 1e-9 < us.tabulate(forgotten, "proportion(sex == 'F')")["se"][0]


@pytest.mark.parametrize(
    ("totals", "options", "words"),
    [
        ({"sex": {"F": 1.0}}, {}, "without a public total"),
        ({"sex": {"F": 10.0, "M": 10.0, "X": 3.0}}, {}, "merge it"),
        ({"sex": {"F": 10.0, "M": 10.0}, "region": {1: 9, 2: 9, 3: 9, 4: 9}}, {}, "another number"),
        ({"sexx": {"F": 10.0}}, {}, "did you mean `sex`"),
        ({"sex": 5.0}, {}, "has levels"),
        ({}, {}, "at least one"),
        ({"y": 900.0}, {"method": "linear", "population": 100.0}, "negative"),
        ({"y": 1e9}, {"population": 100.0}, "No weights"),
        ({"sex": {"F": 10.0, "M": 10.0}}, {"method": "logit"}, "limits"),
        ({"sex": {"F": 1e5, "M": 10.0}}, {"method": "logit", "limits": (0.5, 2)}, "No weights"),
    ],
)
def test_refusals(totals: dict, options: dict, words: str) -> None:
    with pytest.raises(us.Refused, match=words):
        us.calibrate(us.Survey(plain(), us.Design("w", "h")), totals, **options)
