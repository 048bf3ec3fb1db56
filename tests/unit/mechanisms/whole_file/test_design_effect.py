"""The measured design effect of a whole file: what a record moves, what it costs, and where it is
used; its figures beside R's are in tests/reference."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.dp.choice import UNITS
from understudy.errors import Refused
from understudy.mechanisms.whole_file import design_effect
from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.mechanisms.whole_file.design_effect import (
    WHOLE,
    Clustered,
    measured_clusters,
    of_strata,
    psu_groups,
)
from understudy.mechanisms.whole_file.file_counts import FileCounts
from understudy.mechanisms.whole_file.noisy_file import NoisyFile, NoisySet, from_draws
from understudy.report.noise_quality import _clusters
from understudy.report.public import _factors
from understudy.survey.cells import ColumnCells, cells_of
from understudy.survey.codebook import Codebook, Column, parse_codebook
from understudy.survey.codebook_text import codebook_to_toml
from understudy.tables.coded_records import Clusters, CodedRecords
from understudy.tables.variance_factor import variance_factor

FIT = "understudy.mechanisms.whole_file"
COLUMNS = {
    "h": Column("h", "stratum", "categorical", levels=(0, 1), blanks=False),
    "a": Column("a", "sensitive", "categorical", levels=(0, 1, 2), blanks=False),
    "y": Column("y", "sensitive", "integer", bounds=(0, 9), blanks=False),
    "w": Column("w", "weight", "integer", bounds=(1, 8)),
}
BOTH, NEITHER = Clustered(0, 3), Clustered()
SIZES = (2, 3, 10, 8)


@pytest.fixture(autouse=True)
def small_pool(monkeypatch):
    monkeypatch.setattr(f"{FIT}.fit.POOL", 10_000)
    monkeypatch.setattr(f"{FIT}.measure.SMALL_POOL", 5_000)


def frame(n: int, psus: int = 20, shared: float = 1.5) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    psu = rng.integers(0, psus, n)
    level = shared * rng.normal(size=psus)[psu]
    return pl.DataFrame(
        {
            "psu": psu,
            "h": psu % 2,
            "a": np.digitize(level + rng.normal(size=n), [-0.5, 0.5]),
            "y": np.rint(4.5 + level + rng.normal(size=n)).clip(0, 9).astype(int),
            "w": np.where(rng.random(n) < 0.05, 8, rng.integers(1, 3, n)),
        }
    )


def survey(n: int = 600, **facts: object) -> us.Survey:
    design = us.Design("w", "h", "psu")
    return us.Survey(frame(n), design, Codebook(COLUMNS, **facts))


class Expected:
    """A fit whose tables are those of other records."""

    def __init__(self, other: CodedRecords) -> None:
        self.other, self.total = other, float(other.n)

    def expected(self, names):
        return self.other.count([names])[0].astype(float)


def parts(rows: pl.DataFrame) -> tuple[CodedRecords, Clusters]:
    codes = (rows["h"], rows["a"], rows["y"], rows["w"] - 1)
    arrays = tuple(column.to_numpy().astype(np.uint8) for column in codes)
    psu = rows["psu"].to_numpy().astype(np.int64)
    return CodedRecords(arrays, SIZES), Clusters(psu, np.arange(20) % 2)


def expected_of(monkeypatch, rows: pl.DataFrame) -> tuple[NoisyFile, Expected, list[ColumnCells]]:
    """What is known of a fit that expects these records."""
    monkeypatch.setattr(design_effect, "fine_shares", lambda *_: [[np.ones(s) for s in SIZES]])
    one_way = [np.ones(size) for size in SIZES]
    coarse = tuple(np.arange(size, dtype=np.int32) for size in SIZES)
    sets = (NoisySet(one_way, []),)
    noisy = NoisyFile(tuple(COLUMNS), coarse, (), (1.0,) * 4, (), sets, rows.height)
    return noisy, Expected(parts(rows)[0]), [cells_of(column) for column in COLUMNS.values()]


def asked(monkeypatch, rows: pl.DataFrame, clustered: Clustered) -> tuple[np.ndarray, list[int]]:
    """The exact distances, and what the noise is for."""
    heard = []

    def listed(_, numbers, moved, _share):
        heard.append((numbers, list(moved)))
        return numbers, 1.0

    scores = design_effect._Look.scores

    def bounded(look, j, rare):
        whole, variances = scores(look, j, rare)
        most = np.abs(whole).sum(axis=1).max()
        assert UNITS // 2 < most <= clustered.moved // 2
        return whole, variances

    monkeypatch.setattr(design_effect._Look, "scores", bounded)
    monkeypatch.setattr(TableBudget, "noisy_numbers", listed)
    noisy, fit, cells = expected_of(monkeypatch, frame(500))
    budget = TableBudget(Fraction(1), "epsilon")
    measured_clusters(*parts(rows), noisy, fit, cells, (0, 1, 2, 3), clustered, budget, Fraction(1))
    return heard[0]


@pytest.mark.parametrize("clustered", [BOTH, NEITHER], ids=["weights and strata", "neither"])
def test_a_record_moves_a_distance_by_its_sensitivity_at_most(monkeypatch, clustered):
    """Brute force: records are taken away, and others put in, of every PSU and with every value."""
    rows = frame(500)
    before, moved = asked(monkeypatch, rows, clustered)
    assert set(moved) == {2 * UNITS * WHOLE * (4 if clustered is BOTH else 2)}
    furthest = 0.0
    for number in range(0, 500, 25):
        after, _ = asked(monkeypatch, rows[:number].vstack(rows[number + 1 :]), clustered)
        furthest = max(furthest, np.max(np.abs(after - before) / moved))
    for a, y, w in ((0, 0, 8), (2, 9, 8), (1, 9, 1)):
        other = rows[:1].with_columns(a=pl.lit(a), y=pl.lit(y), w=pl.lit(w)).cast(rows.schema)
        after, _ = asked(monkeypatch, rows.vstack(other), clustered)
        furthest = max(furthest, np.max(np.abs(after - before) / moved))
    assert 0.25 < furthest <= 1


def test_the_distance_is_the_sum_of_deviations_of_psus(monkeypatch):
    """By NumPy, from the definition, without weights and strata."""
    rows = frame(500)
    distances, _ = asked(monkeypatch, rows, Clustered(None, None))
    y = rows["y"].to_numpy()
    z = np.trunc(UNITS * np.clip((y - y.mean()) / y.std(), -2, 2))
    psu, stratum = rows["psu"].to_numpy(), rows["h"].to_numpy()
    sums = np.bincount(psu, z, 20)
    for h in (0, 1):
        sums[np.arange(20) % 2 == h] -= z[stratum == h].sum() / 10
    named = dict(zip(("h", "a", "y", "w"), distances / WHOLE, strict=True))
    assert named["y"] == pytest.approx(np.abs(sums).sum(), rel=1e-4)


@pytest.mark.parametrize("clustered", [BOTH, NEITHER], ids=["weights and strata", "neither"])
@pytest.mark.parametrize("name", ["a", "y"])
def test_what_records_add_and_its_variance_are_those_of_the_records(monkeypatch, name, clustered):
    """By NumPy, record by record; a level that few records have is left out."""
    rows = frame(500)
    look = design_effect._Look(*expected_of(monkeypatch, rows), clustered)
    values, codes = rows[name].to_numpy(), rows["w"].to_numpy() - 1
    rare = np.sort(np.bincount(values))[1] if name == "a" else 0
    scores, variances = look.scores(list(COLUMNS).index(name), float(rare))
    w = np.ones(500)
    if clustered is BOTH:
        w = rows["w"].to_numpy() / np.sqrt(np.mean(rows["w"].to_numpy() ** 2))
        assert w.max() > 2
        w = np.minimum(w, 2)
    if name == "a":
        x = np.eye(3)[values]
        often = np.bincount(values) >= rare
        assert 0 < often.sum() < 3
        z = w[:, None] * (x - np.average(x, axis=0, weights=w)) * often
    else:
        apart = values - np.average(values, weights=w)
        z = (w * np.clip(apart / np.sqrt(np.mean(apart**2)), -2, 2))[:, None]
    cell = values + (codes * SIZES[list(COLUMNS).index(name)] if clustered is BOTH else 0)
    np.testing.assert_allclose(scores[cell], UNITS * z, atol=1)
    strata = rows["h"].to_numpy() if clustered is BOTH else np.zeros(500, dtype=int)
    by_hand = [(strata == h).sum() * z[strata == h].var(axis=0) for h in np.unique(strata)]
    np.testing.assert_allclose(variances, by_hand)


def test_psus_that_are_alike_have_no_effect_and_records_that_are_alike_more_than_their_number(
    monkeypatch,
):
    """Thirty records in each PSU, all with one of two values of y; of a all PSUs have the same."""
    monkeypatch.setattr(TableBudget, "noisy_numbers", lambda _, numbers, *__: (numbers, 1e-9))
    psu = np.repeat(np.arange(20), 30)
    values = {"psu": psu, "h": psu % 2, "a": np.tile([0, 1, 2], 200), "y": 2 + 5 * (psu // 2 % 2)}
    rows = pl.DataFrame(values).with_columns(w=pl.lit(1))
    noisy, fit, cells = expected_of(monkeypatch, rows)
    budget = TableBudget(Fraction(1), "epsilon")
    made = measured_clusters(*parts(rows), noisy, fit, cells, (1, 2), NEITHER, budget, Fraction(1))
    assert made.columns["a"] == pytest.approx(1.0)
    assert made.columns["y"] > 30


def test_small_psus_are_taken_together_within_their_stratum():
    stratum = np.array([0] * 10 + [1] * 4 + [2])
    alone = psu_groups(stratum, 15 * 25)
    assert alone.of_psu.tolist() == list(range(15))
    assert alone.share[-1] == WHOLE
    assert alone.spread[-1] == 0
    pooled = psu_groups(stratum, 15 * 10)  # ten records each: three together
    assert np.bincount(pooled.of_psu).tolist() == [4, 3, 3, 2, 2, 1]
    assert pooled.stratum.tolist() == [0, 0, 0, 1, 1, 2]
    assert np.bincount(pooled.stratum, pooled.share).tolist() == [WHOLE] * 3
    many = psu_groups(np.zeros(5000, dtype=np.int64), 1e6)
    assert len(many.share) <= 1024


def test_strata_of_one_cell_share_it_by_their_psus():
    shared = of_strata(np.array([[6.0], [10.0]]), np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2]))
    assert shared.tolist() == [[4.0], [2.0], [10.0]]


def test_psus_are_numbered_within_strata():
    stratum, psu = np.array([7, 7, 3, 3, 7]), np.array([1, 2, 1, 1, 2])
    nested = Clusters.of([stratum], psu)
    assert nested.psu.tolist() == [1, 2, 0, 0, 2]
    assert nested.stratum_of_psu.tolist() == [0, 1, 1]
    assert Clusters.of([], psu).stratum_of_psu.tolist() == [0, 0]


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_its_share_is_part_of_the_budget(spent, delta):
    """With and without it all calls of noise add up to the same."""
    totals = []
    for clusters in (0.0, 0.25):
        spent.clear()
        mechanism = us.Marginals(1.0, delta, clusters=clusters, quality=0.125)
        result = us.synthesize(survey(), us.WholeFile(), mechanism, seed=1)
        totals.append(sum(spent))
        assert (from_draws(result.draws).clusters is not None) == bool(clusters)
        assert (result.claim.epsilon, result.claim.delta) == (1.0, delta)
        assert any("PSUs" in text for text in result.claim.conditions) == bool(clusters)
    assert totals[0] == totals[1]
    assert totals[0] <= mechanism.budget().total


@pytest.mark.usefixtures("stand_in_noise")
def test_released_variances_are_multiplied_by_it(monkeypatch):
    monkeypatch.setattr(us.Marginals, "seeded", True, raising=False)
    mechanism = us.Marginals(500.0, 1e-6, clusters=0.1)
    result = us.synthesize(survey(), us.WholeFile(), mechanism, datasets=2, seed=1)
    book = result.datasets[0].codebook
    assert set(book.design_effects) == {"a", "y"}
    assert min(book.design_effects.values()) > 5  # PSUs share most of the variance
    assert "psu" not in book
    assert parse_codebook(codebook_to_toml(book)) == book
    sets = [
        [
            us.Survey(d.raw, d.design, replace(d.codebook, misfit=None, **facts))
            for d in result.datasets
        ]
        for facts in ({}, {"design_effect": None, "design_effects": {}})
    ]
    both = [us.tabulate(each, "mean(y)", combine="none")["se"] for each in sets]
    ratios = (both[0] / both[1]) ** 2
    assert ratios.to_list() == pytest.approx([book.design_effects["y"]] * 2)


def test_an_estimate_has_the_effect_of_what_it_is_about():
    book = Codebook(COLUMNS, design_effect=2.0, design_effects={"a": 5.0, "y": 3.0, "h": 9.0})

    def factor(group, own, adds_up, where=None, design=us.Design()):  # noqa: B008
        made = variance_factor(book, design, group, own, where, counts=True, adds_up=adds_up)
        assert made.of(1.0, 100) == made.most == made.clusters  # no misfit
        return made.clusters

    assert factor(["a"], ["y"], adds_up=False) == 3.0  # a mean by groups
    assert factor(["a"], ["y"], adds_up=True) == 5.0  # a total
    assert factor(["h", "w"], [], adds_up=True) == 9.0  # a count
    assert factor([], [], adds_up=True) == 2.0
    assert factor([], [], adds_up=True, where="a == 1") == 5.0
    assert factor(["a"], ["w"], adds_up=False) == 2.0  # no figure of its own
    assert factor(["a"], ["y"], adds_up=True, design=us.Design(psu="psu")) == 1.0


def test_groups_that_are_spread_over_clusters_have_a_part_of_the_effect():
    """Of 21 records in a cluster: against the records of a group by PSU, weighted by themselves."""
    effects = {"a": 5.0, "y": 3.0, "c": 1.0}
    book = Codebook(COLUMNS, design_effects=effects, psu_records=21.0)

    def part(group, share, adds_up=False):
        made = variance_factor(book, us.Design(strata="h"), group, ["y"], None, False, adds_up)
        return (made.of(share, 100) - 1) / (made.clusters - 1)

    assert part(["c"], 0.25) == pytest.approx(0.25)  # Kish: of a cross-class its share
    assert part(["a"], 0.25) == pytest.approx((0.25 * 21 + 0.75 * 5 - 1) / 20)
    assert part(["c", "h"], 0.25) == 1  # strata are whole clusters
    assert part(["c"], 0.25, adds_up=True) == 1
    assert part([], 1.0) == 1
    rng = np.random.default_rng(1)
    inside = rng.random((2000, 1)).repeat(21, 1) * 0.5 > rng.random((2000, 21))  # p varies by PSU
    p, sizes = inside.mean(), inside.sum(axis=1)
    d = sizes.var() / (21 * p * (1 - p))
    assert (sizes**2).sum() / sizes.sum() == pytest.approx(p * 21 + (1 - p) * d, rel=1e-9)


def test_the_page_and_the_forecast_say_it():
    book = Codebook(COLUMNS, design_effect=2.0, design_effects={"a": 5.0})
    words = _factors(book)["words"]
    assert "the largest of a 5.00 among the columns that an estimate is about (2.00 for" in words
    measured = {"design_effect": 1.834, "error": 0.112, "columns": {}, "psu_records": 9.0}
    assert "together is 1.83 (standard error by noise 0.11, half" in _clusters(measured)
    assert _clusters(None) == ""
    data = survey()
    model = us.WholeFile().for_survey(data)
    said = us.Marginals(1.0, clusters=0.05).forecast(model, data, 1)[-1]
    assert said.startswith("5% of the budget measures the design effect of `psu`")
    with pytest.raises(Refused, match="column under"):
        parse_codebook("[design_effects]\nno = 2.0\n")


@pytest.mark.usefixtures("stand_in_noise")
def test_the_forecast_has_the_error_that_noise_gives():
    """Where there are no clusters and weights are alike: what a release states, within a fifth."""
    alike = frame(4000, 200, 0.0).with_columns(w=pl.lit(4))
    data = us.Survey(alike, us.Design("w", "h", "psu"), Codebook(COLUMNS))
    mechanism = us.Marginals(20.0, 1e-6, clusters=0.2)
    model = us.WholeFile().for_survey(data)
    said = float(mechanism.forecast(model, data, 1)[-1].split("about ")[1].split(",")[0])
    clusters = from_draws(us.synthesize(data, us.WholeFile(), mechanism, seed=1).draws).clusters
    assert clusters is not None
    assert clusters.error == pytest.approx(said, rel=0.2)


def test_what_cannot_be_measured_is_refused():
    for wrong in (-0.1, 0.6, True, "much"):
        with pytest.raises(Refused, match="between 0 and"):
            us.Marginals(1.0, clusters=wrong)
    with pytest.raises(Refused, match="half of the budget together"):
        us.Marginals(1.0, clusters=0.3, quality=0.3)
    mechanism = us.Marginals(1.0, clusters=0.1)
    with pytest.raises(Refused, match="declares a design effect"):
        us.synthesize(survey(design_effect=1.4), us.WholeFile(), mechanism)
    declared = survey(design_effect=1.4)
    counts = FileCounts(us.WholeFile().for_survey(declared), declared)
    us.Marginals(1.0).check_counts(counts)  # what is not measured may be declared
    flat = us.Survey(frame(100).drop("psu"), us.Design("w", "h"), Codebook(COLUMNS))
    with pytest.raises(Refused, match="names no PSU"):
        us.synthesize(flat, us.WholeFile(), mechanism)
    with pytest.raises(Refused, match="WholeFile"):
        us.synthesize(survey(), us.Multinomial(["a"]), mechanism, seed=1)
