"""MODIPS: the noise, the threshold, the rescaling and the bias against closed forms."""

from __future__ import annotations

import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import chance
from understudy.errors import Refused
from understudy.mechanisms.modips import Modips, expected_bias, expected_noisy
from understudy.mechanisms.outputs.cell_draws import rescaled
from understudy.models.multinomial import synthetic_counts

ROOT = Path(__file__).resolve().parents[3]


def geometric_noise(size, scale, rng):
    """The law of integer Laplace noise, drawn another way: a difference of two geometrics."""
    share = -math.expm1(-1 / scale)
    return rng.geometric(share, size) - rng.geometric(share, size)


@pytest.mark.chance(chance.ALPHA, "exact binomial intervals of all cells")
@pytest.mark.parametrize(("relation", "sensitivity"), [("add-remove", 1), ("replace", 2)])
@pytest.mark.parametrize("datasets", [1, 5])
def test_each_data_set_has_noise_of_its_share_of_epsilon(relation, sensitivity, datasets):
    mechanism = Modips(2.0, "public", relation)
    scale = mechanism.scale(datasets)
    assert Fraction(scale) * 2 >= sensitivity * datasets
    assert scale == pytest.approx(sensitivity * datasets / 2.0)
    drawn = mechanism.noisy(np.full(20_000, 40), datasets) - 40
    assert chance.follows(drawn, chance.noise(scale))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-10])
@pytest.mark.parametrize("datasets", [1, 5])
def test_the_threshold_is_the_least_that_keeps_delta(epsilon, delta, datasets):
    mechanism = Modips(epsilon, "threshold", "replace", delta)
    threshold = mechanism.threshold(datasets)
    noise = stats.dlaplace(1 / mechanism.scale(datasets))  # SciPy's, not ours
    assert noise.sf(threshold - 2) <= delta / datasets * (1 + 1e-9)  # P(1 + Z >= t)
    if threshold > 2:
        assert noise.sf(threshold - 3) > delta / datasets * (1 - 1e-9)


@pytest.mark.chance(chance.ALPHA, "exact binomial interval")
def test_a_lonely_record_is_shown_with_chance_delta():
    mechanism = Modips(1.0, "threshold", delta=0.02)
    threshold = mechanism.threshold(1)
    noisy = mechanism.noisy(np.ones(50_000, dtype=int), 1)
    assert set(noisy[noisy < threshold]) == {0}
    exact = stats.dlaplace(1.0).sf(threshold - 2)
    assert chance.within([(noisy > 0).sum()], noisy.size, [exact])
    assert exact <= 0.02


def test_rescaling_clips_and_keeps_the_size():
    assert rescaled([-3, 0, 1, 3], 100).tolist() == [0.0, 0.0, 25.0, 75.0]
    assert rescaled([-3, 0], 10).tolist() == [5.0, 5.0]  # public facts alone


@pytest.mark.parametrize("scale", [0.005, 0.05, 0.7, 5.0, 300.0])
def test_expected_clipped_counts_by_direct_summation(scale):
    """E max(n + Z, 0), n Poisson, Z integer Laplace, summed over both by SciPy's masses."""
    reach = np.arange(-int(40 * scale) - 5, int(40 * scale) + 6)
    noise = stats.dlaplace(1 / scale).pmf(reach)
    for mean in (0.0, 0.4, 3.0):
        n = np.arange(60)
        values = np.maximum(n[:, None] + reach[None, :], 0)
        direct = (stats.poisson(mean).pmf(n)[:, None] * noise[None, :] * values).sum()
        assert expected_noisy(mean, scale) == pytest.approx(direct, rel=1e-9, abs=1e-12)


def test_for_large_scales_it_is_the_formula_of_the_continuous_noise():
    """methods §8: E_k = N pi + (b/2) exp(-N pi (1 - e^(-1/b)))."""
    b, mean = 40.0, np.array([0.0, 1.0, 5.0, 70.0])
    continuous = mean + b / 2 * np.exp(-mean * (1 - math.exp(-1 / b)))
    assert expected_noisy(mean, b) == pytest.approx(continuous, rel=2e-4)


@pytest.mark.parametrize("scale", [0.0, 1.25, 10.0])
def test_bias_is_the_closed_form(scale):
    """Whole pipeline, many times: original counts, noise, clip, rescale, Dirichlet, multinomial.

    The sum of the noisy counts is random and only its mean is in the closed form; with 4,000
    cells that costs less than the Monte Carlo error.
    """
    rng = np.random.default_rng(7)
    true = np.repeat([1, 2, 5, 40], [2400, 1000, 500, 100])
    size, repeats = int(true.sum()), 150
    sums = np.zeros(true.size)
    for _ in range(repeats):
        counts = rng.multinomial(size, true / size)
        if scale > 0:
            counts = rescaled(counts + geometric_noise(true.size, scale, rng), size)
        sums += synthetic_counts(counts, size, 0.5, rng)
    result = size * expected_bias(true / size, size, 0.5, scale)
    for level in (1, 2, 5, 40):
        cells = true == level
        bias = sums[cells] / repeats - level
        se = bias.std(ddof=1) / math.sqrt(cells.sum())
        assert abs(bias.mean() - result[cells][0]) < 5 * se
    assert abs(result.sum()) < 1e-6  # shares add up to 1 on both sides


