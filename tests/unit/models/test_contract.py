"""from_numpyro: one function evaluates and generates; what cannot be a synthesizer is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
import pytest
import scipy.stats
from numpyro.infer.util import log_density

from understudy.errors import Refused
from understudy.models import density as density_module
from understudy.models.beta import Beta
from understudy.models.beta_regression import BetaRegression
from understudy.models.contract import array_column, column_array
from understudy.models.density import density_of
from understudy.models.from_numpyro import from_numpyro
from understudy.models.mixture.mixture import Mixture
from understudy.models.negative_binomial import NegativeBinomial
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey

N = 12


@pytest.fixture
def survey() -> Survey:
    return make_survey()


def make_survey() -> Survey:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "group": rng.choice(["red", "green", "blue"], N),
            "x": rng.normal(size=N),
            "y": rng.normal(size=N),
            "kind": rng.choice(["no", "yes"], N),
            "count": rng.poisson(3, N).astype(np.int16),
        }
    )
    columns = [
        Column("group", type="categorical", levels=("red", "green", "blue")),
        Column("kind", role="sensitive", type="categorical", levels=("no", "yes")),
        Column("y", role="sensitive", bounds=(-10.0, 10.0)),
    ]
    return Survey(frame, codebook=Codebook({c.name: c for c in columns}))


def three_outcomes(group: Any, x: Any, y: Any = None, kind: Any = None, count: Any = None) -> None:
    effect = numpyro.sample("effect", dist.Normal(0.0, 1.0).expand([3]))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(effect[group] + x, sigma), obs=y)
        numpyro.sample("kind", dist.Categorical(share), obs=kind)
        numpyro.sample("count", dist.Poisson(jnp.exp(effect[group])), obs=count)


SENSITIVE = ["y", "kind", "count"]


def test_columns_arrive_as_numbers_or_codes(survey: Survey) -> None:
    arrays = from_numpyro(three_outcomes, SENSITIVE).prepare(survey)
    frame = survey.frame()
    assert arrays["group"].tolist() == [
        ["red", "green", "blue"].index(value) for value in frame["group"]
    ]
    assert arrays["kind"].tolist() == [int(value == "yes") for value in frame["kind"]]
    np.testing.assert_array_equal(arrays["x"], frame["x"].to_numpy())
    assert arrays["count"].dtype == np.int64


def test_prior_and_record_log_likelihoods_add_up_to_numpyros_joint(survey: Survey) -> None:
    model = from_numpyro(three_outcomes, SENSITIVE)
    arrays = model.prepare(survey)
    density = density_of(model, arrays)
    position = jax.random.normal(jax.random.key(4), (density.dimension,))
    parameters = density.constrain_now(position, arrays)
    joint = jax.jit(lambda values: log_density(three_outcomes, (), arrays, values)[0])(parameters)
    log_prior, loglik = density.evaluate_now(position, arrays)
    # numpyro's joint has no Jacobian; add it: d sigma/d log sigma and the simplex's
    simplex = dist.biject_to(dist.constraints.simplex)
    free = simplex.inv(parameters["share"])
    jacobian = jnp.log(parameters["sigma"]) + simplex.log_abs_det_jacobian(
        free, parameters["share"]
    )
    assert float(log_prior + loglik.sum()) == pytest.approx(float(joint + jacobian), abs=1e-10)

    effect = np.asarray(parameters["effect"])[arrays["group"]]
    expected = scipy.stats.norm.logpdf(arrays["y"], effect + arrays["x"], parameters["sigma"])
    expected += np.log(np.asarray(parameters["share"])[arrays["kind"]])
    expected += scipy.stats.poisson.logpmf(arrays["count"], np.exp(effect))
    np.testing.assert_allclose(loglik, expected, rtol=1e-10, atol=1e-10)


def test_the_same_function_generates_columns_of_the_survey(survey: Survey) -> None:
    model = from_numpyro(three_outcomes, SENSITIVE)
    arrays = model.prepare(survey)
    density = density_of(model, arrays)
    position = jnp.zeros(density.dimension)
    generate = jax.jit(density.generate)
    generated = generate(jax.random.key(7), position, arrays)
    again = generate(jax.random.key(7), position, arrays)
    columns = model.restore({k: np.asarray(v) for k, v in generated.items()}, survey)
    assert set(columns["kind"].unique()) <= {"no", "yes"}
    assert columns["count"].dtype == pl.Int16
    assert columns["y"].dtype == pl.Float64
    np.testing.assert_array_equal(generated["y"], again["y"])
    assert not np.allclose(generated["y"], arrays["y"])


def test_what_stands_for_a_sensitive_value_is_declared(survey: Survey) -> None:
    model = from_numpyro(three_outcomes, SENSITIVE)
    values = [model.possible_value(name, survey.codebook) for name in SENSITIVE]
    assert values == [10.0, "no", 1]  # the upper bound, the first level, nothing declared


@pytest.mark.parametrize(
    "model",
    [
        Beta("y"),
        BetaRegression("y", "group"),
        NegativeBinomial("count"),
        Mixture("y", "group", 3, typical=1.0),
        Mixture("y", "group", 3, typical=1.0, assignments="prior"),
        from_numpyro(three_outcomes, SENSITIVE),
    ],
    ids=lambda model: f"{type(model).__name__} {getattr(model, 'assignments', '')}",
)
def test_a_model_says_whether_it_generates_from_records(survey: Survey, model: Any) -> None:
    """It does where something beside its targets holds their values."""
    others = survey.frame().with_columns(y=-pl.col("y"), count=pl.col("count") + 1)
    before, after = (
        model.prepare(file) for file in (survey, Survey(others, codebook=survey.codebook))
    )
    assert any((before[name] != after[name]).any() for name in model.targets)
    beside = set(before) - set(model.targets)
    changed = [name for name in beside if not np.array_equal(before[name], after[name])]
    assert model.generates_from_records is bool(changed)


def test_many_records_come_in_parts(monkeypatch: pytest.MonkeyPatch, survey: Survey) -> None:
    """Twelve in parts of five: the last is filled up with the first record."""
    monkeypatch.setattr(density_module, "PART", 5)
    monkeypatch.setattr(density_module, "FEW_RECORDS", 11)
    model = BetaRegression("y", "group")
    arrays = model.prepare(survey)
    whole = density_of(model, arrays)
    part, parts = whole.in_parts(arrays)
    rows = [*range(12), 0, 0, 0]
    for name, array in arrays.items():
        np.testing.assert_array_equal(parts[name], array[rows].reshape(3, 5, *array.shape[1:]))
    assert (part.n, whole.n) == (5, 12)
    units = np.arange(12)
    monkeypatch.setattr(density_module, "FEW_RECORDS", 12)
    for alone, its in (whole.in_parts(arrays), whole.in_parts(arrays, units)):
        assert alone is whole
        assert {array.shape[0] for array in its.values()} == {1}


def test_equal_models_share_one_density(survey: Survey) -> None:
    arrays = from_numpyro(three_outcomes, SENSITIVE).prepare(survey)
    first = density_of(from_numpyro(three_outcomes, SENSITIVE), arrays)
    assert density_of(from_numpyro(three_outcomes, SENSITIVE), arrays) is first


def test_a_transformed_outcome_comes_back_through_a_deterministic_site(survey: Survey) -> None:
    def model(n: int, x: Any = None) -> None:
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        with numpyro.plate("record", n):
            cube = numpyro.sample("cube", dist.Normal(mean, 1.0), obs=None if x is None else x**3)
            numpyro.deterministic("x", jnp.cbrt(cube))

    wrapped = from_numpyro(model, ["x"])
    arrays = wrapped.prepare(survey)
    density = density_of(wrapped, arrays)
    loglik = density.record_loglik(jnp.zeros(1), arrays)
    np.testing.assert_allclose(loglik, scipy.stats.norm.logpdf(arrays["x"] ** 3), rtol=1e-10)
    assert density.generate(jax.random.key(0), jnp.zeros(1), arrays)["x"].shape == (N,)


def no_plate(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mean + x, 1.0).to_event(1), obs=y)


def outside(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("total", dist.Normal(mean, 1.0), obs=None if y is None else y.sum())
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def discrete_latent(x: Any, y: Any = None) -> None:
    z = numpyro.sample("z", dist.Bernoulli(0.5))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=y)


def improper(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ()))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def square_shape(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean + x[:, None], 1.0), obs=y)


def half_plate(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("record", x.shape[0] // 2):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=None if y is None else y[: N // 2])


def other_name(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("outcome", dist.Normal(mean, 1.0), obs=y)


def standardised_by_itself(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=None if y is None else y - y.mean())


def prior_from_the_data(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0 if y is None else y.max(), 1.0))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def anchored(x: Any, y: Any = None) -> None:
    """Every record is measured from the seventh."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    origin = 0.0 if y is None else y[7]
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean + origin, 1.0), obs=y)


