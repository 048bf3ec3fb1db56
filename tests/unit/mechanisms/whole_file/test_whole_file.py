"""Whole files: what each stage spends, what is measured, and records that fit it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import polars as pl
import pytest

import chance
import understudy as us
from understudy.chance import chance_of
from understudy.dp import choice, noise
from understudy.dp.accounting import epsilon_of, rho_of
from understudy.errors import Refused
from understudy.mechanisms.whole_file import budget as budgets
from understudy.mechanisms.whole_file import files
from understudy.mechanisms.whole_file.budget import TableBudget, budget_of
from understudy.mechanisms.whole_file.files import further_file
from understudy.mechanisms.whole_file.fit import smoothed
from understudy.mechanisms.whole_file.noisy_file import from_draws
from understudy.mechanisms.whole_file.plan import CHOICE, MISFIT, ONE_WAY, plan_of
from understudy.release.recipe import parse_recipe
from understudy.survey.codebook import Codebook, Column

N = 4000


def mixed_file(n: int = N, seed: int = 5) -> pl.DataFrame:
    """Categories, a whole number, an amount with zeros and a topcode, a weight, blanks."""
    rng = np.random.default_rng(seed)
    region = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    works = rng.random(n) < 0.3 + 0.15 * region
    pay = np.where(works, np.minimum(np.exp(rng.normal(9 + 0.3 * region, 0.8)), 60_000), 0.0)
    return pl.DataFrame(
        {
            "region": np.array(["n", "e", "s", "w"])[region],
            "works": np.where(works, "yes", "no"),
            "age": rng.integers(16, 90, n),
            "pay": np.round(pay, -1),
            "sick": [None if k == 0 else int(k) for k in rng.integers(0, 6, n)],
            "w": np.round(np.exp(rng.normal(4 + 0.2 * region, 0.4)), 1),
        }
    )


COLUMNS = {
    "region": Column("region", "public", "categorical", levels=("n", "e", "s", "w"), blanks=False),
    "works": Column("works", "sensitive", "categorical", levels=("no", "yes"), blanks=False),
    "age": Column("age", "sensitive", "integer", bounds=(16, 90), blanks=False),
    "pay": Column(
        "pay", "sensitive", "continuous", bounds=(0, 60_000), special=(0.0, 60_000.0),
        rounding=10.0, grid="log", blanks=False,
    ),
    "sick": Column("sick", "sensitive", "integer", bounds=(0, 5), blanks=True),
    "w": Column("w", "weight", "continuous", bounds=(5, 600), rounding=0.1),
}  # fmt: skip
CODEBOOK = Codebook(COLUMNS, impossible=("works == 'no' and pay > 0",))


def survey(frame: pl.DataFrame | None = None, codebook: Codebook = CODEBOOK) -> us.Survey:
    return us.Survey(mixed_file() if frame is None else frame, us.Design(weight="w"), codebook)


def variation(a: pl.Series, b: pl.Series) -> float:
    counts = [dict(s.value_counts(normalize=True).iter_rows()) for s in (a, b)]
    cells = set(counts[0]) | set(counts[1])
    return 0.5 * sum(abs(counts[0].get(c, 0) - counts[1].get(c, 0)) for c in cells)


@pytest.fixture(scope="module", autouse=True)
def small_pool():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.mechanisms.whole_file.fit.POOL", 20_000)
        patch.setattr("understudy.mechanisms.whole_file.measure.SMALL_POOL", 10_000)
        yield


@pytest.fixture
def tiny_pool(monkeypatch):
    """For tests of what is spent: how near the records come to the tables does not matter."""
    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.POOL", 2000)
    monkeypatch.setattr("understudy.mechanisms.whole_file.measure.SMALL_POOL", 1000)


@pytest.fixture(scope="module")
def released(small_pool):  # noqa: ARG001
    """Two files with little noise."""
    with chance.seeded_noise():
        mechanism = us.Marginals(20.0, 1e-6)
        return us.synthesize(survey(), us.WholeFile(), mechanism, datasets=2, seed=1)


@pytest.fixture(scope="module")
def kept_region(small_pool):  # noqa: ARG001
    """Two files with the regions of the sample's rows."""
    with chance.seeded_noise():
        blank = us.Marginals(5.0, 1e-6, relation="blank")
        return us.synthesize(survey(), us.WholeFile(keep=["region"]), blank, datasets=2, seed=1)


