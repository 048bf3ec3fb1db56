"""Mixed data: numbers follow the synthetic categories, and the claim is the sum of its parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import chance
from understudy.chance import Chance
from understudy.errors import Refused
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.modips import Modips
from understudy.mechanisms.outputs.mixed_draws import _with_numbers
from understudy.mechanisms.unweighted import Unweighted
from understudy.models.beta_regression import BetaRegression
from understudy.models.multinomial import Multinomial
from understudy.release.mixed import Given, synthesize_mixed
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey

MODEL = Multinomial(["group", "sex"])
SHARE = BetaRegression("share", "group", bounds=(0.0, 100.0))


def survey(n=250) -> Survey:
    rng = np.random.default_rng(1)
    group = rng.choice(["low", "high"], n, p=[0.7, 0.3])
    share = 100 * np.where(group == "low", rng.beta(2, 8, n), rng.beta(8, 2, n))
    frame = pl.DataFrame({"group": group, "sex": rng.integers(1, 3, n), "share": share})
    columns = {
        "group": Column("group", "sensitive", "categorical", levels=("low", "high")),
        "sex": Column("sex", "sensitive", "categorical", levels=(1, 2)),
        "share": Column("share", "sensitive", "continuous", bounds=(0.0, 100.0)),
    }
    return Survey(frame, codebook=Codebook(columns))


@pytest.fixture(scope="module")
def result():
    outcomes = [Given(SHARE, Censored(6.0, weighted=False))]
    mechanism = Modips(4.0, "public", "replace")
    with chance.seeded_noise():
        return synthesize_mixed(
            survey(), MODEL, mechanism, outcomes, 2, 1, draws=1000, progress=False
        )


def test_numbers_follow_the_synthetic_categories(result):
    for dataset in result.datasets:
        frame = dataset.frame()
        assert frame.columns == ["group", "sex", "share"]
        assert frame.height == 250
        means = dict(frame.group_by("group").agg(pl.col("share").mean()).iter_rows())
        # Beta(2, 8) has mean .2; draws of the clipped posterior and 75 records are off by several
        assert means["low"] == pytest.approx(20, abs=15)
        assert means["high"] == pytest.approx(80, abs=15)
        assert dataset.codebook["share"].role == "sensitive"


def test_every_value_is_synthetic(result):
    shares = set(survey().frame()["share"])
    for dataset in result.datasets:
        assert not shares & set(dataset.frame()["share"])


def test_the_claim_is_composed(result):
    """MODIPS 4 under replace, censored posterior 6 under blank: 12 under replace."""
    assert result.claim.kind == "formal"
    assert result.claim.relation == "replace"
    assert result.claim.epsilon == pytest.approx(4 + 12)
    assert not any("published as they are" in text for text in result.claim.conditions)
    assert any("number of records" in text for text in result.claim.conditions)
    assert result.categories.claim.epsilon == 4
    assert [part.claim.epsilon for part in result.regressions] == [6]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"given": []}, "list of Given"),
        ({"categories": "group"}, "Multinomial"),
        ({"survey": 3}, "Survey"),
        (
            {"given": [Given(BetaRegression("sex", "group", bounds=(0.0, 3.0)), Unweighted())]},
            "synthesized twice",
        ),
        ({"survey": Survey(survey().frame())}, "not declared"),
    ],
)
def test_refusals(change, text):
    arguments = {
        "survey": survey(),
        "categories": MODEL,
        "mechanism": Unweighted(),
        "given": [Given(SHARE, Unweighted())],
    }
    with pytest.raises(Refused, match=text):
        synthesize_mixed(**(arguments | change))


class Captured:
    """An output that gives the stand-ins back, and remembers what a regression was given."""

    def __init__(self) -> None:
        self.given_rows: list[dict[str, np.ndarray]] = []

    def arrays(self, dataset, model, arrays, codebook, chance):  # noqa: ARG002
        self.given_rows.append({k: np.asarray(v) for k, v in arrays.items() if np.ndim(v)})
        return {name: arrays[name] for name in model.targets}


def test_a_row_is_coded_alike_whatever_rows_are_beside_it(result):
    """By declared levels: centred or scaled by the rows that were drawn, all would follow any."""
    frame = result.datasets[0].frame().sort("group", "sex")
    few, step = frame.head(3), Captured()
    assert few["group"].n_unique() < frame["group"].n_unique()
    ground = replace(result.ground, codings=())  # as the outside has it
    _with_numbers(step, 0, [frame, few], ground, Chance(bytes(32), "system"))
    whole, alone = step.given_rows
    assert alone
    for name, values in alone.items():
        np.testing.assert_array_equal(whole[name][:3], values, err_msg=name)
