"""Whole rows from counts: microdata, claims, limits, and inference for cell proportions."""

from __future__ import annotations

import math
import re
import warnings
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import chance
from understudy.chance import chance_of
from understudy.errors import Refused
from understudy.mechanisms import modips as modips_file
from understudy.mechanisms.marginals import Marginals
from understudy.mechanisms.modips import Modips
from understudy.mechanisms.outputs import cell_draws
from understudy.mechanisms.row_counts import RowCounts
from understudy.mechanisms.unweighted import Unweighted
from understudy.mechanisms.weighted import Weighted
from understudy.models.multinomial import Multinomial, synthetic_counts
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.engine import is_own_file
from understudy.survey.survey import Survey
from understudy.synthesis import OUTSIDE, synthesize
from understudy.tables.tabulate import tabulate

MODEL = Multinomial(["region", "sex", "rank"])
EVERY = [
    Unweighted(),
    Modips(8.0),
    Modips(8.0, "public", "replace"),
    Modips(8.0, "threshold", delta=1e-4),
    Marginals(8.0),
]


def survey(n=4000, rules=(), seed=1) -> Survey:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "region": rng.choice(["N", "S", "W"], n, p=[0.5, 0.3, 0.2]),
            "sex": rng.integers(1, 3, n).astype(np.int8),
            "rank": rng.choice([10, 20, 30], n, p=[0.7, 0.2, 0.1]),
            "w": rng.gamma(2.0, 1.0, n),
        }
    )
    columns = {
        "region": Column("region", "sensitive", "categorical", "Region", ("N", "S", "W", "E")),
        "sex": Column(
            "sex", "sensitive", "categorical", levels=(1, 2), value_labels={1: "m", 2: "f"}
        ),
        "rank": Column("rank", "sensitive", "categorical", levels=(10, 20, 30)),
    }
    return Survey(frame, Design(weight="w"), Codebook(columns, impossible=tuple(rules)))


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("mechanism", EVERY, ids=lambda m: type(m).__name__ + str(m)[-20:])
def test_output_is_microdata_with_columns_types_labels_and_size(mechanism):
    confidential = survey()
    result = synthesize(confidential, MODEL, mechanism, datasets=2, seed=3)
    assert len(result.datasets) == 2
    for dataset in result.datasets:
        frame = dataset.frame()
        assert frame.schema == {"region": pl.String, "sex": pl.Int64, "rank": pl.Int64}
        assert dataset.n == 4000
        assert set(frame["region"]) <= {"N", "S", "W", "E"}
        assert dataset.codebook["sex"].value_labels == {1: "m", 2: "f"}
        assert dataset.codebook["region"].label == "Region"
        assert dataset.design == Design()
    assert not result.datasets[0].frame().equals(result.datasets[1].frame())
    assert any("weights were not used" in text for text in result.claim.conditions)


@pytest.mark.any_noise
def test_another_size_is_kept_and_needs_no_public_number():
    model = Multinomial(MODEL.columns, size=777)
    result = synthesize(survey(), model, Modips(8.0, "public"), 3)
    assert [dataset.n for dataset in result.datasets] == [777] * 3
    assert not any("number of records" in text for text in result.claim.conditions)


@pytest.mark.usefixtures("stand_in_noise")
def test_claims_by_mechanism():
    kinds = [synthesize(survey(), MODEL, mechanism).claim.kind for mechanism in EVERY]
    assert kinds == ["risk", "local", "formal", "formal", "formal"]
    result = synthesize(survey(), MODEL, Modips(8.0, "threshold", delta=1e-4), 2)
    assert (result.claim.epsilon, result.claim.delta) == (8.0, 1e-4)
    assert all(draw["noisy_counts"].min() > 0 for draw in result.draws)
    for inside in (Unweighted(), Modips(8.0)):
        assert synthesize(survey(), MODEL, inside).draws == []


