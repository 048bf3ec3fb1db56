"""us.influence: what comes back, and that nothing but the noisy sum depends on the records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ibis
import numpy as np
import polars as pl
import pytest
from influence_samples import DESIGN, people, survey
from scipy import integrate, stats

import chance
from understudy.dp.additive import LaplaceNoise, noise_for
from understudy.errors import Refused
from understudy.influence import (
    RELATIONS,
    InfluencePlan,
    _most_records,
    _units,
    half_width,
    influence,
    influence_errors,
    influence_pass,
    plan_influence,
    plan_questions,
    simulated_influence,
)
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.tables.influence.array_file import ArrayFile
from understudy.tables.influence.ask import questions_of
from understudy.tables.influence.prepared import PreparedInfluence
from understudy.tables.influence.question import SyntheticFile
from understudy.tables.influence.unit_sums import GRID, sensitivity, steps_of
from understudy.tables.regress import regress
from understudy.tables.tabulate import tabulate
from understudy.tables.units import Unit

SYNTHETIC = [survey(people(1500, seed)) for seed in (11, 12)]
CONFIDENTIAL = survey(people(1500, 13, shift=0.1))
NO_NOISE = 1e7  # epsilon at which the noise is far below what is compared


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LaplaceNoise, "add", lambda _, sums, __: sums)


def sums_of(plan: InfluencePlan, confidential: Survey, unit: str | None = None) -> np.ndarray:
    """What the noise is added to."""
    table = confidential.table
    made = influence_pass(plan.prepared, table, table["w"].cast("float64"), unit)
    return steps_of(made.to_pyarrow().to_pylist()[0], len(plan.prepared.estimates))


def without_noise(statistic: Any, relation: Any = "replace", **settings: Any) -> Any:
    plan = plan_influence(
        SYNTHETIC, statistic, NO_NOISE, relation, units=CONFIDENTIAL.n, **settings
    )
    return plan.answer(sums_of(plan, CONFIDENTIAL))


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize(
    "statistic",
    [
        "mean(x)",
        "total(x)",
        "count",
        "ratio(y / x)",
        'proportion(g == "a")',
        "quantile(x, 0.5)",
        "gini(x)",
    ],
)
def test_the_corrected_estimate_is_the_confidential_one_but_for_the_second_order(
    statistic: str, relation: str
) -> None:
    where = 'g in ("a", "b")'
    answer = without_noise(statistic, relation, where=where)
    truth = tabulate(CONFIDENTIAL, statistic, where=where).row(0, named=True)
    released = tabulate(SYNTHETIC, statistic, where=where, combine="partial")["estimate"][0]
    assert answer.released == pytest.approx(released, rel=1e-9)
    assert answer.corrected == pytest.approx(truth["estimate"], abs=0.35 * truth["se"])
    nearer = 0.6 if statistic.startswith("quantile") else 0.35  # a quantile's remainder is larger
    assert abs(answer.corrected - truth["estimate"]) < nearer * abs(released - truth["estimate"])
    assert answer.plan.prepared.sampling_se[0] == pytest.approx(truth["se"], rel=0.35)


@pytest.mark.parametrize(
    ("formula", "family"), [("y ~ x + g", "gaussian"), ("b ~ x", "binomial"), ("k ~ x", "poisson")]
)
def test_coefficients_come_all_at_once(formula: str, family: str) -> None:
    answer = without_noise(formula, family=family)
    table = regress(CONFIDENTIAL, formula, family=family)  # type: ignore[arg-type]
    off = (answer.corrected - table["estimate"].to_numpy()) / table["se"].to_numpy()
    assert np.abs(off).max() < 0.35
    assert list(answer.table["statistic"]) == list(table["term"])
    assert answer.table["lower"].to_numpy() == pytest.approx(answer.interval(0.95)[:, 0])


def test_all_cells_of_a_table_share_one_price() -> None:
    """A record is in one cell: the noise of a cell is that of a question about it alone."""
    table = plan_influence(SYNTHETIC, "count", 1.0, by="g")
    assert list(table.prepared.names) == ["count [a]", "count [b]", "count [c]"]
    alone = plan_influence(SYNTHETIC, "count", 1.0, where='g == "a"')
    assert table.noise_se[0] < 1.5 * alone.noise_se[0]
    several = plan_influence(SYNTHETIC, ["mean(x)", "mean(y)", "mean(k)"], 1.0, delta=1e-6)
    assert several.claim().delta == 1e-6


@pytest.mark.any_noise
def test_the_answer_says_difference_corrected_estimate_and_errors() -> None:
    answer = influence(CONFIDENTIAL, SYNTHETIC, "mean(x)", epsilon=1.0, relation="replace")
    plan = answer.plan
    assert answer.corrected == answer.released + answer.difference
    assert answer.se == pytest.approx(np.hypot(plan.prepared.held_se[0], plan.noise_se[0]))
    assert answer.noise_scale == pytest.approx(
        2 * plan.prepared.clip.size * plan.prepared.scale[0] / 1.0, rel=1e-6
    )
    low, high = answer.interval(0.95)
    assert low < answer.corrected < high
    inner = answer.interval(0.5)
    assert low < inner[0] < inner[1] < high
    assert answer.claim.epsilon == 1.0
    assert answer.claim.relation == "replace"
    assert 0 <= answer.touched < 0.1
    half = answer.difference_interval(0.95)[1] - answer.difference
    draw = np.random.default_rng(1)
    errors = draw.laplace(0, answer.noise_scale, 400_000)
    errors += draw.normal(0, plan.prepared.cut_se[0], 400_000)
    assert np.mean(np.abs(errors) <= half) == pytest.approx(0.95, abs=0.002)


def test_an_interval_holds_sampling_and_noise() -> None:
    """Against numerical integration of the convolution of a t and a Laplace variable."""
    half = half_width(0.95, 1.5, 30.0, LaplaceNoise(1.0), 0.8)

    def inside(e: float) -> float:
        law = stats.t(30.0, scale=1.5)
        return float(stats.laplace(0, 0.8).pdf(e) * (law.cdf(half - e) - law.cdf(-half - e)))

    assert integrate.quad(inside, -40, 40, points=[0.0])[0] == pytest.approx(0.95, abs=1e-5)
    gaussian = half_width(0.9, 3.0, 1e6, noise_for(1.0, 1e-6), 4.0)
    assert gaussian == pytest.approx(5.0 * stats.norm.ppf(0.95), rel=1e-4)


@pytest.mark.parametrize(("error", "scale"), [(0.1, 10.0), (10.0, 0.1), (1.5e-6, 0.8e-6)])
def test_an_interval_holds_whichever_error_is_the_larger_and_in_any_unit(
    error: float, scale: float
) -> None:
    """Against the Laplace law blurred by a normal one, which is a t law of many degrees."""
    half = half_width(0.9, error, 1e7, LaplaceNoise(1.0), scale)
    assert half == pytest.approx(LaplaceNoise(1.0).blurred_quantile(0.95, scale, error), rel=1e-5)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_estimates_of_several_kinds_share_an_answer(relation: str) -> None:
    """Some have a number per unit taken off (counts), others none (means): all come home."""
    asked = ["count", "mean(x)", "total(y)"]
    answer = without_noise(asked, relation)
    truth = tabulate(CONFIDENTIAL, asked)
    estimates = truth["estimate"].to_numpy()
    off = np.abs(answer.corrected - estimates) / np.where(truth["se"] > 0, truth["se"], estimates)
    assert off.max() < 0.1
    table = answer.table
    np.testing.assert_array_equal(table["corrected"], answer.corrected)
    np.testing.assert_array_equal(table["corrected"], answer.released + answer.difference)
    np.testing.assert_array_equal(table.select("lower", "upper"), answer.interval())
    released = tabulate(SYNTHETIC, asked, combine="partial")["estimate"]
    np.testing.assert_allclose(table["released"], released, rtol=1e-9)


@pytest.mark.parametrize("asked", ["mean(x)", ["mean(x)", "mean(y)"]])
def test_intervals_lie_evenly_around_their_estimates(asked: Any) -> None:
    plan = plan_influence(SYNTHETIC, asked, 1.0)
    answer = plan.answer(np.full(len(plan.prepared.estimates), GRID))
    for made, centre in (
        (answer.interval, answer.corrected),
        (answer.difference_interval, answer.difference),
    ):
        low, high = np.reshape(made(), (-1, 2)).T
        assert (low < high).all()
        np.testing.assert_allclose((low + high) / 2, np.reshape(centre, -1), rtol=1e-9)
        np.testing.assert_array_equal(made(), made(0.95))
        for wrong in (-0.5, 0.0, 1.0, 1.5):
            with pytest.raises(Refused, match="between 0 and 1"):
                made(wrong)
    assert (answer.claim.delta, answer.claim.epsilon) == (0.0, 1.0)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_clip_is_chosen_for_the_noise_that_is_added(relation: Any, delta: float) -> None:
    plan = plan_influence(SYNTHETIC, "mean(x)", 0.3, relation, delta=delta)
    of_clip = plan.prepared.clip.noise_variance
    assert of_clip == pytest.approx((plan.noise_se[0] / plan.prepared.scale[0]) ** 2, rel=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_errors_against_epsilon_are_those_of_the_plans(delta: float) -> None:
    asked = (SYNTHETIC[0], ["count", "mean(x)"])
    curve = influence_errors(*asked, [0.5, 2.0], delta=delta)
    assert curve["epsilon"].to_list() == [0.5, 0.5, 2.0, 2.0]
    for (epsilon,), rows in curve.group_by("epsilon"):
        plan = plan_influence(*asked, float(epsilon), delta=delta)  # type: ignore[arg-type]
        np.testing.assert_array_equal(rows["error"], plan.error)
        assert rows.select(plan.table.columns).equals(plan.table)
    assert influence_errors(*asked, [0.5])["error"].equals(curve["error"][:2]) == (not delta)
    with pytest.raises(Refused, match="at least one epsilon"):
        influence_errors(*asked, [])


def test_what_clipping_cuts_off_is_taken_from_the_synthetic_files() -> None:
    """With a clip that cuts off half of the tails, the loss still brings the answer home."""
    plan = plan_influence(SYNTHETIC, "mean(x)", 0.02, units=CONFIDENTIAL.n)
    assert plan.touched > 0.1
    answer = plan.answer(sums_of(plan, CONFIDENTIAL))
    truth = tabulate(CONFIDENTIAL, "mean(x)")
    assert abs(plan.prepared.loss[0]) > 0.5 * truth["se"][0]
    assert answer.corrected == pytest.approx(truth["estimate"][0], abs=1.5 * truth["se"][0])


def test_heavy_weights_are_said_before_paying() -> None:
    calm = plan_influence(SYNTHETIC, "mean(x)", 1.0)
    assert calm.advice == ""
    heavy = [
        survey(
            people(600, seed).with_columns(
                w=pl.Series(np.random.default_rng(seed).pareto(1.1, 600))
            )
        )
        for seed in (1, 2)
    ]
    plan = plan_influence(heavy, "mean(x)", 0.1)
    assert "hard" in plan.advice
    assert "standard errors" in plan.advice
    assert plan.error[0] > plan.prepared.sampling_se[0]


@pytest.mark.parametrize(("heaviest", "says"), [(0.5, False), (0.51, True)])
def test_the_advice_names_what_is_heavy(heaviest: float, says: bool) -> None:
    plan = plan_influence(SYNTHETIC, "mean(x)", 1.0)
    plan = replace(plan, prepared=replace(plan.prepared, heaviest=heaviest))
    assert ("One per cent of the units make" in plan.advice) == says


@pytest.mark.parametrize(("off", "says"), [(0.99, False), (1.0, False), (1.5, True)])
def test_the_advice_names_the_worst_of_several_errors(off: float, says: bool) -> None:
    plan = plan_influence(SYNTHETIC, ["mean(x)", "mean(y)"], 1.0)
    sampling = plan.error * np.array([4.0, 1 / off])
    plan = replace(plan, prepared=replace(plan.prepared, sampling_se=sampling))
    assert ("off by 1.5 standard errors" in plan.advice) == says
    assert (plan.advice == "") != says


def test_released_files_without_weights_are_said_before_paying() -> None:
    """Equal weights say nothing about what large confidential ones do to the clip."""
    equal = [survey(people(600, seed).with_columns(w=pl.lit(150.0))) for seed in (1, 2)]
    assert "weights of the released files are equal" in plan_influence(equal, "mean(x)", 1.0).advice
    unweighted = [Survey(people(600, seed)) for seed in (1, 2)]
    assert plan_influence(unweighted, "mean(x)", 1.0).advice == ""


def test_a_file_of_another_size_counts_by_its_size() -> None:
    small = [survey(people(500, 21)), survey(people(500, 22))]
    plan = plan_influence(small, "mean(x)", 1.0, units=1500)
    same = plan_influence([survey(people(1500, 23))], "mean(x)", 1.0)
    assert plan.prepared.sampling_se[0] == pytest.approx(same.prepared.sampling_se[0], rel=0.2)
    assert plan.noise_se[0] == pytest.approx(same.noise_se[0], rel=0.4)


def test_what_cannot_be_asked_is_refused_in_words() -> None:
    with pytest.raises(Refused, match="not a column"):
        plan_influence(SYNTHETIC, "log(y) ~ x", 1.0)
    with pytest.raises(Refused, match="column"):
        plan_influence(SYNTHETIC, "mean(xx)", 1.0)
    with pytest.raises(Refused, match="relation"):
        plan_influence(SYNTHETIC, "mean(x)", 1.0, "blank")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="at least one"):
        plan_influence([], "mean(x)", 1.0)
    with pytest.raises(Refused, match="family"):
        plan_influence(SYNTHETIC, "y ~ x", 1.0, family="gamma")
    constant = [survey(people(50, 1).with_columns(x=pl.lit(3.0)))]
    with pytest.raises(Refused, match="no sampling error"):
        plan_influence(constant, "mean(x)", 1.0)


# -- one unit, whatever it holds, moves the sum by the sensitivity; and planted mutants do more ----

UNITS = Codebook({"u": Column("u", "unit", "integer")})
Sums = Callable[[Survey], np.ndarray]
PLAN = plan_questions(
    questions_of("mean(x)", SYNTHETIC),
    [SyntheticFile(file, "u") for file in SYNTHETIC],
    LaplaceNoise(1.0),
    "replace",
)
BASE = people(300, 14)


def honest(confidential: Survey) -> np.ndarray:
    return sums_of(PLAN, confidential, "u")


def _planned_from(confidential: Survey) -> PreparedInfluence:
    return plan_questions(
        questions_of("mean(x)", [confidential]),
        [SyntheticFile(confidential, "u")],
        LaplaceNoise(1.0),
        "replace",
    ).prepared


def derivative_of_the_confidential_file(confidential: Survey) -> np.ndarray:
    bread = _planned_from(confidential).released[0].bread
    prepared = replace(PLAN.prepared, released=(replace(PLAN.prepared.released[0], bread=bread),))
    return sums_of(replace(PLAN, prepared=prepared), confidential, "u")


def clip_of_the_confidential_file(confidential: Survey) -> np.ndarray:
    prepared = replace(PLAN.prepared, clip=_planned_from(confidential).clip)
    return sums_of(replace(PLAN, prepared=prepared), confidential, "u")


def centred_at_the_confidential_estimate(confidential: Survey) -> np.ndarray:
    public = _planned_from(confidential).released[0].public
    prepared = replace(PLAN.prepared, released=(replace(PLAN.prepared.released[0], public=public),))
    return sums_of(replace(PLAN, prepared=prepared), confidential, "u")


def clipped_by_record(confidential: Survey) -> np.ndarray:
    return sums_of(PLAN, confidential, None)


def weights_rescaled_over_the_file(confidential: Survey) -> np.ndarray:
    table = confidential.table
    weight = table["w"].cast("float64")
    shared = weight * 100_000.0 / weight.sum().over(ibis.window())
    made = influence_pass(PLAN.prepared, table, shared, "u")
    return steps_of(made.to_pyarrow().to_pylist()[0], 1)


def pairs() -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """Neighbours under `replace`: one unit's records become others, of the most harmful kinds."""
    own = BASE.filter(pl.col("u") == int(BASE["u"][0]))
    rest = BASE.filter(pl.col("u") != int(BASE["u"][0]))
    large = own.with_columns(x=pl.lit(1e12))
    heavy = own.with_columns(w=pl.lit(1e9))
    many = pl.concat([own.with_columns(x=pl.lit(40.0))] * 25)
    few = own.with_columns(x=pl.lit(-1e12))
    changes = [(large, few), (heavy, own), (many, few), (large, own)]
    return [(pl.concat([rest, a]), pl.concat([rest, b])) for a, b in changes]


