"""Codes that a file stores as decimals, as files of statistical packages and of pandas do."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.release.confidential_file import with_whole_codes
from understudy.release.inside import prepare
from understudy.release.recipe import parse_recipe
from understudy.survey.codebook import Codebook, Column

CODES = Column("edu", "sensitive", "categorical", levels=(1, 2, 10), missing=(-8,))
OTHERS = Column("rate", "sensitive", "categorical", levels=(0.5, 1.5))


def stored(**changes: Any) -> pl.DataFrame:
    edu = [1.0, 2.0, 10.0, -8.0, float("nan"), None]
    return pl.DataFrame({"edu": edu, "rate": [0.5, 1.5] * 3, **changes})


@pytest.mark.parametrize("on_disk", [False, True])
def test_codes_are_whole_numbers_where_levels_are(tmp_path, on_disk):
    """A report would show 1.0 and 1 as two levels, and an attack would never guess right."""
    data: Any = stored()
    if on_disk:
        data.write_parquet(tmp_path / "a.parquet")
        data = us.read_survey(tmp_path / "a.parquet").raw
    survey = us.Survey(data, codebook=Codebook({"edu": CODES, "rate": OTHERS}))
    made = with_whole_codes(survey, drafted=True)
    frame = made.raw.to_polars()
    assert frame["edu"].to_list() == [1, 2, 10, -8, None, None]
    assert frame["edu"].dtype == pl.Int64
    assert frame["rate"].dtype == pl.Float64
    assert made.codebook == survey.codebook


def test_drafted_levels_do_not_decide_the_type_of_what_keeps_that_of_the_file():
    drafted = Column("edu", "sensitive", "categorical", levels=(1, 2, 10), drafted={"type"})
    whole = stored(edu=[1.0, 2.0, 10.0] * 2)
    survey = us.Survey(whole, codebook=Codebook({"edu": drafted, "rate": OTHERS}))
    assert with_whole_codes(survey, drafted=False) is survey
    assert with_whole_codes(survey, drafted=True).raw["edu"].type().is_integer()


def test_a_release_sees_them_so(tmp_path):
    rng = np.random.default_rng(1)
    frame = stored(edu=[1.0, 2.0, 10.0, -8.0, None, 2.0])[rng.integers(0, 6, 60)]
    frame.write_parquet(tmp_path / "a.parquet")
    (tmp_path / "book.toml").write_text(
        '[columns.edu]\nrole = "sensitive"\ntype = "categorical"\nlevels = [1, 2, 10]\n'
        "missing = [-8]\n"
    )
    text = (
        '[data]\npath = "a.parquet"\ncodebook = "book.toml"\n[synthesis]\nmodel = "WholeFile"\n'
        '[privacy]\nmechanism = "Marginals"\nepsilon = 1\n'
    )
    inside = prepare(parse_recipe(text, tmp_path))
    assert inside.confidential.raw["edu"].type().is_integer()
    assert inside.counted.raw["edu"].type().is_integer()
