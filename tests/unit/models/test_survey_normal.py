"""What FBS and FBP share: bounds that are kept, units of outcome and weight, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.models.normal_population import FBP
from understudy.models.normal_sample import FBS
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design, Replicates
from understudy.survey.survey import Survey

FRAME = pl.DataFrame(
    {
        "group": ["a", "b", "a", "b"],
        "pay": [0.5, 2.0, 3.0, 4.0],
        "bonus": [1.0, 0.25, 2.0, 3.0],
        "w": [1.0, 2.0, 3.0, 4.0],
    }
)
BOOK = Codebook(
    {
        "group": Column("group", "public", levels=("a", "b")),
        "pay": Column("pay", "sensitive", bounds=(0.5, 8.0)),
        "bonus": Column("bonus", "sensitive", bounds=(0.1, 9.0), drafted=frozenset({"bounds"})),
    },
    population_size=40.0,
)
SURVEY = Survey(FRAME, Design(weight="w"), BOOK)
BOTH = FBS(["pay", "bonus"], "group")


def test_outcomes_and_weight_are_logs_in_public_units() -> None:
    """Also outcomes between 0 and 1. The unit of the weight is N/n = 10."""
    model = BOTH.for_survey(SURVEY)
    arrays = model.prepare(SURVEY)
    np.testing.assert_allclose(arrays["y0"], np.log([0.5, 2.0, 3.0, 4.0]))
    np.testing.assert_allclose(arrays["y1"], np.log([1.0, 0.25, 2.0, 3.0]))
    np.testing.assert_allclose(arrays["w"], np.log([0.1, 0.2, 0.3, 0.4]))
    X, Y = model.gaussian_data(arrays)
    np.testing.assert_allclose(X, arrays["X"])
    np.testing.assert_allclose(Y, np.c_[arrays["y0"], arrays["y1"], arrays["w"]])
    rows, cell, columns = model.gaussian_cells(arrays)
    assert len(rows) == len(np.unique(X, axis=0))
    np.testing.assert_allclose(rows[cell], X)
    np.testing.assert_allclose(columns, Y.T)
    assert model.units(BOOK) == (
        "Log-likelihoods are of log pay, log bonus and log(w n/N), with the public number of "
        "records n and size of the population N = 40"
    )


@pytest.mark.parametrize(("kind", "sign"), [(FBS, 1.0), (FBP, -1.0)])
def test_sums_are_clipped_to_logs_of_public_bounds(kind: Any, sign: float) -> None:
    """In the units of the model: weights over N/n = 10, of which FBP has minus the log."""
    book = BOOK.with_column(Column("w", "weight", bounds=(1.0, 5.0)))
    survey = Survey(FRAME, Design(weight="w"), book)
    model = kind("pay", "group").for_survey(survey)
    weights = np.sort(sign * np.log([0.1, 0.5]))
    for clip in (None, ((0.5, 8.0), (1.0, 5.0))):
        low, high = model.clipped_range(clip, survey)
        np.testing.assert_allclose(low, [np.log(0.5), weights[0]])
        np.testing.assert_allclose(high, [np.log(8.0), weights[1]])
    with pytest.raises(Refused, match="a pair of numbers for each of pay, w"):
        model.clipped_range(((0.5, 8.0),), survey)
    with pytest.raises(Refused, match="need public bounds above 0"):
        model.clipped_range(((0.0, 8.0), (1.0, 5.0)), survey)


def test_only_declared_bounds_are_kept() -> None:
    model = BOTH.for_survey(SURVEY)
    assert model.limits == ((0.5, 8.0), None)
    assert FBS("pay", "group").for_survey(Survey(FRAME, Design(weight="w"), Codebook(
        population_size=40.0))).limits == (None,)  # fmt: skip
    generated = {
        "y0": np.log([0.4, 0.5, 8.0, 8.1]),
        "y1": np.log([1.0, 100.0, 0.01, 1.0]),
        "w": np.zeros(4),
    }
    kept = model.inside(generated)
    assert kept is not None
    # the logarithm of a bound may round to either side of it
    assert kept[[0, 3]].tolist() == [False, False]
    inner = model.inside({**generated, "y0": np.log([0.51, 7.9, 1.5, 0.6])})
    assert inner is not None
    assert inner.all()
    columns = model.restore(generated, SURVEY)
    np.testing.assert_allclose(columns["pay"], [0.5, 0.5, 8.0, 8.0])
    np.testing.assert_allclose(columns["bonus"], [1.0, 100.0, 0.01, 1.0])
    np.testing.assert_allclose(columns["w"], [10.0] * 4)
    paper = replace(BOTH, tables="paper").for_survey(SURVEY)
    assert paper.inside(generated) is None
    np.testing.assert_allclose(paper.restore(generated, SURVEY)["pay"], [0.4, 0.5, 8.0, 8.1])
    unlimited = FBS("bonus", "group").for_survey(SURVEY)
    assert unlimited.inside({"y0": generated["y1"]}) is None


@pytest.mark.parametrize("size", [0, -5.0, np.inf, np.nan, "many"])
def test_a_population_has_a_finite_size(size: Any) -> None:
    with pytest.raises(Refused, match="must be a number above 0"):
        FBS("pay", "group", population=size)
    assert FBS("pay", "group", population=40).population == 40


def test_what_cannot_be_bound_to_a_survey_is_refused() -> None:
    with pytest.raises(Refused, match="Name each outcome once"):
        FBS(["pay", "pay"], "group")
    with pytest.raises(Refused, match="synthesizes the design weight too"):
        BOTH.for_survey(Survey(FRAME, codebook=BOOK))
    with pytest.raises(Refused, match="`w` is the weight"):
        FBS(["pay", "w"], "group").for_survey(SURVEY)
    copies = FRAME.with_columns(r1=2 * pl.col("w"), r2=0 * pl.col("w"))
    design = Design(weight="w", replicates=Replicates(("r1", "r2"), kind="brr"))
    with pytest.raises(Refused, match="give the confidential weights away"):
        BOTH.for_survey(Survey(copies, design, BOOK))
    with pytest.raises(Refused, match="does not know its survey"):
        BOTH.units(BOOK)
    with pytest.raises(Refused, match="does not know its survey"):
        replace(BOTH, weight="w").units(BOOK)
    text = Survey(FRAME.with_columns(pay=pl.lit("x")), Design(weight="w"), BOOK)
    with pytest.raises(Refused, match="not numeric"):
        FBS("pay", "group").for_survey(text).prepare(text)
