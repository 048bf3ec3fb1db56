"""Claims for a whole household: what one household can change, in every mechanism."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from scipy import stats

from understudy.claim import Claim
from understudy.dp.contributions import by_unit, reference_censored
from understudy.dp.histogram import HistogramDraw
from understudy.dp.record_bounds import record_bounds
from understudy.errors import Refused
from understudy.fitting import fitter as fitting
from understudy.fitting.diagnostics import diagnose
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter, made_up_units
from understudy.fitting.nuts import Chains, log_density
from understudy.mechanisms import laplace_table as tables
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.contract import ReleasedRows
from understudy.mechanisms.laplace_table import laplace_table
from understudy.mechanisms.marginals import Marginals
from understudy.mechanisms.modips import Modips
from understudy.mechanisms.perturbed_histogram import PerturbedHistogram
from understudy.mechanisms.reference_censored import ReferenceCensored, reference_scale
from understudy.mechanisms.row_counts import RowCounts
from understudy.mechanisms.weighted import Weighted
from understudy.models.beta import Beta
from understudy.models.multinomial import Multinomial
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.synthesis import synthesize
from understudy.tables.units import Unit

SHARES = Codebook(
    {
        "home": Column("home", "unit", "integer"),
        "share": Column("share", "sensitive", bounds=(0.0, 1.0)),
    },
    records_per_unit=3,
)


def homes(count: int = 50, size: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    home = np.repeat(np.arange(count), size)
    return pl.DataFrame({"home": home, "share": rng.beta(2, 3, home.size)})


@pytest.fixture
def survey() -> Survey:
    return Survey(homes(), codebook=SHARES)


def test_contributions_are_added_up_before_they_are_clipped():
    loglik = jnp.array([[1.0, 2.0, -4.0, 0.25], [-9.0, 0.5, 9.5, jnp.nan]])
    clipped = np.asarray(reference_censored(loglik, 0.0, 1.0, 1.0, [0, 1, 0, 2]))
    np.testing.assert_array_equal(clipped, [[-1.0, 1.0, 0.25, 0.0], [0.5, 0.5, -1.0, 0.0]])
    each = np.asarray(reference_censored(loglik, 0.0, 1.0, 1.0))
    assert np.abs(each[:, [0, 2]].sum(axis=1)).max() <= 2.0  # a record each: the home adds up to 2M
    np.testing.assert_array_equal(by_unit([1.0, 2.0, 4.0], None), [1.0, 2.0, 4.0])


def test_whatever_a_home_says_moves_the_density_by_at_most_the_limit():
    rng = np.random.default_rng(1)
    units = rng.integers(0, 7, 40)
    alpha = rng.random(40)
    for _ in range(50):
        loglik, other = rng.standard_cauchy((2, 40)) * 30
        other = np.where(units == 3, other, loglik)  # home 3 says something else
        blank = np.where(units == 3, 0.0, alpha)
        sums = [
            float(reference_censored(f, 0.0, a, 0.7, units).sum())
            for f, a in ((loglik, alpha), (other, alpha), (loglik, blank))
        ]
        assert abs(sums[0] - sums[1]) <= 2 * 0.7 + 1e-12
        assert abs(sums[0] - sums[2]) <= 0.7 + 1e-12


def test_bounds_are_those_of_the_homes_sums():
    positions = np.array([[0.0], [1.0], [-2.0]])
    y = np.array([0.5, -1.0, 3.0, 8.0])
    units, present = np.array([1, 0, 1, 1]), np.array([True, True, True, False])

    def loglik(position: Any, arrays: Any) -> Any:
        return -0.5 * (arrays["y"] - position[0]) ** 2

    alpha = np.array([1.0, 0.5, 0.25, 0.0])
    bounds = record_bounds(loglik, positions, {"y": y}, alpha, np.zeros(4), 2.0, units, present)
    f = -0.5 * (y - positions) ** 2
    home = np.abs(f[:, 0] + f[:, 2]).max()
    np.testing.assert_allclose(bounds.loglik, [home, np.abs(f[:, 1]).max(), home, home])
    weighted = np.abs(f[:, 0] + 0.25 * f[:, 2])
    np.testing.assert_allclose(bounds.weighted[[0, 2]], weighted.max())
    np.testing.assert_allclose(bounds.contribution[[0, 2]], np.minimum(weighted, 2.0).max())


def test_a_fit_sums_each_home_and_the_claim_names_it(survey: Survey):
    few: dict[str, Any] = {"seed": 1, "draws": 800, "chains": 2, "warmup": 300}
    result = synthesize(survey, Beta("share"), Censored(2.0, weighted=False), **few)
    assert result.claim.unit == "home"
    assert (result.claim.kind, result.claim.epsilon) == ("formal", 2.0)
    text = str(result.claim)
    assert "for one `home` with all its records" in text.split(". ")[0]
    assert "k records" not in text
    assert "one record" not in text
    assert "home" not in result.datasets[0].columns  # it identifies, and nothing needs it
    assert result.datasets[0].codebook.unit_column is None
    # of each home's records, the bound is the home's
    bounds = result.record_bounds.reshape(50, 3)
    assert (bounds == bounds[:, :1]).all()
    assert bounds.max() <= 1.0
    # against sums written out: f of each record at every draw, added up by home, then clipped
    assert result.posterior is not None
    loglik = np.concatenate(list(result.posterior.record_loglik()))
    sums = np.clip(loglik.reshape(len(loglik), 50, 3).sum(axis=2), -1.0, 1.0)
    np.testing.assert_allclose(bounds[:, 0], np.abs(sums).max(axis=0))


GUESSED = SHARES.with_column(replace(SHARES["share"], typical=0.4, spread=0.2))
PAST = Survey(homes(40, 3).with_columns(pl.col("share") ** 2), codebook=SHARES)
CLIPPED = {
    "Censored": Censored(2.0, weighted=False),
    "Censored, weights of a past file": Censored(2.0, weights=PAST),
    "a past file": ReferenceCensored(2.0, PAST, scale=1.0),
    "a past file without ids": ReferenceCensored(
        2.0, Survey(PAST.frame(["share"]), codebook=SHARES.without_unit()), scale=1.0
    ),
    "two stages": ReferenceCensored(2.0, "two-stage", scale=1.0),
    "no history": ReferenceCensored(2.0, "none", scale=1.0, stages=(0.25, 0.25)),
}


@pytest.fixture
def densities(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Each density that chains were asked for; they answer with made-up draws."""
    seen: list[tuple[Any, Any]] = []

    def sample(density: Any, inputs: Any, settings: Any, *_: Any) -> Chains:
        seen.append((density, inputs))
        shape = (settings.chains, settings.draws // settings.chains, density.dimension)
        positions = 0.7 + 0.1 * np.random.default_rng(1).normal(size=shape)
        return Chains(positions, diagnose(positions, 0, density.coordinates))

    def histogram(*_: Any) -> HistogramDraw:
        return HistogramDraw(np.linspace(0, 1, 3), np.array([0.5, 0.5]))

    monkeypatch.setattr(fitting, "sample", sample)
    monkeypatch.setattr(fitting, "perturbed_histogram", histogram)
    return seen


def moved_by_a_home(density: Any, inputs: Any) -> float:
    """How far a planted home moves the density that is sampled, at the theta where most."""
    blank = inputs | {"alpha": inputs["alpha"].at[:3].set(0.0)}
    around = np.random.default_rng(2).normal(scale=2.0, size=(40, density.dimension))
    moves = [
        float(log_density(density, jnp.asarray(theta), inputs))
        - float(log_density(density, jnp.asarray(theta), blank))
        for theta in around
    ]
    return max(abs(move) for move in moves)


@pytest.mark.usefixtures("densities")
@pytest.mark.parametrize("name", CLIPPED)
def test_a_planted_home_moves_no_density_by_more_than_its_limit(name: str, densities: Any):
    """Three members who say what nobody else does: whatever theta is, the home counts once."""
    frame = homes().with_columns(
        pl.when(pl.col("home") == 0).then(0.999).otherwise("share").alias("share")
    )
    survey = Survey(frame, codebook=GUESSED)
    result = synthesize(survey, Beta("share"), CLIPPED[name], 2, seed=1, progress=False)
    assert result.claim.unit == "home"
    assert any("were added up before they were limited" in each for each in result.claim.conditions)
    clipped = [each for each in densities if np.isfinite(each[1]["limit"])]
    assert len(clipped) == (3 if name == "no history" else 1)
    spent = [float(inputs["limit"]) for _, inputs in clipped]
    assert 2 * (sum(spent) + spent[-1]) <= 2.0  # the last one is drawn twice
    for density, inputs in clipped:
        limit = float(inputs["limit"])
        assert moved_by_a_home(density, inputs) == pytest.approx(limit, rel=1e-6)
        by_record = {key: value for key, value in inputs.items() if key != "units"}
        assert moved_by_a_home(density, by_record) > 2.5 * limit  # units clipped per record


def test_alpha_is_chosen_by_the_sums_of_homes():
    """Homes of three that say the same: what is clipped of a home is clipped at a third."""
    rng = np.random.default_rng(4)
    share = np.repeat(rng.beta(2, 3, 200), 3)
    frame = pl.DataFrame({"home": np.repeat(np.arange(200), 3), "share": share})

    def scale(survey: Survey, limit: float) -> float:
        model = Beta("share").for_survey(survey)
        arrays = model.prepare(survey)
        fitter = ModelFitter(model, survey, arrays, np.zeros(600, bool), Settings(), 1)
        positions = np.array([0.7, 1.1]) + 0.3 * rng.normal(size=(50, 2))
        return reference_scale(fitter, positions, np.array([0.7, 1.1]), limit)

    by_home = scale(Survey(frame, codebook=SHARES), 1.0)
    alone = scale(Survey(frame.drop("home"), codebook=SHARES.without_unit()), 1.0)
    assert by_home < alone


def test_files_of_a_guess_have_the_homes_of_the_file():
    """Pairs, where three are allowed."""
    survey = Survey(homes(75, 2), codebook=GUESSED)
    model = Beta("share").for_survey(survey)
    fitter = ModelFitter(model, survey, model.prepare(survey), np.zeros(150, bool), Settings(), 1)
    np.testing.assert_array_equal(fitter.on_guess(1).units, np.repeat(np.arange(75), 2))


def test_a_past_file_without_ids_has_homes_of_the_same_sizes():
    units = np.repeat(np.arange(100), [1, 2, 4, 4] * 25).astype(np.int32)
    made = made_up_units(units, 1000)
    sizes = np.bincount(made)
    assert made.shape == (1000,)
    assert set(sizes[:-1]) <= {1, 2, 3, 4}  # the last in line may lack some
    assert sizes.mean() == pytest.approx(2.75, rel=0.15)
    assert (np.diff(made) == 0).mean() < 0.05  # neighbours in the file are not one home
    np.testing.assert_array_equal(made, made_up_units(units, 1000))


def test_an_asymptotic_claim_states_the_bound_of_a_home(survey: Survey):
    few: dict[str, Any] = {"seed": 1, "draws": 800, "chains": 2, "warmup": 300}
    by_home = synthesize(survey, Beta("share"), Weighted(), **few)
    plain = Survey(homes().drop("home"), codebook=SHARES.without_unit())
    by_record = synthesize(plain, Beta("share"), Weighted(), **few)
    assert by_home.posterior is not None
    alpha = by_home.record_weights.reshape(50, 3)
    assert (alpha == alpha[:, :1]).all()  # weights follow from the home's bound
    loglik = np.concatenate(list(by_home.posterior.record_loglik()))
    sums = alpha[:, 0] * loglik.reshape(len(loglik), 50, 3).sum(axis=2)
    assert by_home.claim.epsilon == pytest.approx(2 * np.abs(sums).max())
    assert by_record.claim.unit == "record"
    assert "for one record" in str(by_record.claim).split(". ")[0]


def test_a_histogram_counts_a_homes_records_up_to_its_limit(monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[int, int]] = []

    def kept(values: Any, *settings: Any) -> Any:
        seen.append((len(values), settings[3] if len(settings) > 3 else 1))
        return HistogramDraw(np.linspace(0, 1, 3), np.array([0.5, 0.5]))

    monkeypatch.setattr(fitting, "perturbed_histogram", kept)
    frame = homes(10, 5)
    result = synthesize(
        Survey(frame, codebook=SHARES), Beta("share"), PerturbedHistogram(2.0, bins=2), seed=1
    )
    assert seen == [(30, 3)]  # three of each home's five
    assert result.claim.unit == "home"
    plain = Survey(frame.drop("home"), codebook=SHARES.without_unit())
    synthesize(plain, Beta("share"), PerturbedHistogram(2.0, bins=2), seed=1)
    assert seen[1] == (50, 1)


PEOPLE = Codebook(
    {
        "home": Column("home", "unit", "integer"),
        "age": Column("age", "sensitive", "categorical", levels=(1, 2, 3, 4)),
        "sex": Column("sex", "sensitive", "categorical", levels=("f", "m")),
    },
    records_per_unit=2,
)


def people() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    home = np.repeat(np.arange(100), 4)
    return pl.DataFrame(
        {"home": home, "age": rng.integers(1, 5, 400), "sex": rng.choice(["f", "m"], 400)}
    )


@pytest.mark.any_noise
@pytest.mark.parametrize(
    "mechanism", [Modips(50.0, "public"), Modips(50.0, "threshold", delta=1e-4), Marginals(50.0)]
)
def test_counts_of_rows_are_limited_and_their_noise_is_scaled(
    mechanism: Any, monkeypatch: pytest.MonkeyPatch
):
    scales: list[float] = []

    def silent(counts: Any, scale: float) -> Any:
        scales.append(scale)
        return counts

    monkeypatch.setattr("understudy.dp.noise._opendp_laplace", silent)
    result = synthesize(Survey(people(), codebook=PEOPLE), Multinomial(["age", "sex"]), mechanism)
    draw = result.draws[0]
    if "noisy_counts" in draw and result.claim.delta == 0:
        assert draw["noisy_counts"].sum() == 200  # two of each home's four
    assert result.datasets[0].n == 400  # public; how many were counted is not
    assert result.datasets[0].columns == ("age", "sex")
    assert (result.claim.unit, result.claim.kind) == ("home", "formal")
    assert "At most 2 records of each `home`" in str(result.claim)
    plain = Survey(people().drop("home"), codebook=PEOPLE.without_unit())
    assert synthesize(plain, Multinomial(["age", "sex"]), mechanism).datasets[0].n == 400
    assert scales[0] == pytest.approx(2 * scales[1], rel=1e-12)
    unlimited = Survey(people(), codebook=replace(PEOPLE, records_per_unit=None))
    with pytest.raises(Refused, match="records_per_unit"):
        synthesize(unlimited, Multinomial(["age", "sex"]), mechanism)


@pytest.mark.parametrize(
    ("per_unit", "epsilon", "delta"), [(1, 1.0, 1e-6), (4, 2.0, 1e-5), (9, 30.0, 1e-3)]
)
def test_a_home_alone_in_its_cells_is_seen_with_chance_delta_at_most(per_unit, epsilon, delta):
    """Over all ways to spread the home's records over cells of its own; SciPy's noise."""
    mechanism = Modips(epsilon, "threshold", delta=delta)
    threshold = mechanism.threshold(1, per_unit)
    noise = stats.dlaplace(1 / mechanism.scale(1, per_unit))

    def worst(shown: int) -> float:
        return max(
            1 - np.prod([noise.cdf(shown - 1 - size) for size in parts])
            for parts in partitions(per_unit)
        )

    assert worst(threshold) <= delta * (1 + 1e-9)
    assert worst(threshold - 2) > delta  # not wastefully high: the sum of chances is nearly theirs


def partitions(total: int, most: int | None = None) -> list[list[int]]:
    most = total if most is None else most
    if total == 0:
        return [[]]
    return [
        [size, *rest]
        for size in range(min(total, most), 0, -1)
        for rest in partitions(total - size, size)
    ]


@pytest.mark.any_noise
def test_a_mechanism_that_forgets_the_unit_is_refused(monkeypatch: pytest.MonkeyPatch):
    """A mutant: noise and claim for one record, although a unit is declared."""
    sound = Marginals.release_rows

    def forgetful(self: Marginals, counts: RowCounts, datasets: int) -> ReleasedRows:
        return sound(self, replace(counts, unit=None), datasets)

    monkeypatch.setattr(Marginals, "release_rows", forgetful)
    survey = Survey(people(), codebook=PEOPLE)
    with pytest.raises(Refused, match="Claims are for each `home`"):
        synthesize(survey, Multinomial(["age", "sex"]), Marginals(90.0))


@pytest.mark.any_noise
def test_a_laplace_table_scales_its_noise_by_the_records_of_a_home(monkeypatch):
    widths: list[float] = []

    def exact(values: Any, sensitivity: float, epsilon: float) -> Any:  # noqa: ARG001
        widths.append(sensitivity)
        return values, 1.0

    monkeypatch.setattr(tables, "_noisy", exact)
    frame = pl.DataFrame(
        {
            "home": [1, 1, 2, 2, 2, 3],
            "w": [1.0, 2.0, 1.5, 1.0, 3.0, 2.0],
            "pay": [1.0, 5.0, 2.0, 4.0, 3.0, 2.0],
            "sex": ["f", "m", "f", "f", "m", "m"],
        }
    )
    book = Codebook(
        {
            "home": Column("home", "unit", "integer"),
            "w": Column("w", "weight", bounds=(1.0, 3.0)),
            "pay": Column("pay", "sensitive", bounds=(0.0, 9.0)),
            "sex": Column("sex", levels=("f", "m"), type="categorical"),
        },
        records_per_unit=3,
    )
    survey = Survey(frame, Design("w"), book)
    ask: dict[str, Any] = {"epsilon": 1.0, "sensitivity": "declared"}
    by_home = laplace_table(survey, ["count", "mean(pay)"], "sex", **ask)
    assert by_home.claim.unit == "home"
    measured, widths[:] = widths[:], []
    plain = Survey(frame.drop("home"), Design("w"), book.without_unit())
    assert laplace_table(plain, ["count", "mean(pay)"], "sex", **ask).claim.unit == "record"
    np.testing.assert_allclose(measured, 3 * np.array(widths))
    tight = Survey(frame, Design("w"), replace(book, records_per_unit=2))
    with pytest.raises(Refused, match="more than 2 records"):
        laplace_table(tight, "count", "sex", **ask)


def test_claims_for_different_units_add_up_to_the_smaller_one():
    home, record = Claim("formal", 1.0, unit="home"), Claim("formal", 0.5)
    both = Claim.compose([home, home])
    assert (both.unit, both.relation, both.epsilon) == ("home", "blank", 2.0)
    mixed = Claim.compose([home, record])
    assert (mixed.unit, mixed.relation, mixed.epsilon) == ("record", "replace", 3.0)
    with pytest.raises(Refused, match="different units"):
        Claim.compose([home, Claim("formal", 1.0, unit="person")])
    with pytest.raises(Refused, match="unit of a claim"):
        Claim("formal", 1.0, unit=" ")
    old = Claim("formal", 1.0).to_json().replace("claim-2", "claim-1")
    old = old.replace(',\n  "unit": "record"', "")
    assert Claim.from_json(old) == Claim("formal", 1.0)


def test_the_fitter_sees_the_unit_of_its_survey(survey: Survey):
    model = Beta("share").for_survey(survey)
    arrays = model.prepare(survey)
    fitter = ModelFitter(model, survey, arrays, np.zeros(150, bool), Settings(), 1)
    assert fitter.unit == "home"
    assert fitter.units is not None
    assert fitter.units.tolist() == np.repeat(np.arange(50), 3).tolist()
    assert Unit("home", 3).limit == 3
