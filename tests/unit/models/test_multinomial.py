"""Dirichlet and multinomial draws against their closed-form moments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from understudy.errors import Refused
from understudy.models import multinomial as model
from understudy.models.multinomial import Multinomial, dirichlet, multinomial, synthetic_counts

ALPHA = np.array([0.5, 1.5, 3.0, 20.5])
DRAWS = 20_000


def far(observed, expected, se) -> float:
    return float(np.max(np.abs((observed - expected) / se)))


def test_dirichlet_has_the_moments_of_the_dirichlet():
    rng = np.random.default_rng(1)
    drawn = np.array([dirichlet(ALPHA, rng) for _ in range(DRAWS)])
    law = stats.dirichlet(ALPHA)
    assert np.allclose(drawn.sum(axis=1), 1)
    assert far(drawn.mean(axis=0), law.mean(), np.sqrt(law.var() / DRAWS)) < 5
    assert np.allclose(np.cov(drawn.T), law.cov(), rtol=0.05, atol=2e-4)
    beta = stats.beta(ALPHA[1], ALPHA.sum() - ALPHA[1])
    assert stats.kstest(drawn[:, 1], beta.cdf).pvalue > 1e-6


def test_multinomial_keeps_the_size_and_has_its_moments():
    rng = np.random.default_rng(2)
    shares = np.array([0.1, 0.2, 0.7])
    drawn = np.array([multinomial(50, shares, rng) for _ in range(DRAWS)])
    assert (drawn.sum(axis=1) == 50).all()
    law = stats.multinomial(50, shares)
    assert far(drawn.mean(axis=0), 50 * shares, np.sqrt(np.diag(law.cov()) / DRAWS)) < 5
    assert np.allclose(np.cov(drawn.T), law.cov(), rtol=0.05, atol=0.15)


def test_multinomial_over_many_cells_has_the_same_law(monkeypatch):
    """Poisson counts that are completed: a closed form, as for few cells, and the size kept."""
    monkeypatch.setattr(model, "MANY_CELLS", 3)
    rng = np.random.default_rng(5)
    shares = np.array([0.02, 0.18, 0.8])
    for size in (3, 400):
        drawn = np.array([multinomial(size, shares, rng) for _ in range(DRAWS)])
        assert (drawn.sum(axis=1) == size).all()
        law = stats.multinomial(size, shares)
        assert far(drawn.mean(axis=0), size * shares, np.sqrt(np.diag(law.cov()) / DRAWS)) < 5
        assert np.allclose(np.cov(drawn.T), law.cov(), rtol=0.05, atol=0.03)
        counts = np.bincount(drawn[:, 0], minlength=40)[:40]
        expected = DRAWS * stats.binom(size, shares[0]).pmf(np.arange(40))
        kept = expected > 5
        lumped = np.append(expected[kept], DRAWS - expected[kept].sum())
        seen = np.append(counts[kept], DRAWS - counts[kept].sum())
        assert stats.chisquare(seen, lumped).pvalue > 1e-6


def test_synthetic_counts_are_dirichlet_multinomial():
    rng = np.random.default_rng(3)
    counts = np.array([0, 1, 9, 90])
    drawn = np.array([synthetic_counts(counts, 100, 0.5, rng) for _ in range(DRAWS)])
    law = stats.dirichlet_multinomial(counts + 0.5, 100)
    assert (drawn.sum(axis=1) == 100).all()
    assert far(drawn.mean(axis=0), law.mean(), np.sqrt(law.var() / DRAWS)) < 5
    assert np.allclose(drawn.var(axis=0), law.var(), rtol=0.05)


def test_a_tiny_prior_does_not_divide_by_zero():
    rng = np.random.default_rng(4)
    drawn = np.array([dirichlet([1e-300, 3e-300], rng) for _ in range(400)])
    assert set(drawn.ravel()) == {0.0, 1.0}
    assert 0.6 < drawn[:, 1].mean() < 0.9  # expected .75


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"columns": "sex"}, "list of categorical columns"),
        ({"columns": []}, "list of categorical columns"),
        ({"columns": ["a", "a"]}, "named twice"),
        ({"columns": ["a"], "prior": 0}, "prior"),
        ({"columns": ["a"], "prior": float("nan")}, "prior"),
        ({"columns": ["a"], "size": 0}, "size"),
        ({"columns": ["a"], "missing": "drop"}, "missing"),
    ],
)
def test_refusals(arguments, text):
    with pytest.raises(Refused, match=text):
        Multinomial(**arguments)


def test_a_model_is_a_value():
    assert Multinomial(["a", "b"]) == Multinomial(("a", "b"))
    assert hash(Multinomial(["a"])) == hash(Multinomial(["a"]))
    assert Multinomial(["a", "b"]).sensitive == ("a", "b")
