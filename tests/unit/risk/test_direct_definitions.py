"""Risk and weights against R's equations written out as loops over records and pairs."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.risk.boxes import box_sums
from understudy.risk.identification import identification_risk
from understudy.risk.patterns import patterns_of
from understudy.risk.rectangles import rectangle_sums
from understudy.risk.weights import (
    marginal_weights,
    pairwise_weights,
    q_way_weights,
    risk_weights,
)


def ball(y, r, kind):
    half = r * abs(y) if kind == "relative" else r
    slack = 1e-12 * (abs(y) if kind == "relative" else abs(y) + r)
    return y - half - slack, y + half + slack


def inside(truth, released, radius, kind):
    """Whether a released vector lies in the product of the balls around a true vector."""
    for y, z, r in zip(truth, released, radius, strict=True):
        low, high = ball(y, r, kind)
        if not low <= z <= high:
            return False
    return True


def direct_confidential_risk(y, pattern, radius, kind):
    """R eq. 2."""
    out = []
    for i in range(len(y)):
        members = [h for h in range(len(y)) if pattern[h] == pattern[i]]
        outside = sum(not inside(y[i], y[h], radius, kind) for h in members)
        out.append(outside / len(members))
    return np.array(out)


def direct_synthetic_risk(y, pattern, released, shown, radius, kind):
    """R eq. 1, averaged over the data sets."""
    total = np.zeros(len(y))
    for z, q in zip(released, shown, strict=True):
        for i in range(len(y)):
            members = [h for h in range(len(z)) if q[h] == pattern[i]]
            caught = i in members and inside(y[i], z[i], radius, kind)
            if caught:
                outside = sum(not inside(y[i], z[h], radius, kind) for h in members)
                total[i] += outside / len(members)
    return total / len(released)


def direct_q_way(y, pattern, radius, kind, q):
    """R eq. 6-9 for groups of q records: q = 2 is the paper's pairwise weight."""
    out = []
    for i in range(len(y)):
        members = [h for h in range(len(y)) if pattern[h] == pattern[i]]
        others = [j for j in members if j != i]
        shares = []
        for group in combinations(others, q - 1):
            outside = 0
            for h in members:
                outside += all(not inside(y[j], y[h], radius, kind) for j in (i, *group))
            shares.append(1 - outside / len(members))
        out.append(np.mean(shares) if shares else np.nan)
    return np.array(out)


# Few distinct values make ties and values on the edge of a ball: 10 lies on the edge of
# the ball of 8 with r = 0.25, and 0.1 + 0.2 beside 0.3 tests the slack.
VALUES = st.sampled_from(
    [-40.0, -10.0, -8.0, -0.3, 0.0, 0.1, 0.1 + 0.2, 0.3, 8.0, 10.0, 12.5, 40.0]
)
VALUES = st.one_of(VALUES, st.floats(-1e6, 1e6, allow_subnormal=False))
RADII = st.sampled_from([0.05, 0.2, 0.25, 0.5, 1.0, 1.7, 3.0])
KINDS = st.sampled_from(["relative", "absolute"])


@st.composite
def files(draw, targets=1, sets=0):
    n = draw(st.integers(2, 14))
    column = st.lists(VALUES, min_size=n, max_size=n)
    y = np.array([draw(column) for _ in range(targets)]).T
    for d in range(targets):
        if np.ptp(y[:, d]) == 0:  # a constant target is refused
            y[0, d] += 1.0
    known = {
        "a": draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)),
        "b": draw(st.lists(st.sampled_from(["x", "y", None]), min_size=n, max_size=n)),
    }
    names = [f"y{d}" for d in range(targets)]
    frame = pl.DataFrame(
        {**known, **{name: y[:, d] for d, name in enumerate(names)}},
        schema_overrides={"b": pl.String},
    )
    released = [np.array([draw(column) for _ in range(targets)]).T for _ in range(sets)]
    # Some records keep their value, or T_i would almost always be 0.
    kept = [np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))) for _ in range(sets)]
    released = [np.where(k[:, None], y, z) for k, z in zip(kept, released, strict=True)]
    return frame, y, names, released


def with_values(frame, names, values):
    return frame.with_columns(**{name: values[:, d] for d, name in enumerate(names)})


@settings(max_examples=150, deadline=None)
@given(files(sets=3), RADII, KINDS)
def test_risk_of_one_target_equals_the_loops(file, r, kind):
    frame, y, names, released = file
    pattern = frame.select("a", "b").rows()
    arguments = {"known": ["a", "b"], "target": names[0], "radius": r, "kind": kind}
    ours = identification_risk(frame, **arguments)
    np.testing.assert_allclose(ours, direct_confidential_risk(y, pattern, [r], kind), atol=1e-9)
    synthetic = [with_values(frame, names, z) for z in released]
    ours = identification_risk(frame, synthetic, **arguments)
    theirs = direct_synthetic_risk(y, pattern, released, [pattern] * 3, [r], kind)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(files(targets=2, sets=2), RADII, RADII, KINDS)