PAIRS = pairs()


def farthest(sums: Sums) -> float:
    """In clips."""
    moved = [np.abs(sums(survey(a)) - sums(survey(b))).max() for a, b in PAIRS]
    return float(max(moved)) / GRID


MUTANTS = [
    derivative_of_the_confidential_file,
    clip_of_the_confidential_file,
    centred_at_the_confidential_estimate,
    clipped_by_record,
    weights_rescaled_over_the_file,
]


def test_one_unit_moves_the_sum_by_two_clips_at_most_and_by_nearly_two_at_worst() -> None:
    assert 1.9 < farthest(honest) <= PLAN.unit_moves / GRID == 2


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_planted_mutants_are_caught(mutant: Sums) -> None:
    assert farthest(mutant) > 2


@pytest.mark.any_noise
def test_the_unit_of_the_codebook_is_protected() -> None:
    """`influence` takes the unit from the codebook and counts its records together."""
    book = Codebook({**{c: Column(c) for c in ("x", "w")}, "u": Column("u", "unit", "integer")})
    own = BASE.select("x", "w", "u").filter(pl.col("u") == 5).with_columns(x=pl.lit(1e12))
    frame = BASE.select("x", "w", "u").filter(pl.col("u") != 5)
    far = pl.concat([own] * 50 + [frame])
    answer = influence(Survey(far, DESIGN, book), SYNTHETIC, "mean(x)", 1.0, "add-remove")
    assert answer.claim.unit == "u"
    plain = sums_of(answer.plan, survey(frame), "u")
    assert abs(int(sums_of(answer.plan, survey(far), "u")[0]) - int(plain[0])) <= sensitivity(1)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("weight", "n"), [("w", 500), (None, 1500)])
