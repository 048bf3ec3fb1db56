"""Records of a block of public rows, from one draw."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.chance import chance_of
from understudy.models.record_maker import RecordMaker, record_maker
from understudy.models.survey_normal import SurveyNormal
from understudy.survey.rows_here import even_blocks

N = 513  # one more than a power of two: almost as many are filled up
MEANS = np.array([9.0, 9.4, 9.8])


@pytest.fixture(scope="module")
def public() -> pl.DataFrame:
    return pl.DataFrame({"group": np.repeat(["a", "b", "c"], N // 3)})


@pytest.fixture(scope="module")
def maker(public: pl.DataFrame) -> RecordMaker:
    group = us.Column("group", role="public", type="categorical", levels=("a", "b", "c"))
    salary = us.Column("salary", role="sensitive", type="integer", bounds=(100, 10**7))
    codebook = us.Codebook({"group": group, "salary": salary}, population_size=1e5)
    rows = public.with_columns(salary=pl.lit(1), w=pl.lit(1.0))
    survey = us.Survey(rows, us.Design(weight="w"), codebook)
    model = us.FBS("salary", "group").for_survey(survey)
    assert isinstance(model, SurveyNormal)
    parameters = {
        "coefficients": np.array([[9.0, 0.2], [0.4, 0.0], [0.8, 0.0]]),
        "scale": np.array([0.5, 0.3]),
        "correlation": np.eye(2),
    }
    types = {"salary": pl.Int64(), "w": pl.Float64()}
    return record_maker(model, survey, types, parameters, chance_of(b"sixteen bytes or more"))


def test_every_cell_is_balanced_whatever_is_filled_up(
    maker: RecordMaker, public: pl.DataFrame
) -> None:
    made = maker(public, "0 0")
    assert made.schema == {"group": pl.String, "salary": pl.Int64, "w": pl.Float64}
    log = pl.col("salary").log()
    means = made.group_by("group").agg(log.mean()).sort("group")["salary"].to_numpy()
    np.testing.assert_allclose(means, MEANS, atol=0.01)
    np.testing.assert_allclose(made["w"], np.exp(0.2))  # nothing of the outcome is in it


def test_blocks_have_random_numbers_of_their_own(maker: RecordMaker, public: pl.DataFrame) -> None:
    first = maker(public, "0 0")
    assert first.equals(maker(public, "0 0"))
    assert not first.equals(maker(public, "0 1"))
    part = maker(public.tail(10), "0 2")  # a block that lacks cells
    assert part["salary"].log().mean() == pytest.approx(9.8, abs=0.1)


@pytest.mark.parametrize("sizes", [(7,), (3, 4), (1, 2, 9, 1), (4, 4), (12,), ()])
def test_blocks_are_even(sizes: tuple[int, ...]) -> None:
    whole = pl.DataFrame({"x": range(sum(sizes))}, schema={"x": pl.Int64})
    ends = np.cumsum([0, *sizes])
    parts = [whole[a:b].to_arrow().to_batches() for a, b in pairwise(ends)]
    blocks = list(even_blocks((batch for part in parts for batch in part), 4))
    assert [block.height for block in blocks] == [4] * (len(whole) // 4) + [len(whole) % 4] * (
        len(whole) % 4 > 0
    )
    assert pl.concat([whole.clear(), *blocks]).equals(whole)