# -- what is spent -------------------------------------------------------------------------------


@pytest.mark.usefixtures("stand_in_noise", "tiny_pool")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("datasets", [1, 3])
@pytest.mark.parametrize(
    ("relation", "moved", "squared"), [("add-remove", 1, 1), ("replace", 2, 2)]
)
def test_all_stages_together_spend_what_is_claimed(
    monkeypatch, delta, datasets, relation, moved, squared
):
    """Every call of noise and of the choice, added up: at most the budget, and nearly all of it."""
    spent: list[Fraction] = []
    distances: list[int] = []

    def laplace(counts, sensitivity, epsilon):
        assert sensitivity % moved == 0
        spent.append(Fraction(epsilon))
        return noise.integer_laplace(counts, sensitivity, epsilon)

    def gaussian(counts, squared_sensitivity, rho):
        assert squared_sensitivity % squared == 0
        spent.append(Fraction(rho))
        return noise.integer_gaussian(counts, squared_sensitivity, rho)

    def picks(scores, number, sensitivity, cost, measure):
        assert sensitivity == moved
        spent.append(Fraction(cost))
        return choice.choose(scores, number, sensitivity, cost, measure)

    noisy_numbers = budgets.TableBudget.noisy_numbers

    def of_distances(budget, numbers, parts, share):
        distances.append(len(parts))
        return noisy_numbers(budget, numbers, parts, share)

    monkeypatch.setattr(budgets.TableBudget, "noisy_numbers", of_distances)
    monkeypatch.setattr(budgets, "integer_laplace", laplace)
    monkeypatch.setattr(budgets, "integer_gaussian", gaussian)
    monkeypatch.setattr(budgets, "choose", picks)
    monkeypatch.setattr("understudy.mechanisms.whole_file.plan.FEW_COLUMNS", 0)
    mechanism = us.Marginals(0.5, delta, relation=relation)
    result = us.synthesize(survey(), us.WholeFile(), mechanism, datasets=datasets, seed=1)
    total = Fraction(0.5) if delta == 0 else Fraction(rho_of(0.5, delta))
    assert Fraction(999, 1000) * total <= sum(spent) <= total
    assert 4 <= len(distances) <= 6  # counts and means of each kind of tables (misfit.py)
    tables = datasets + len(mechanism_batches(result)) * (datasets + 1)
    assert len(spent) == tables + len(distances)
    assert (result.claim.epsilon, result.claim.delta) == (0.5, delta)
    assert result.claim.relation == relation
    if delta:
        assert epsilon_of(float(sum(spent)), delta) <= 0.5 * (1 + 1e-9)


