"""synthesize: a stranger's model through every mechanism, seeds, missing values and bad input."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.monitoring
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
import pytest

from understudy.claim import Claim
from understudy.errors import Refused
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.contract import Mechanism, plain_terms
from understudy.mechanisms.perturbed_histogram import PerturbedHistogram
from understudy.mechanisms.reference_censored import ReferenceCensored
from understudy.mechanisms.unweighted import Unweighted
from understudy.mechanisms.weighted import Weighted
from understudy.mechanisms.weighted_e import WeightedE
from understudy.models.beta import Beta
from understudy.models.compilation import compilations
from understudy.models.from_numpyro import from_numpyro
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.synthesis import Synthesis, synthesize

N = 240
SHARES = 150  # records of one share, as in the tests of samplers: the same programs
REGIONS = ("north", "south", "east", "west")
CODEBOOK = Codebook(
    {
        "weight": Column("weight", role="weight"),
        "region": Column("region", type="categorical", levels=REGIONS),
        "x": Column("x"),
        "wage": Column(
            "wage",
            role="sensitive",
            bounds=(-20.0, 20.0),
            missing=(-99.0,),
            typical=0.5,
            spread=1.5,
        ),
    }
)


def wages(region: Any, x: Any, wage: Any = None) -> None:
    """A hierarchical normal model with group effects, as a stranger would write it."""
    centre = numpyro.sample("centre", dist.Normal(0.0, 2.0))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    with numpyro.plate("regions", 4):
        effect = numpyro.sample("effect", dist.Normal(centre, spread))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("wage", dist.Normal(effect[region] + slope * x, sigma), obs=wage)


MODEL = from_numpyro(wages, ["wage"])
SMALL: dict[str, Any] = {"draws": 1000, "chains": 2, "warmup": 300}


def survey_of(seed: int, n: int = N) -> Survey:
    """Residuals of 0.4: the log-likelihood of a record is about -0.5, and clips at 1.5 and 1 leave
    one mode. (Residuals of 1 put it at the clip, where chains have several modes to find.)"""
    rng = np.random.default_rng(seed)
    region, x = rng.integers(0, 4, n), rng.normal(size=n)
    wage = 1.0 + np.array([-1.0, 0.0, 0.5, 1.0])[region] + 0.5 * x + 0.4 * rng.normal(size=n)
    frame = pl.DataFrame(
        {
            "weight": rng.uniform(1, 3, n),
            "region": [REGIONS[k] for k in region],
            "wage": wage,
            "x": x,
        }
    )
    return Survey(frame, Design(weight="weight"), CODEBOOK)


@pytest.fixture(scope="module")
def survey() -> Survey:
    return survey_of(1)


@pytest.fixture(scope="module")
def history() -> Survey:
    return survey_of(2)


def run(survey: Survey, mechanism: Mechanism, datasets: int = 2, **changed: Any) -> Synthesis:
    return synthesize(survey, MODEL, mechanism, datasets, 5, **{**SMALL, **changed})


made = cache(run)  # for tests that look at the same result


MECHANISMS: list[tuple[str, Any, str, float | None]] = [
    ("Unweighted", lambda _: Unweighted(), "risk", None),
    ("Weighted", lambda _: Weighted(), "asymptotic", None),
    ("Weighted to a target", lambda _: Weighted(epsilon=4.0), "asymptotic", 4.0),
    ("Weighted, inverse", lambda _: Weighted(bound=1.2, map="inverse"), "asymptotic", 4.8),
    ("Weighted-e", lambda _: WeightedE(8.0), "asymptotic", None),
    ("Censored", lambda _: Censored(6.0), "local", 6.0),
    ("Censored without weights", lambda _: Censored(6.0, weighted=False), "formal", 6.0),
    ("Censored by history", lambda h: Censored(6.0, weights=h), "formal", 6.0),
    ("ReferenceCensored", lambda h: ReferenceCensored(4.0, h), "formal", 4.0),
    ("with a prior", lambda h: ReferenceCensored(2.0, h, 0.5, prior_scale=0.5), "formal", 2.0),
    ("No history", lambda _: ReferenceCensored(4.0, "none", 0.5, stages=(0.3,)), "formal", 4.0),
    ("PerturbedHistogram", lambda _: PerturbedHistogram(2.0), "formal", 2.0),
]


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize(
    ("make", "kind", "epsilon"), [row[1:] for row in MECHANISMS], ids=[r[0] for r in MECHANISMS]
)
def test_a_strangers_model_goes_through_every_mechanism(
    survey: Survey, history: Survey, make: Any, kind: str, epsilon: float | None
) -> None:
    mechanism = make(history)
    result = made(survey, mechanism)
    assert result.claim.kind == kind
    if epsilon is not None:
        assert result.claim.epsilon == pytest.approx(epsilon, rel=1e-12)
        # 2 data sets: each draw has half of epsilon, and a bound of half of that
        assert result.record_bounds.max() <= epsilon / 4
    assert result.record_bounds.shape == result.record_weights.shape == (N,)
    assert ((result.record_weights >= 0) & (result.record_weights <= 1)).all()
    assert isinstance(Claim.from_json(result.claim.to_json()), Claim)
    original = survey.frame()
    for synthetic in result.datasets:
        frame = synthetic.frame()
        assert frame.schema == original.schema
        assert frame.drop("wage").equals(original.drop("wage"))
        assert not np.isin(frame["wage"], original["wage"]).any()
        assert synthetic.design == survey.design
    first, second = (d.frame()["wage"] for d in result.datasets)
    assert not first.equals(second)
    if result.posterior is not None:
        assert result.diagnostics is not None
        assert result.diagnostics.failures == []
        assert float(result.draws[0]["slope"]) != float(result.draws[1]["slope"])
        assert abs(original["wage"].mean() - first.mean()) < 1.5  # type: ignore[operator]


def test_calibration_compiles_nothing(survey: Survey) -> None:
    made(survey, Weighted(epsilon=4.0))
    built: list[str] = []

    def listen(event: str, _seconds: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            built.append(event)

    before = compilations()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        run(survey, Weighted(epsilon=3.0))
    finally:
        jax.monitoring.clear_event_listeners()
    assert compilations() == before
    assert built == []


def test_the_same_seed_gives_the_same_bytes(survey: Survey) -> None:
    first, again = (make(survey, Censored(6.0)) for make in (made, run))
    for dataset, other in zip(first.datasets, again.datasets, strict=True):
        assert (
            dataset.frame()["wage"].to_numpy().tobytes()
            == other.frame()["wage"].to_numpy().tobytes()
        )
    assert first.draws[1]["slope"].tobytes() == again.draws[1]["slope"].tobytes()
    assert first.claim == again.claim
    other_seed = synthesize(survey, MODEL, Censored(6.0), 2, 6, **SMALL)
    assert not other_seed.datasets[0].frame().equals(first.datasets[0].frame())


def test_the_claim_says_what_it_rests_on(survey: Survey, history: Survey) -> None:
    same_data = made(survey, Censored(6.0)).claim
    text = str(same_data)
    for part in ("wages", "weight, region, x", "exact draw", "seed", "same database"):
        assert part in text
    assert same_data.kind == "local"
    assert "not a guarantee" in text
    assert "every possible database" not in text
    assert "that decision is not covered" in text
    assert "claim for one record with epsilon = 6" in str(
        made(survey, Censored(6.0, weighted=False)).claim
    )
    fixed = made(survey, Censored(6.0, weights=history)).claim
    assert "fixed on another file" in str(fixed)
    assert "computed from the same database" not in str(fixed)
    assert (fixed.kind, fixed.epsilon_replace) == ("formal", 12.0)
    assert "1,000 posterior draws" in str(made(survey, Weighted()).claim)


def test_a_weight_function_is_fixed_once_and_used_again(survey: Survey, history: Survey) -> None:
    first = run(history, Weighted(epsilon=6.0))
    later = run(survey, Censored(6.0).fixed_from(first))
    assert later.weights is first.weights
    assert "fixed on another file" in str(later.claim)
    # a record's weight depends on its own values only: another record's change leaves it alone
    frame = survey.frame()
    wage = frame["wage"].to_numpy().copy()
    wage[0] = 9.0
    moved = Survey(frame.with_columns(wage=pl.Series(wage)), survey.design, CODEBOOK)
    changed = run(moved, Censored(6.0).fixed_from(first))
    np.testing.assert_allclose(changed.record_weights[1:], later.record_weights[1:], rtol=1e-12)
    assert changed.record_weights[0] < later.record_weights[0]
    with pytest.raises(Refused, match="fixed_from"):
        Censored(6.0).fixed_from(run(history, Unweighted()))


@pytest.mark.usefixtures("stand_in_noise")
def test_two_stages_need_no_history() -> None:
    rng = np.random.default_rng(4)
    codebook = Codebook({"y": Column("y", role="sensitive", bounds=(0.0, 1.0))})
    shares = Survey(pl.DataFrame({"y": rng.beta(2, 5, SHARES)}), codebook=codebook)
    result = synthesize(shares, Beta("y"), ReferenceCensored(1.5, "two-stage"), 1, 5, **SMALL)
    assert result.claim.epsilon == 1.5
    assert "spends 0.5 of epsilon" in str(result.claim)
    assert result.record_bounds.max() <= 0.5
    assert abs(result.datasets[0].frame()["y"].mean() - 2 / 7) < 0.1  # type: ignore[operator]
    with pytest.raises(Refused, match="historical survey"):
        run(survey_of(1), ReferenceCensored(1.5, "two-stage"))


def test_a_value_on_the_bound_weighs_nothing_and_is_synthesized() -> None:
    rng = np.random.default_rng(4)
    y = rng.beta(0.5, 3, SHARES)
    y[[3, 8]] = 0.0, 1.0
    codebook = Codebook({"y": Column("y", role="sensitive", bounds=(0.0, 1.0))})
    result = synthesize(
        Survey(pl.DataFrame({"y": y}), codebook=codebook), Beta("y"), Censored(5.0), 1, 5, **SMALL
    )
    assert result.record_weights[[3, 8]].tolist() == [0.0, 0.0]
    assert result.record_bounds[[3, 8]].tolist() == [0.0, 0.0]
    assert np.isinf(result.bounds.loglik[[3, 8]]).all()
    assert 0 < result.datasets[0].frame()["y"][3] < 1


def with_holes(n: int) -> Survey:
    survey = survey_of(1, n)
    wage = survey.frame()["wage"].to_numpy().copy()
    wage[:4] = -99.0  # the codebook's missing code
    wage[4] = np.nan
    frame = survey.frame().with_columns(wage=pl.Series(wage))
    return Survey(frame, survey.design, CODEBOOK)


def test_missing_values_are_refused_dropped_or_modelled() -> None:
    """Fits to N records each, like those of the other tests."""
    holes = with_holes(N)
    with pytest.raises(
        Refused, match=r"missing values; choose.*internal: computed from confidential"
    ):
        run(holes, Censored(6.0))
    dropped = run(with_holes(N + 5), Unweighted(), missing="drop")
    assert dropped.dropped == 5
    assert dropped.datasets[0].n == N
    assert "left out first" in str(dropped.claim)
    modelled = run(holes, Censored(6.0), missing="model")
    assert modelled.datasets[0].n == N
    assert modelled.datasets[0].frame()["wage"].null_count() == 0
    assert modelled.record_weights[:5].tolist() == [0.0] * 5
    assert (modelled.record_weights[5:] > 0).sum() > 200
    assert "counts as blank" in str(modelled.claim)


def test_the_placeholder_of_a_missing_value_is_never_used(survey: Survey) -> None:
    missing = np.arange(N) < 5
    draws = []
    for placeholder in (0.0, 15.0):
        arrays = MODEL.prepare(survey)
        arrays["wage"] = np.where(missing, placeholder, arrays["wage"])
        fitter = ModelFitter(MODEL, survey, arrays, missing, Settings(**SMALL), 5)
        posterior = fitter.fit(plain_terms(fitter), "test")
        assert posterior.bounds.contribution[:5].tolist() == [0.0] * 5
        draws.append(posterior.positions.tobytes())
    assert draws[0] == draws[1]


def test_bad_input_is_refused_in_one_sentence(survey: Survey) -> None:
    frame = survey.frame()
    other_levels = Survey(frame.with_columns(region=pl.lit("mars")), survey.design)
    no_column = Survey(frame.drop("x"), survey.design, CODEBOOK.only(["wage", "region"]))
    constant = Survey(frame.with_columns(wage=pl.lit(1.0)), survey.design, CODEBOOK)
    cases: list[tuple[Any, str]] = [
        (lambda: run(survey, Censored(6.0), datasets=2000), "only 1000 are kept"),
        (lambda: run(survey, Censored(6.0), datasets=0), "whole number"),
        (lambda: synthesize(survey, MODEL, Censored(6.0), seed=-1), "`seed`"),
        (lambda: synthesize(frame, MODEL, Censored(6.0), 1, 5), "must be a Survey"),
        (lambda: synthesize(survey, wages, Censored(6.0), 1, 5), "from_numpyro"),
        (lambda: synthesize(survey, MODEL, "Censored", 1, 5), "must be a mechanism"),
        (lambda: run(survey, Censored(6.0), missing="impute"), "way to treat missing values"),
        (lambda: run(constant, Unweighted()), "`wage` is constant"),
        (lambda: run(survey, ReferenceCensored(1.0, other_levels)), "the same levels"),
        (lambda: run(survey, ReferenceCensored(1.0, no_column)), "does not fit this one"),
        (lambda: run(survey, ReferenceCensored(1.0, survey)), "confidential data itself"),
        (lambda: run(survey, ReferenceCensored(1.0, 3)), "Survey with the same columns"),
        (lambda: run(survey, Censored(6.0, weights=survey)), "confidential data itself"),
    ]
    for call, reason in cases:
        with pytest.raises(Refused, match=reason) as refusal:
            call()
        assert "\n" not in str(refusal.value)


def test_sensitive_columns_that_are_left_out_are_refused(survey: Survey) -> None:
    secret = replace(CODEBOOK["x"], role="sensitive")
    with pytest.raises(Refused, match="`x` is declared sensitive"):
        run(Survey(survey.frame(), survey.design, CODEBOOK.with_column(secret)), Unweighted())


def test_failed_diagnostics_refuse_the_release(survey: Survey) -> None:
    with pytest.raises(Refused, match=r"diagnostics failed.*more `draws`"):
        run(survey, Unweighted(), draws=100)


def test_failed_diagnostics_are_reported_where_no_epsilon_is_claimed(survey: Survey) -> None:
    result = run(survey, Unweighted(), draws=100, diagnostics="report")
    assert result.diagnostics is not None
    assert result.diagnostics.failures
    assert any("diagnostics had not passed" in condition for condition in result.claim.conditions)
    assert not any("exact draw" in condition for condition in result.claim.conditions)
    with pytest.raises(Refused, match="is for mechanisms of kind `risk`"):
        run(survey, Weighted(), draws=100, diagnostics="report")
    with pytest.raises(Refused, match="did you mean `report`"):
        run(survey, Unweighted(), diagnostics="repport")
