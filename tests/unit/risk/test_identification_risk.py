"""Identification risk: worked cases, several intruders, input kinds and refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from understudy import Refused, Survey
from understudy.risk.identification import identification_risk, known_contributions


@pytest.fixture
def people():
    rng = np.random.default_rng(11)
    n = 200
    return pl.DataFrame(
        {
            "case": rng.permutation(n),
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(0, 4, n),
            "income": np.round(np.exp(rng.normal(10, 1, n))),
            "wealth": np.round(rng.normal(0, 1e5, n)),
        }
    )


def synthesized(people, seed):
    rng = np.random.default_rng(seed)
    noise = np.exp(rng.normal(0, 0.2, people.height))
    return people.with_columns(income=pl.col("income") * noise)


def test_betty():
    """R Figure 1: 13 records share the pattern; 10 outside, 5 outside, and not found."""
    truth = np.array([100.0, *np.linspace(1000, 2000, 12)])
    confidential = pl.DataFrame({"income": truth})
    far, near = 500.0, 95.0
    few = np.array([90.0, 110.0, 105.0, *[far] * 10])
    many = np.array([90.0, *[near] * 7, *[far] * 5])
    moved = np.array([far, *[near] * 3, *[far] * 9])
    for released, betty in ((few, 10 / 13), (many, 5 / 13), (moved, 0.0)):
        synthetic = pl.DataFrame({"income": released})
        risk = identification_risk(confidential, synthetic, known=[], target="income", radius=0.2)
        assert risk[0] == pytest.approx(betty, abs=1e-15)
    average = identification_risk(
        confidential,
        [pl.DataFrame({"income": released}) for released in (few, many, moved)],
        known=[],
        target="income",
        radius=0.2,
    )
    assert average[0] == pytest.approx(15 / 39)


def test_negative_values_have_balls_too():
    """Half-width r|y|: -90 lies in the ball of -100; with r*y the ball would be empty."""
    frame = pl.DataFrame({"income": [-100.0, -90.0, 5000.0]})
    risk = identification_risk(frame, known=[], target="income", radius=0.2)
    np.testing.assert_allclose(risk, [1 / 3, 1 / 3, 2 / 3])


def test_an_absolute_radius_gives_zero_a_ball():
    frame = pl.DataFrame({"income": [0.0, 50.0, 5000.0]})
    relative = identification_risk(frame, known=[], target="income", radius=0.2)
    absolute = identification_risk(frame, known=[], target="income", radius=100, kind="absolute")
    assert relative[0] == pytest.approx(2 / 3)
    assert absolute[0] == pytest.approx(1 / 3)


def test_a_file_released_as_it_is_has_the_confidential_risk(people):
    arguments = {"known": ["sex", "age"], "target": "income"}
    plain = identification_risk(people, **arguments)
    np.testing.assert_array_equal(identification_risk(people, [people, people], **arguments), plain)


def test_surveys_frames_and_pandas_give_the_same(people):
    files = [synthesized(people, seed) for seed in range(3)]
    arguments = {"known": ["sex", "age"], "target": "income"}
    plain = identification_risk(people, files, **arguments)
    surveys = identification_risk(Survey(people), [Survey(f) for f in files], **arguments)
    pandas = identification_risk(people.to_pandas(), [f.to_pandas() for f in files], **arguments)
    lazy = identification_risk(people.lazy(), [f.lazy() for f in files], **arguments)
    for other in (surveys, pandas, lazy):
        np.testing.assert_array_equal(other, plain)


def test_categories_compare_by_their_text(people):
    levels = pd.CategoricalDtype(["m", "f"])
    confidential = people.to_pandas().astype({"sex": levels})
    other_codes = people.to_pandas().astype({"sex": pd.CategoricalDtype(["f", "m"])})
    arguments = {"known": ["sex"], "target": "income"}
    risk = identification_risk(confidential, other_codes, **arguments)
    np.testing.assert_array_equal(risk, identification_risk(people, **arguments))


def test_integer_width_does_not_matter(people):
    synthetic = synthesized(people, 1)
    people, synthetic = (
        frame.with_columns(age=pl.when(pl.int_range(pl.len()) > 0).then("age"))
        for frame in (people, synthetic)
    )  # of the first record it is missing
    narrow = synthetic.with_columns(pl.col("age").cast(pl.Int8))
    arguments = {"known": ["sex", "age"], "target": "income"}
    np.testing.assert_array_equal(
        identification_risk(people, narrow, **arguments),
        identification_risk(people, synthetic, **arguments),
    )


def test_several_intruders_in_one_call(people):
    files = [synthesized(people, seed) for seed in range(2)]
    sets = [["sex"], ["sex", "age"], []]
    together = identification_risk(people, files, known=sets, target="income")
    assert list(together) == [("sex",), ("sex", "age"), ()]
    for names in sets:
        alone = identification_risk(people, files, known=names, target="income")
        np.testing.assert_array_equal(together[tuple(names)], alone)


def test_contribution_of_each_known_variable(people):
    files = [synthesized(people, seed) for seed in range(2)]
    table = known_contributions(people, files, known=["sex", "age"], target="income")
    with_both = identification_risk(people, files, known=["sex", "age"], target="income")
    only_age = identification_risk(people, files, known=["age"], target="income")
    row = table.row(by_predicate=pl.col("variable") == "sex", named=True)
    assert row["mean_with"] == with_both.mean()
    assert row["mean_without"] == only_age.mean()
    assert row["contribution"] == with_both.mean() - only_age.mean()
    assert row["share_raised"] == (with_both > only_age + 1e-12).mean()


def test_risk_follows_the_records_when_rows_are_shuffled(people):
    files = [synthesized(people, seed) for seed in range(2)]
    arguments = {"known": ["sex", "age"], "target": ["income", "wealth"], "by_id": "case"}
    plain = identification_risk(people, files, **arguments)
    order = np.random.default_rng(0).permutation(people.height)
    shuffled = identification_risk(people[order], [f[::-1] for f in files], **arguments)
    np.testing.assert_allclose(shuffled, plain[order], atol=1e-15)


def test_rectangles_agree_with_boxes_at_size():
    """Two targets by wavelet matrix against the blockwise count that three targets use."""
    from understudy.risk.boxes import box_holders, box_sums
    from understudy.risk.patterns import ball_edges, patterns_of
    from understudy.risk.rectangles import rectangle_holders, rectangle_sums

    rng = np.random.default_rng(3)
    points = np.round(rng.normal(0, 30, (2, 3000)))
    patterns = patterns_of(rng.integers(0, 5, 3000))
    lower, upper = ball_edges(points, 0.4)
    weights = rng.integers(0, 1000, 3000)
    arguments = (points, patterns, lower, upper, patterns.code)
    np.testing.assert_array_equal(rectangle_sums(*arguments), box_sums(*arguments))
    np.testing.assert_array_equal(
        rectangle_sums(*arguments, weights), box_sums(*arguments, weights)
    )
    np.testing.assert_array_equal(rectangle_holders(*arguments), box_holders(*arguments))


def test_blocks_of_boxes_do_not_change_the_counts(monkeypatch):
    from understudy.risk import boxes
    from understudy.risk.patterns import ball_edges, patterns_of

    rng = np.random.default_rng(4)
    points = np.round(rng.normal(0, 30, (3, 400)))
    patterns = patterns_of(rng.integers(0, 3, 400))
    lower, upper = ball_edges(points, 0.7)
    whole = boxes.box_sums(points, patterns, lower, upper, patterns.code)
    monkeypatch.setattr(boxes, "BLOCK", 500)
    parts = boxes.box_sums(points, patterns, lower, upper, patterns.code)
    np.testing.assert_array_equal(parts, whole)
    assert whole.max() > 1


@pytest.mark.parametrize("radius", [0, -0.2, np.nan, np.inf, "wide", [0.1, 0.2]])
def test_bad_radius_is_refused(people, radius):
    with pytest.raises(Refused, match="radi"):
        identification_risk(people, known=["sex"], target="income", radius=radius)


def test_unknown_names_are_refused_with_the_nearest(people):
    with pytest.raises(Refused, match="did you mean `income`"):
        identification_risk(people, known=["sex"], target="incme")
    with pytest.raises(Refused, match="did you mean `sex`"):
        identification_risk(people, known=["sexx"], target="income")
    with pytest.raises(Refused, match="did you mean `relative`"):
        identification_risk(people, known=["sex"], target="income", kind="relativ")
    renamed = people.rename({"income": "income2"})
    with pytest.raises(Refused, match="did you mean `income2`"):
        identification_risk(people, renamed, known=["sex"], target="income")


def test_rows_that_do_not_correspond_are_refused(people):
    arguments = {"known": ["sex", "age"], "target": "income"}
    with pytest.raises(Refused, match="data set 2 do not correspond by order"):
        identification_risk(people, [people, people[::-1]], **arguments)
    with pytest.raises(
        Refused, match=r"has 200 records and synthetic data set 1 has 199.*by order"
    ):
        identification_risk(people, people[:-1], **arguments)
    with pytest.raises(Refused, match=r"200 records .* 199; by id `case`"):
        identification_risk(people, people[:-1], **arguments, by_id="case")
    other = people.with_columns(pl.col("case") + 1)
    with pytest.raises(Refused, match="no row in synthetic data set 1 by id `case`"):
        identification_risk(people, other, **arguments, by_id="case")
    with pytest.raises(Refused, match="id `age` is missing or repeated"):
        identification_risk(people, people, known=["sex"], target="income", by_id="age")
    for age in (pl.lit("young"), pl.col("age") + 0.4):
        with pytest.raises(Refused, match="different types"):
            identification_risk(people, people.with_columns(age=age), **arguments)


def test_targets_that_make_no_sense_are_refused(people):
    constant = people.with_columns(income=pl.lit(7.0))
    with pytest.raises(Refused, match="`income` is the same for every record"):
        identification_risk(constant, known=["sex"], target="income")
    with pytest.raises(Refused, match="not numeric"):
        identification_risk(people, known=["age"], target="sex")
    with pytest.raises(Refused, match="both known and a target"):
        identification_risk(people, known=["age"], target="age")
    gap = people.with_columns(income=pl.when(pl.col("age") > 1).then("income"))
    with pytest.raises(Refused, match="missing or infinite"):
        identification_risk(gap, known=["sex"], target="income")
    with pytest.raises(Refused, match="missing or infinite"):
        identification_risk(
            people, people.with_columns(income=pl.lit(np.nan)), known=["sex"], target="income"
        )
    with pytest.raises(Refused, match="no records"):
        identification_risk(people[:0], known=["sex"], target="income")
    with pytest.raises(Refused, match="list of synthetic data sets is empty"):
        identification_risk(people, [], known=["sex"], target="income")
    with pytest.raises(Refused, match="given twice"):
        identification_risk(people, known=[["sex", "age"], ["age", "sex"]], target="income")
    with pytest.raises(Refused, match="named twice"):
        identification_risk(people, known=["sex", "sex"], target="income")
    with pytest.raises(Refused, match="at least one target"):
        identification_risk(people, known=["sex"], target=[])


def test_a_name_among_lists_of_names_is_refused():
    frame = pl.DataFrame({"g": [1, 1, 2], "h": [1, 2, 2], "y": [1.0, 2.0, 3.0]})
    with pytest.raises(Refused, match="Unknown column"):
        identification_risk(frame, known=["g", ["h"]], target="y")


def test_one_known_variable_needs_no_list():
    frame = pl.DataFrame({"g": [1, 1, 2, 2], "y": [1.0, 2.0, 3.0, 3.1]})
    alone = identification_risk(frame, known="g", target="y")
    np.testing.assert_array_equal(alone, identification_risk(frame, known=["g"], target="y"))
    assert alone.tolist() == [0.5, 0.5, 0.0, 0.0]