def next_record(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    after = jnp.zeros(x.shape[0]) if y is None else jnp.roll(y, 1)
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean + after, 1.0), obs=y)


def counting(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    positive = 0.0 if y is None else (y > 0).sum()
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean + 0.01 * positive, 1.0), obs=y)


def infinitely_wide(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, jnp.inf))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


class Flat(dist.Normal):
    """Draws like a normal distribution, and calls every value equally likely."""

    def log_prob(self, value: Any) -> Any:
        return jnp.zeros_like(value)


def flat(x: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", Flat(0.0, 1.0))
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def shape_from_values(group: Any, y: Any = None) -> None:
    effect = numpyro.sample("effect", dist.Normal(0, 1).expand([int(group.max()) + 1]).to_event(1))
    with numpyro.plate("record", group.shape[0]):
        numpyro.sample("y", dist.Normal(effect[group], 1.0), obs=y)


def optimised(x: Any, y: Any = None) -> None:
    mean = numpyro.param("mean", 0.0)
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def no_parameter(x: Any, y: Any = None) -> None:
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (no_plate, "no plate named `record`"),
        (outside, "`total` lies outside the plate"),
        (discrete_latent, "`z` is discrete"),
        (improper, "prior of `mean` is improper"),
        (square_shape, r"shape \(12, 12\)"),
        (half_plate, r"shape \(6,\)"),
        (other_name, "no site named 'y'"),
        (standardised_by_itself, "another record's log-likelihood"),
        (prior_from_the_data, "change the prior"),
        (anchored, "another record's log-likelihood"),
        (next_record, "another record's log-likelihood"),
        (counting, "another record's log-likelihood"),
        (infinitely_wide, "prior of `mean` is improper"),
        (flat, "prior of `mean` is improper"),
        (shape_from_values, "depend on the values of a column"),
        (optimised, "numpyro.param"),
        (no_parameter, "nothing to learn"),
    ],
)
def test_models_that_cannot_be_synthesizers_are_refused(
    survey: Survey, function: Callable[..., None], reason: str
) -> None:
    model = from_numpyro(function, ["y"])
    with pytest.raises(Refused, match=reason) as refusal:
        density_of(model, model.prepare(survey))
    assert "\n" not in str(refusal.value)


