"""Two-way distances and the verdict that rests on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats.contingency import association as scipy_association

from understudy.report.verdict import Fitness, measured, verdict
from understudy.survey.cells import cells_of
from understudy.survey.codebook import Codebook, Column
from understudy.utility.pairs import (
    association,
    coded_columns,
    few_cells,
    pairs_of,
    resampling_distance,
)

CODEBOOK = Codebook(
    {
        "sex": Column("sex", type="categorical", levels=("f", "m"), blanks=False),
        "job": Column("job", type="categorical", levels=(1, 2), value_labels={1: "yes", 2: "no"}),
        "age": Column("age", type="integer", bounds=(0, 99), special=(99,)),
        "words": Column("words", type="text"),
    }
)


def frame(rows: list[tuple[str, int]]) -> pl.DataFrame:
    ages = [(7 * k) % 100 for k in range(len(rows))]
    made = pl.DataFrame(rows, schema=["sex", "job"], orient="row")
    return made.with_columns(pl.Series("age", ages), pl.lit("x").alias("words"))


def test_the_distance_of_a_pair_by_hand() -> None:
    ours = frame([("f", 1)] * 6 + [("m", 2)] * 4)
    theirs = [frame([("f", 1)] * 5 + [("f", 2)] * 1 + [("m", 2)] * 4)] * 2
    coded = coded_columns(ours, theirs, CODEBOOK)
    assert list(coded) == ["sex", "job", "age"]  # a text has no cells
    assert coded["job"].labels == ("yes", "no", "(empty)")
    pairs = pairs_of(coded, ["job"])
    assert [(p.first.name, p.second.name) for p in pairs] == [("sex", "job"), ("job", "age")]
    assert pairs[0].distance == pytest.approx(0.1)
    assert pairs[0].records == 20
    assert pairs[0].confidential.tolist() == [[0.6, 0, 0], [0, 0.4, 0]]
    alone = pairs_of(coded_columns(ours[:1], theirs, CODEBOOK), ["job"])[0]
    assert alone.confidential.tolist() == [[1, 0, 0], [0, 0, 0]]
    assert alone.distance == pytest.approx(0.5)


def test_columns_have_few_cells_of_about_equal_size() -> None:
    chance = np.random.default_rng(1)
    ages = np.minimum(chance.integers(0, 120, 4000), 99)
    made = pl.DataFrame({"age": ages})
    column = coded_columns(made, [], CODEBOOK.only(["age"]))["age"]
    counts = np.bincount(column.codes[0], minlength=len(column.labels))
    assert len(column.labels) == 10  # eight runs, the topcode and the empty value
    assert column.labels[-2:] == ("99", "(empty)")
    assert counts[:8].max() < 1.4 * counts[:8].min()
    levels = tuple(f"l{k}" for k in range(30))
    many = Codebook({"c": Column("c", type="categorical", levels=levels, blanks=False)})
    drawn = pl.DataFrame({"c": chance.choice(levels, 500)})
    assert coded_columns(drawn, [], many)["c"].labels[-1] == "other"
    assert len(coded_columns(drawn, [], many)["c"].labels) == 8


def test_runs_of_the_grid_and_frequent_levels_by_hand() -> None:
    """Values that nobody has join the run below them; of nine levels the two rarest are one."""
    ages = cells_of(Column("age", type="integer", bounds=(0, 19), blanks=False))
    coarse, labels = few_cells(ages, np.array([5] * 16 + [0] * 4))
    assert coarse.tolist() == [*np.repeat(range(7), 2), *[7] * 6]
    assert labels == (*(f"{2 * k} to {2 * k + 1}" for k in range(7)), "14 to 19")
    assert few_cells(ages, np.array([1, 1] + [0] * 18))[1] == ("0", "1", "2 to 19")
    assert few_cells(ages, np.zeros(20, dtype=np.int64))[1] == ("0 to 19",)
    eight, nine = (
        cells_of(Column("c", type="categorical", levels=tuple("abcdefghi")[:most], blanks=False))
        for most in (8, 9)
    )
    assert few_cells(eight, np.arange(8))[1] == tuple("abcdefgh")
    coarse, labels = few_cells(nine, np.array([5, 1, 9, 2, 8, 3, 7, 4, 6]))
    assert coarse.tolist() == [0, 7, 1, 7, 2, 3, 4, 5, 6]
    assert labels == (*"acefghi", "other")


def test_no_more_than_sixty_columns_are_compared() -> None:
    names = [f"c{k}" for k in range(61)]
    book = Codebook({name: Column(name, type="categorical", levels=("a",)) for name in names})
    assert (
        list(coded_columns(pl.DataFrame({name: ["a"] for name in names}), [], book)) == names[:60]
    )


def test_the_floor_is_what_resampling_gives() -> None:
    """Against 400 samples of 2,000 records; the formula is the normal limit."""
    chance = np.random.default_rng(2)
    shares = chance.dirichlet(np.ones(20)).reshape(4, 5)
    drawn = chance.multinomial(2000, shares.ravel(), 400) / 2000
    simulated = np.abs(drawn - shares.ravel()).sum(axis=1).mean() / 2
    assert resampling_distance(shares, 2000) == pytest.approx(simulated, rel=0.02)


def test_association_is_cramers_v() -> None:
    counts = np.array([[30, 10, 5], [4, 20, 31]])
    assert association(counts / counts.sum()) == pytest.approx(
        scipy_association(counts, method="cramer")
    )
    square = np.array([[30, 10, 5], [4, 20, 31], [9, 9, 2]])
    assert association(square / square.sum()) == pytest.approx(
        scipy_association(square, method="cramer")
    )
    with_empty = np.insert(np.insert(counts, 1, 0, axis=1), 0, 0, axis=0)
    for table in (with_empty, with_empty.T):  # levels that nobody has do not count
        assert association(table / table.sum()) == pytest.approx(
            scipy_association(counts, method="cramer")
        )
    assert association(np.array([[0.5, 0.5]])) == 0


def cell(estimate: float, lower: float, upper: float, overlap: float | None) -> dict[str, Any]:
    return {
        "confidential": {"estimate": estimate},
        "released": {"lower": lower, "upper": upper},
        "overlap": overlap,
    }


@pytest.mark.parametrize(
    ("cells", "limits", "colours", "worst"),
    [
        ([cell(1, 0, 2, 0.9)] * 4, Fitness(), ["green", "green", "green"], "green"),
        ([cell(1, 0, 2, 0.3)] * 4, Fitness(), ["green", "amber", "green"], "amber"),
        ([cell(3, 0, 2, 0.9)] * 4, Fitness(), ["green", "green", "red"], "red"),
        ([cell(3, 0, 2, 0.9)] * 4, Fitness(coverage=0), ["green", "green", "green"], "green"),
        ([cell(1, 0, 2, None)], Fitness(overlap=1), ["green", "green", "green"], "green"),
    ],
)
def test_the_verdict_is_the_worst_measure(
    cells: list[dict[str, Any]], limits: Fitness, colours: list[str], worst: str
) -> None:
    ours = frame([("f", 1)] * 60 + [("m", 2)] * 40)
    pairs = pairs_of(coded_columns(ours, [ours], CODEBOOK), ["sex", "job"])
    measures = measured(limits, pairs, cells)
    assert [measure.colour for measure in measures] == colours
    assert verdict(measures) == worst


def test_a_file_without_its_pairs_is_red() -> None:
    ours = frame([("f", 1)] * 500 + [("m", 2)] * 500)
    theirs = frame([("f", 2)] * 500 + [("m", 1)] * 500)
    pairs = pairs_of(coded_columns(ours, [theirs], CODEBOOK), ["sex", "job"])
    measures = measured(Fitness(), pairs, [])
    assert measures[0].value == pytest.approx(np.mean([p.excess for p in pairs]))
    assert verdict(measures) == "red"