def test_claims_differ_by_support_and_relation():
    observed = Modips(2.0).promise(5, True)
    public = Modips(2.0, "public").promise(5, True)
    threshold = Modips(2.0, "threshold", "replace", 1e-9).promise(5, False)
    assert (observed.kind, public.kind, threshold.kind) == ("local", "formal", "formal")
    assert (observed.relation, threshold.relation) == ("add-remove", "replace")
    assert (public.delta, threshold.delta) == (0.0, 1e-9)
    assert [c.epsilon for c in (observed, public, threshold)] == [2.0] * 3
    assert "alone in its cell is not protected" in str(observed)
    assert "number of records in the file is public" in str(public)
    assert threshold.conditions == ()
    assert public.under_replace().epsilon == 4.0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0.0,), "epsilon"),
        ((1.0, "all"), "support"),
        ((1.0, "public", "blank"), "relation"),
        ((1.0, "threshold"), "needs a `delta`"),
        ((1.0, "threshold", "replace", 1.0), "needs a `delta`"),
        ((1.0, "public", "replace", 1e-6), "leave it out"),
        ((1.0, "threshold", "replace", "small"), "must be a number"),
    ],
)
def test_refusals(arguments, text):
    with pytest.raises(Refused, match=text):
        Modips(*arguments)


@pytest.mark.parametrize("name", ["modips.md", "marginals.md"])
def test_the_proof_cites_what_exists(name):
    proof = (ROOT / "docs/proofs" / name).read_text(encoding="utf-8")
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    cited = re.findall(r"`((?:src|docs)/[\w/.-]+)`", proof)
    assert cited
    assert [path for path in cited if not (ROOT / path).exists()] == []
    for function in re.findall(r"`(?:\w+\.)?([a-z]+_[a-z_]+|noisy|threshold|sensitivity)`", proof):
        assert f"def {function}(" in source, function


def test_the_threshold_that_the_proof_cites():
    proof = (ROOT / "docs/proofs/modips.md").read_text(encoding="utf-8")
    cited = re.search(r"epsilon 1, delta 1e-6 and m = 5 under `add-remove`, t = (\d+)", proof)
    steps = int(cited.group(1))
    assert Modips(1.0, "threshold", delta=1e-6).threshold(5) == steps
    law = stats.dlaplace(1 / 5.0)
    # the least t: one lower would show a cell of one record too often
    assert law.sf(steps - 2) <= 1e-6 / 5 < law.sf(steps - 3)


@pytest.mark.parametrize("steps", range(3, 40, 4))
@pytest.mark.parametrize("scale", [1, 2, 5])
def test_a_delta_just_below_a_step_asks_for_the_next_one(steps, scale):
    """Fifty digits instead of a logarithm's sixteen: rounding never shows a cell too often."""
    with localcontext(prec=50):
        a = (Decimal(-1) / scale).exp()
        chance_of_step = a ** (steps - 1) / (1 + a)  # P(1 + Z >= steps)
    delta = float(chance_of_step)
    while Decimal(delta) >= chance_of_step:
        delta = math.nextafter(delta, 0.0)
    assert Modips(1 / scale, "threshold", delta=delta).threshold(1) > steps


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 9.0])
@pytest.mark.parametrize("per_unit", [1, 2, 3, 7])
def test_a_unit_of_several_records_is_shown_as_seldom(epsilon, per_unit):
    """The least t by trying: k records in one cell, and k cells of one record, any of them."""
    mechanism = Modips(epsilon, "threshold", delta=1e-6)
    law = stats.dlaplace(1 / mechanism.scale(1, per_unit))
    t = per_unit + 1
    while max(law.sf(t - per_unit - 1), per_unit * law.sf(t - 2)) > 1e-6:
        t += 1
    assert mechanism.threshold(1, per_unit) == t


@pytest.mark.parametrize("steps", range(3, 40, 4))
@pytest.mark.parametrize(("scale", "cells", "shown"), [(1, 1, 2), (5, 2, 1)])
def test_a_delta_just_below_a_step_of_a_pair(steps, scale, cells, shown):
    """Two records of one unit: in one cell where the noise is small, in two where it is large."""
    with localcontext(prec=50):
        a = (Decimal(-1) / scale).exp()
        chance_of_step = cells * a**steps / (1 + a)
    delta = float(chance_of_step)
    while Decimal(delta) >= chance_of_step:
        delta = math.nextafter(delta, 0.0)
    mechanism = Modips(2 / scale, "threshold", delta=delta)
    assert mechanism.scale(1, 2) == scale
    assert mechanism.threshold(1, 2) > shown + steps