PRIORS = [
    dist.Normal(0.0, 1e9),
    dist.Cauchy(0.0, 2.5),
    dist.StudentT(0.5, 0.0, 1.0),
    dist.HalfCauchy(10.0),
    dist.HalfNormal(1e-6),
    dist.Gamma(1e-3, 1e-3),
    dist.InverseGamma(0.01, 0.01),
    dist.LogNormal(0.0, 10.0),
    dist.Uniform(-1e6, 1e6),
    dist.Beta(0.5, 0.5),
    dist.Dirichlet(jnp.full(6, 0.5)),
    dist.LKJCholesky(3, 1.0),
    dist.Normal(0.0, 1.0).expand([20]).to_event(1),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_proper_priors_pass_however_wide_their_tails_are(survey: Survey, prior: Any) -> None:
    def model(x: Any, y: Any = None) -> None:
        value = numpyro.sample("value", prior)
        with numpyro.plate("record", x.shape[0]):
            numpyro.sample("y", dist.Normal(jnp.tanh(value).sum(), 1.0), obs=y)

    wide = from_numpyro(model, ["y"])
    density_of(wide, wide.prepare(survey))


@pytest.mark.parametrize("n", [2, 3, 17, 64, 100])
def test_every_pair_of_records_is_told_apart(n: int) -> None:
    """A model in which one record moves one other is refused, whichever two they are: six pairs
    by chance, and those whose numbers differ in one bit alone."""
    rng = np.random.default_rng(n)
    mixing = from_numpyro(one_moves_another, ["y"])
    pairs = [rng.choice(n, 2, replace=False) for _ in range(6)]
    pairs += [np.array([0, 1 << bit]) for bit in range((n - 1).bit_length())]
    for pair in pairs:
        a, b = np.eye(n)[pair]
        with pytest.raises(Refused, match="another record's"):
            density_of(mixing, {"moves": a, "moved": b, "y": rng.normal(size=n)})


def one_moves_another(moves: Any, moved: Any, y: Any = None) -> None:
    """Each of the first two columns is 1 for one record, so that all pairs share a program."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    shift = jnp.zeros(len(moved)) if y is None else moved * (moves @ y)
    with numpyro.plate("record", len(moved)):
        numpyro.sample("y", dist.Normal(mean + shift, 1.0), obs=y)


def test_the_signature_is_checked(survey: Survey) -> None:
    with pytest.raises(Refused, match="must default to None"):
        from_numpyro(lambda x, y: None, ["y"])  # noqa: ARG005
    with pytest.raises(Refused, match="no parameter of the function"):
        from_numpyro(no_plate, ["z"])
    with pytest.raises(Refused, match="list of the columns"):
        from_numpyro(no_plate, "y")
    with pytest.raises(Refused, match=r"\*args"):
        from_numpyro(lambda *columns: None, ["y"])  # noqa: ARG005
    with pytest.raises(Refused, match="Unknown column"):
        from_numpyro(lambda z, y=None: None, ["y"]).prepare(survey)  # noqa: ARG005


def test_columns_without_levels_or_with_holes_are_refused(survey: Survey) -> None:
    model = from_numpyro(no_plate, ["y"])
    holes = Survey(pl.DataFrame({"x": [1.0, None], "y": [0.0, 1.0]}), codebook=Codebook())
    with pytest.raises(Refused, match="`x` has missing values"):
        model.prepare(holes)
    texts = Survey(pl.DataFrame({"x": ["a", "b"], "y": [0.0, 1.0]}), codebook=Codebook())
    with pytest.raises(Refused, match="declare its levels"):
        model.prepare(texts)
    grouped = from_numpyro(shape_from_values, ["y"])
    other = Survey(pl.DataFrame({"group": ["pink"], "y": [0.0]}), codebook=Codebook())
    with pytest.raises(Refused, match="both surveys need the same levels"):
        grouped.prepare(other, like=survey)


def two_columns(n: int, y: Any = None, kind: Any = None) -> None: ...


def test_a_claim_rests_on_the_levels_of_texts(survey: Survey) -> None:
    """Numbers and truth values need none; a histogram needs declared bounds of one variable."""
    truth = Survey(survey.frame().with_columns(kind=pl.col("kind") == "yes"))
    model = from_numpyro(two_columns, ["y", "kind"])
    assert model.rests_on(survey) == {"kind": "levels"}
    assert model.rests_on(truth) == {}
    with pytest.raises(Refused, match="one sensitive variable, and `two_columns` has several"):
        model.bounded_target(survey.codebook)
    alone = from_numpyro(no_plate, ["y"])
    assert alone.bounded_target(survey.codebook) == ("y", (-10.0, 10.0))
    with pytest.raises(Refused, match="`y` needs declared bounds"):
        alone.bounded_target(Codebook())


def test_arrays_become_columns_of_the_declared_type() -> None:
    frame = pl.DataFrame(
        {"truth": [True, False], "text": ["b", "a"], "whole": [1.0, 2.0], "number": [1, 2]}
    )
    columns = [
        Column("text", type="categorical", levels=("b", "a")),
        Column("whole", type="integer"),
        Column("number", type="continuous"),
    ]
    survey = Survey(frame, codebook=Codebook({c.name: c for c in columns}))
    there = {name: column_array(frame[name], survey) for name in frame.columns}
    assert {name: a.tolist() for name, a in there.items()} == {
        "truth": [1, 0],
        "text": [0, 1],
        "whole": [1, 2],
        "number": [1.0, 2.0],
    }
    assert [there[name].dtype for name in ("whole", "number")] == [np.int64, np.float64]
    back = {name: array_column(a, name, survey).to_list() for name, a in there.items()}
    assert back == frame.to_dict(as_series=False)
    with pytest.raises(Refused, match="declared as whole numbers, and some values are not"):
        column_array(pl.Series("whole", [1.0, 2.5]), survey)


def test_a_parameter_that_takes_the_number_of_records_is_not_a_column() -> None:
    assert from_numpyro(two_columns, ["y"]).given_columns() == ("kind",)
    assert from_numpyro(lambda n=None, y=None: None, ["n", "y"]).columns == ("n", "y")  # noqa: ARG005
