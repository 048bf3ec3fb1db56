"""`--dry-run` says which mechanism suits, from the number of records and declarations alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import understudy as us
from understudy.release.forecast import forecast
from understudy.release.inside import prepare
from understudy.release.model_advice import EQUAL, model_advice, noise_of_cells
from understudy.release.recipe import read_recipe
from understudy.survey.codebook_text import codebook_to_toml

MODEL = us.FBS("salary", "field + gender")


def survey_of(records: int, **facts: object) -> us.Survey:
    survey = us.doctorates(records, seed=2)
    return us.Survey(survey.frame(), survey.design, replace(survey.codebook, **facts))  # type: ignore[arg-type]


def said(records: int, epsilon: float, model: us.Model = MODEL, **facts: object) -> str:
    (sentence,) = model_advice(model, us.NoisyMoments(epsilon), survey_of(records, **facts))
    return sentence


def test_noise_is_as_large_as_sampling_where_the_rule_says() -> None:
    """16 cells of 81 records: 18 over epsilon times nine."""
    assert noise_of_cells(16 * 81, 16, 2.0) == pytest.approx(1.0)
    assert noise_of_cells(16 * 81, 16, 1.0) == pytest.approx(2.0)
    assert noise_of_cells(16 * 324, 16, 1.0) == pytest.approx(1.0)
    assert noise_of_cells(16 * 324, 16, 1.0, per_unit=3) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        (10.0, "about 0.2 of its sampling error: take it, with five files"),
        (2.0, "about 1 of its sampling error: take ReferenceCensored if there is a past file"),
        (0.5, "about 5 of its sampling error: too much; take ReferenceCensored with a past file"),
    ],
)
def test_what_is_advised_goes_by_noise(epsilon: float, words: str) -> None:
    """16 cells of 62.5 records."""
    sentence = said(1000, epsilon)
    assert words in sentence
    assert "with 16 declared cells" in sentence


def test_the_epsilon_that_is_named_would_do() -> None:
    enough = float(said(1000, 0.5).rsplit("epsilon ", 1)[1].rstrip("."))
    assert noise_of_cells(1000, 16, enough) == pytest.approx(1.5, rel=0.05)
    assert EQUAL / (enough * 62.5**0.5) == pytest.approx(1.5, rel=0.05)


def test_households_have_the_noise_of_all_their_records() -> None:
    assert "about 1 of" in said(1000, 6.0, records_per_unit=3)
    assert "about 0.4 of" in said(1000, 6.0)


def test_advice_reads_no_confidential_value() -> None:
    survey = survey_of(1000)
    other = survey.frame().with_columns(salary=pl.lit(50_000.0) + pl.int_range(pl.len()))
    changed = us.Survey(other, survey.design, survey.codebook)
    mechanism = us.NoisyMoments(2.0)
    assert model_advice(MODEL, mechanism, changed) == model_advice(MODEL, mechanism, survey)


def test_what_the_rule_does_not_know_has_other_words_or_none() -> None:
    survey = survey_of(1000)
    mixture = us.Mixture("salary", "gender", 3, "prior", typical=70_000.0)
    assert "a mixture with an epsilon takes hours" in said(1000, 1.0, mixture)
    age = us.Survey(
        survey.frame().with_columns(age=pl.int_range(pl.len()) % 50),
        survey.design,
        survey.codebook.with_column(us.Column("age", "public", "integer")),
    )
    (sentence,) = model_advice(us.FBS("salary", "age"), us.NoisyMoments(1.0), age)
    assert "needs categorical predictors" in sentence
    assert model_advice(MODEL, us.Unweighted(), survey) == []
    beta = us.Beta("salary", bounds=(1.0, 5e6))
    assert model_advice(beta, us.NoisyMoments(1.0), survey) == []
    assert model_advice(us.WholeFile(), us.Marginals(1.0), survey) == []


def test_a_dry_run_gives_the_advice(tmp_path: Path) -> None:
    survey = us.doctorates(1000, seed=2)
    survey.frame().write_csv(tmp_path / "file.csv")
    (tmp_path / "codebook.toml").write_text(codebook_to_toml(survey.codebook), encoding="utf-8")
    recipe = tmp_path / "release.toml"
    recipe.write_text(
        """
[data]
path = "file.csv"
codebook = "codebook.toml"
[design]
weight = "weight"
[synthesis]
model = "FBS"
sensitive = "salary"
predictors = "field + gender"
[privacy]
mechanism = "NoisyMoments"
epsilon = 2
clip = [[13000, 480000], [20, 400]]
[tables]
statistics = ["mean(salary)"]
by = ["gender"]
""",
        encoding="utf-8",
    )
    lines = forecast(prepare(read_recipe(recipe)))
    assert len([line for line in lines if line.startswith("Advice: at epsilon 2")]) == 1