def test_risk_of_two_targets_equals_the_loops(file, r0, r1, kind):
    frame, y, names, released = file
    pattern = frame.select("a").rows()
    arguments = {"known": ["a"], "target": names, "radius": [r0, r1], "kind": kind}
    ours = identification_risk(frame, **arguments)
    np.testing.assert_allclose(
        ours, direct_confidential_risk(y, pattern, [r0, r1], kind), atol=1e-9
    )
    ours = identification_risk(frame, [with_values(frame, names, z) for z in released], **arguments)
    theirs = direct_synthetic_risk(y, pattern, released, [pattern] * 2, [r0, r1], kind)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(files(targets=3, sets=2), RADII, KINDS)
def test_risk_of_three_targets_equals_the_loops(file, r, kind):
    frame, y, names, released = file
    pattern = frame.select("a").rows()
    arguments = {"known": ["a"], "target": names, "radius": r, "kind": kind}
    ours = identification_risk(frame, **arguments)
    np.testing.assert_allclose(ours, direct_confidential_risk(y, pattern, [r] * 3, kind), atol=1e-9)
    ours = identification_risk(frame, [with_values(frame, names, z) for z in released], **arguments)
    theirs = direct_synthetic_risk(y, pattern, released, [pattern] * 2, [r] * 3, kind)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(files(sets=2), RADII, st.data())
def test_known_variables_may_be_synthesized_when_an_id_is_declared(file, r, data):
    frame, y, names, released = file
    n = frame.height
    frame = frame.with_columns(case=pl.Series(range(100, 100 + n)))
    pattern = frame["a"].to_list()
    synthetic, shown = [], []
    for z in released:
        codes = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        shuffled = data.draw(st.permutations(range(n)))
        theirs = with_values(frame, names, z).with_columns(a=pl.Series(codes))
        synthetic.append(theirs[list(shuffled)])
        shown.append(codes)
    ours = identification_risk(
        frame, synthetic, known=["a"], target=names[0], radius=r, by_id="case"
    )
    theirs = direct_synthetic_risk(y, pattern, released, shown, [r], "relative")
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(files(), RADII, KINDS, st.integers(1, 4))
def test_weights_equal_the_loops(file, r, kind, q):
    frame, y, _, _ = file
    pattern = frame["a"].to_numpy()
    ours = risk_weights(y.T.copy(), np.unique(pattern, return_inverse=True)[1], r, q, kind)
    np.testing.assert_allclose(ours, direct_q_way(y, pattern, [r], kind, q), atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([2, 3]).flatmap(lambda d: files(targets=d)), RADII, KINDS, st.integers(1, 3))
def test_weights_of_several_targets_equal_the_loops(file, r, kind, q):
    frame, y, names, _ = file
    pattern = frame["a"].to_numpy()
    code = np.unique(pattern, return_inverse=True)[1]
    radius = np.full((len(names), 1), r)
    ours = risk_weights(y.T.copy(), code, radius, q, kind)
    np.testing.assert_allclose(ours, direct_q_way(y, pattern, [r] * len(names), kind, q), atol=1e-9)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_public_functions_are_the_loops_with_the_adjustment(q):
    rng = np.random.default_rng(q)
    y = np.round(rng.normal(2, 20, 40))
    frame = pl.DataFrame({"g": rng.integers(0, 3, 40), "y": y})
    plain = direct_q_way(y[:, None], frame["g"].to_list(), [0.3], "relative", q)
    call = {1: marginal_weights, 2: pairwise_weights, 3: q_way_weights}[q]
    np.testing.assert_allclose(call(frame, ["g"], "y", 0.3), plain, atol=1e-9)
    adjusted = call(frame, ["g"], "y", 0.3, c=1.5, g=-0.1)
    np.testing.assert_allclose(adjusted, np.clip(1.5 * plain - 0.1, 0, 1), atol=1e-9)


def test_many_patterns_and_a_large_one_equal_the_loops():
    """Enough patterns for the 64-bit sort, at a size where loops over one pattern still run."""
    rng = np.random.default_rng(5)
    code = np.concatenate([np.arange(70_000), np.repeat(7, 60)])
    y = np.round(rng.normal(50, 30, len(code)))
    weights = risk_weights(y[None, :], code, 0.2, 2)
    big = code == 7
    direct = direct_q_way(y[big][:, None], np.zeros(big.sum()), [0.2], "relative", 2)
    np.testing.assert_allclose(weights[big], direct, atol=1e-9)
    assert np.isnan(weights[~big]).all()


