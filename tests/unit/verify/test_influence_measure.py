"""The measure `influence` of the server: what an answer says, its plan, and its price."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from verification_samples import BOOK, make_frame, make_query, make_survey

from understudy.dp.additive import GaussianNoise, LaplaceNoise
from understudy.errors import Refused
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.tables.influence.unit_sums import GRID
from understudy.tables.regress import regress
from understudy.tables.tabulate import tabulate
from understudy.verify import answer as answer_module
from understudy.verify.answer import answer_question, check_question
from understudy.verify.catalogue import packaged, read_query
from understudy.verify.confidential import ConfidentialData
from understudy.verify.influence_figures import InfluenceFigures
from understudy.verify.measures.influence import Influence, InfluencePosterior
from understudy.verify.mistakes import InvalidQuery
from understudy.verify.planner import plan, plan_of
from understudy.verify.receipt import Receipt
from understudy.verify.released import ReleasedFiles
from understudy.verify.service import Remembered, Served, Service

CONFIDENTIAL = make_frame(2000, 7)
RELEASED = [make_survey(make_frame(2000, seed).drop("person")) for seed in (8, 9)]
FILES = ReleasedFiles(RELEASED, BOOK, "partial")


@pytest.fixture(scope="module")
def data() -> Iterator[ConfidentialData]:
    with ConfidentialData("survey", make_survey(CONFIDENTIAL)) as opened:
        yield opened


@pytest.fixture
def ledger(tmp_path: Path, data: ConfidentialData) -> Iterator[Ledger]:
    with Ledger(tmp_path / "l.db") as opened:
        add_user(opened, "ann")
        opened.grant("ann", "100")
        opened.add_dataset(data.fingerprint, "survey", "100")
        yield opened


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums as they are: what is compared is the estimate, not the sampler."""
    monkeypatch.setitem(answer_module.SAMPLERS, "geometric", lambda *_: list)
    for kind in (LaplaceNoise, GaussianNoise):
        monkeypatch.setattr(kind, "add", lambda _, sums, __: sums)


def question(**changes: Any) -> Any:
    return make_query(**({"estimate": None, "se": None, "partitions": None} | changes))


QUESTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "mean": ({"domain": {"region": ["North", "East"]}}, "mean(income)"),
    "total": ({"estimator": "total"}, "total(income)"),
    "proportion": (
        {"estimator": "proportion", "variable": "region", "level": "North"},
        'proportion(region == "North")',
    ),
    "ratio": ({"estimator": "ratio", "denominator": "hours"}, "ratio(income / hours)"),
    "quantile": ({"estimator": "quantile", "probability": 0.5}, "quantile(income, 0.5)"),
    "gini": ({"estimator": "gini", "variable": "hours"}, "gini(hours)"),
}


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_corrected_estimate_is_nearly_the_confidential_one(
    name: str, data: ConfidentialData, ledger: Ledger
) -> None:
    changes, statistic = QUESTIONS[name]
    asked = question(**changes)
    assert asked.measure == "influence"  # the usual one where the server has the files
    receipt = answer_question(check_question(asked, data, FILES), data, ledger, "ann")
    where = 'region in ("North", "East")' if name == "mean" else None
    survey = make_survey(CONFIDENTIAL)
    truth = tabulate(survey, statistic, where=where).row(0, named=True)
    shown = receipt.posterior.model_dump()
    assert shown["corrected"] == pytest.approx(truth["estimate"], abs=0.3 * truth["se"])
    assert shown["corrected_se"] == pytest.approx(truth["se"], rel=0.35)
    assert shown["corrected"] == receipt.synthetic.estimate + shown["estimate"]
    assert "estimate to publish" in receipt.sentence
    assert "one sum of clipped influences" in receipt.claim


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    "estimator", ["linear", "logistic", "poisson", "correlation", "difference"]
)
def test_coefficients_correlations_and_differences(
    estimator: str, data: ConfidentialData, ledger: Ledger
) -> None:
    frame = CONFIDENTIAL.with_columns(two=(pl.col("sex") == 2).cast(pl.Float64))
    survey = make_survey(frame)
    if estimator == "correlation":
        changes: dict[str, Any] = {"other": "hours"}
        w = frame["w"].to_numpy()
        cov = np.cov(frame["income"], frame["hours"], aweights=w)
        truth, se = cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1]), 0.02
    elif estimator == "difference":
        changes = {"domain": {"sex": [1]}, "versus": {"sex": [2]}}
        sides = [tabulate(survey, "mean(income)", where=f"sex == {k}") for k in (1, 2)]
        truth = sides[0]["estimate"][0] - sides[1]["estimate"][0]
        se = float(np.hypot(sides[0]["se"][0], sides[1]["se"][0]))
    else:
        outcome = {"linear": "income", "logistic": "two", "poisson": "hours"}[estimator]
        predictor = {"linear": "hours", "logistic": "income", "poisson": "income"}[estimator]
        family = {"linear": "gaussian", "logistic": "binomial", "poisson": "poisson"}[estimator]
        row = regress(survey, f"{outcome} ~ {predictor}", family=family)  # type: ignore[arg-type]
        truth, se = row["estimate"][1], row["se"][1]
        changes = {"variable": outcome, "predictors": (predictor,), "coefficient": predictor}
        if estimator == "logistic":
            changes |= {"variable": "sex", "level": 2}
    asked = question(estimator=estimator, **changes)
    checked = check_question(asked, data, FILES)
    receipt = answer_question(checked, data, ledger, "ann")
    assert receipt.posterior.model_dump()["corrected"] == pytest.approx(truth, abs=0.3 * se)