def test_the_number_of_confidential_units_is_used_where_it_is_public(
    weight: str | None, n: int
) -> None:
    files = [Survey(file.frame(), Design(weight=weight)) for file in SYNTHETIC]
    book = Codebook({name: Column(name) for name in ("x", "w")})
    small = Survey(people(n, 15).select("x", "w"), Design(weight=weight), book)
    answer = influence(small, files, "mean(x)", NO_NOISE)
    expected = plan_influence(files, "mean(x)", NO_NOISE, units=n).prepared
    assert answer.plan.prepared.sampling_se == pytest.approx(expected.sampling_se, rel=1e-12)
    truth = tabulate(small, "mean(x)").row(0, named=True)
    assert answer.corrected == pytest.approx(truth["estimate"], abs=0.35 * truth["se"])
    assert answer.claim.unit == "record"
    alone = influence(small, files[0], "mean(x)", NO_NOISE, "add-remove").plan.prepared
    own = plan_influence(files[0], "mean(x)", NO_NOISE, "add-remove").prepared
    assert alone.sampling_se == pytest.approx(own.sampling_se, rel=1e-12)


def test_how_many_records_a_unit_is_planned_to_have() -> None:
    """One where the files say which belong together; else the limit, which may only be missing
    where the number of units is public."""
    ids, none = survey(BASE), survey(BASE.drop("u"))
    limited, open_ended = Unit("u", 3), Unit("u", None)
    for relation in RELATIONS:
        assert _most_records(None, none, relation) == 1
        assert _most_records(limited, ids, relation) == 1
        assert _most_records(limited, [ids, ids], relation) == 1
        assert _most_records(limited, none, relation) == 3
        assert _most_records(limited, [ids, none], relation) == 3
    assert _most_records(open_ended, none, "replace") == 1
    with pytest.raises(Refused, match="records_per_unit"):
        _most_records(open_ended, none, "add-remove")
    assert _units(ids, None) == BASE.height
    assert _units(ids, "u") == BASE["u"].n_unique()