@pytest.mark.chance(chance.same_noise(24, 1 / 0.9), "the same noise in 24 cells twice")
def test_the_same_seed_gives_the_same_ms_and_noise_has_no_seed():
    tables = [synthesize(survey(), MODEL, Unweighted(), 1, seed) for seed in (1, 1, 2)]
    counts = [released.tables[0].counts.tolist() for released in tables]
    assert counts[0] == counts[1] != counts[2]
    # each data set has its own generator, whatever the number of data sets and of cores
    together = synthesize(survey(), MODEL, Unweighted(), 3, 1).tables
    exact = Unweighted().cells(RowCounts(MODEL, survey())).counts
    for number, table in enumerate(together):
        alone = synthetic_counts(
            exact, 4000, 0.5, chance_of(1).of(OUTSIDE).generator(f"rows {number}")
        )
        assert table.counts.tolist() == alone.tolist()
    private = [synthesize(survey(), MODEL, Modips(0.9, "public"), 1, 1).draws[0]
               for _ in range(2)]  # fmt: skip
    assert private[0]["noisy_counts"].tolist() != private[1]["noisy_counts"].tolist()


@pytest.mark.chance(
    chance.ALPHA + chance.same_noise(24, 2.0, pairs=40 * 39 // 2),
    "exact binomial intervals of all cells; two data sets with the same noise",
)
def test_a_release_has_fresh_noise_of_its_share_of_epsilon_in_each_data_set():
    """40 data sets at epsilon 20: scale 2 in each, where the whole epsilon would have .05."""
    confidential = survey()
    mechanism = Modips(20.0, "public")
    exact = mechanism.cells(RowCounts(MODEL, confidential)).counts
    result = synthesize(confidential, MODEL, mechanism, 40)
    noise = np.array([draw["noisy_counts"] for draw in result.draws]) - exact
    assert noise.shape == (40, 24)
    assert len({tuple(row) for row in noise}) == 40
    assert chance.follows(noise, chance.noise(2.0))


@pytest.mark.usefixtures("stand_in_noise")
def test_sanitised_counts_are_rescaled_to_the_size_before_the_prior():
    """(size n_k/n + prior)/(size + prior K), with a prior that shows and no noise left."""
    confidential = survey()
    counts = Modips(1e4).cells(RowCounts(MODEL, confidential)).counts
    model = Multinomial(MODEL.columns, prior=50.0, size=400)
    made = synthesize(confidential, model, Modips(1e4), 60).tables
    average = np.mean([table.counts for table in made], axis=0)
    expected = 400 * (400 * counts / 4000 + 50) / (400 + 50 * counts.size)
    spread = np.std([table.counts for table in made], axis=0) / math.sqrt(60)
    assert np.abs((average - expected) / spread).max() < 5


@pytest.mark.usefixtures("stand_in_noise")
def test_empty_cells_stay_empty_or_not_by_support():
    confidential = survey()
    observed = synthesize(confidential, MODEL, Modips(8.0), 4)
    assert all("E" not in set(dataset.frame()["region"]) for dataset in observed.datasets)
    public = synthesize(confidential, MODEL, Modips(8.0, "public"), 4)
    assert any("E" in set(dataset.frame()["region"]) for dataset in public.datasets)


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize(
    ("mechanism", "datasets"), [(Modips(2.0, "public"), 12), (Marginals(2.0), 3)]
)
def test_impossible_combinations_never_appear(mechanism, datasets):
    rules = ['region == "E" and sex == 1', 'region == "E" and rank > 10']
    result = synthesize(survey(rules=rules), MODEL, mechanism, datasets)
    for dataset in result.datasets:
        eastern = dataset.frame().filter(pl.col("region") == "E")
        assert eastern.filter((pl.col("sex") == 1) | (pl.col("rank") > 10)).height == 0
    if isinstance(mechanism, Modips):
        # the one cell that is possible there is empty in a data set with chance .45 at most
        assert sum("E" in set(drawn.frame()["region"]) for drawn in result.datasets) > 0


@pytest.mark.chance(chance.any_noise_at_all(2 * 18, 2 / 2000), "a cell with noise")
def test_large_epsilon_is_ms_in_distribution():
    """With epsilon so large that all noise is 0, MODIPS and MS are one draw from one seed."""
    ms = synthesize(survey(), MODEL, Unweighted(), 2, 5)
    modips = synthesize(survey(), MODEL, Modips(2000.0), 2, 5)
    for table, other in zip(ms.tables, modips.tables, strict=True):
        assert table.counts.tolist() == other.counts.tolist()


@pytest.mark.usefixtures("stand_in_noise")
def test_cell_proportions_are_combined_as_in_the_report():
    """M eq. 3.1-3.3 written out, against tabulate(..., combine="partial")."""
    result = synthesize(survey(), MODEL, Modips(8.0), 5)
    asked = 'proportion(region == "N")'
    table = tabulate(result.datasets, asked, combine="partial", intervals="t")
    shares = [float((dataset.frame()["region"] == "N").mean()) for dataset in result.datasets]
    n, m = 4000, 5
    mean, between = np.mean(shares), np.var(shares, ddof=1)
    within = np.mean([p * (1 - p) / (n - 1) for p in shares])  # Taylor divides by n - 1, M by n
    total = between / m + within
    # M's degrees of freedom, with those of the sampling variance itself (docs/decisions/014)
    degrees = total**2 / ((between / m) ** 2 / (m - 1) + within**2 / (n - 1))
    assert table["estimate"][0] == pytest.approx(mean)
    assert table["se"][0] == pytest.approx(math.sqrt(total))
    assert table["df"][0] == pytest.approx(degrees)
    half = stats.t.ppf(0.975, degrees) * math.sqrt(total)
    assert table["upper"][0] - table["lower"][0] == pytest.approx(2 * half)


@pytest.mark.usefixtures("stand_in_noise")
def test_coverage_of_a_proportion_under_repeated_sampling():
    """95 % intervals from MODIPS data hold the true share about as often as they should."""
    held, trials = 0, 40
    for number in range(trials):
        result = synthesize(survey(800, seed=number), MODEL, Modips(12.0), 3, number)
        table = tabulate(result.datasets, 'proportion(region == "N")', combine="partial")
        held += table["lower"][0] <= 0.5 <= table["upper"][0]
    assert stats.binomtest(held, trials, 0.95).pvalue > 1e-3


def test_large_results_lie_on_disk(monkeypatch):
    monkeypatch.setattr(cell_draws, "IN_MEMORY", 100)
    result = synthesize(survey(), MODEL, Unweighted(), 1, 5)
    in_memory = result.tables[0].records()
    assert result.datasets[0].frame().equals(in_memory)
    assert is_own_file(result.datasets[0].raw)
    assert not is_own_file(survey().raw)


@pytest.mark.usefixtures("stand_in_noise")
def test_drafted_levels_are_refused_or_left_out():
    drafted = Survey(survey().frame(list(MODEL.columns)))
    for formal in (Modips(1.0, "public"), Marginals(1.0)):
        with pytest.raises(Refused, match="not declared"):
            formal.cells(RowCounts(MODEL, drafted))
    threshold = Modips(8.0, "threshold", delta=1e-4)
    with pytest.raises(Refused, match=r"`region.type`, which is not declared; declare it"):
        synthesize(drafted, MODEL, threshold)
    types = {"region": "text", "sex": "integer", "rank": "integer"}
    typed = Codebook({name: Column(name, "sensitive", kind) for name, kind in types.items()})
    result = synthesize(Survey(drafted.frame(), codebook=typed), MODEL, threshold)
    assert all(column.levels is None for column in result.datasets[0].codebook)
    assert set(result.datasets[0].frame()["region"]) == {"N", "S", "W"}


def test_a_hopeless_domain_is_named(monkeypatch):
    monkeypatch.setattr(modips_file, "MOST_CELLS", 23)
    with pytest.raises(Refused, match=r"24 cells.*`region` alone has 4 levels.*Marginals"):
        synthesize(survey(), MODEL, Modips(1.0, "public"))


@pytest.mark.any_noise
@pytest.mark.parametrize(
    ("mechanism", "text"),
    [
        # noise of scale 5/.01; 4000 records in the 18 cells that occur; 500 / 222 times .01
        (
            Modips(0.01),
            "about 500 per cell, and the mean cell holds 222 records; ask for epsilon 0.0225,",
        ),
        # (8 + 12 + 6)/3 cells a table, scale 3 * 5/.01, over twice 4000: 1.63, at most 1
        (Marginals(0.01), "expected total variation of 1; ask for epsilon 0.162,"),
        (Marginals(0.08), "expected total variation of 0.2; ask for epsilon 0.162,"),
    ],
)
def test_a_useless_epsilon_warns_with_the_expected_error(mechanism, text):
    with pytest.warns(UserWarning, match=re.escape(text)) as caught:
        synthesize(survey(), MODEL, mechanism, 5)
    assert len(caught) == 1


@pytest.mark.any_noise
@pytest.mark.parametrize("mechanism", [Modips(0.0226), Marginals(0.17)])
def test_an_epsilon_that_says_something_does_not_warn(mechanism):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = synthesize(survey(), MODEL, mechanism, 5)
    assert [dataset.n for dataset in result.datasets] == [4000] * 5


@pytest.mark.usefixtures("stand_in_noise")
def test_nothing_above_the_threshold_is_refused():
    with (
        pytest.warns(UserWarning, match="expected error"),
        pytest.raises(Refused, match="reaches the threshold"),
    ):
        synthesize(survey(40), MODEL, Modips(0.05, "threshold", delta=1e-12))


@pytest.mark.usefixtures("stand_in_noise")
def test_missing_values_as_a_level_come_back_missing():
    frame = (
        survey()
        .frame(list(MODEL.columns))
        .with_columns(sex=pl.when(pl.int_range(pl.len()) % 3 == 0).then(None).otherwise("sex"))
    )
    lacking = Survey(frame, codebook=survey().codebook)
    with pytest.raises(Refused, match=r"missing values.*missing=\"level\""):
        synthesize(lacking, MODEL, Unweighted())
    model = Multinomial(MODEL.columns, missing="level")
    result = synthesize(lacking, model, Modips(8.0, "public"))
    assert 1000 < result.datasets[0].frame()["sex"].null_count() < 1700
    assert any("missing value is a level" in text for text in result.claim.conditions)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((pl.DataFrame(), MODEL, Unweighted()), "must be a Survey"),
        ((survey(9), "region", Unweighted()), "must be a model"),
        ((survey(9), MODEL, "modips"), "must be a mechanism"),
        ((survey(9), MODEL, Weighted()), "goes with .*Modips"),
        ((survey(9), MODEL, Unweighted(), 0), "datasets"),
        ((survey(9), MODEL, Unweighted(), 1, -1), "seed"),
        ((survey(9), Multinomial(["regio"]), Unweighted()), "did you mean `region`"),
        ((survey(9), Multinomial(["w"]), Unweighted()), "bin it"),
    ],
)
def test_refusals(arguments, text):
    with pytest.raises(Refused, match=text):
        synthesize(*arguments)


