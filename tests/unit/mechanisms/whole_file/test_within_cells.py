"""Fine cells in the order of scores: against normal columns, SciPy's truncated normal law and
NumPy's least squares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import truncnorm

from understudy.mechanisms.whole_file import within_cells
from understudy.mechanisms.whole_file.within_cells import (
    ScoreLaw,
    fine_codes,
    score_laws,
    scores_within,
)


@pytest.mark.parametrize("weighted", [False, True])
def test_fine_cells_have_their_shares_to_one_record(weighted: bool) -> None:
    rng = np.random.default_rng(2)
    mapped = np.array([0, 0, 0, 1, 1], dtype=np.int32)
    coarse = np.array([[0]] * 600 + [[1]] * 101, dtype=np.int32)
    shares = [np.array([0.5, 0.3, 0.2, 0.75, 0.25])]
    weights = rng.uniform(0.5, 1, 701) if weighted else None
    for scores in (None, {0: rng.normal(size=701)}):
        (codes,) = fine_codes(coarse, shares, [mapped], rng, scores, weights)
        counts = np.bincount(codes, weights, minlength=5)
        sums = np.bincount(coarse[:, 0], weights)
        assert np.abs(counts - sums[mapped] * shares[0]).max() <= 1
        assert (mapped[codes] == coarse[:, 0]).all()


def test_fine_cells_rise_with_the_scores() -> None:
    rng = np.random.default_rng(3)
    coarse, scores = np.zeros((50, 1), dtype=np.int32), rng.normal(size=50)
    share, mapped = np.full(5, 0.2), np.zeros(5, dtype=np.int32)
    (codes,) = fine_codes(coarse, [share], [mapped], rng, {0: scores})
    assert (np.diff(codes[np.argsort(scores)]) >= 0).all()
    assert len(set(codes)) == 5


def test_normal_columns_depend_on_each_other_within_coarse_cells_as_between_them() -> None:
    """A column in four cells, beside two others, all normal: the mean score in a cell and a part
    of the others is that of the records that the cells were made of."""
    rng = np.random.default_rng(4)
    n = 60_000
    x = rng.normal(size=(2, n))
    z = 0.6 * x[0] + 0.5 * x[1] + np.sqrt(1 - 0.61) * rng.normal(size=n)
    limits = np.array([-0.8, 0.2, 1.0])
    others = [np.digitize(each, np.linspace(-2, 2, 15)) for each in x]
    coarse = np.column_stack([np.digitize(z, limits), *others]).astype(np.int32)
    tables = [(0, 1), (0, 2)]
    drawn = scores_within(coarse, np.ones(n), tables, {0: 4}, rng)[0]
    edges = np.array([-np.inf, *limits, np.inf])
    for cell in range(4):
        inside = coarse[:, 0] == cell
        assert ((edges[cell] - 0.05 < drawn) & (drawn < edges[cell + 1] + 0.05))[inside].all()
        low, high = (inside & part for part in (x[0] + x[1] < -0.8, x[0] + x[1] > 0.8))
        true = z[high].mean() - z[low].mean()
        error = 4 * np.hypot(z[high].std() / high.sum() ** 0.5, z[low].std() / low.sum() ** 0.5)
        assert drawn[high].mean() - drawn[low].mean() == pytest.approx(true, abs=error + 0.1 * true)
        assert true > 2 * (error + 0.1 * true)  # drawn at random they would not differ


def test_other_columns_explain_at_most_a_part_of_a_score() -> None:
    """By hand, where another column has the same cells: its effects are the cells' mean scores."""
    cell = np.array([0, 0, 1, 1, 1, 2], dtype=np.int32)
    weights = np.array([1.0, 2.0, 1.0, 1.0, 1.0, 3.0])
    law = score_laws(np.column_stack([cell, cell]), weights, [(0, 1)], {0: 3})[0]
    middle = within_cells._intervals(np.array([3.0, 3.0, 3.0]))[2]
    assert np.average(law.mean**2, weights=weights) == pytest.approx(0.95)
    assert law.mean == pytest.approx(middle[cell] * np.sqrt(0.95 / np.mean(middle**2)))
    assert np.abs(law.deviation) == pytest.approx(np.sqrt(0.05))