@pytest.mark.any_noise
def test_an_answer_is_stored_with_all_that_its_words_need(
    data: ConfidentialData, ledger: Ledger
) -> None:
    checked = check_question(question(), data, FILES)
    receipt = answer_question(checked, data, ledger, "ann")
    again = answer_question(checked, data, ledger, "ann")
    assert again.replayed
    assert again.sentence == receipt.sentence
    assert again.posterior == receipt.posterior
    stored = Receipt.from_ledger(ledger.answers("ann")[0], packaged())
    assert stored.synthetic == receipt.synthetic
    assert ledger.budget("user", "ann").spent == 1_000_000


def test_the_usual_measure_is_influence_where_the_server_has_the_estimate() -> None:
    base = {"dataset": "s", "variable": "x", "tolerance": {"value": 2.0}, "epsilon": "1"}
    assert read_query({**base, "estimator": "mean"}).measure == "influence"
    own = {**base, "estimator": "mean", "estimate": 1.0, "se": 1.0}
    assert read_query(own).measure == "discrepancy"
    assert read_query({**own, "measure": "agreement"}).measure == "agreement"
    with pytest.raises(InvalidQuery):
        read_query({**base, "estimator": ["mean"]})


def test_without_released_files_it_is_refused_with_the_way_out(data: ConfidentialData) -> None:
    with pytest.raises(InvalidQuery, match="ask by `discrepancy`"):
        check_question(make_query(measure="influence"), data, FILES)
    with pytest.raises(Refused, match="released files"):
        plan(10.0, 1.0, measure="influence")


@pytest.fixture
def service(data: ConfidentialData, tmp_path: Path) -> Iterator[Service]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        opened = Service(ledger, {"survey": Served(data, Remembered(FILES))}, slot_seconds=0.5)
        yield opened
        opened.shared.close()


def test_there_are_no_fits_deadlines_or_parts_on_this_path(service: Service) -> None:
    fitted = {"estimator": "quantile", "probability": 0.5}
    assert service.seconds(question(**fitted)) == 0.5
    assert service.seconds(question(**fitted, measure="discrepancy")) > 0.5
    assert question(partitions=90).digest() == question(partitions=None).digest()


def test_the_noise_is_enough_for_both_relations(data: ConfidentialData) -> None:
    """Where there is a unit the ledger counts `replace` and `add-remove` at the same epsilon."""
    made = check_question(question(estimator="total"), data, FILES).plan
    assert made is not None
    assert data.unit == "person"
    assert made.unit_moves == 2 * GRID
    assert not made.prepared.per_unit.any()  # the number of units is not public
    rows = make_survey(CONFIDENTIAL.drop("person"))
    with ConfidentialData("survey", rows) as records:
        counted = check_question(question(estimator="total"), records, FILES).plan
        assert counted is not None
        assert counted.prepared.per_unit[0] == pytest.approx(counted.prepared.constant[0] / 2000)


