"""A record's contribution depends on no other record, also where predictors are drawn."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from neighbours import changed
from releases import CODEBOOK, base

from understudy.errors import Refused
from understudy.mechanisms.censored import Censored
from understudy.models.beta_regression import BetaRegression
from understudy.models.density import density_at
from understudy.models.from_numpyro import from_numpyro
from understudy.models.mixture.mixture import Mixture
from understudy.models.multinomial import Multinomial
from understudy.models.negative_binomial import NegativeBinomial
from understudy.release import mixed
from understudy.release.mixed import Given
from understudy.survey.codebook import parse_codebook
from understudy.survey.survey import Survey

RECORD = 5


def shares(group: Any, rank: Any, share: Any = None) -> None:
    """A steward's own function; only its arrays are looked at here."""


MODELS = [
    BetaRegression("share", "group + rank", bounds=(0.0, 100.0)),
    BetaRegression("share", "scale(rank) + poly(rank, 2):group", bounds=(0.0, 100.0)),
    NegativeBinomial("visits", "C(rank) * group"),
    Mixture("income", "group + rank", 3, "prior", zero_by=("rank", "group"), typical=3e4),
    from_numpyro(shares, ["share"]),
]


def arrays_of(model: Any, frame: pl.DataFrame) -> dict[str, np.ndarray]:
    """What the likelihood sees of a file in a mixed release."""
    survey = Survey(frame, codebook=parse_codebook(CODEBOOK).only(frame.columns))
    narrowed = mixed._narrowed(survey, Multinomial(["group", "rank"]), model)
    coding = mixed._coding(narrowed, Given(model, Censored(4.0, weighted=False)))
    return {name: np.asarray(a) for name, a in model.prepare(narrowed, like=coding).items()}


def rows_that_differ(model: Any) -> set[int]:
    """Which records' arrays change when the categories of one record do."""
    frame = base().drop("area", "sex", "place", "w")
    other = changed(changed(frame, RECORD, "group", "never seen"), RECORD, "rank", 40)
    ours, theirs = arrays_of(model, frame), arrays_of(model, other)
    rows: set[int] = set()
    for name, array in ours.items():
        assert array.shape == theirs[name].shape, name
        if array.ndim == 0 or frame.height not in array.shape:
            assert np.array_equal(array, theirs[name]), name  # a scale, a whitening: for all alike
            continue
        along = array.shape.index(frame.height)
        moved = (array != theirs[name]).any(axis=tuple({*range(array.ndim)} - {along}))
        rows |= set(np.flatnonzero(moved).tolist())
    return rows


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.sensitive[0]}")
def test_one_record_changes_its_own_row_alone(model: Any) -> None:
    assert rows_that_differ(model) == {RECORD}


def test_mutant_coding_by_the_records_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistake 1: predictors centred, scaled and whitened by the confidential file."""
    monkeypatch.setattr(mixed, "_coding", lambda *_: None)
    caught = 0
    for model in MODELS[:4]:
        try:
            caught += rows_that_differ(model) != {RECORD}
        except (AssertionError, Refused):  # a shape or a scale has changed for everyone
            caught += 1
    assert caught == 4


def farthest(model: Any) -> float:
    """The most that one record's categories move the clipped log density, in limits, over 400
    places of the parameters: an attacker who knows all other records sees so much."""
    limit, moves = 0.5, []
    frame = base().drop("area", "sex", "place", "w")
    rng = np.random.default_rng(3)
    for group, rank in (("never seen", 40), ("low", 30), ("high", 40)):
        other = changed(changed(frame, RECORD, "group", group), RECORD, "rank", rank)
        ours, theirs = arrays_of(model, frame), arrays_of(model, other)
        density = density_at(model, ours)
        loglik = jax.jit(jax.vmap(density.record_loglik, (0, None)))
        places = jnp.asarray(3 * rng.standard_normal((400, density.dimension)))
        sums = [
            np.clip(np.asarray(loglik(places, a)), -limit, limit).sum(1) for a in (ours, theirs)
        ]
        moves.append(np.nanmax(np.abs(sums[0] - sums[1])) / limit)
    return float(max(moves))


def test_an_attack_on_the_density_gains_two_limits_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw at theta is more likely under one file than under the other by exp(2 limits) times the
    constants' ratio, which has the same bound. With mistake 1 it is more."""
    model = MODELS[0]
    assert 1 < farthest(model) <= 2 + 1e-6
    monkeypatch.setattr(mixed, "_coding", lambda *_: None)
    assert farthest(model) > 4