@pytest.mark.any_noise
def test_synthesize_takes_a_multinomial_model():
    import understudy as us

    result = us.synthesize(survey(), model=MODEL, mechanism=Modips(8.0), datasets=2, seed=1)
    assert [dataset.n for dataset in result.datasets] == [4000, 4000]
    assert result.claim.kind == "local"
    table = us.tabulate(result.datasets, ["count"], by=["region", "sex"], combine="partial")
    assert table["estimate"].sum() == pytest.approx(4000)


def test_each_data_set_has_a_generator_of_its_own():
    counts = RowCounts(MODEL, survey(9), seed=0)
    assert counts.rng(2).random() == chance_of(0).generator("rows 2").random()
    assert counts.rng(2).random() != counts.rng(1).random()
    assert "seed" not in repr(counts)


def test_without_noise_the_steward_is_told_how_many_combinations_are_of_one_record():
    frame = pl.DataFrame({"region": ["N"] * 5 + ["S", "W"], "sex": [1] * 5 + [1, 2]})
    columns = {
        "region": Column("region", "sensitive", "categorical", levels=("N", "S", "W", "E")),
        "sex": Column("sex", "sensitive", "categorical", levels=(1, 2)),
    }
    small = Survey(frame, Design(), Codebook(columns))
    words = "one of the 3 that records have, and 2 of these are of a single record"
    with pytest.warns(UserWarning, match=words) as caught:
        result = synthesize(small, Multinomial(["region", "sex"]), Unweighted(), 1, 1)
    assert len(caught) == 1
    assert any("combination of values that some" in text for text in result.claim.conditions)


def test_a_seed_that_was_not_passed_is_drawn_once(monkeypatch):
    drawn = iter([bytes([number]) * 32 for number in range(3)])
    system = SimpleNamespace(token_bytes=lambda _: next(drawn))
    monkeypatch.setattr("understudy.chance.secrets", system)
    counts = RowCounts(MODEL, survey(9))
    assert counts.rng(0).random() == counts.rng(0).random()
    assert counts.rng(0).random() != RowCounts(MODEL, survey(9)).rng(0).random()
    assert next(drawn) == bytes([2]) * 32
