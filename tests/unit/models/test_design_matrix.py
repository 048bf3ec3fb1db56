"""The design matrix: levels of the codebook, public standardisation, the same for a reference."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.interpolate import BSpline, CubicSpline

from understudy.errors import Refused
from understudy.models.design_matrix import design_matrix
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey

CODEBOOK = Codebook(
    {
        "field": Column("field", type="categorical", levels=("a", "b", "c")),
        "age": Column("age", type="categorical", levels=(1, 2)),
        "weeks": Column("weeks"),
        "y": Column("y", role="sensitive"),
    }
)


def survey_of(field: list[str], weeks: list[float], age: list[int] | None = None) -> Survey:
    n = len(field)
    frame = {"field": field, "age": age or [1, 2] * (n // 2), "weeks": weeks, "y": [0.5] * n}
    return Survey(pl.DataFrame(frame), codebook=CODEBOOK)


def test_columns_follow_declared_levels_and_public_scale() -> None:
    survey = survey_of(["a", "c", "c", "a"], [10.0, 20.0, 30.0, 40.0])
    matrix = design_matrix(survey, "field + age + weeks", ["y"])
    scaled = (np.array([10, 20, 30, 40]) - 25) / np.std([10, 20, 30, 40])
    expected = np.column_stack([np.ones(4), [0] * 4, [0, 1, 1, 0], [0, 1, 0, 1], scaled])
    columns = {tuple(np.round(c, 12)) for c in matrix.T}  # formulaic decides about the order
    assert columns == {tuple(np.round(c, 12)) for c in expected.T}
    np.testing.assert_array_equal(matrix[:, 0], 1.0)


def test_a_reference_is_coded_like_the_confidential_survey() -> None:
    survey = survey_of(["a", "b", "c", "a"], [10.0, 20.0, 30.0, 40.0])
    reference = survey_of(["c", "c"], [25.0, 25.0])
    matrix = design_matrix(reference, "field + weeks", ["y"], like=survey)
    np.testing.assert_allclose(matrix, [[1, 0, 1, 0], [1, 0, 1, 0]], atol=1e-12)


def test_an_intercept_alone_is_a_formula() -> None:
    survey = survey_of(["a", "b", "c", "a"], [10.0, 20.0, 30.0, 40.0])
    np.testing.assert_array_equal(design_matrix(survey, "1", ["y"]), np.ones((4, 1)))
    reference = survey_of(["c", "c"], [25.0, 25.0])
    matrix = design_matrix(reference, "1", ["y"], like=survey)
    np.testing.assert_array_equal(matrix, np.ones((2, 1)))


def test_unknown_levels_of_a_reference_are_refused() -> None:
    survey = survey_of(["a", "b", "c", "a"], [10.0, 20.0, 30.0, 40.0])
    frame = survey.frame().with_columns(field=pl.lit("z"))
    with pytest.raises(Refused, match="both surveys need the same levels"):
        design_matrix(Survey(frame), "field", ["y"], like=survey)
    with pytest.raises(Refused, match="both surveys need the same levels"):
        design_matrix(survey_of(["a", "a"], [10.0, 77.0]), "C(weeks)", ["y"], like=survey)


def test_bad_formulas_are_refused_in_one_sentence() -> None:
    survey = survey_of(["a", "b", "c", "a"], [10.0, 20.0, 30.0, 40.0])
    for formula, reason in {
        "": "right-hand side",
        "y ~ weeks": "right-hand side",
        "weeks +": "not a formula|cannot be evaluated",
        "wekks": "did you mean `weeks`",
        "y": "is sensitive",
        "0 + weeks": "intercept",
        "field + I(weeks * 0 + 2)": "constant",
    }.items():
        with pytest.raises(Refused, match=reason):
            design_matrix(survey, formula, ["y"])


def test_missing_predictors_are_refused() -> None:
    survey = survey_of(["a", "b"], [1.0, 2.0])
    holes = Survey(survey.frame().with_columns(weeks=pl.Series([1.0, None])), codebook=CODEBOOK)
    with pytest.raises(Refused, match="missing values"):
        design_matrix(holes, "weeks", ["y"])


AGES = np.linspace(16.0, 90.0, 75)
KNOTS = [30.0, 50.0, 65.0]
NATURAL = "cr(weeks, knots=[30, 50, 65])"


def test_b_splines_are_scipys_and_a_reference_has_the_same_knots() -> None:
    survey = survey_of(["a"] * 75, list(AGES), [1] * 75)
    written = f"bs(weeks, knots={KNOTS}, lower_bound=10, upper_bound=95)"
    ours = design_matrix(survey, written, ["y"])
    ends = [10.0] * 4 + KNOTS + [95.0] * 4
    theirs = BSpline.design_matrix(AGES, np.array(ends), 3).toarray()[:, 1:]
    scaled = (theirs - theirs.mean(axis=0)) / theirs.std(axis=0)
    np.testing.assert_allclose(ours, np.column_stack([np.ones(75), scaled]), atol=1e-10)
    part = survey_of(["a"] * 20, list(AGES[30:50]), [1] * 20)
    np.testing.assert_allclose(design_matrix(part, written, ["y"], survey), ours[30:50], atol=1e-10)
    beyond = survey_of(["a"] * 2, [40.0, 96.0], [1] * 2)
    with pytest.raises(Refused, match=r"cannot be evaluated.*bounds"):
        design_matrix(beyond, written, ["y"], survey)


def test_natural_splines_are_centred_and_hold_scipys() -> None:
    survey = survey_of(["a"] * 75, list(AGES), [1] * 75)
    with pytest.raises(Refused) as refused:
        design_matrix(survey, NATURAL, ["y"])
    offered = str(refused.value).split("`")[3]  # what it says to write instead
    ours = design_matrix(survey, offered, ["y"])
    assert np.linalg.matrix_rank(ours) == ours.shape[1] == 5
    through = CubicSpline([16, *KNOTS, 90], [1.0, -2.0, 0.5, 3.0, 1.0], bc_type="natural")(AGES)
    fitted = ours @ np.linalg.lstsq(ours, through, rcond=None)[0]
    np.testing.assert_allclose(fitted, through, atol=1e-9)
