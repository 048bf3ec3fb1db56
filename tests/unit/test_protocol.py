"""Every mechanism and every model keeps its contract: one walk through all of them.

Nothing is listed here: classes are found in their packages, and settings are made from their types.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from functools import cache
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest

import chance
import understudy as us
from understudy.declarations import alternatives, choices_of, settings_of
from understudy.dp import noise
from understudy.dp.accounting import epsilon_of, rounded_up
from understudy.errors import Refused
from understudy.fitting.fitter import ModelFitter
from understudy.mechanisms.contract import Mechanism, NoisyDraws, plain_terms
from understudy.models.contract import Model, OutcomeModel, RowsModel
from understudy.models.density import density_of
from understudy.release.model_part import all_models
from understudy.release.parts import all_mechanisms
from understudy.release.recipe_values import kind_of, recipe_type
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.synthesis import Synthesis

N = 150
OUTCOMES = (us.Beta("share"), us.FBS("income", "sex + area"))  # the first that is not refused
MODELS = {
    "outcome": OUTCOMES[0],
    "rows": us.Multinomial(["sex", "area"]),
    "file": us.WholeFile(["sex", "area", "visits"]),
}


@cache
def survey() -> Survey:
    rng = np.random.default_rng(4)
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], N),
            "area": rng.choice(["north", "south"], N),
            "share": rng.beta(3, 4, N),
            "visits": rng.poisson(3, N),
            "w": np.exp(rng.normal(4, 0.3, N)),
            "income": np.exp(rng.normal(10, 0.5, N)),
        }
    )
    columns = {
        "sex": Column("sex", "public", "categorical", levels=("f", "m")),
        "area": Column("area", "public", "categorical", levels=("north", "south")),
        "share": Column("share", "public", "continuous", bounds=(0.0, 1.0)),
        "visits": Column("visits", "public", "integer", bounds=(0.0, 100.0)),
        "w": Column("w", "weight", "continuous", bounds=(10.0, 500.0)),
        "income": Column("income", "public", "continuous", bounds=(1e3, 1e6)),
    }
    codebook = Codebook(columns, population_size=float(frame["w"].sum()))
    return Survey(frame, us.Design(weight="w"), codebook)


def example(cls: type[Any], **chosen: Any) -> Any:
    """An object of a class, its required settings made from their types."""
    for number in (40.0, 0.5):
        values = dict(chosen)
        for setting in settings_of(cls).values():
            if setting.required and setting.name not in chosen:
                values[setting.name] = _value(setting.type, number)
        try:
            return cls(**values)
        except Refused:
            continue
    raise AssertionError(f"no example of {cls.__name__}")


def _value(hint: Any, number: float) -> Any:
    kinds = alternatives(hint)
    words = [choice for kind in kinds for choice in choices_of(kind)]
    if words:
        return words[-1]  # of a reference, two stages: none at all would be rehearsed for long
    return number if kinds[0] is float else ("sex",)


@cache
def made(name: str, does: str) -> tuple[Synthesis, int]:
    """A synthesis, and how many vectors of noise OpenDP was asked for."""
    asked = []
    with chance.seeded_noise(), pytest.MonkeyPatch.context() as patch:
        drawn = noise._opendp_laplace

        def counted(counts: Any, scale: float) -> Any:
            asked.append(scale)
            return drawn(counts, scale)

        patch.setattr(noise, "_opendp_laplace", counted)
        # its chains take long to compile, and have tests of their own
        patch.setattr(ModelFitter, "given_noisy", drawn_from_records)
        result = synthesized(example(all_mechanisms()[name]), does)
    return result, len(asked)


def drawn_from_records(fitter: ModelFitter, _seen: Any, _noisy: Any, datasets: int) -> NoisyDraws:
    return NoisyDraws(fitter.fit(plain_terms(fitter), "release").parameters(datasets), True)


def synthesized(mechanism: Mechanism, does: str) -> Synthesis:
    settings: Any = {"datasets": 2, "seed": 3, "draws": 1000, "progress": False}
    try:
        return us.synthesize(survey(), MODELS[does], mechanism, **settings)
    except Refused:
        if does != "outcome":
            raise
        return us.synthesize(survey(), OUTCOMES[1], mechanism, **settings)


WALK = [
    (name, does)
    for name, cls in all_mechanisms().items()
    for does in MODELS
    if does in str(cls.synthesizes)
]


@pytest.mark.parametrize("name", all_mechanisms())
def test_a_mechanism_declares_its_settings(name: str) -> None:
    cls = all_mechanisms()[name]
    assert dataclasses.is_dataclass(cls)
    for setting in settings_of(cls).values():
        assert setting.meaning.endswith(".")
        assert kind_of(setting)
        assert recipe_type(setting)
    assert getattr(us, name) is cls


@pytest.mark.parametrize(("name", "does"), WALK)
def test_a_claim_is_what_was_declared(name: str, does: str) -> None:
    mechanism: Mechanism = example(all_mechanisms()[name])
    result, _ = made(name, does)
    claim = result.claim
    assert len(result.datasets) == 2
    assert claim.kind == mechanism.claims
    assert claim.kind == "risk" or claim.relation == mechanism.relation
    cost = mechanism.cost()
    if cost is None:
        assert mechanism.epsilon is None or claim.kind == "local"
        return
    assert claim.epsilon is not None
    if cost.rho is not None:
        assert claim.delta > 0
        assert epsilon_of(rounded_up(cost.rho), claim.delta) <= claim.epsilon
        return
    under_replace = claim.epsilon if claim.relation == "replace" else 2 * claim.epsilon
    assert Fraction(repr(under_replace)) == cost.under("replace").epsilon
    assert Fraction(repr(claim.delta)) == cost.delta


@pytest.mark.parametrize(("name", "does"), WALK)
def test_seeded_means_the_same_bytes_and_no_noise_from_opendp(name: str, does: str) -> None:
    mechanism: Mechanism = example(all_mechanisms()[name])
    first, asked = made(name, does)
    assert mechanism.seeded == (asked == 0)
    if mechanism.seeded:
        second = synthesized(mechanism, does)
        for dataset, other in zip(first.datasets, second.datasets, strict=True):
            assert dataset.frame().equals(other.frame())


def test_a_pair_that_does_not_fit_is_refused() -> None:
    for name, cls in all_mechanisms().items():
        for does, model in MODELS.items():
            if does not in str(cls.synthesizes):
                with pytest.raises(Refused, match=f"and {name} does not; it goes with"):
                    us.synthesize(survey(), model, example(cls), seed=3)


COLUMNS = {"NegativeBinomial": "visits"}  # the one model whose outcome is a count


def model_of(name: str) -> Model:
    cls = all_models()[name]
    first = dataclasses.fields(cls)[0].name  # type: ignore[arg-type]
    chosen: dict[str, Any] = {first: COLUMNS.get(name, "share")}
    if cls.synthesizes != "outcome":
        chosen[first] = ("sex", "area")
    if "predictors" in settings_of(cls):
        chosen["predictors"] = "sex + area"
    return cls(**chosen)


@pytest.mark.parametrize("name", all_models())
def test_a_model_declares_its_settings(name: str) -> None:
    cls = all_models()[name]
    model = model_of(name)
    assert hash(model) == hash(model_of(name))
    assert model.sensitive
    assert getattr(us, name) is cls
    for setting in settings_of(cls).values():
        assert setting.meaning.endswith(".")
        assert recipe_type(setting)


@pytest.mark.parametrize("name", all_models())
def test_a_model_evaluates_and_generates(name: str) -> None:
    model = model_of(name)
    if isinstance(model, RowsModel):
        drawn = model.draw(np.array([30, 5, 0, 15]), 50, np.random.default_rng(1))
        assert drawn.sum() == 50
        assert (drawn >= 0).all()
        return
    if isinstance(model, us.WholeFile):
        assert [cells.size for cells in model.for_survey(survey()).cells(survey())] == [3, 3]
        return
    assert isinstance(model, OutcomeModel)
    assert set(model.given_columns()) <= {"sex", "area"}
    model = model.for_survey(survey())
    arrays = model.prepare(survey())
    density = density_of(model, arrays)
    position = np.full(density.dimension, 0.1)
    assert density.evaluate_now(position, arrays)[1].shape == (N,)
    generated = jax.jit(density.generate)(jax.random.key(1), position, arrays)
    plain = {key: np.asarray(value) for key, value in generated.items()}
    columns = model.restore(plain, survey())
    assert set(columns) == set(model.sensitive)
    assert all(len(column) == N for column in columns.values())
    assert model.units(survey().codebook)