@pytest.mark.usefixtures("no_noise")
def test_plain_arrays_are_answered_as_files_are() -> None:
    """The question of a simulation, with the columns, weights and units of the files."""
    (question,) = questions_of("mean(x)", SYNTHETIC)
    arrays = [
        ArrayFile({"y": frame["x"].to_numpy(), "z": np.ones(len(frame))}, frame["w"].to_numpy())
        for frame in (file.frame() for file in (*SYNTHETIC, CONFIDENTIAL))
    ]
    made = simulated_influence(question, arrays[2], arrays[:2], NO_NOISE)
    expected = influence(CONFIDENTIAL, SYNTHETIC, "mean(x)", NO_NOISE)
    assert made.corrected == pytest.approx(expected.corrected, rel=1e-6)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("statistic", ["total(x)", "mean(x)"])
def test_units_whose_ids_are_not_released_are_planned_for(statistic: str, relation: Any) -> None:
    """Homes of one to three: what clipping does to them is as small as the plan says, and sampling
    errors are the file's own."""
    sizes = np.repeat(np.arange(1500), np.random.default_rng(3).integers(1, 4, 1500))[:1500]
    columns = {"u": Column("u", "unit", "integer")} | {c: Column(c) for c in ("x", "w")}
    frame = people(1500, 61).select("x", "w").with_columns(u=pl.Series(sizes))
    files = [survey(people(1500, seed).drop("u")) for seed in (62, 63)]
    asked = (files, statistic, 2.0, relation)
    homes = Survey(frame, DESIGN, Codebook(columns, records_per_unit=3))
    answer = influence(homes, *asked)
    truth = tabulate(homes, statistic).row(0, named=True)
    assert abs(answer.corrected - truth["estimate"]) < answer.plan.error[0]
    assert answer.plan.prepared.sampling_se[0] == pytest.approx(truth["se"], rel=0.15)
    without = Survey(frame, DESIGN, Codebook(columns))
    if relation == "add-remove":
        with pytest.raises(Refused, match="declare `records_per_unit`"):
            influence(without, *asked)


@pytest.mark.chance(
    lambda: chance.audit_fails(
        1 / (1 + np.exp(-1 / (2 * GRID))), np.exp(-1) / (1 + np.exp(-1 / (2 * GRID))),
        80_000, 1e-6, 0.9, 1.0,
    ),
    "the bound outside (0.9, 1], from the event's two binomials",
)  # fmt: skip
def test_the_worst_pair_spends_what_it_says_and_not_more() -> None:
    """The audit: answers on the worst neighbours, through the sampler that `influence` uses."""
    worst = max(
        pairs(), key=lambda pair: np.abs(honest(survey(pair[0])) - honest(survey(pair[1])))[0]
    )
    low, high = sorted(int(honest(survey(frame))[0]) for frame in worst)
    assert high - low == PLAN.unit_moves
    draws = 80_000
    hits = [
        int(np.sum(PLAN.noise.add(np.full(draws, at), PLAN.unit_moves) <= low))
        for at in (low, high)
    ]
    first = stats.beta.ppf(0.5e-6, hits[0], draws - hits[0] + 1)
    second = stats.beta.ppf(1 - 0.5e-6, hits[1] + 1, draws - hits[1])
    assert 0.9 < np.log(first / second) <= 1.0
