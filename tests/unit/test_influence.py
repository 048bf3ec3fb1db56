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
    InfluencePlan,
    half_width,
    influence,
    influence_pass,
    plan_influence,
    plan_questions,
)
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.tables.influence.ask import questions_of
from understudy.tables.influence.prepared import PreparedInfluence
from understudy.tables.influence.question import SyntheticFile
from understudy.tables.influence.unit_sums import GRID, sensitivity, steps_of
from understudy.tables.regress import regress
from understudy.tables.tabulate import tabulate

SYNTHETIC = [survey(people(1500, seed)) for seed in (11, 12)]
CONFIDENTIAL = survey(people(1500, 13, shift=0.1))
NO_NOISE = 1e7  # epsilon at which the noise is far below what is compared


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
    plain = sums_of(answer.plan, survey(frame), "u")
    assert abs(int(sums_of(answer.plan, survey(far), "u")[0]) - int(plain[0])) <= sensitivity(1)


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