def test_columns_order_a_number_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the file, whatever the order of the tables: a seed says what is drawn."""
    seen = []
    nothing = [np.zeros(2)] * 3

    def law(*asked: object) -> tuple[object, ...]:
        seen.append(asked[1:])
        return (*nothing, 1.0)

    monkeypatch.setattr(within_cells, "_law", law)
    coarse = np.tile(np.arange(65, dtype=np.int32), (2, 1))
    tables = [(64, 3), (3, 33), (1, 3), (4, 5)]
    scores_within(coarse, np.ones(2), tables, {3: 4}, np.random.default_rng(1))
    assert seen == [(3, [1, 33, 64], 4)]


def test_columns_that_no_table_ties_to_a_number_do_not_order_it() -> None:
    rng = np.random.default_rng(5)
    z = rng.normal(size=20_000)
    coarse = np.column_stack([z > 0, np.digitize(z, [-1, 1])]).astype(np.int32)
    drawn = scores_within(coarse, np.ones(z.size), [(1, 2)], {0: 2}, rng)[0]
    for cell in (0, 1):
        inside = coarse[:, 0] == cell
        means = [drawn[inside & (coarse[:, 1] == other)].mean() for other in (1, 2 * cell)]
        assert abs(means[0] - means[1]) < 5 * np.sqrt(0.37 * 2 / 3_000)


def test_records_off_the_scale_have_no_score() -> None:
    coarse = np.array([[0, 0], [1, 1], [2, 0], [0, 1]], dtype=np.int32)
    rng = np.random.default_rng(6)
    drawn = scores_within(coarse, np.ones(4), [(0, 1)], {0: 2}, rng)[0]
    assert np.isnan(drawn).tolist() == [False, False, True, False]
    nobody = scores_within(coarse[2:3], np.ones(1), [(0, 1)], {0: 2}, rng)[0]
    assert np.isnan(nobody).all()


@pytest.mark.parametrize("interval", [(-np.inf, -1.0), (-0.5, 0.4), (2.0, np.inf), (6.0, 9.0)])
def test_scores_between_limits_have_the_truncated_normal_law(interval: tuple[float, float]) -> None:
    size, mean, deviation = 20_000, 0.3, 0.7
    low, high, mu = (np.full(size, value) for value in (*interval, mean))
    rows = np.arange(size)
    drawn = ScoreLaw.between(rows, low, high, mu, deviation).drawn(rows, np.random.default_rng(7))
    law = truncnorm(*((limit - mean) / deviation for limit in interval), loc=mean, scale=deviation)
    assert (drawn >= interval[0]).all()
    assert (drawn <= interval[1]).all()
    assert drawn.mean() == pytest.approx(law.mean(), abs=5 * law.std() / size**0.5)
    assert drawn.std() == pytest.approx(law.std(), rel=0.05)


def test_scores_far_beyond_what_is_likely_stay_between_their_limits() -> None:
    low, high = np.array([40.0, -45.0]), np.array([41.0, -44.0])
    rows = np.arange(2)
    law = ScoreLaw.between(rows, low, high, np.zeros(2), 1.0)
    drawn = law.drawn(rows, np.random.default_rng(8))
    assert (drawn >= low).all()
    assert (drawn <= high).all()


def test_effects_are_those_of_least_squares() -> None:
    """Of a column's scores on the other columns, by the records one by one."""
    rng = np.random.default_rng(9)
    codes = [rng.integers(0, k, 400).astype(np.int32) for k in (3, 4, 2, 1)]
    codes.append(((codes[0] + codes[2] + rng.integers(0, 2, 400)) % 4).astype(np.int32))
    weights, middle = rng.uniform(0.2, 2, 400), np.array([-1.2, -0.3, 0.4, 1.5])
    dummies = np.column_stack([each == k for each in codes[:4] for k in range(each.max() + 1)])
    root = np.sqrt(weights)
    response = middle[codes[4]]
    effects = np.linalg.lstsq(dummies * root[:, None], response * root, rcond=None)[0]
    rows = within_cells._Rows(codes, weights)
    explained = within_cells._explained(middle, rows, 4, range(4))
    assert explained == pytest.approx(dummies @ effects, abs=5e-3)
    assert np.ptp(explained) > 0.2
    alone = within_cells._explained(middle, rows, 4, ())
    assert alone == pytest.approx(np.full(400, np.average(response, weights=weights)))


def test_laws_of_several_columns_are_those_of_each_by_itself() -> None:
    """Columns whose records are all on their scale share tables; one with others has its own."""
    rng = np.random.default_rng(10)
    coarse = rng.integers(0, 4, (200, 4)).astype(np.int32)
    tables = [(0, 1), (0, 2), (1, 2), (2, 3), (1, 3)]
    weights = rng.uniform(0.2, 2, 200)
    together = score_laws(coarse, weights, tables, {0: 4, 1: 3, 2: 4})
    for column, cells in ((0, 4), (1, 3), (2, 4)):
        alone = score_laws(coarse, weights, tables, {column: cells})[column]
        assert (together[column].position == alone.position).all()
        for fact in ("below", "above", "first", "width", "mean", "deviation"):
            assert getattr(together[column], fact) == pytest.approx(getattr(alone, fact))
        inside = coarse[:, column] < cells
        left = score_laws(coarse[inside], weights[inside], tables, {column: cells})[column]
        assert together[column].mean == pytest.approx(left.mean)


def test_cells_begin_and_end_where_the_normal_distribution_reaches_their_shares() -> None:
    low, high, mean = within_cells._intervals(np.array([20.0, 0.0, 50.0, 30.0]))
    assert low == pytest.approx([-np.inf, -0.8416212, -0.8416212, 0.5244005])
    assert high == pytest.approx([-0.8416212, -0.8416212, 0.5244005, np.inf])
    assert mean[[0, 2, 3]] == pytest.approx(
        [truncnorm(low[k], high[k]).mean() for k in (0, 2, 3)], rel=1e-6
    )
