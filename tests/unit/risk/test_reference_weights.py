"""Weights against a reference file: the average over all groups, written out as loops."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest

from understudy import Refused
from understudy.risk.reference_weights import reference_risk_weights


def direct(own, pattern, reference, reference_pattern, radius, kind, q):
    """Share of the pattern's reference in a ball of (i and q - 1 reference records), averaged."""

    def holds(centre, value):
        half = radius * abs(centre) if kind == "relative" else radius
        return abs(value - centre) <= half * (1 + 1e-9)

    out = []
    for y, p in zip(own, pattern, strict=True):
        there = [z for z, r in zip(reference, reference_pattern, strict=True) if r == p]
        if len(there) < max(3, q):
            out.append(0.0)
            continue
        shares = [
            np.mean([any(holds(centre, z) for centre in (y, *group)) for z in there])
            for group in combinations(there, q - 1)
        ]
        out.append(np.mean(shares))
    return np.array(out)


@pytest.fixture
def files():
    rng = np.random.default_rng(1)

    def file(n, groups):
        values = np.round(rng.lognormal(2, 1, n), 1)
        return pl.DataFrame({"g": rng.choice(groups, n), "y": values})

    return file(40, ["a", "b", "c", "few"]), pl.concat(
        [file(30, ["a", "b", "c"]), pl.DataFrame({"g": ["few"] * 2, "y": [5.0, 6.0]})]
    )


@pytest.mark.parametrize("q", [1, 2, 3, 4])
@pytest.mark.parametrize(("kind", "radius"), [("relative", 0.3), ("absolute", 1.5)])
def test_weights_are_the_average_over_all_groups(files, q, kind, radius):
    own, reference = files
    ours = reference_risk_weights(own, reference, ["g"], "y", radius, q, kind=kind)
    expected = direct(own["y"], own["g"], reference["y"], reference["g"], radius, kind, q)
    np.testing.assert_allclose(ours, expected, atol=1e-12)
    assert (ours[(own["g"] == "few").to_numpy()] == 0).all()
    assert len(set(ours.tolist())) > 5


def test_three_reference_records_are_enough_and_two_are_not():
    own = pl.DataFrame({"g": ["a", "a"], "y": [10.0, 50.0]})
    three = pl.DataFrame({"g": ["a"] * 3, "y": [10.0, 11.0, 50.0]})
    ours = reference_risk_weights(own, three, ["g"], "y", 0.2, 1)
    np.testing.assert_allclose(ours, [2 / 3, 1 / 3])
    assert reference_risk_weights(own, three[:2], ["g"], "y", 0.2, 1).tolist() == [0.0, 0.0]
    four_of_three = reference_risk_weights(own, three, ["g"], "y", 0.2, 4)
    assert four_of_three.tolist() == [0.0, 0.0]


def test_nothing_known_is_one_pattern_and_the_adjustment_is_clipped(files):
    own, reference = files
    plain = reference_risk_weights(own, reference, [], "y", 0.2)
    expected = direct(
        own["y"], own["y"] * 0, reference["y"], reference["y"] * 0, 0.2, "relative", 2
    )
    np.testing.assert_allclose(plain, expected, atol=1e-12)
    assert np.array_equal(plain, reference_risk_weights(own, reference, [], "y"))
    raised = reference_risk_weights(own, reference, [], "y", 0.2, c=2.5, g=0.3)
    np.testing.assert_allclose(raised, np.minimum(2.5 * expected + 0.3, 1.0), atol=1e-12)
    lowered = reference_risk_weights(own, reference, [], "y", 0.2, g=-0.6)
    np.testing.assert_allclose(lowered, np.maximum(expected - 0.6, 0.0), atol=1e-12)
    assert raised.max() == 1.0
    assert lowered.min() == 0.0


def test_bad_references_are_refused(files):
    own, reference = files
    for q in (0, 1.5):
        with pytest.raises(Refused, match="must be 1, 2, 3"):
            reference_risk_weights(own, reference, ["g"], "y", 0.2, q)
    numbered = reference.with_columns(g=pl.lit(1))
    with pytest.raises(Refused, match="different types"):
        reference_risk_weights(own, numbered, ["g"], "y")