def test_wide_binomials_fall_back_on_fixed_point_without_losing_nine_digits():
    """C(2999, 7) times 3000 does not fit 62 bits; exact integers of Python are the oracle."""
    from math import comb

    rng = np.random.default_rng(6)
    n, q = 3000, 8
    y = np.round(np.exp(rng.normal(4, 1, n)), 1)
    ours = risk_weights(y[None, :], np.zeros(n, np.int64), 0.2, q)
    low, high = y - 0.2 * y - 1e-12 * y, y + 0.2 * y + 1e-12 * y
    holds = (y[None, :] >= low[:, None]) & (y[None, :] <= high[:, None])  # ball i, point h
    groups = np.array([comb(n - 1 - int(m), q - 1) for m in holds.sum(axis=0)], dtype=object)
    for i in range(0, n, 271):
        outside = int(groups[~holds[i]].sum())
        assert ours[i] == pytest.approx(1 - outside / (n * comb(n - 1, q - 1)), abs=1e-9)


def by_matrices(y, pattern, r):
    """IR^c and the pairwise weights by full matrices, pattern by pattern (R eq. 2, 6-9)."""
    risk, weights = np.empty(len(y)), np.empty(len(y))
    for p in np.unique(pattern):
        rows = np.flatnonzero(pattern == p)
        v, n = y[rows], len(rows)
        half = r * np.abs(v) + 1e-12 * np.abs(v)
        outside = (v[None, :] < (v - half)[:, None]) | (v[None, :] > (v + half)[:, None])
        joint = outside.astype(float) @ outside.T.astype(float) / n  # IR_ij
        risk[rows] = outside.mean(axis=1)
        weights[rows] = 1 - (joint.sum(axis=1) - np.diag(joint)) / (n - 1)
    return risk, weights


def income_file(n, seed):
    rng = np.random.default_rng(seed)
    income = np.round(np.exp(rng.normal(10.5, 1.2, n)), -2)
    income[rng.random(n) < 0.05] = 0.0
    income[rng.random(n) < 0.01] *= -0.1
    return pl.DataFrame(
        {"SEX": rng.choice(["F", "M"], n), "REGION": rng.integers(1, 5, n), "FINCBTAX": income}
    )


def check_income_file(frame):
    known = ["SEX", "REGION"]
    pattern = frame.select(pl.struct(known).rank("dense")).to_series().to_numpy()
    risk, weights = by_matrices(frame["FINCBTAX"].to_numpy().astype(float), pattern, 0.2)
    ours = identification_risk(frame, known=known, target="FINCBTAX")
    np.testing.assert_allclose(ours, risk, atol=1e-12)
    ours = pairwise_weights(frame, known, "FINCBTAX", 0.2)
    np.testing.assert_allclose(ours, weights, atol=1e-9)


def test_income_like_data_equals_full_matrices():
    check_income_file(income_file(3000, 9))


def test_real_incomes_equal_full_matrices(shared_data):
    """Consumer Expenditure interview: ties, zeros and losses as they occur."""
    path = shared_data / "ce_half_a.parquet"
    frame = pl.read_parquet(path, columns=["SEX", "REGION", "FINCBTAX"]).drop_nulls()
    assert (frame["FINCBTAX"] < 0).any()
    check_income_file(frame[:3000])


def test_a_pattern_without_points_and_a_file_of_one():
    """One point of weight 5 in pattern 0; the second rectangle seeks pattern 1, which is empty."""
    for d, sums in ((2, rectangle_sums), (3, box_sums)):
        points, patterns = np.ones((d, 1)), patterns_of(np.array([0]), 2)
        edges = np.zeros((d, 2)), np.full((d, 2), 2.0)
        code = np.array([0, 1])
        assert sums(points, patterns, *edges, code).tolist() == [1, 0]
        assert sums(points, patterns, *edges, code, np.array([5])).tolist() == [5, 0]
        nobody = np.ones((d, 0)), patterns_of(np.zeros(0, np.int64), 2)
        assert sums(*nobody, *edges, code).tolist() == [0, 0]


def test_groups_of_ten_among_three_hundred_do_not_overflow():
    """C(299, 9) summed over the pattern is beyond 2^63; exact fractions say what it must be."""
    n, q = 300, 10
    y = np.round(np.random.default_rng(5).normal(0, 40, n))
    near = np.abs(y[:, None] - y[None, :]) <= 1.0
    missed = [comb(n - 1 - int(m), q - 1) for m in near.sum(axis=0)]
    direct = [
        1 - Fraction(sum(t for t, close in zip(missed, row, strict=True) if not close))
        / (n * comb(n - 1, q - 1))
        for row in near
    ]  # fmt: skip
    values = np.concatenate([y, y[:5]])[None, :]  # a second pattern of five has no group of ten
    ours = risk_weights(values, np.repeat([0, 1], [n, 5]), 1.0, q, "absolute")
    np.testing.assert_allclose(ours[:n], [float(weight) for weight in direct], atol=1e-11)
    assert np.isnan(ours[n:]).all()