@pytest.mark.usefixtures("no_noise")
def test_a_clip_is_for_units_of_as_many_records_as_the_codebook_says(ledger: Ledger) -> None:
    """A total of homes of three, whose ids were not released: every home's share is three records'
    large. Planned for single records, two thirds of it would be cut off."""
    frame = CONFIDENTIAL.with_columns(person=pl.col("person") // 3)
    truth = tabulate(make_survey(frame), "total(income)").row(0, named=True)
    off = {}
    for limit, epsilon in ((None, "1"), (3, "1.1")):  # the same question would be a replay
        book = replace(BOOK, records_per_unit=limit)
        with ConfidentialData("survey", make_survey(frame, book)) as homes:
            if limit is None:
                ledger.add_dataset(homes.fingerprint, "homes", "100")
            asked = question(estimator="total", epsilon=epsilon)
            checked = check_question(asked, homes, FILES)
            receipt = answer_question(checked, homes, ledger, "ann")
        assert checked.plan is not None
        shown = receipt.posterior.model_dump()
        off[limit] = abs(shown["corrected"] - truth["estimate"]) / checked.plan.error[0]
    assert off[3] < 1
    assert off[None] > 5


def test_plans_are_computed_once(data: ConfidentialData) -> None:
    class Counted(ReleasedFiles):
        calls = 0

        def influence_plan(self, *rest: Any) -> Any:
            type(self).calls += 1
            return super().influence_plan(*rest)

    remembered = Remembered(Counted(RELEASED, BOOK, "partial"))
    for epsilon in ("1", "1", "0.5"):
        check_question(question(epsilon=epsilon), data, remembered)
    assert Counted.calls == 2


# -- posterior and plan ----------------------------------------------------------------------------

FIGURES = InfluenceFigures(
    step=2.0 / GRID, grid_scale=GRID * 1.0, added=0.5, sampling_se=3.0, held_se=3.2, df=200.0,
    cut_se=1.0, touched=0.01,
)  # fmt: skip


def test_the_posterior_is_the_noise_and_what_clipping_leaves() -> None:
    """Against numerical convolution of SciPy's Laplace and normal laws, on both sides of the edge
    that the first has."""
    posterior = InfluencePosterior(GRID, 1.0, FIGURES, 100.0, 4.0)
    noise, cut = stats.laplace(2.5, 2.0), stats.norm(0, 1.0)

    nodes, shares = np.polynomial.legendre.leggauss(120)

    def reached(value: float) -> float:
        edge, parts = np.clip(value - 2.5, -9, 9), 0.0
        for low, high in ((-9.0, edge), (edge, 9.0)):
            e = low + (high - low) * (nodes + 1) / 2
            parts += (high - low) / 2 * float(shares @ (cut.pdf(e) * noise.cdf(value - e)))
        return parts

    assert posterior.median == posterior.mean == posterior.estimate == 2.5
    low, high = posterior.interval(0.9)
    assert reached(low) == pytest.approx(0.05, abs=1e-7)
    assert reached(high) == pytest.approx(0.95, abs=1e-7)
    within = reached(4.0) - reached(-4.0)
    assert posterior.probability_within() == pytest.approx(within, abs=1e-7)
    assert posterior.corrected == 102.5
    assert posterior.corrected_se == pytest.approx(np.sqrt(3.2**2 + 8))
    x, height = posterior.density()
    np.testing.assert_allclose(
        np.gradient([reached(v) for v in x], x)[1:-1], height[1:-1], atol=2e-3
    )
    alone = InfluencePosterior(GRID, 1.0, replace(FIGURES, cut_se=0.0), 100.0, 4.0)
    assert alone.interval(0.9) == pytest.approx(noise.interval(0.9), abs=1e-6)


def test_the_plan_is_the_law_of_the_reports() -> None:
    """Against 200,000 simulated answers."""
    asked = question(tolerance={"kind": "se", "value": 1.0}).terms(100.0, 4.0, FIGURES)
    offset = np.array([0.0, 3.0, -9.0])
    law = Influence().law(asked, offset, np.full(3, 4.0))
    draw = np.random.default_rng(1)
    for k, d in enumerate(offset):
        answers = d + draw.laplace(0, 2.0, 200_000) + draw.normal(0, 1.0, 200_000)
        marks = np.quantile(answers, [0.05, 0.5, 0.95])
        reported = [law[name][k] for name in ("median_low", "median_mid", "median_high")]
        np.testing.assert_allclose(reported, marks, atol=0.08)
        posterior = Influence().posterior(asked, 0.0)
        ends = posterior.error_cdf(4.0 - answers) - posterior.error_cdf(-4.0 - answers)
        assert law["says_inside"][k] == pytest.approx(np.mean(ends >= 0.5), abs=0.006)
        assert law["noisy_sd"][k] == pytest.approx(answers.std(), rel=0.02)
    made = plan_of(Influence(), asked)
    assert made.table["says_right"].mean() > 0.6
    # noise that drowns the tolerance: the verdict is never "inside"
    tiny = question(tolerance={"kind": "se", "value": 0.05}).terms(100.0, 4.0, FIGURES)
    assert not Influence().law(tiny, offset, np.full(3, 4.0))["says_inside"].any()


# -- several numbers at one price ------------------------------------------------------------------


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_all_cells_of_a_table_come_at_one_price(
    delta: str | None, data: ConfidentialData, ledger: Ledger
) -> None:
    asked = question(by=["region", "sex"], delta=delta, epsilon="4")
    receipt = answer_question(check_question(asked, data, FILES), data, ledger, "ann")
    truth = tabulate(make_survey(CONFIDENTIAL), "mean(income)", ["region", "sex"])
    assert len(receipt.numbers) == len(truth) == 6
    rows = {number.name: number for number in receipt.numbers}
    for cell in truth.iter_rows(named=True):
        number = rows[f"region = {cell['region']}, sex = {cell['sex']}"]
        assert number.corrected == pytest.approx(cell["estimate"], abs=0.45 * cell["se"])
        assert number.corrected_low < number.corrected < number.corrected_high
    assert ledger.budget("user", "ann").spent == 4_000_000
    assert receipt.posterior is receipt.tolerance is None
    assert "numbers are likely within" in receipt.headline
    assert "The numbers to publish" in receipt.sentence
    assert receipt.promise.delta == (1e-6 if delta else 0.0)
    stored = Receipt.from_ledger(ledger.answers("ann")[0], packaged())
    assert stored.numbers == receipt.numbers


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("estimator", "changes", "formula", "family"),
    [
        ("linear", {"predictors": ("hours", "region")}, "income ~ hours + region", "gaussian"),
        ("poisson", {"variable": "hours", "predictors": ("income",)}, "hours ~ income", "poisson"),
    ],
)
def test_all_coefficients_come_at_one_price(
    estimator: str, changes: Any, formula: str, family: Any,
    data: ConfidentialData, ledger: Ledger,
) -> None:  # fmt: skip
    asked = question(estimator=estimator, delta="1e-6", **changes)
    assert asked.several
    receipt = answer_question(check_question(asked, data, FILES), data, ledger, "ann")
    # the codebook's first level is the reference; text would sort East first
    first = pl.col("region").replace({"North": "A North"})
    survey = Survey(CONFIDENTIAL.with_columns(first), Design(weight="w"))
    truth = {row["term"]: row for row in regress(survey, formula, family=family).to_dicts()}
    names = {"region = South": "region[T.South]", "region = East": "region[T.East]"}
    assert len(receipt.numbers) == len(truth)
    for number in receipt.numbers:
        row = truth[names.get(number.name, number.name)]
        assert number.corrected == pytest.approx(row["estimate"], abs=0.3 * row["se"])


