"""Tables of a release that are corrected by influence: values, margins, shares and sensitivity."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import ibis
import numpy as np
import polars as pl
import pytest
from influence_samples import DESIGN, people, survey
from scipy import optimize

from understudy.corrected_table import Corrections, corrected_table, plan_corrections
from understudy.dp.accounting import Cost
from understudy.dp.additive import GaussianNoise, LaplaceNoise
from understudy.errors import Refused
from understudy.influence import InfluencePlan, influence_pass, plan_influence
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.tables.corrected import (
    ReleasedTable,
    _with_limits,
    resting_on_drawn,
    synthesis_error,
    to_public_sizes,
)
from understudy.tables.influence.arithmetic import unit_weight
from understudy.tables.influence.clip import norms
from understudy.tables.influence.question import SyntheticFile, made_up_units
from understudy.tables.influence.unit_sums import GRID, sensitivity, steps_of
from understudy.tables.statistic import parse_statistics
from understudy.tables.tabulate import tabulate

SYNTHETIC = [survey(people(900, seed)) for seed in (31, 32)]
CONFIDENTIAL = survey(people(900, 33, shift=1.0))
STATISTICS = ["count", "mean(x)", "total(y)"]
BY = ["g", "h"]


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (LaplaceNoise, GaussianNoise):
        monkeypatch.setattr(kind, "add", lambda _, sums, __: sums)


def inner(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.all_horizontal(pl.col(name) != "All" for name in BY))


@pytest.mark.usefixtures("no_noise")
def test_cells_come_near_the_confidential_ones_and_margins_add_up() -> None:
    made = corrected_table(CONFIDENTIAL, SYNTHETIC, STATISTICS, BY, 200.0).table
    truth = tabulate(CONFIDENTIAL, STATISTICS, BY, margins=True)
    both = made.join(truth, on=[*BY, "statistic"], suffix="_truth")
    cells = inner(both).filter(pl.col("statistic") == "mean(x)")
    before = np.abs(cells["released"] - cells["estimate_truth"]).to_numpy().mean()
    after = np.abs(cells["estimate"] - cells["estimate_truth"]).to_numpy().mean()
    assert after < 0.35 * before
    assert min(cells["share"]) > 0.9
    counts = made.filter(pl.col("statistic") == "count")
    for level in ("a", "b", "c"):
        whole = counts.filter(pl.col("g") == level)
        total = whole.filter(pl.col("h") == "All")["estimate"][0]
        assert total == pytest.approx(inner(whole)["estimate"].sum())
    means = made.filter(pl.col("statistic") == "mean(x)")
    weights, values = inner(counts)["estimate"].to_numpy(), inner(means)["estimate"].to_numpy()
    overall = means.filter((pl.col("g") == "All") & (pl.col("h") == "All"))["estimate"][0]
    assert overall == pytest.approx(np.average(values, weights=weights))


@pytest.mark.any_noise
def test_the_claim_is_stated_in_the_relation_of_the_release() -> None:
    made = corrected_table(CONFIDENTIAL, SYNTHETIC, ["count"], BY, 1.0, delta=1e-6)
    assert (made.claim.epsilon, made.claim.delta, made.claim.relation) == (1.0, 1e-6, "replace")
    blank = corrected_table(CONFIDENTIAL, SYNTHETIC, ["count"], "g", 1.0, relation="blank").claim
    assert (blank.relation, blank.epsilon_replace) == ("blank", 1.0)
    assert set(made.table["share"].drop_nulls().is_between(0, 1)) == {True}


@pytest.mark.parametrize("relation", ["blank", "replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_corrections_cost_and_claim(relation: Any, delta: float) -> None:
    """Noise for `replace` covers `blank`; the claim for both relations is of pure epsilon only."""
    asked = Corrections(0.1, delta, relation)
    neighbours = "add-remove" if relation == "add-remove" else "replace"
    assert asked.neighbours == neighbours
    assert asked.cost == Cost(
        (neighbours,), Fraction(1, 10), Fraction(delta).limit_denominator(10**9)
    )
    assert isinstance(asked.noise, GaussianNoise if delta else LaplaceNoise)
    claim = asked.claim(("as said",))
    blank = relation == "blank" and not delta
    assert claim.relation == ("blank" if blank else neighbours)
    assert claim.epsilon_replace == (0.1 if blank else None)
    assert (claim.epsilon, claim.delta, claim.conditions) == (0.1, delta, ("as said",))
    assert (Corrections(1.0).delta, Corrections(1.0).records) == (0.0, 1)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("design", [DESIGN, Design()])
def test_one_file_is_enough_and_margins_may_be_left_out(design: Design) -> None:
    frames = (people(90, seed).with_columns(u=pl.arange(90) // 3) for seed in (1, 2))
    file, confidential = (Survey(frame, design) for frame in frames)
    asked = parse_statistics("mean(x)", file.columns)
    plan = plan_corrections([file], asked, asked, ["g"], Corrections(1.0, unit="u"))
    assert plan.influence is not None
    prepared, table = plan.influence.prepared, confidential.table
    weight = table["w"].cast("float64") if design.weight else unit_weight()
    row = influence_pass(prepared, table, weight, "u").to_pyarrow().to_pylist()[0]
    sums = plan.noisy_sums(confidential)
    np.testing.assert_array_equal(sums, steps_of(row, len(plan.keys)))
    np.testing.assert_allclose(plan._cells(sums)["noise"], plan.influence.error**2)
    np.testing.assert_array_equal(plan.steps, prepared.steps)
    assert "surveys" not in repr(plan)
    whole = corrected_table(confidential, [file], asked, "g", 1.0).table
    within = corrected_table(confidential, [file], asked, "g", 1.0, margins=False).table
    assert within.equals(whole.filter(pl.col("g") != "All"))
    assert (within.height, whole.height) == (3, 4)


def test_where_nothing_varies_nothing_is_asked() -> None:
    """One record in each cell has no sampling error: the table stays as it is."""
    few = [Survey(pl.DataFrame({"g": ["a", "b"], "x": [1.0, 2.0]}))]
    asked = parse_statistics("mean(x)", few[0].columns)
    plan = plan_corrections(few, asked, asked, ["g"], Corrections(1.0))
    assert (plan.influence, plan.steps, len(plan.noisy_sums(few[0]))) == (None, (), 0)
    table = plan.table(plan.noisy_sums(few[0]), True, "partial")
    assert table["estimate"].to_list() == table["released"].to_list() == [1.0, 2.0, 1.5]
    with pytest.raises(Refused, match="share no cell"):
        corrected_table(few[0], few, "mean(x)", "g", 1.0)


def test_the_error_of_synthesis_is_recovered_from_all_differences() -> None:
    """D ~ N(0, g sampling + noise), with noise that differs between cells."""
    draw = np.random.default_rng(2)
    sampling, noise = draw.uniform(1, 9, 4000), draw.uniform(0.1, 40, 4000)
    for g in (0.2, 3.0):
        d = draw.normal(0, np.sqrt(g * sampling + noise))
        assert synthesis_error(d, sampling, noise) == pytest.approx(g, rel=0.2)
    nothing = draw.normal(0, np.sqrt(noise))
    assert synthesis_error(nothing, sampling, noise) < 0.05


def test_counts_keep_public_sizes_by_least_squares() -> None:
    """Against a numerical minimiser under the same constraints."""
    draw = np.random.default_rng(3)
    cells, variance = draw.uniform(50, 90, 6), draw.uniform(1, 9, 6)
    inside = np.array([[1.0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
    sums = np.array([200.0, 220.0])
    made, covariance = to_public_sizes(cells, np.diag(variance), inside, sums)
    least = optimize.minimize(
        lambda x: float(((x - cells) ** 2 / variance).sum()),
        cells,
        constraints={"type": "eq", "fun": lambda x: inside @ x - sums},
    )
    np.testing.assert_allclose(made, least.x, atol=1e-3)
    np.testing.assert_allclose(inside @ covariance @ inside.T, 0.0, atol=1e-9)
    low, _ = to_public_sizes(np.array([-5.0, 10.0]), np.eye(2), np.ones((1, 2)), np.array([3.0]))
    assert low.min() >= 0
    assert low.sum() == pytest.approx(3.0)


def test_what_has_no_corrected_table_is_refused() -> None:
    with pytest.raises(Refused, match="add up"):
        corrected_table(CONFIDENTIAL, SYNTHETIC, "quantile(x, 0.5)", BY, 1.0)
    with pytest.raises(Refused, match="classifying"):
        corrected_table(CONFIDENTIAL, SYNTHETIC, "count", [], 1.0)
    with pytest.raises(Refused, match="epsilon"):
        corrected_table(CONFIDENTIAL, SYNTHETIC, "count", BY, -1.0)
    with pytest.raises(Refused, match="combining rule"):
        corrected_table(CONFIDENTIAL, SYNTHETIC, "count", BY, 1.0, combine="mine")


# -- sensitivity: one unit moves all numbers of a table by one clip, whatever it holds ------------

ODD: list[dict[str, Any]] = [
    {"x": 1e308, "y": -1e308}, {"x": float("inf")}, {"x": float("nan"), "w": 1e300},
    {"w": 1e12}, {"y": 1e12, "g": "b"}, {"g": "c", "h": 3, "x": -1e9},
]  # fmt: skip
BASE = people(100, 34)


@cache
def planned() -> InfluencePlan:
    return plan_influence(SYNTHETIC, STATISTICS, 1.0, "add-remove", by=BY, delta=1e-6, unit="u")


@cache
def sums_without() -> np.ndarray:
    return sums(BASE)


def sums(frame: pl.DataFrame, apart: bool = False) -> np.ndarray:
    """What the noise is added to; `apart` is the mistake of clipping every number by itself."""
    table, made = Survey(frame, DESIGN).table, planned().prepared
    weight = table["w"].cast("float64")
    if not apart:
        row = influence_pass(made, table, weight, "u").to_pyarrow().to_pylist()[0]
        return steps_of(row, len(made.estimates))
    totals = []
    for question, at, step in zip(made.questions, made.released, made.steps, strict=True):
        (part,) = question.expressions(at, table, weight)
        held = ibis.greatest(ibis.least(part * float(step), float(GRID)), -float(GRID))
        totals.append(table.select(v=held).v.sum().to_pyarrow().as_py() or 0.0)
    return np.array(totals)


@pytest.mark.parametrize("changes", ODD)
def test_one_unit_moves_a_table_by_the_sensitivity(changes: dict[str, Any]) -> None:
    own = BASE[:3].with_columns(u=pl.lit(10_000))
    odd = own.with_columns(**{k: pl.lit(v) for k, v in changes.items()})
    odd = odd.select(BASE.columns).cast(dict(BASE.schema))
    moved = sums(pl.concat([BASE, odd])) - sums_without()
    assert float(norms(moved[None, :].astype(float), 2)[0]) <= sensitivity(len(moved))


def test_numbers_that_are_clipped_one_by_one_are_caught() -> None:
    odd = BASE[:1].with_columns(u=pl.lit(10_000), x=pl.lit(1e9), y=pl.lit(1e9), w=pl.lit(1e9))
    both = pl.concat([BASE, odd.cast(dict(BASE.schema))])
    moved = sums(both, apart=True) - sums(BASE, apart=True)
    assert float(norms(moved[None, :], 2)[0]) > 1.2 * sensitivity(len(moved))


# -- errors: what a corrected entry says of itself ------------------------------------------------


def released_table(c: np.ndarray, sampling: np.ndarray, between: np.ndarray) -> ReleasedTable:
    """Totals by cells `c` with their sum, as if tabulated from three files."""
    levels = [*map(str, range(len(c))), "All"]

    def column(values: np.ndarray) -> np.ndarray:
        return np.append(values, values.sum())

    se, df = np.sqrt(column(sampling) + column(between)), np.full(len(levels), 500.0)
    keys = {"g": levels, "statistic": ["total(x)"] * len(levels)}
    numbers = {"estimate": column(c), "se": se, "df": df, "lower": df, "upper": df, "cv": df}
    combined = pl.DataFrame({**keys, **numbers, "note": [""] * len(levels)})
    counts = pl.DataFrame({"g": levels, "estimate": column(np.ones(len(c))), "se": df})
    within = pl.DataFrame({**keys, "within": column(sampling), "design_df": df})
    return ReleasedTable(combined, counts, within, ("g",), 3)


@pytest.mark.parametrize("wrong", [0.3, 4.0])
def test_errors_are_those_of_simulated_tables(wrong: float) -> None:
    """Population 0; q ~ N(0, s^2) is the confidential estimate, c = q + N(0, wrong s^2) the files',
    D = q - c + N(0, noise). Cells and their sum are as far off as they say, and less than c is."""
    draw = np.random.default_rng(11)
    cells, tables = 60, 60
    sampling, noise = draw.uniform(1, 4, cells), draw.uniform(0.5, 6, cells)
    total = parse_statistics("total(x)", ["x"])
    squares, stated, before = [], [], []
    for _ in range(tables):
        q = draw.normal(0, np.sqrt(sampling))
        c = q + draw.normal(0, np.sqrt(wrong * sampling))
        apart = q - c + draw.normal(0, np.sqrt(noise))
        columns = {"difference": apart, "noise": noise, "noise_se": np.sqrt(noise)}
        keys = {"g": list(map(str, range(cells))), "statistic": ["total(x)"] * cells}
        table = released_table(c, sampling, wrong * sampling)
        made = table.corrected(pl.DataFrame({**keys, **columns}), total, {})
        squares.append(made["estimate"].to_numpy() ** 2)
        stated.append(made["se"].to_numpy() ** 2)
        before.append(np.append(c, c.sum()) ** 2)
        assert made["estimate"][-1] == pytest.approx(made["estimate"][:-1].sum())
    off, said = np.mean(squares, axis=0), np.mean(stated, axis=0)
    room = 6 * np.sqrt(2 / (tables * cells))
    assert off[:-1].sum() == pytest.approx(said[:-1].sum(), rel=room)
    assert off[-1] == pytest.approx(said[-1], rel=6 * np.sqrt(2 / tables))
    assert said[:-1].sum() < np.mean(before, axis=0)[:-1].sum()


def test_a_mean_that_a_file_lacks_stays_and_leaves_the_other_cells_alone() -> None:
    """Without the cell (c, 3) in one file; its sum is corrected all the same."""
    gone = SYNTHETIC[0].frame().filter(~((pl.col("g") == "c") & (pl.col("h") == 3)))
    files = [Survey(gone, DESIGN), SYNTHETIC[1]]
    statistics = parse_statistics(["count", "mean(x)"], files[0].columns)
    asked = Corrections(1.0)
    plan = plan_corrections(files, statistics, statistics, BY, asked)
    assert (("c", "3"), "count") in plan.keys
    assert (("c", "3"), "mean(x)") not in plan.keys
    table = plan.table(np.full(len(plan.keys), GRID, dtype=np.int64), True, "partial")
    rows = {(g, h, s): (e, r) for g, h, s, e, r in table.select(*BY, "statistic", "estimate",
                                                                "released").rows()}  # fmt: skip
    assert rows["c", "3", "mean(x)"] == (None, None)
    for entry in (("c", "All"), ("All", "3"), ("All", "All")):
        estimate, released = rows[*entry, "mean(x)"]
        assert estimate == released
    assert rows["a", "1", "mean(x)"][0] != rows["a", "1", "mean(x)"][1]
    assert rows["a", "All", "mean(x)"][0] != rows["a", "All", "mean(x)"][1]
    assert rows["c", "3", "count"][0] != rows["c", "3", "count"][1]


def test_public_columns_need_no_correction_and_drawn_weights_have_the_tails() -> None:
    count, mean = parse_statistics(["count", "mean(x)"], ["g", "x", "w"])
    assert resting_on_drawn([count, mean], ["g"], "w", ["g", "w"]) == (mean,)
    assert resting_on_drawn([count, mean], ["g"], "w", ["g"]) == (count, mean)
    frame = people(900, 31).with_columns(smooth=pl.lit(2.0))
    design = Design(weight="smooth", variance_weight="w")
    smoothed, drawn = (
        plan_influence([Survey(frame, each)], "count", 1.0, by="g", units=900)
        for each in (Design(weight="smooth"), design)
    )
    assert drawn.prepared.clip.size != smoothed.prepared.clip.size
    np.testing.assert_allclose(drawn.prepared.estimates, smoothed.prepared.estimates)


def test_with_all_of_the_spread_left_errors_are_those_of_the_combined_files() -> None:
    """Standard error, degrees of freedom and limits of the rule for partial synthesis."""
    files = [*SYNTHETIC, CONFIDENTIAL]
    statistic = parse_statistics("mean(x)", files[0].columns)[0]
    released = ReleasedTable.of(files, [statistic], BY, "partial")
    part = released.combined.join(released.within, on=[*BY, "statistic"], maintain_order="left")
    spread = part["se"].to_numpy() ** 2 - part["within"].to_numpy()
    assert (spread > 0).all()
    kind, nothing = statistic.intervals[0], np.zeros(part.height)
    made = _with_limits(part, part["estimate"].to_numpy(), nothing, spread, len(files), kind)
    for name in ("se", "df", "lower", "upper"):
        np.testing.assert_allclose(made[name], released.combined[name], rtol=1e-9, err_msg=name)


# -- units of several records, whose ids are not published ----------------------------------------


def homes(seed: int) -> pl.DataFrame:
    """People in homes of one to three."""
    sizes = np.random.default_rng(seed).integers(1, 4, 900)
    return people(900, seed).with_columns(u=pl.Series(np.repeat(np.arange(900), sizes)[:900]))


def test_units_are_made_up_of_one_to_so_many_records_that_lie_far_apart() -> None:
    number = made_up_units(600, 3)
    assert np.bincount(np.bincount(number)).tolist() == [0, 100, 100, 100]
    apart = [np.diff(np.flatnonzero(number == unit)).min(initial=600) for unit in range(300)]
    assert min(apart) > 50


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("ids", [False, True])
def test_what_is_summed_by_unit_goes_back_to_its_records(records: int, ids: bool) -> None:
    """Ids in no order, one for each record or for three."""
    order = np.random.default_rng(2).permutation(90) // records
    frame = pl.DataFrame({"x": np.arange(90.0), **({"u": order} if ids else {})})
    file = SyntheticFile(Survey(frame), "u", records)
    x = np.arange(90.0)[:, None]
    shared = file.by_record(file.by_unit(x))[:, 0]
    expected = [x[file.unit_number == unit].mean() for unit in file.unit_number]
    np.testing.assert_allclose(shared, expected)
    if records == 1:
        np.testing.assert_array_equal(shared, x[:, 0])


@pytest.mark.parametrize("statistic", ["count", "mean(x)"])
def test_the_clip_is_planned_for_units(statistic: str) -> None:
    """What clipping does to the sums of homes is what the plan says; planned for single records it
    is many times that for counts, whose influences have one sign."""
    off: dict[int, list[float]] = {1: [], 3: []}
    for seed in range(40, 44):
        files = [survey(homes(seed + more).drop("u")) for more in (10, 20)]
        parsed = parse_statistics(statistic, files[0].columns)
        confidential = survey(homes(seed))
        own, released = (
            tabulate(surveys, parsed, "g", combine="partial")["estimate"].to_numpy()
            for surveys in ([confidential], files)
        )
        for records, errors in off.items():
            asked = Corrections(2.0, unit="u", records=records)
            plan = plan_corrections(files, parsed, parsed, ["g"], asked)
            assert plan.influence is not None
            prepared, table = plan.influence.prepared, confidential.table
            weights = table["w"].cast("float64")
            row = influence_pass(prepared, table, weights, "u").to_pyarrow().to_pylist()[0]
            sums = steps_of(row, len(plan.keys)) * plan.influence.step
            left = sums + prepared.loss - prepared.constant - (own - released)
            errors += list((left / plan.influence.error) ** 2)
    assert np.sqrt(np.mean(off[3])) < 0.6  # clipping is the smaller part of the error
    if statistic == "count":
        assert np.sqrt(np.mean(off[1])) > 3


@pytest.mark.any_noise
def test_a_corrected_table_for_units_needs_their_limit_or_their_ids() -> None:
    columns = {"u": Column("u", "unit", "integer")} | {c: Column(c) for c in ("x", "g", "w")}
    frame = homes(40).select(list(columns))
    files = [survey(homes(seed).drop("u")) for seed in (50, 60)]
    without = Survey(frame, DESIGN, Codebook(columns))
    with pytest.raises(Refused, match="declare `records_per_unit`"):
        corrected_table(without, files, "count", "g", 1.0)
    limited = Survey(frame, DESIGN, Codebook(columns, records_per_unit=3))
    assert corrected_table(limited, files, "count", "g", 1.0).claim.unit == "u"
    with_ids = [survey(homes(seed)) for seed in (50, 60)]
    assert corrected_table(without, with_ids, "count", "g", 1.0).claim.unit == "u"
    with pytest.raises(Refused, match="declare `records_per_unit`"):
        corrected_table(without, [with_ids[0], files[1]], "count", "g", 1.0)
