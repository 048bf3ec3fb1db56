"""Attacks with a control set: copies are caught, fresh draws are not, and counts go by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.stats

from understudy.errors import Refused
from understudy.risk.attacks import Attack, _coded, _meeting, attack, wilson


def people(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    return pl.DataFrame(
        {
            "region": np.array(["n", "e", "s"])[kind],
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(16, 90, n),
            "income": np.round(np.exp(rng.normal(7 + 0.4 * kind, 0.8)), 1),
            "sick": [None if k == 0 else float(k) for k in rng.integers(0, 9, n)],
        }
    )


def by_name(attacks: list[Attack]) -> dict[str, Attack]:
    return {each.target or each.name: each for each in attacks}


def test_published_records_are_caught_by_every_attack() -> None:
    used, control = people(600, 1), people(600, 2)
    attacks = by_name(attack(used, control, used, np.random.default_rng(3), attempts=200))
    assert set(attacks) == {"singling out", "linkability", *used.columns}
    assert attacks["singling out"].successes == attacks["singling out"].attempts
    assert attacks["linkability"].limits[0] > 0.05
    for name in ("singling out", "income"):
        assert attacks[name].limits[0] > 0.3
    # a nearest record is the own one, so that every inference is right
    assert attacks["sex"].successes == attacks["sex"].attempts


def test_fresh_draws_of_the_same_law_give_nothing_away() -> None:
    """Of 28 intervals one in 40 lies above 0 by chance."""
    above, advantages = 0, []
    for seed in range(4):
        used, control, fresh = (people(400, 10 * seed + k) for k in range(3))
        advantages = attack(used, control, fresh, np.random.default_rng(seed), attempts=150)
        above += sum(each.limits[0] > 0 for each in advantages)
    assert above <= 4
    # what is true of everyone is no risk
    assert by_name(advantages)["sex"].control_rate > 0.3


def test_conditions_by_hand() -> None:
    frame = pl.DataFrame({"c": ["a", "a", "b"], "x": [1.0, 5.0, None]})
    (table,) = _coded([frame])
    middle = np.array([np.nan, 0.5])
    columns = np.array([0, 1])
    assert _meeting(table, np.array([1.0, 0.0]), columns, middle) == 1  # c = a and x <= 1
    assert _meeting(table, np.array([1.0, 0.5]), columns, middle) == 1  # c = a and x <= 3
    assert _meeting(table, np.array([1.0, 1.0]), np.array([0]), middle) == 2
    assert _meeting(table, np.array([2.0, -1.0]), columns, middle) == 1  # c = b and x missing


def test_nearest_is_gowers_distance_by_brute_force() -> None:
    a, b = people(20, 8), people(30, 9)
    first, second = _coded([a, b])
    span = [float(pl.concat([a[c], b[c]]).max()) - float(pl.concat([a[c], b[c]]).min())
            for c in ("age", "income", "sick")]  # fmt: skip
    wanted = []
    for mine in a.iter_rows():
        apart = []
        for theirs in b.iter_rows():
            total = float(mine[0] != theirs[0]) + (mine[1] != theirs[1])
            for (x, y), width in zip(zip(mine[2:], theirs[2:], strict=True), span, strict=True):
                if x is None or y is None:
                    total += x is not y
                else:
                    total += abs(x - y) / width
            apart.append(total)
        wanted.append(int(np.argmin(apart)))
    assert second.nearest(first.values, np.arange(5), 1)[:, 0].tolist() == wanted
    each = second.nearest_without_each(first.values)
    for j in range(5):
        others = np.delete(np.arange(5), j)
        assert each[j].tolist() == second.nearest(first.values, others, 1)[:, 0].tolist()


def test_ties_are_not_broken_by_rounding() -> None:
    """Records that differ in the guessed column alone are equally near; the first one counts."""
    made = pl.DataFrame({"x": np.linspace(0, 1, 40), "y": [0.3] * 40, "z": [0.9] * 40})
    wanted = pl.DataFrame({"x": [0.77], "y": [0.0], "z": [0.1]})
    others, table = _coded([wanted, made])
    assert table.nearest_without_each(others.values)[0].tolist() == [0]


def test_amounts_are_shares_of_their_range_and_categories_codes() -> None:
    frame = pl.DataFrame({"x": [10.0, 20.0, None, 50.0], "g": ["b", "a", "b", None]})
    (table,) = _coded([frame])
    assert table.values.tolist() == [[0.0, 3.0], [0.25, 2.0], [-1.0, 3.0], [1.0, 1.0]]


def test_a_guess_is_right_within_a_twentieth() -> None:
    guesses = pl.DataFrame({"x": [105.0, 95.0, 105.5, None, None, 7.0], "g": [*"aab", *"aab"]})
    truths = pl.DataFrame({"x": [100.0, 100.0, 100.0, None, 7.0, None], "g": [*"aba", *"aba"]})
    made, other = _coded([guesses, truths])
    rows = np.arange(6)
    assert made.agree(rows, other, rows, 0).tolist() == [True, True, False, True, False, False]
    assert made.agree(rows, other, rows, 1).tolist() == [True, False, False] * 2


@pytest.mark.parametrize(("third", "links"), [(0.45, 0), (0.15, 4)])
def test_a_link_is_one_of_three_nearest_records_in_both_halves(third: float, links: int) -> None:
    """Of a person at (0, 0) the record at (.15, `third`) is third by x, and by y fourth or third;
    the others are near by one column and far by the other."""
    made = pl.DataFrame(
        {
            "x": [0.05, 0.1, 0.15, 0.2, 0.7, 0.8, 0.9, 1.0],
            "y": [0.7, 0.8, third, 1.0, 0.05, 0.1, 0.2, 0.6],
        }
    )
    person = pl.DataFrame({"x": [0.0] * 4, "y": [0.0] * 4})
    attacks = by_name(attack(person, person, made, np.random.default_rng(1)))
    assert attacks["linkability"].successes == links
    assert attacks["linkability"].attempts == 4


def test_a_column_that_is_wholly_missing_is_no_obstacle() -> None:
    empty = people(30, 5).with_columns(income=pl.lit(None, pl.Float64)).select("sex", "income")
    attacks = by_name(attack(empty, empty, empty, np.random.default_rng(1), attempts=5))
    assert attacks["income"].successes == 5


def test_wilson_and_the_risk() -> None:
    centre, half = wilson(30, 100)
    known = scipy.stats.binomtest(30, 100).proportion_ci(method="wilson")
    assert (centre - half, centre + half) == pytest.approx((known.low, known.high))
    each = Attack("linkability", "", 100, 60, 100, 20)
    p, c = wilson(60, 100)[0], wilson(20, 100)[0]
    assert each.risk == pytest.approx((p - c) / (1 - c))
    # the interval against simulated shares, drawn normally around the centres
    rng = np.random.default_rng(1)
    sides = [
        rng.normal(centre, half / 1.96, 200_000)
        for centre, half in (wilson(60, 100), wilson(20, 100))
    ]
    simulated = np.quantile((sides[0] - sides[1]) / (1 - sides[1]), [0.025, 0.975])
    assert each.limits == pytest.approx(simulated, abs=0.01)
    assert Attack("x", "", 50, 0, 50, 10).limits[0] == 0.0


def test_refusals() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(Refused, match="equally many"):
        attack(people(10, 1), people(11, 1), people(5, 1), rng)
    narrow = people(10, 1).select("age")
    with pytest.raises(Refused, match="two columns"):
        attack(narrow, narrow, narrow, rng)