def test_error_against_epsilon_is_shown_for_every_number(service: Service) -> None:
    asked = question(by=["region"], delta="1e-6")
    checked = service.check(asked)
    rows = pl.DataFrame(service.errors(checked))
    assert rows["epsilon"].unique().sort().to_list() == [0.25, 0.5, 1.0, 2.0, 4.0]
    for name in rows["statistic"].unique():
        errors = rows.filter(pl.col("statistic") == name).sort("epsilon")["error"].to_list()
        assert errors == sorted(errors, reverse=True)
    paid = rows.filter(pl.col("epsilon") == 1.0)
    assert checked.plan is not None
    assert paid["error"].to_list() == pytest.approx(checked.plan.error.tolist())
    alone = service.check(make_query(measure="discrepancy"))
    assert service.errors(alone) == []


def test_what_cannot_be_asked_together_is_refused_in_words(data: ConfidentialData) -> None:
    def refusal(**changes: Any) -> str:
        with pytest.raises(InvalidQuery) as refused:
            check_question(question(**changes), data, FILES)
        return str(refused.value)

    assert "influence" in refusal(by=["region"], measure="discrepancy")
    assert "influence" in refusal(delta="1e-6", measure="agreement")
    assert "levels" in refusal(by=["income"])
    assert "twice" in refusal(by=["sex", "sex"])
    regression = {"estimator": "linear", "predictors": ("hours",)}
    assert "one coefficient" in refusal(**regression, measure="discrepancy")
    with pytest.raises(InvalidQuery, match="delta"):
        question(delta="2")
    # neither is part of a question that does not use it
    assert "by" not in question().canonical()
    assert question(by=["sex"]).digest() != question().digest()


def test_a_delta_is_counted_in_the_ledger(data: ConfidentialData) -> None:
    cost = data.cost(question(by=["sex"], delta="1e-6"))
    assert (cost.epsilon, cost.delta) == (1, Fraction(1, 10**6))
