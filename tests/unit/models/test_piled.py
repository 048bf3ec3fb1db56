"""Topcodes, zeros and amounts below 0: log-likelihoods against SciPy and quadrature, what is
generated against the model's own probabilities, and the posterior against its closed form."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit, gammaln, log_softmax

import understudy as us
from understudy.errors import Refused
from understudy.models.beta import Beta
from understudy.models.beta_regression import BetaRegression
from understudy.models.beta_tail import log_beta_tail
from understudy.models.density import density_of
from understudy.models.normal_sample import FBS
from understudy.models.piled import Piled, crossed
from understudy.models.piles import Piles, declared_piles
from understudy.survey.codebook import Codebook, Column
from understudy.survey.rounding import on_rounding

TOP = 60_000.0
N = 300


def wages(low: float = -50_000.0, **facts: Any) -> us.Survey:
    """Amounts of which a seventh are 0, a few are topcoded and a few are losses."""
    rng = np.random.default_rng(4)
    group = rng.choice(["a", "b"], N)
    pay = np.minimum(np.round(np.exp(rng.normal(10, 0.8, N)), 2), TOP)
    pay[rng.uniform(size=N) < 0.15] = 0.0
    if low < 0:
        pay[:5] = -np.array([20.0, 1_500.0, 900.0, 30_000.0, 12.5])
    frame = pl.DataFrame({"pay": pay, "group": group, "w": rng.uniform(1, 3, N)})
    facts = {"bounds": (low, TOP), "special": (0.0, TOP), **facts}
    columns = {
        "pay": Column("pay", "sensitive", **facts),
        "group": Column("group", "public", "categorical", levels=("a", "b")),
        "w": Column("w", "weight"),
    }
    return us.Survey(frame, us.Design(weight="w"), Codebook(columns, population_size=600.0))


def piled(model: Any, survey: us.Survey) -> Piled:
    bound = model.for_survey(survey)
    assert isinstance(bound, Piled)
    return bound


def at(model: Piled, arrays: Any, parameters: dict[str, Any]) -> np.ndarray:
    density = density_of(model, arrays)
    position = density.unconstrain_now(parameters, arrays)
    return np.asarray(density.evaluate_now(position, arrays)[1])


NORMAL = {
    "coefficients": np.array([[9.8, 0.1], [0.3, -0.2]]),
    "scale": np.array([0.9, 0.4]),
    "correlation": np.array([[1.0, 0.0], [0.6, 0.8]]),
    "pile_odds": np.array([[-1.5, -3.0], [0.4, -0.3]]),
    "pile_shift": np.array([[0.3, -0.5]]),
    "loss_centre": 7.0,
    "loss_spread": 1.4,
}


def test_a_record_contributes_what_its_kind_shows() -> None:
    survey = wages()
    model = piled(FBS("pay", "group"), survey)
    arrays = model.prepare(survey)
    loglik = at(model, arrays, NORMAL)

    frame = survey.frame()
    pay, w = frame["pay"].to_numpy(), frame["w"].to_numpy()
    X = np.column_stack([np.ones(N), frame["group"] == "b"])
    mean, log_w = X @ NORMAL["coefficients"], np.log(w / (600 / N))
    factor = NORMAL["scale"][:, None] * NORMAL["correlation"]
    Sigma = factor @ factor.T
    log_p = log_softmax(np.column_stack([np.zeros(N), X @ NORMAL["pile_odds"]]), axis=1)
    sd_w = np.sqrt(Sigma[1, 1])
    for i in range(N):
        both = stats.multivariate_normal(mean[i], Sigma)
        if pay[i] < 0:
            expected = log_p[i, 2] + stats.norm.logpdf(log_w[i], mean[i, 1] - 0.5, sd_w)
            expected += stats.norm.logpdf(np.log(-pay[i]), 7.0, 1.4)
        elif pay[i] == 0:
            expected = log_p[i, 1] + stats.norm.logpdf(log_w[i], mean[i, 1] + 0.3, sd_w)
        elif pay[i] == TOP:
            joint = quad(lambda y, b=both, v=log_w[i]: b.pdf([y, v]), np.log(TOP), 20)[0]
            expected = log_p[i, 0] + np.log(joint)
        else:
            expected = log_p[i, 0] + both.logpdf([np.log(pay[i]), log_w[i]])
        assert loglik[i] == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert [(pay < 0).sum(), (pay == 0).sum() > 20, (pay == TOP).sum() > 5] == [5, True, True]


def test_kinds_shifts_and_losses_have_the_priors_of_scipy() -> None:
    survey = wages()
    model = piled(FBS("pay", "group"), survey)
    arrays = model.prepare(survey)
    density, inner = density_of(model, arrays), model._own(arrays)
    ours = density.evaluate_now(density.unconstrain(NORMAL, arrays), arrays)[0]
    own = {name: NORMAL[name] for name in ("coefficients", "scale", "correlation")}
    without = density_of(model.base, inner)
    rest = without.evaluate_now(without.unconstrain(own, inner), inner)[0]
    expected = stats.norm.logpdf(NORMAL["pile_odds"], 0, [[2.5], [1.0]]).sum()
    expected += stats.norm.logpdf(NORMAL["pile_shift"]).sum() + stats.norm.logpdf(7.0, 0, 10)
    expected += np.log(2) + stats.t.logpdf(1.4, 3) + np.log(1.4)  # the last by log's Jacobian
    assert float(ours) == pytest.approx(float(rest) + expected, abs=1e-9)


def test_chains_start_at_shares_of_kinds_and_at_the_mean_loss() -> None:
    survey = wages()
    model = piled(FBS("pay", "group"), survey)
    arrays, pay = model.prepare(survey), survey.frame()["pay"].to_numpy()
    alpha = np.linspace(0.2, 0.8, N)
    start = model.start(arrays, alpha, 1)
    assert start is not None
    counts = np.array([(pay > 0).sum(), (pay == 0).sum(), (pay < 0).sum()]) + 0.5
    odds = [np.log(counts[1:] / counts[0]), [0.0, 0.0]]
    np.testing.assert_allclose(start["pile_odds"], odds)
    assert start["pile_shift"].tolist() == [[0.0, 0.0]]
    assert start["loss_centre"] == pytest.approx(np.log(-pay[pay < 0]).mean())
    assert start["loss_spread"] == 1.0
    amounts = model.base.rough_start(model._own(arrays), alpha * (pay > 0), 1)
    assert amounts is not None
    np.testing.assert_array_equal(start["coefficients"], amounts["coefficients"])
    scale = model.start_scale(start, arrays, alpha)
    zeros, losses = ((1 + alpha[some].sum()) ** -0.5 for some in (pay == 0, pay < 0))
    np.testing.assert_allclose(scale["pile_odds"], [zeros, losses])
    np.testing.assert_allclose(scale["pile_shift"], [zeros, losses])
    np.testing.assert_allclose([scale["loss_centre"], scale["loss_spread"]], losses)
    amount = alpha[pay > 0].sum()
    np.testing.assert_allclose(scale["scale"], (2 * amount) ** -0.5)
    np.testing.assert_allclose(scale["correlation"], amount**-0.5)
    X = arrays["X"][pay > 0]
    root = np.sqrt(np.diag(np.linalg.inv((X.T * alpha[pay > 0]) @ X)))
    np.testing.assert_allclose(scale["coefficients"], np.outer(root, start["scale"]))


def test_without_a_loss_chains_start_at_the_declared_one_and_without_piles_apart_at_none() -> None:
    survey = wages(low=-1000.0)
    positive = us.Survey(
        survey.frame().with_columns(pl.col("pay").clip(lower_bound=5.0)),
        survey.design,
        survey.codebook,
    )
    model = piled(FBS("pay", "group"), positive)
    start = model.start(model.prepare(positive), np.ones(N))
    assert start is not None
    assert start["loss_centre"] == pytest.approx(np.log(1000.0))
    topcode = wages(low=0.0, special=(TOP,))
    some = us.Survey(
        topcode.frame().with_columns(pl.col("pay").clip(lower_bound=5.0)),
        topcode.design,
        topcode.codebook,
    )
    model = piled(FBS("pay", "group"), some)
    assert model.piles == Piles((), TOP)
    start = model.start(model.prepare(some), np.ones(N))
    assert start is not None
    scale = model.start_scale(start, model.prepare(some), np.ones(N))
    assert not {"pile_odds", "pile_shift", "loss_centre"} & (set(start) | set(scale))


def test_each_cell_of_each_kind_has_a_number() -> None:
    cell, kind = jnp.array([1, 0, 1, 0, 1, 2]), jnp.array([0, 0, 2, 1, 0, 1])
    assert crossed(cell, kind).tolist() == [2, 0, 3, 1, 2, 4]


def test_a_topcode_below_the_bounds_of_a_beta_model_is_a_tail() -> None:
    survey = wages(low=0.0)
    model = piled(BetaRegression("pay", "group", bounds=(0, 200_000)), survey)
    assert model.piles == Piles((0.0,), TOP)
    arrays = model.prepare(survey)
    beta, odds = np.array([-2.0, 0.5]), np.array([[-1.0], [0.2]])
    loglik = at(model, arrays, {"beta": beta, "lambda": 6.0, "pile_odds": odds})
    pay = survey.frame()["pay"].to_numpy()
    X = arrays["X"]
    log_p = log_softmax(np.column_stack([np.zeros(N), X @ odds]), axis=1)
    law = stats.beta(6 * expit(X @ beta), 6 * expit(-X @ beta))
    seen = np.where(pay == TOP, law.logsf(pay / 200_000), law.logpdf(np.where(pay, pay, 1) / 2e5))
    expected = np.where(pay == 0, log_p[:, 1], log_p[:, 0] + seen)
    np.testing.assert_allclose(loglik, expected, rtol=1e-9)


def test_a_topcode_on_the_bound_of_a_beta_model_is_a_point() -> None:
    assert piled(Beta("pay"), wages(low=0.0)).piles == Piles((0.0, TOP))
    only_bounds = wages(low=0.0, special=())
    assert BetaRegression("pay", "group").for_survey(only_bounds) == BetaRegression("pay", "group")


def test_only_what_is_declared_is_a_pile() -> None:
    column = Column("pay", bounds=(-1.0, 9.0), special=(0.0, 5.0, 9.0))
    assert declared_piles(column, logs=True) == Piles((0.0, 5.0), 9.0, -1.0)
    assert declared_piles(column, logs=False) == Piles((0.0, 5.0), 9.0)
    drafted = Column("pay", bounds=(0, 9), special=(0, 9), drafted=frozenset({"special"}))
    assert declared_piles(drafted, logs=True) is None
    assert str(Piles((0.0, 5.0), 9.0)) == "being 0, being 5 and reaching the topcode 9"


def test_tail_of_a_beta_variable_and_its_slope() -> None:
    for first in (0.05, 2.0, 30.0, 700.0):
        for second in (0.3, 5.0, 400.0):
            check_tail(first, second)


@jax.jit
def slopes_of_tail(parameters: Any, t: Any) -> Any:
    return jax.grad(lambda p: log_beta_tail(t, p[0], p[1]).sum())(parameters)


def check_tail(first: float, second: float) -> None:
    centre = first / (first + second)
    t = np.clip(np.array([0.2, 0.9, 1.0, 1.1, 1.5]) * centre, 1e-6, 1 - 1e-6)
    tail = jax.jit(log_beta_tail)(t, first, second)
    np.testing.assert_allclose(tail, stats.beta.logsf(t, first, second), rtol=1e-9, atol=1e-12)
    slopes = slopes_of_tail(jnp.array([first, second]), t)
    for which, slope in enumerate(slopes):
        step = 1e-5 * (first, second)[which]
        high, low = np.array([first, second]), np.array([first, second])
        high[which] += step
        low[which] -= step
        rise = stats.beta.logsf(t, *high).sum() - stats.beta.logsf(t, *low).sum()
        assert float(slope) == pytest.approx(rise / (2 * step), rel=1e-4, abs=1e-7)


def test_generated_records_have_the_probabilities_of_their_kinds() -> None:
    survey = wages(rounding=100.0)
    model = piled(FBS("pay", "group"), survey)
    arrays = model.prepare(survey)
    density = density_of(model, arrays)
    generate = jax.jit(density.generate_from)
    drawn = [generate(jax.random.key(k), NORMAL, arrays) for k in range(20)]
    kinds = np.stack([np.asarray(each["kind"]) for each in drawn])
    X = arrays["X"]
    shares = np.exp(log_softmax(np.column_stack([np.zeros(N), X @ NORMAL["pile_odds"]]), axis=1))
    for kind in range(3):  # balanced within groups: less than one record away from what is expected
        assert np.abs((kinds == kind).sum(axis=1) - shares[:, kind].sum()).max() < 3
    for each in drawn[:3]:
        columns = model.restore({n: np.asarray(a) for n, a in each.items()}, survey)
        pay, kind = columns["pay"].to_numpy(), np.asarray(each["kind"])
        assert (pay % 100 == 0).all()
        assert (pay[kind == 1] == 0).all()
        assert (pay[kind == 2] < 0).all()
        assert (pay[kind == 0] > 0).all()
        amounts = np.exp(np.asarray(each["y0"]))
        assert ((pay == TOP) == ((kind == 0) & (amounts >= TOP))).all()
    shift = np.stack([np.asarray(each["w"]) for each in drawn]) - X @ NORMAL["coefficients"][:, 1]
    assert shift[kinds == 1].mean() == pytest.approx(0.3, abs=0.05)


def test_values_stand_on_the_declared_rounding_and_on_no_special_value() -> None:
    column = Column("pay", bounds=(0, 1_050), special=(0, 1_000), rounding=100)
    values = np.array([20.0, 0.0, 149.0, 151.0, 960.0, 1_000.0, 1_040.0])
    rounded = on_rounding(values, column)
    np.testing.assert_array_equal(rounded, [100, 0, 100, 200, 900, 1_000, 900])
    tenths = on_rounding(np.array([0.31, -0.26]), Column("x", rounding=0.1))
    np.testing.assert_array_equal(tenths, [0.3, -0.3])
    drafted = Column("pay", rounding=100, drafted=frozenset({"rounding"}))
    np.testing.assert_array_equal(on_rounding(values, drafted), values)


def test_mechanisms_without_room_for_piles_say_so() -> None:
    survey = wages(low=0.0)
    with pytest.raises(Refused, match="without special values of it"):
        us.synthesize(survey, FBS("pay", "group"), us.NoisyMoments(epsilon=1))
    with pytest.raises(Refused, match="no bins for the special values of `pay`"):
        us.synthesize(survey, Beta("pay"), us.PerturbedHistogram(epsilon=1))
    none = us.ReferenceCensored(epsilon=1, reference="none")
    with pytest.raises(Refused, match="does not know how common the special values of `pay`"):
        us.synthesize(survey, FBS("pay", "group"), none)
    with pytest.raises(Refused, match="declare 0 among the `special` values"):
        us.synthesize(wages(low=0.0, special=()), FBS("pay", "group"), us.Unweighted())


def log_heights(arrays: Any, odds: Any, phi: Any, lam: Any) -> tuple[np.ndarray, np.ndarray]:
    """Log posterior heights of the share of zeros, and of the law of amounts with a topcode."""
    kind = arrays["kind"]
    of_kinds = stats.norm.logpdf(odds, 0, 2.5) - N * np.log1p(np.exp(odds))
    of_kinds = of_kinds + (kind == 1).sum() * odds
    y = arrays["y"][kind == 0]
    height = stats.pareto.logpdf(lam, 1.5, scale=0.1)
    height += (kind == -1).sum() * stats.beta(lam * phi, lam * (1 - phi)).logsf(TOP / 200_000)
    constant = gammaln(lam) - gammaln(lam * phi) - gammaln(lam * (1 - phi))
    height += len(y) * constant + (lam * phi - 1) * np.log(y).sum()
    return of_kinds, height + (lam * (1 - phi) - 1) * np.log1p(-y).sum()


def test_the_posterior_has_its_closed_form() -> None:
    survey = wages(low=0.0)
    model = piled(Beta("pay", bounds=(0, 200_000)), survey)
    arrays = model.prepare(survey)
    density = density_of(model, arrays)
    excess = []
    for odds, phi, lam in ((-1.8, 0.14, 12.0), (-1.2, 0.14, 12.0), (-1.8, 0.11, 20.0)):
        parameters = {"pile_odds": np.array([[odds]]), "phi": phi, "lambda": lam}
        position = density.unconstrain_now(parameters, arrays)
        _, loglik = density.evaluate_now(position, arrays)
        prior = stats.norm.logpdf(odds, 0, 2.5) + stats.pareto.logpdf(lam, 1.5, scale=0.1)
        ours = prior + float(np.asarray(loglik).sum())
        excess.append(ours - sum(map(float, log_heights(arrays, odds, phi, lam))))
    np.testing.assert_allclose(excess, excess[0], atol=1e-7)


@pytest.mark.slow
def test_a_fit_is_that_of_the_grid() -> None:
    """Shares of zeros and the law of amounts with a topcode, by sums over a grid."""
    survey = wages(low=0.0)
    model = Beta("pay", bounds=(0, 200_000))
    result = us.synthesize(survey, model, us.Unweighted(), seed=3, draws=1_000, warmup=300)
    posterior = result.posterior
    assert posterior is not None
    arrays, drawn = piled(model, survey).prepare(survey), _sites(posterior)
    odds = np.linspace(-4, 1, 6_400)
    phi, lam = map(np.ravel, np.meshgrid(np.linspace(0.1, 0.2, 80), np.linspace(5, 30, 80)))
    of_kinds, of_amounts = log_heights(arrays, odds, phi, lam)
    for name, values, height in (
        ("pile_odds", odds, of_kinds), ("phi", phi, of_amounts), ("lambda", lam, of_amounts)
    ):  # fmt: skip
        share = np.exp(height - height.max())
        mean = (share * values).sum() / share.sum()
        spread = np.sqrt((share * (values - mean) ** 2).sum() / share.sum())
        assert drawn[name].mean() == pytest.approx(mean, abs=0.2 * spread)
        assert drawn[name].std() == pytest.approx(spread, rel=0.15)


def _sites(posterior: Any) -> dict[str, np.ndarray]:
    constrain = jax.jit(jax.vmap(lambda q: posterior.density.constrain(q, posterior.arrays)))
    drawn = constrain(jnp.asarray(posterior.positions))
    return {name: np.asarray(values).ravel() for name, values in drawn.items()}
