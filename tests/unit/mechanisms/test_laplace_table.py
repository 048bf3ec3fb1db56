"""Laplace tables: T's sensitivities and budget, honest standard errors, refusals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.demo.doctorates import doctorates
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.mechanisms import laplace_table as module
from understudy.mechanisms.laplace_table import LaplaceTable, laplace_table
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.tables.consistency import consistent_counts, membership
from understudy.tables.tabulate import tabulate

STATISTICS = ["count", "mean(salary)"]
BY = ["field", "gender"]


@pytest.fixture(scope="module")
def survey() -> Survey:
    return doctorates(400, seed=1)


@pytest.fixture
def spends(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, float]]:
    """(cells, sensitivity, epsilon) of each call for noise, which is then left out."""
    calls: list[tuple[int, int, float]] = []

    def record(counts: np.ndarray, sensitivity: int, epsilon: float) -> np.ndarray:
        calls.append((len(counts), sensitivity, epsilon))
        return counts

    monkeypatch.setattr(module, "integer_laplace", record)
    return calls


def test_budget_is_the_papers(survey: Survey, spends: list[tuple[int, int, float]]) -> None:
    """T §2.4: epsilon/16 for each of 8 point estimates, epsilon/160 for each of 80 replicates."""
    laplace_table(survey, STATISTICS, BY, 8.0)
    epsilons = np.array([epsilon for _, _, epsilon in spends])
    assert np.isclose(epsilons, 0.5).sum() == 8
    assert np.isclose(epsilons, 0.05).sum() == 80
    assert sum(map(Fraction, epsilons.tolist())) <= 8
    assert [cells for cells, _, e in spends if e > 0.1] == [16, 8, 2, 1] * 2


def test_without_noise_it_is_the_sample(
    survey: Survey, spends: list[tuple[int, int, float]]
) -> None:
    noiseless = laplace_table(survey, STATISTICS, BY, 8.0).table
    exact = tabulate(survey, STATISTICS, by=BY, margins=True)
    joined = noiseless.join(exact, on=[*BY, "statistic"], suffix="_exact")
    assert joined.height == 54
    np.testing.assert_allclose(joined["estimate"], joined["estimate_exact"], rtol=2e-3)
    assert spends


@pytest.mark.any_noise
def test_observed_sensitivities_are_equations_8_and_9(survey: Survey) -> None:
    frame = survey.frame()
    largest = {"count": 0.0, "mean(salary)": 0.0}
    for _, cell in frame.group_by(BY):
        w, y = cell["weight"].to_numpy(), cell["salary"].to_numpy()
        width = w.max() - w.min()
        largest["count"] = max(largest["count"], width)
        average = ((w * y).max() - (w * y).min()) / (w.sum() - width)
        largest["mean(salary)"] = max(largest["mean(salary)"], average)
    rows = laplace_table(survey, STATISTICS, BY, 8.0).table
    inner = rows.filter((pl.col("field") != "All") & (pl.col("gender") != "All"))
    for statistic, sensitivity in largest.items():
        sd = inner.filter(pl.col("statistic") == statistic)["noise_sd"].unique().item()
        assert sd == pytest.approx(np.sqrt(2) * sensitivity / 0.5, rel=1e-4)


def test_declared_sensitivity_covers_every_replacement() -> None:
    """Brute force: any record of a small cell replaced by any corner of the declared bounds."""
    rng = np.random.default_rng(0)
    w_bounds, y_bounds = (1.0, 6.0), (2.0, 9.0)
    corners = [(w, y) for w in w_bounds for y in y_bounds]
    worst = {"count": 0.0, "mean": 0.0}
    for _ in range(300):
        w, y = rng.choice(w_bounds, 4), rng.choice(y_bounds, 4)
        seen = []
        for new_w, new_y in corners:
            w[0], y[0] = new_w, new_y
            seen.append((w.sum(), (w * y).sum() / w.sum()))
        counts, means = zip(*seen, strict=True)
        worst["count"] = max(worst["count"], max(counts) - min(counts))
        worst["mean"] = max(worst["mean"], max(means) - min(means))
    ones = np.ones(4)
    count = module._Values("count", ones, None, w_bounds, None)
    mean = module._Values("mean", ones, ones, w_bounds, y_bounds)
    cell = np.zeros(4, dtype=np.int64)
    assert count.sensitivity(ones, cell, 1) == pytest.approx(worst["count"])
    assert mean.sensitivity(ones, cell, 1) == pytest.approx(worst["mean"])


@pytest.mark.any_noise
def test_claims(survey: Survey) -> None:
    observed = laplace_table(survey, "count", BY, 2.0)
    declared = laplace_table(survey, "count", BY, 2.0, sensitivity="declared")
    assert isinstance(observed, LaplaceTable)
    assert (observed.claim.kind, observed.claim.epsilon) == ("local", 2.0)
    assert (declared.claim.kind, declared.claim.relation) == ("formal", "replace")
    assert declared.table["noise_sd"][0] > observed.table["noise_sd"][0]


@pytest.mark.any_noise
def test_consistent_tables_add_up(survey: Survey) -> None:
    table = laplace_table(survey, STATISTICS, BY, 1.0, consistent=True).table
    counts = table.filter(pl.col("statistic") == "count")
    inner = counts.filter((pl.col("field") != "All") & (pl.col("gender") != "All"))
    assert (inner["estimate"] >= 0).all()
    total = counts.filter((pl.col("field") == "All") & (pl.col("gender") == "All"))
    assert total["estimate"].item() == pytest.approx(inner["estimate"].sum())
    by_field = inner.group_by("field").agg(pl.col("estimate").sum())
    margin = counts.filter((pl.col("field") != "All") & (pl.col("gender") == "All"))
    joined = margin.join(by_field, on="field", suffix="_sum")
    np.testing.assert_allclose(joined["estimate"], joined["estimate_sum"])


@pytest.mark.usefixtures("stand_in_noise")
def test_standard_errors_hold_noise_and_sampling() -> None:
    """With hardly any noise the replicate variance is the textbook one, on average."""
    rng = np.random.default_rng(4)
    n = 120
    frame = pl.DataFrame({"w": rng.uniform(1, 2, n), "g": ["a", "b"] * (n // 2)})
    survey = Survey(frame, Design(weight="w"), Codebook({"w": Column("w", "weight")}))
    exact = tabulate(survey, "count", by="g").sort("g")["se"].to_numpy()
    estimates = [
        laplace_table(survey, "count", "g", 1e6, replicates=200, seed=k)
        .table.filter(pl.col("g") != "All")
        .sort("g")["se"]
        .to_numpy()
        for k in range(3)
    ]
    np.testing.assert_allclose(np.mean(estimates, axis=0), exact, rtol=0.1)
    noisy = laplace_table(survey, "count", "g", 0.5).table
    assert (noisy["se"] >= noisy["noise_sd"]).all()


@pytest.mark.any_noise
def test_refusals(survey: Survey) -> None:
    def refused(match: str, survey: Survey = survey, **changes: object) -> None:
        asked = {"statistics": STATISTICS, "by": BY, "epsilon": 1.0} | changes
        with pytest.raises(Refused, match=match):
            laplace_table(survey, **asked)  # type: ignore[arg-type]

    refused("Unknown by-variable `region`", by=["region"])
    refused("Unknown column `salry`; did you mean `salary`", statistics=["mean(salry)"])
    refused("counts and means", statistics=["total(salary)"])
    refused("means of columns with declared bounds", statistics=["mean(log(salary))"])
    refused("epsilon must be", epsilon=-1.0)
    refused("at least 2", replicates=1)
    refused("Unknown kind of sensitivity", sensitivity="global")
    refused("each once", by=["field", "field"])
    book = survey.codebook
    salary = replace(book["salary"], bounds=None)
    bare = Survey(survey.frame(), survey.design, book.with_column(salary))
    refused("declared bounds of `salary`", survey=bare, sensitivity="declared")
    refused("`count` among", statistics=["mean(salary)"], consistent=True)
    refused("`gender` must be numeric and without missing", by="field", statistics=["mean(gender)"])
    first = pl.int_range(pl.len()) == 0
    holes = survey.frame().with_columns(salary=pl.when(first).then(None).otherwise("salary"))
    refused("`salary` must be numeric and without", survey=Survey(holes, survey.design, book))
    unweighted = Survey(survey.frame(), Design(), book)
    refused("design weight", survey=unweighted)


def test_records_stay_out_of_messages() -> None:
    record = np.array([7319.5])
    assert "7319" not in repr(module._Values("mean(x)", record, record, (0.0, 9.0), (0.0, 9.0)))


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.0, 3.3])
def test_shares_never_add_up_to_more_than_epsilon(epsilon: float) -> None:
    for parts in range(1, 200):
        share = module._share(epsilon, Fraction(1, parts))
        assert parts * Fraction(share) <= Fraction(epsilon)
        assert parts * Fraction(np.nextafter(share, np.inf)) > Fraction(epsilon)


def test_a_declared_sensitivity_covers_the_doubled_weights_of_a_replicate(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def exact(values: np.ndarray, sensitivity: float, _: float) -> tuple[np.ndarray, float]:
        asked.append(sensitivity)
        return values, 0.0

    monkeypatch.setattr(module, "_noisy", exact)
    laplace_table(survey, "count", "gender", 1.0, sensitivity="declared", replicates=4, seed=3)
    stage = module.first_stage(survey.frame(), survey.design)
    draw = np.random.default_rng(3)
    factors = module.half_sample_factors(stage.stratum, stage.fraction, 4, draw)
    bounds = survey.codebook["weight"].bounds
    assert bounds is not None
    width = bounds[1] - bounds[0]
    expected = [width, *(width * factors.max(axis=0))]
    assert asked == pytest.approx(expected * 2)  # by gender, and for all
    assert max(expected) > width


def test_se_is_the_spread_without_the_noise_that_only_replicates_have(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(values: np.ndarray, _: float, epsilon: float) -> tuple[np.ndarray, float]:
        return values, 900.0 if epsilon > 0.1 else 500.0

    monkeypatch.setattr(module, "_noisy", known)
    table = laplace_table(survey, "count", BY, 4.0).table
    spread = table["replicate_se"].to_numpy()
    expected = np.sqrt(np.maximum(spread**2 - 500.0**2, 900.0**2))
    np.testing.assert_allclose(table["se"], expected)
    assert set(table["noise_sd"]) == {900.0}
    assert (expected > 900).any()
    assert (expected == 900).any()


def test_consistent_tables_keep_the_noise_that_is_left(
    survey: Survey, spends: list[tuple[int, int, float]]
) -> None:
    plain = laplace_table(survey, STATISTICS, BY, 8.0).table
    made = laplace_table(survey, STATISTICS, BY, 8.0, consistent=True).table
    assert made.select(*BY, "statistic").equals(plain.select(*BY, "statistic"))
    counts = plain.filter(pl.col("statistic") == "count")
    inside = membership(counts.select(BY).rows(), "All")
    variance = counts["noise_sd"].to_numpy() ** 2
    agreed = consistent_counts(counts["estimate"].to_numpy(), variance, inside)
    rows = made.filter(pl.col("statistic") == "count")
    np.testing.assert_allclose(rows["estimate"], agreed.value)
    np.testing.assert_allclose(rows["noise_sd"], np.sqrt(agreed.noise_variance))
    sampling = counts["se"].to_numpy() ** 2 - variance
    np.testing.assert_allclose(rows["se"], np.sqrt(sampling + agreed.noise_variance))
    assert spends


@pytest.mark.any_noise
def test_consistency_needs_noise_on_every_number() -> None:
    """Cells of one record have sensitivity 0 (T eq. 8), margins have not."""
    frame = pl.DataFrame({"w": [1.0, 2.0, 4.0], "g": ["a", "b", "c"]})
    alone = Survey(frame, Design(weight="w"), Codebook({"w": Column("w", "weight")}))
    assert laplace_table(alone, "count", "g", 1.0).table["noise_sd"].min() == 0
    with pytest.raises(Refused, match="noise on every number"):
        laplace_table(alone, "count", "g", 1.0, consistent=True)


def test_values_show_no_record() -> None:
    weights, pay = np.array([12.5, 987.25]), np.array([31.75, 654.125])
    values = module._Values("mean(pay)", weights, pay, None, None)
    shown = repr(values)
    assert values.estimate(weights, np.zeros(2, dtype=int), 1).tolist() == [
        pytest.approx(np.average(pay, weights=weights))
    ]
    assert "mean(pay)" in shown
    assert not [number for number in ("12.5", "987.25", "31.75", "654.125") if number in shown]


@pytest.mark.any_noise
def test_a_formal_table_does_not_show_who_has_which_sensitive_level() -> None:
    """A level that one record alone has would be a row of its own, whatever the noise."""
    book = Codebook(
        {
            "size": Column("size", "sensitive", "categorical", levels=(1, 2, 29)),
            "w": Column("w", "weight", "continuous", bounds=(1.0, 3.0)),
        }
    )
    frame = pl.DataFrame({"size": [1, 2] * 10 + [29], "w": [1.0 + k / 10 for k in range(21)]})
    survey = us.Survey(frame, us.Design(weight="w"), book)
    with pytest.raises(Refused, match=r"by-variable `size` is sensitive"):
        us.laplace_table(survey, "count", "size", 1.0, "declared")
    assert us.laplace_table(survey, "count", "size", 1.0).claim.kind == "local"


@pytest.mark.any_noise
def test_a_formal_table_is_paid_for_or_says_that_no_ledger_heard_of_it(tmp_path: Path) -> None:
    book = Codebook(
        {
            "g": Column("g", "public", "categorical", levels=(1, 2)),
            "w": Column("w", "weight", "continuous", bounds=(1.0, 3.0)),
        }
    )
    frame = pl.DataFrame({"g": [1, 2] * 10, "w": [1.0 + k / 10 for k in range(20)]})
    survey = us.Survey(frame, us.Design(weight="w"), book)
    account = us.LedgerAccount(tmp_path / "ledger.db", "people", "0.5")
    unheard = us.laplace_table(survey, "count", "g", 0.3, "declared").claim
    assert any("not charged to any ledger" in condition for condition in unheard.conditions)
    paid = us.laplace_table(survey, "count", "g", 0.3, "declared", account=account).claim
    assert not any("not charged to any ledger" in condition for condition in paid.conditions)
    with pytest.raises(Refused, match=r"needs epsilon 0.3, 0.2 is left"):
        us.laplace_table(survey, "count", "g", 0.3, "declared", account=account)
    with pytest.raises(Refused, match="a table with observed sensitivities states none beforehand"):
        us.laplace_table(survey, "count", "g", 0.3, account=account)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert [e.micro for e in ledger.entries() if e.kind == "spend"] == [300_000]


def test_what_is_said_of_the_records_stays_inside(survey: Survey) -> None:
    """A refusal that looked at values is an answer about them; one for a wrong call is not."""
    frame = survey.frame()
    blank = pl.when(pl.int_range(pl.len()) == 0).then(None)
    for column in ("salary", "field"):
        holes = frame.with_columns(blank.otherwise(pl.col(column)).alias(column))
        with pytest.raises(Refused, match=r"missing values.*internal: computed from confidential"):
            laplace_table(Survey(holes, survey.design, survey.codebook), STATISTICS, BY, 8.0)
    with pytest.raises(Refused) as refusal:
        laplace_table(survey, STATISTICS, [], 8.0)
    assert "internal" not in str(refusal.value)


def test_records_on_a_cluster_are_not_collected(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names what runs there; not even a column is looked at."""
    there = Survey(survey.raw, survey.design, survey.codebook)
    monkeypatch.setattr(Survey, "on_cluster", True)
    monkeypatch.setattr(Survey, "frame", None)
    with pytest.raises(Refused, match="Marginals and Modips"):
        laplace_table(there, STATISTICS, BY, 8.0)
