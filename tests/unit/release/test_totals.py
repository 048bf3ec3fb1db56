"""Public totals belong to the records that they are of."""

from __future__ import annotations

import polars as pl
import pytest

import understudy as us
from understudy.release.totals import check_totals, totals_said
from understudy.survey.codebook import Codebook, parse_codebook
from understudy.survey.codebook_text import codebook_to_toml

FRAME = pl.DataFrame({"w": [10.0, 20.0, 30.0, 40.0], "g": ["a", "a", "b", "b"]})
TEXT = """
[population]
size = 100
[population.by.g]
a = 30
b = 70
[columns.g]
role = "public"
type = "categorical"
levels = ["a", "b"]
[columns.w]
role = "weight"
type = "continuous"
"""
BOOK = parse_codebook(TEXT)


def survey(frame: pl.DataFrame, book: Codebook = BOOK) -> us.Survey:
    return us.Survey(frame, us.Design(weight="w"), book)


def test_weights_within_two_percent_of_the_totals_pass() -> None:
    check_totals(survey(FRAME))
    check_totals(survey(FRAME.with_columns(pl.col("w") * 1.0199)))
    check_totals(us.Survey(FRAME, codebook=BOOK))  # without weights there is nothing to compare


@pytest.mark.parametrize("factor", [1.021, 0.979])
def test_weights_that_are_further_off_stop_the_release(factor: float) -> None:
    with pytest.raises(us.Refused, match=r"population\.size` in the codebook says 100; correct"):
        check_totals(survey(FRAME.with_columns(pl.col("w") * factor)))


def test_totals_of_the_whole_population_are_refused_for_a_part_of_it() -> None:
    with pytest.raises(us.Refused, match=r"add up to 60, .*`population\.where`"):
        check_totals(survey(FRAME[:3]))


def test_totals_by_level_are_compared_too() -> None:
    moved = FRAME.with_columns(w=pl.Series([20.0, 20.0, 30.0, 30.0]))
    with pytest.raises(us.Refused, match=r"`g` = a add up to 40, and `population\.by\.g`"):
        check_totals(survey(moved))


def test_the_steward_is_told_how_far_off_weights_are() -> None:
    moved = survey(FRAME.with_columns(w=pl.col("w") * 1.005 + pl.Series([0.0, 0.0, 0.0, 0.3])))
    a, b = moved.frame().group_by("g").agg(pl.col("w").sum()).sort("g")["w"].to_list()
    totals = {"a": 30, "b": 70}
    worst = max((a / 30 - 1, "a", a), (b / 70 - 1, "b", b))
    said = totals_said(moved)
    assert f"to within {worst[0]:.2%}: furthest off are the records with `g` = {worst[1]}" in said
    assert f"with {worst[2]:,.10g} where `population.by.g` says {totals[worst[1]]}" in said
    assert "internal" in said
    assert totals_said(us.Survey(FRAME, codebook=BOOK)) == ""
    assert totals_said(us.Survey(FRAME, us.Design(weight="w"))) == ""


def test_totals_of_other_records_are_left_out() -> None:
    text = TEXT.replace("size = 100", 'size = 100\nwhere = "w  > 5"')
    declared = parse_codebook(text)
    assert declared.population_where == "w  > 5"
    assert parse_codebook(codebook_to_toml(declared)).population_where == "w  > 5"
    assert declared.for_domain("w > 5") is declared
    for other in (None, "w > 6"):
        bare = declared.for_domain(other)
        assert (bare.population_size, bare.population_by) == (None, {})
        assert set(bare.columns) == {"g", "w"}
    every = parse_codebook(text.replace("w  > 5", "all"))
    assert every.for_domain(None) is every
    assert every.for_domain("w > 5").population_size is None
