"""The measured quality of a whole file: what it says, what it costs, and what the page tells."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.dp.choice import UNITS
from understudy.errors import Refused
from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.mechanisms.whole_file.noisy_file import from_draws
from understudy.mechanisms.whole_file.quality import measured_quality
from understudy.report.noise_quality import _measured
from understudy.survey.codebook import Codebook, Column
from understudy.tables.coded_records import CodedRecords

SIZES = (2, 3, 4, 3)


@pytest.fixture(autouse=True)
def small_pool(monkeypatch):
    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.POOL", 10_000)
    monkeypatch.setattr("understudy.mechanisms.whole_file.measure.SMALL_POOL", 5_000)


def records(n: int, seed: int) -> CodedRecords:
    rng = np.random.default_rng(seed)
    return CodedRecords(tuple(rng.integers(0, size, n).astype(np.uint8) for size in SIZES), SIZES)


class Expected:
    """A fit whose tables are those of other records."""

    def __init__(self, other: CodedRecords, total: float) -> None:
        self.other, self.total = other, total

    def expected(self, names):
        return self.total * self.other.count([names])[0] / self.other.n


def survey(n: int) -> us.Survey:
    rng = np.random.default_rng(2)
    a = rng.integers(0, 3, n)
    frame = pl.DataFrame({"a": a, "b": (a + rng.integers(0, 2, n)) % 3, "c": rng.integers(0, 2, n)})
    columns = {
        name: Column(name, "sensitive", "categorical", levels=(0, 1, 2), blanks=False)
        for name in frame.columns
    }
    return us.Survey(frame, codebook=Codebook(columns))


def budget(epsilon: int) -> TableBudget:
    return TableBudget(Fraction(epsilon), "epsilon")


@pytest.mark.usefixtures("stand_in_noise")
def test_without_noise_it_is_the_mean_total_variation():
    """Against NumPy's histograms of all tables of one, two and three columns."""
    mine, other = records(500, 1), records(400, 2)
    measured = measured_quality(
        mine, Expected(other, 500.0), (0, 1, 2, 3), budget(10**9), Fraction(1)
    )
    assert [(each.columns, each.tables) for each in measured] == [(1, 4), (2, 6), (3, 4)]
    for each in measured:
        apart = []
        for names in combinations(range(4), each.columns):
            ours, theirs = (
                np.histogramdd(
                    np.column_stack([coded.codes[j] for j in names]),
                    bins=[np.arange(SIZES[j] + 1) - 0.5 for j in names],
                )[0]
                / coded.n
                for coded in (mine, other)
            )
            apart.append(np.abs(ours - theirs).sum() / 2)
        assert each.distance == pytest.approx(np.mean(apart), abs=2e-3)  # units of 1/64 of a record
        assert each.error < 1e-6


def test_a_record_moves_each_figure_by_its_sensitivity_at_most(monkeypatch):
    """Brute force: records are taken away one by one; the noise is for a unit a table."""
    asked = []

    def listed(_, numbers, moved, share):
        asked.append((int(numbers[0]), list(moved), share))
        return numbers, 0.0

    monkeypatch.setattr(TableBudget, "noisy_numbers", listed)
    mine, fit = records(60, 3), Expected(records(50, 4), 60.0)
    measured_quality(mine, fit, (0, 1, 2, 3), budget(1), Fraction(1, 5))
    before, asked = asked, []
    assert sum(share for _, _, share in before) == Fraction(1, 5)
    assert [moved for _, moved, _ in before] == [[UNITS * 4], [UNITS * 6], [UNITS * 4]]
    furthest = 0.0
    for record in range(0, 60, 5):
        left = replace(mine, codes=tuple(np.delete(codes, record) for codes in mine.codes))
        asked.clear()
        measured_quality(left, fit, (0, 1, 2, 3), budget(1), Fraction(1, 5))
        for (old, (moved,), _), (new, _, _) in zip(before, asked, strict=True):
            assert abs(new - old) <= moved
            furthest = max(furthest, abs(new - old) / moved)
    assert furthest > 0.9


@pytest.mark.usefixtures("stand_in_noise")
def test_tables_of_public_columns_are_left_out():
    mine = records(100, 5)
    measured = measured_quality(mine, Expected(mine, 100.0), (3,), budget(10**9), Fraction(1))
    assert [(each.columns, each.tables) for each in measured] == [(1, 1), (2, 3), (3, 3)]


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_its_share_is_part_of_the_budget(spent, delta):
    """With and without it all calls of noise add up to the same."""
    totals = []
    for quality in (0.0, 0.25):
        spent.clear()
        mechanism = us.Marginals(1.0, delta, quality=quality)
        result = us.synthesize(survey(300), us.WholeFile(), mechanism, datasets=2, seed=1)
        totals.append(sum(spent))
        assert bool(from_draws(result.draws).quality) == bool(quality)
        assert (result.claim.epsilon, result.claim.delta) == (1.0, delta)
    assert totals[0] == totals[1]
    assert totals[0] <= mechanism.budget().total


def test_the_page_and_the_forecast_say_it():
    measured = {"columns": 2, "tables": 276, "distance": 0.0213, "error": 0.0004}
    assert "0.021 (276 tables of two columns; standard error 0.0004)" in _measured([measured])
    assert _measured([]) == ""
    data = survey(300)
    model = us.WholeFile().for_survey(data)
    assert (
        us.Marginals(1.0, quality=0.05).forecast(model, data, 1)[-1].startswith("5% of the budget")
    )


@pytest.mark.parametrize("quality", [-0.1, 0.6, True, "much"])
def test_only_a_share_may_be_given(quality):
    with pytest.raises(Refused, match="between 0 and"):
        us.Marginals(1.0, quality=quality)
    with pytest.raises(Refused, match="WholeFile"):
        us.synthesize(survey(50), us.Multinomial(["a"]), us.Marginals(1.0, quality=0.1), seed=1)