def mechanism_batches(result: us.Synthesis) -> list[int]:
    tables = len(result.draws[0]["measured"])
    first = [tables // 3] * 2
    return [size for size in (*first, tables - sum(first)) if size]


def test_noise_has_the_deviation_of_its_share():
    """Gaussian: sigma^2 = T k^2 c / (2 rho share); Laplace: 2 b^2 to a percent at b = T k c/eps."""
    share = Fraction(3, 10)
    for k, replaced, c in ((1, False, 1), (3, False, 1), (3, True, 2)):
        noise_of = TableBudget(Fraction(1, 20), "rho", k, replaced).noise(7, share)
        assert noise_of.variance == pytest.approx(7 * k**2 * c / (2 * 0.05 * 0.3), rel=1e-9)
        assert noise_of.size == pytest.approx(math.sqrt(2 / math.pi * noise_of.variance))
        scale = 7 * k * c / (2.0 * 0.3)
        noise_of = budget_of(2.0, 0.0, k, replaced).noise(7, share)
        assert noise_of.variance == pytest.approx(2 * scale**2, rel=0.01)
        assert noise_of.size == pytest.approx(scale, rel=0.01)


# -- the plan ------------------------------------------------------------------------------------


def test_few_columns_measure_all_pairs_and_many_choose():
    budget = budget_of(1.0, 1e-5, 1, False)
    small = plan_of("chosen", 14_400, 8, 0, budget, 1)
    assert (small.order, small.tables, small.batches) == (2, 28, ())
    assert small.share == 1 - ONE_WAY - MISFIT
    wide = plan_of("chosen", 6_400, 20, 0, budget, 1)
    assert (wide.order, wide.tables, wide.batches) == ("chosen", 40, (13, 13, 14))
    assert wide.share == 1 - ONE_WAY - MISFIT - CHOICE
    assert 8 <= wide.most_cells <= 32
    rich = plan_of("chosen", 10_000_000, 60, 0, budget, 5)
    assert (rich.order, rich.tables) == (2, math.comb(60, 2))
    assert plan_of(1, 5000, 20, 0, budget, 1).tables == 0
    assert plan_of(3, 5000, 6, 0, budget, 1).tables == 20
    # tables of kept columns alone are not measured
    assert plan_of(2, 5000, 6, 3, budget, 1).tables == 15 - 3


# -- records -------------------------------------------------------------------------------------


def test_records_fit_the_tables_keep_the_rules_and_lie_on_the_declared_cells(released):
    real = survey().frame()
    for made in (dataset.frame() for dataset in released.datasets):
        assert made.columns == [*real.columns, "w_smoothed"]
        assert made.height == N
        assert made.filter((pl.col("works") == "no") & (pl.col("pay") > 0)).is_empty()
        assert made["age"].is_between(16, 90).all()
        assert made["pay"].is_between(0, 60_000).all()
        assert (made["pay"] % 10 == 0).all()
        assert made["age"].dtype == pl.Int64
        assert variation(made["region"], real["region"]) < 0.02
        assert variation(made["sick"], real["sick"]) < 0.03
        for value in (0.0, 60_000.0):
            shares = [(frame["pay"] == value).mean() for frame in (made, real)]
            assert shares[0] == pytest.approx(shares[1], abs=0.02)
        by = [
            frame.group_by("region").agg(pl.col("pay").mean()).sort("region")["pay"].to_numpy()
            for frame in (made, real)
        ]
        assert by[0] == pytest.approx(by[1], rel=0.15)
    assert released.datasets[0].design == us.Design(weight="w_smoothed", variance_weight="w")
    assert released.claim.kind == "formal"
    again = from_draws(released.draws)
    assert again.columns == tuple(real.columns)
    assert len(again.sets) == 2


def test_kept_columns_stay_row_by_row_and_the_relation_must_fit(kept_region):
    data, result = survey(), kept_region
    model = us.WholeFile(keep=["region"])
    with pytest.raises(Refused, match="relation"):
        us.synthesize(data, model, us.Marginals(5.0, 1e-6), seed=1)
    blank = us.Marginals(5.0, 1e-6, relation="blank")
    real = data.frame()
    for made in (dataset.frame() for dataset in result.datasets):
        assert made["region"].equals(real["region"])
        assert variation(made["works"], real["works"]) < 0.02
        by = [
            f.group_by("region").agg((pl.col("works") == "yes").mean(), n=pl.len()).sort("region")
            for f in (made, real)
        ]
        share, n = by[1]["works"].to_numpy(), by[1]["n"].to_numpy()
        # values are drawn row by row: five binomial standard deviations, and a little for noise
        limit = 5 * np.sqrt(share * (1 - share) / n) + 0.01
        assert (np.abs(by[0]["works"].to_numpy() - share) < limit).all()
    with pytest.raises(Refused, match="not public"):
        us.synthesize(data, us.WholeFile(keep=["works"]), blank, seed=1)
    # a table of public columns alone is exact and costs nothing
    draws = result.draws[0]
    column = draws["columns"].index("region")
    assert draws["one_way_variances"][column] == 0
    assert sum(draws["one_way"][column]) == N


def test_without_noise_the_same_engine_and_no_epsilon():
    data = survey()
    result = us.synthesize(data, us.WholeFile(), us.Unweighted(), datasets=1, seed=1)
    assert result.claim.kind == "risk"
    made, real = result.datasets[0].frame(), data.frame()
    for a, b in combinations(["region", "works", "sick"], 2):
        pairs = [f.select(pl.concat_str([pl.col(a), pl.col(b).cast(pl.String).fill_null("?")]))
                 .to_series() for f in (made, real)]  # fmt: skip
        assert variation(*pairs) < 0.04


@pytest.mark.usefixtures("stand_in_noise")
def test_a_noisy_size_needs_no_public_number():
    result = us.synthesize(survey(), us.WholeFile(size="noisy"), us.Marginals(5.0, 1e-6), seed=1)
    assert abs(result.datasets[0].n - N) < 200
    assert not [c for c in result.claim.conditions if "number of records" in c]
    fixed = us.synthesize(survey(), us.WholeFile(size=77), us.Marginals(5.0, 1e-6), seed=1)
    assert fixed.datasets[0].n == 77


@pytest.mark.usefixtures("stand_in_noise", "tiny_pool")
def test_a_claim_for_households_counts_so_many_of_their_records():
    frame = mixed_file(300).with_columns(home=pl.Series(np.arange(300) // 3))
    homes = Column("home", "unit", "integer")
    codebook = replace(CODEBOOK, columns={**COLUMNS, "home": homes}, records_per_unit=2)
    data = survey(frame, codebook)
    result = us.synthesize(data, us.WholeFile(size="noisy"), us.Marginals(900.0, 1e-6), seed=1)
    assert result.claim.unit == "home"
    assert "home" not in result.datasets[0].columns
    assert abs(result.datasets[0].n - 200) <= 2


@pytest.mark.usefixtures("tiny_pool")
@pytest.mark.parametrize(("relation", "moved"), [("blank", 3), ("replace", 6)])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_kept_rows_of_households_have_noise_for_all_their_records(
    monkeypatch, relation, moved, delta
):
    """Whatever one household's records say, each table moves by at most k, or 2k, in L1; and the
    noise of every stage is for so much. All public rows count."""
    frame = mixed_file(300).with_columns(home=pl.Series(np.arange(300) // 3))
    homes = Column("home", "unit", "integer")
    codebook = replace(CODEBOOK, columns={**COLUMNS, "home": homes}, records_per_unit=3)
    seen: list[np.ndarray] = []

    def laplace(counts, sensitivity, epsilon):  # noqa: ARG001
        assert sensitivity % moved == 0
        seen.append(counts)
        return counts

    def gaussian(counts, squared, rho):  # noqa: ARG001
        assert squared % (9 if relation == "blank" else 18) == 0
        seen.append(counts)
        return counts

    monkeypatch.setattr(budgets, "integer_laplace", laplace)
    monkeypatch.setattr(budgets, "integer_gaussian", gaussian)
    model, mechanism = us.WholeFile(keep=["region"]), us.Marginals(9.0, delta, 1, relation)
    result = us.synthesize(survey(frame, codebook), model, mechanism, seed=1)
    assert result.claim.unit == "home"
    assert "No `home` has more than 3 records" in str(result.claim)
    assert result.datasets[0].frame()["region"].equals(frame["region"])
    ours = seen[0]
    seen.clear()
    theirs = frame.with_columns(
        pl.when(pl.col("home") == 7).then(value).otherwise(pl.col(name)).alias(name)
        for name, value in (("age", pl.lit(90)), ("works", pl.lit("no")), ("pay", pl.lit(0.0)))
    )
    us.synthesize(survey(theirs, codebook), model, mechanism, seed=1)
    assert 0 < np.abs(ours - seen[0]).sum() <= 5 * 6  # five sensitive columns, replaced
    crowded = replace(codebook, records_per_unit=2)
    with pytest.raises(Refused, match="more than 2 records"):
        us.synthesize(survey(frame, crowded), model, mechanism, seed=1)


@pytest.mark.usefixtures("stand_in_noise")
def test_what_was_drafted_from_the_records_carries_no_formal_claim():
    drafted = us.Survey(mixed_file(), us.Design(weight="w"))
    facts = [column.drafted_cells for column in drafted.codebook]
    columns = sum(1 for each in facts if each)
    listed = rf"the first of {sum(map(len, facts))} facts in {columns} columns\), which is not decl"
    with pytest.raises(Refused, match=listed):
        us.synthesize(drafted, us.WholeFile(), us.Marginals(1.0, 1e-6), seed=1)
    with pytest.raises(Refused, match=r"rests on `age\.[a-z]+`, which is not declared"):
        us.synthesize(drafted, us.WholeFile(["age"]), us.Marginals(1.0, 1e-6), seed=1)


def test_a_tail_falls_within_its_last_cell():
    """Twenty grid cells of an exponential, merged into four runs: near the curve they came from."""
    true = 0.7 ** np.arange(20)
    true /= true.sum()
    mapped = np.array([0, 1, 2, 2, 3, 3, 3, 3, 3, 3, *[4] * 10], dtype=np.int32)
    curve = smoothed(np.bincount(mapped, true), mapped, 20)
    members = np.bincount(mapped)
    assert np.bincount(mapped, curve) == pytest.approx(np.bincount(mapped, true))
    assert (np.diff(curve) < 0).all()
    flat = (np.bincount(mapped, true) / members)[mapped]
    assert np.abs(curve - true).sum() < 0.35 * np.abs(flat - true).sum()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"columns": "age"}, "list of columns"),
        ({"columns": ["age", "age"]}, "twice"),
        ({"keep": []}, "list of columns"),
        ({"size": 0}, "at least 1"),
        ({"size": "many"}, "at least 1"),
        ({"keep": ["region"], "size": 5}, "cannot be chosen"),
    ],
)
def test_refusals(arguments, text):
    with pytest.raises(Refused, match=text):
        us.WholeFile(**arguments)


def test_identifiers_and_what_belongs_to_clusters_are_left_out():
    frame = mixed_file(200).with_columns(id=pl.Series(range(200)), cluster=pl.Series([1, 2] * 100))
    more = {
        "id": Column("id", "unit", "integer"),
        "cluster": Column("cluster", "psu", "integer"),
    }
    data = survey(frame, replace(CODEBOOK, columns={**COLUMNS, **more}))
    assert us.WholeFile().for_survey(data).columns == tuple(COLUMNS)
    with pytest.raises(Refused, match="identifies units"):
        us.WholeFile(["age", "id"]).for_survey(data)


def test_the_envelope_holds_the_noisy_tables_and_no_row(kept_region):
    envelope = kept_region.envelope
    assert (envelope.output, envelope.rows) == (("FileTables",), ())
    assert [draw["records"] for draw in envelope.draws] == [survey().n] * 2
    assert [d.columns[0] for d in kept_region.datasets] == ["region"] * 2
    assert kept_region.synthesized == (*list(COLUMNS)[1:], "w_smoothed")


def test_a_recipe_need_not_name_the_columns(tmp_path):
    text = """
[data]
path = "file.parquet"
[synthesis]
model = "wholefile"
keep = ["region"]
[privacy]
mechanism = "marginals"
epsilon = 1
delta = 1e-9
relation = "blank"
"""
    recipe = parse_recipe(text, tmp_path)
    assert recipe.model.build() == us.WholeFile(keep=["region"])
    assert recipe.mechanism.build(None) == us.Marginals(1, 1e-9, relation="blank")
    with pytest.raises(Refused, match="lacks `sensitive`"):
        parse_recipe(
            text.replace("wholefile", "Multinomial").replace('keep = ["region"]', ""), tmp_path
        )


def test_further_records_come_from_the_released_tables_alone(released, monkeypatch):
    dataset = released.datasets[1]
    noisy, secret = from_draws(released.draws), chance_of(3)
    more = further_file(noisy, dataset, secret, 1, 3000, "age > 64")
    assert (more.n, more.dataset, more.where) == (3000, 2, "age > 64")
    made, real = more.frame(), survey().frame()
    assert (made["age"] > 64).all()
    assert made.filter((pl.col("works") == "no") & (pl.col("pay") > 0)).is_empty()
    older = real.filter(pl.col("age") > 64)
    assert variation(made["region"], older["region"]) < 0.06
    # as many records of the sample as are older; the drawn ones are no head of a sorted list
    assert 3000 * more.stands_for == pytest.approx(older.height, rel=0.06)
    assert made["w"].sum() == pytest.approx(older["w"].sum(), rel=0.1)
    ages = [frame["age"].mean() for frame in (made, older)]
    assert ages[0] == pytest.approx(ages[1], abs=1.0)
    monkeypatch.setattr(files, "GIVEN_UP", 40_000)
    with pytest.raises(Refused, match="Too few"):
        further_file(noisy, dataset, secret, 0, 10, "age > 900")


@pytest.mark.usefixtures("stand_in_noise")
def test_the_second_batch_is_as_large_as_the_first_lets_expect(released, monkeypatch):
    """Batches of different sizes have their records' weights."""
    monkeypatch.setattr(files, "FEWEST", 1_000)
    sizes, drawn = [], files._drawn

    def listed(*facts):
        result = drawn(*facts)
        sizes.append(len(result.weights["w"]))
        return result

    monkeypatch.setattr(files, "_drawn", listed)
    dataset, noisy = released.datasets[0], from_draws(released.draws)
    more = further_file(noisy, dataset, chance_of(6), 0, 2000, "region == 'w'")
    assert sizes[0] == 2000
    assert len(sizes) == 2
    assert 12_000 < sizes[1] < 30_000  # a tenth of the records live there
    there = dataset.frame().filter(pl.col("region") == "w")
    assert more.frame()["w"].sum() == pytest.approx(there["w"].sum(), rel=0.15)
    assert 2000 * more.stands_for == pytest.approx(there.height, rel=0.15)


# its weights do add up to the public totals, and the comparison is of two files alike
@pytest.mark.filterwarnings("ignore::understudy.tables.calibration_hint.CalibrationWarning")
@pytest.mark.usefixtures("stand_in_noise")
def test_a_larger_file_has_the_weights_of_the_sample(released):
    totals = {"region": dict(zip("nesw", (4e4, 3e4, 2e4, 1e4), strict=True))}
    data = survey(codebook=replace(CODEBOOK, population_by=totals))
    raked = us.synthesize(data, us.WholeFile(), us.Marginals(20.0, 1e-6), seed=1)
    for result in (released, raked):
        file, noisy = result.datasets[0], from_draws(result.draws)
        more = further_file(noisy, file, chance_of(4), 0, 3 * N)
        assert more.stands_for == pytest.approx(1 / 3)
        sums = [each.frame(["w"])["w"].sum() for each in (more, file)]
        assert sums[0] == pytest.approx(sums[1], rel=0.03)
        tables = [us.tabulate(each, ["mean(age)", "count"], by="region") for each in (more, file)]
        means = [t.filter(pl.col("statistic") == "mean(age)").sort("region") for t in tables]
        assert means[0]["se"].to_numpy() == pytest.approx(means[1]["se"].to_numpy(), rel=0.15)


@pytest.mark.usefixtures("stand_in_noise")
def test_further_records_have_kept_rows_of_the_release():
    """Two public columns that are equal: so they are in further records, which no table says."""
    frame = mixed_file().with_columns(again=pl.col("region"))
    columns = {**COLUMNS, "again": replace(COLUMNS["region"], name="again")}
    data = survey(frame, replace(CODEBOOK, columns=columns))
    blank = us.Marginals(5.0, 1e-6, relation="blank")
    result = us.synthesize(data, us.WholeFile(keep=["region", "again"]), blank, seed=1)
    noisy = from_draws(result.draws)
    assert noisy.kept == (True, False, False, False, False, False, True)
    more = further_file(noisy, result.datasets[0], chance_of(5), 0, N + 500, "works == 'yes'")
    made = more.frame()
    assert more.n == N + 500
    assert made["region"].equals(made["again"].alias("region"))
    assert variation(made["region"], frame.filter(pl.col("works") == "yes")["region"]) < 0.05
