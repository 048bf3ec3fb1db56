"""The policy for small patterns, and bad arguments of the weights."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from understudy import Refused
from understudy.risk.weights import (
    marginal_weights,
    pairwise_weights,
    patterns_by_policy,
    q_way_weights,
)


@pytest.fixture
def uneven():
    """Patterns by (region, sex): n-f 6, n-m 2, s-f 1, s-m 2, w-f 1."""
    region = ["n"] * 8 + ["s"] * 3 + ["w"]
    sex = ["f"] * 6 + ["m"] * 2 + ["f"] + ["m"] * 2 + ["f"]
    rng = np.random.default_rng(2)
    return pl.DataFrame({"region": region, "sex": sex, "y": np.round(rng.lognormal(3, 1, 12))})


KNOWN = ["region", "sex"]


@pytest.mark.parametrize("call", [marginal_weights, pairwise_weights, q_way_weights])
def test_small_patterns_are_refused_by_default(uneven, call):
    with pytest.raises(Refused, match=r"4 of 5 patterns have fewer than \d records"):
        call(uneven, KNOWN, "y", 0.2)


def test_zero_gives_small_patterns_nothing_whatever_the_adjustment(uneven):
    weights = pairwise_weights(uneven, KNOWN, "y", 0.2, c=1.0, g=0.3, small_patterns="zero")
    alone = pairwise_weights(uneven[:6], KNOWN, "y", 0.2, g=0.3)
    np.testing.assert_array_equal(weights[6:], 0.0)
    np.testing.assert_array_equal(weights[:6], alone)
    assert (weights[:6] >= 0.3).all()


def test_merge_pools_by_fewer_known_variables_and_leaves_large_patterns_alone(uneven):
    """s-f and s-m (3 records) pool by region; n-m and w-f pool without any known variable."""
    weights = pairwise_weights(uneven, KNOWN, "y", 0.2, small_patterns="merge")
    pools = pl.Series(["n-f"] * 6 + ["rest"] * 2 + ["s"] * 3 + ["rest"])
    by_hand = pairwise_weights(uneven.with_columns(pool=pools), ["pool"], "y", 0.2)
    np.testing.assert_array_equal(weights, by_hand)


def test_merge_puts_a_last_remainder_into_the_smallest_pattern():
    frame = pl.DataFrame({"g": ["a"] * 5 + ["b"] * 4 + ["c"], "y": np.arange(1.0, 11.0)})
    weights = pairwise_weights(frame, ["g"], "y", 0.3, small_patterns="merge")
    by_hand = pairwise_weights(
        frame.with_columns(g=pl.Series(["a"] * 5 + ["b"] * 5)), ["g"], "y", 0.3
    )
    np.testing.assert_array_equal(weights, by_hand)


def test_the_patterns_after_each_policy(uneven):
    code, dropped = patterns_by_policy(uneven, KNOWN, "merge", 3)
    assert (len(set(code)), dropped.sum()) == (3, 0)
    code, dropped = patterns_by_policy(uneven, KNOWN, "zero", 3)
    assert (len(set(code)), dropped.sum()) == (5, 6)
    with pytest.raises(Refused, match="4 of 5 patterns have fewer than 3 records"):
        patterns_by_policy(uneven, KNOWN, "refuse", 3)


def test_groups_of_q_need_more_than_q_records():
    frame = pl.DataFrame({"y": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(Refused, match="fewer than 5 records"):
        q_way_weights(frame, [], "y", 0.2, q=4)
    with pytest.raises(Refused, match="fewer than 5 records in all"):
        q_way_weights(frame, [], "y", 0.2, q=4, small_patterns="merge")


def test_the_defaults_are_the_paper_s(uneven):
    """R: a radius of a fifth, c = 1, g = 0; groups of three for the q-way weights."""
    for call, q in ((marginal_weights, 1), (pairwise_weights, 2), (q_way_weights, 3)):
        by_default = call(uneven, [], "y")
        np.testing.assert_array_equal(by_default, q_way_weights(uneven, [], "y", 0.2, q, 1.0, 0.0))
        assert (by_default != call(uneven, [], "y", 0.4)).any()


def test_a_pattern_of_the_minimum_is_not_small():
    frame = pl.DataFrame({"g": ["a"] * 3 + ["b"] * 2, "y": [1.0, 5.0, 9.0, 2.0, 3.0]})
    assert patterns_by_policy(frame, ["g"], "zero", 3)[1].tolist() == [False] * 3 + [True] * 2
    weights = pairwise_weights(frame, ["g"], "y", small_patterns="zero")
    np.testing.assert_allclose(weights, [2 / 3, 2 / 3, 2 / 3, 0, 0])  # i and j cover 2 of 3


def test_c_of_zero_leaves_the_constant(uneven):
    assert pairwise_weights(uneven, [], "y", c=0, g=0.25).tolist() == [0.25] * 12
    with pytest.raises(Refused, match="c at least 0"):
        pairwise_weights(uneven, [], "y", c=-0.1)


def test_bad_arguments_are_refused(uneven):
    with pytest.raises(Refused, match="radius"):
        pairwise_weights(uneven, [], "y", 0.0)
    with pytest.raises(Refused, match="Unknown column `yy`"):
        pairwise_weights(uneven, [], "yy", 0.2)
    with pytest.raises(Refused, match="did you mean `region`"):
        pairwise_weights(uneven, ["regio"], "y", 0.2)
    with pytest.raises(Refused, match="same for every record"):
        pairwise_weights(uneven.with_columns(y=pl.lit(3)), [], "y", 0.2)
    with pytest.raises(Refused, match="did you mean `merge`"):
        pairwise_weights(uneven, [], "y", 0.2, small_patterns="merg")
    with pytest.raises(Refused, match="must be 1, 2, 3"):
        q_way_weights(uneven, [], "y", 0.2, q=0)
    with pytest.raises(Refused, match="finite"):
        pairwise_weights(uneven, [], "y", 0.2, c=np.nan)
