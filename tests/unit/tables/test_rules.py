"""Rules of the codebook: none is broken in the records that come out, and cells that they rule out
are found without a look at any record."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.survey.cells import cells_of
from understudy.survey.codebook import Codebook, Column
from understudy.tables.derived import computed_columns
from understudy.tables.rule_cells import ruled_out
from understudy.tables.ruled_file import RuleEffects
from understudy.tables.rules import Rules, apply_rules, rules_within

COLUMNS = {
    "age": Column("age", type="integer", bounds=(0, 90), special=(90,), blanks=False),
    "marital": Column("marital", type="categorical", levels=("single", "married"), blanks=True),
    "wages": Column(
        "wages", type="integer", bounds=(0, 9000), special=(0,), rounding=10, missing=(-9,),
        grid=(0.0, 1000.0, 4000.0, 9000.0), applies_when="age >= 15",
    ),
    "income": Column(
        "income", type="integer", bounds=(-500, 20_000), rounding=10, blanks=False,
        grid=(-500.0, 0.0, 1000.0, 4000.0, 20_000.0),
    ),
    "hours": Column(
        "hours", type="integer", bounds=(1, 80), applies_when="wages > 0", skip=-7, blanks=True
    ),
    "rest": Column("rest", type="integer", derived="income - wages", bounds=(0, 20_500)),
    "band": Column(
        "band", type="categorical", levels=("young", "old"),
        derived="'young' if age < 30 else 'old'",
    ),
}  # fmt: skip
CODEBOOK = Codebook(
    COLUMNS, impossible=("age < 15 and marital == 'married'",), order=("wages <= income",)
)
DRAWN = [name for name, column in COLUMNS.items() if not column.derived]
CELLS = {name: cells_of(COLUMNS[name]) for name in DRAWN}


def drawn(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame([c.values(rng.integers(0, c.size, n), rng) for c in CELLS.values()])


def breaks(record: dict[str, object]) -> list[str]:
    """The rules in plain Python."""
    age, wages, income = record["age"], record["wages"], record["income"]
    assert isinstance(age, int)
    assert isinstance(income, int)
    wages = None if wages == -9 else wages
    worked = isinstance(wages, int) and wages > 0
    broken = []
    if age < 15 and record["marital"] == "married":
        broken.append("married")
    if isinstance(wages, int) and wages > income:
        broken.append("order")
    if (age < 15) != (record["wages"] is None):
        broken.append("wages apply")
    if worked == (record["hours"] == -7):
        broken.append("hours apply")
    if record["rest"] != (None if wages is None else income - wages):  # type: ignore[operator]
        broken.append("rest")
    if record["band"] != ("young" if age < 30 else "old"):
        broken.append("band")
    return broken


@pytest.mark.parametrize("seed", [1, 2])
def test_no_rule_is_broken(seed: int) -> None:
    frame = drawn(1500, seed)
    fixed, effects = apply_rules(frame, CODEBOOK, CELLS, np.random.default_rng(3))
    assert fixed.height == frame.height
    assert set(fixed.columns) == set(COLUMNS)
    assert [breaks(record) for record in fixed.to_dicts()] == [[]] * 1500
    for name in DRAWN:
        assert fixed[name].dtype == frame[name].dtype
        before, after = (Counter(CELLS[name].codes(f[name]).tolist()) for f in (frame, fixed))
        assert effects.moved[(name,)] == pytest.approx(1 - (before & after).total() / 1500)
    assert max(effects.moved.values()) > 0.1
    income = fixed["income"]
    assert ((income % 10 == 0) & income.is_between(-500, 20_000)).all()
    assert effects.broken["age < 15 and marital == 'married'"] > 0
    assert effects.broken["wages <= income"] > 0
    assert 0 < effects.changed < 1500
    assert effects.moved[("wages",)] > 0


def test_records_that_keep_the_rules_are_left_alone() -> None:
    fixed, _ = apply_rules(drawn(500, 5), CODEBOOK, CELLS, np.random.default_rng(6))
    again, effects = apply_rules(fixed, CODEBOOK, CELLS, np.random.default_rng(7))
    assert again.equals(fixed)
    assert effects.changed == 0
    assert set(effects.broken.values()) == {0}


def test_values_are_drawn_again_within_their_coarse_cells_first() -> None:
    """Wages and income in one cell that the order rule cuts: both stay in it."""
    rows = 200
    frame = pl.DataFrame({"wages": [3990] * rows, "income": [1000] * rows})
    wages = replace(COLUMNS["wages"], applies_when="")
    codebook = Codebook({"wages": wages, "income": COLUMNS["income"]}, order=("wages <= income",))
    fixed, effects = apply_rules(frame, codebook, CELLS, np.random.default_rng(1))
    assert (fixed["wages"] <= fixed["income"]).all()
    for name in ("wages", "income"):
        assert (CELLS[name].codes(fixed[name]) == CELLS[name].codes(frame[name])).all()
        assert effects.moved[(name,)] == 0
    assert effects.changed == rows
    coarse = {n: CELLS[n].coarsened([0]) for n in ("wages", "income")}
    shares = {n: np.arange(1.0, CELLS[n].size + 1) for n in ("wages", "income")}
    wide, _ = apply_rules(
        frame, codebook, CELLS, np.random.default_rng(1), coarse=coarse, shares=shares
    )
    assert len(set(CELLS["income"].codes(wide["income"]))) > 1
    assert (wide["wages"] <= wide["income"]).all()


def test_how_far_rules_move_measured_tables() -> None:
    """Counted by hand in coarse cells; a table without a column that a rule names is left out."""
    frame = drawn(900, 4).with_columns(free=pl.Series([0, 1, 2] * 300))
    free = Column("free", levels=(0, 1, 2), blanks=False)
    cells = CELLS | {"free": cells_of(free)}
    coarse = {name: np.arange(each.size) // 2 for name, each in cells.items()}
    coarse["free"] = np.array([0, 1, 1])
    tables = [("wages", "free"), ("free", "age", "marital"), ("free",)]
    fixed, effects = apply_rules(
        frame, replace(CODEBOOK, columns=COLUMNS | {"free": free}), cells,
        np.random.default_rng(3), coarse=coarse, measured=tables,
    )  # fmt: skip
    assert set(tables) - effects.moved.keys() == {("free",)}
    for names in tables[:2]:
        before, after = (
            Counter(zip(*(coarse[n][cells[n].codes(f[n])].tolist() for n in names), strict=True))
            for f in (frame, fixed)
        )
        assert effects.moved[names] == pytest.approx(1 - (before & after).total() / 900)
    assert effects.moved[tables[0]] > 0


def test_a_file_without_records_moves_no_table() -> None:
    """A noisy release of few records may come out empty."""
    shifts = {("age",): np.zeros(4, dtype=np.int64)}
    assert RuleEffects({}, 0, shifts, 0).moved == {("age",): 0.0}


def test_rules_over_columns_that_are_left_out_go_with_them() -> None:
    left = [name for name in COLUMNS if name not in ("age", "rest")]
    within = rules_within(CODEBOOK, left)
    assert within.impossible == ()
    assert within.order == CODEBOOK.order
    assert (within["wages"].applies_when, within["wages"].blanks) == ("", True)
    assert within["hours"] == CODEBOOK["hours"]
    for name in ("wages", "hours", "income"):  # cells are those that were counted
        assert cells_of(within[name]).size == CELLS[name].size
    assert rules_within(CODEBOOK, list(COLUMNS)) == CODEBOOK
    for rule in ("impossible", "order"):
        with pytest.raises(Refused, match="rule of the codebook `agee`; did you mean `age`"):
            rules_within(replace(CODEBOOK, **{rule: ("agee > 5",)}), left)


def test_formulas_are_computed_where_all_their_columns_are() -> None:
    names = {"a": "", "b": "", "c": "", "ab": "a + b", "twice": "2 * ab", "ac": "a + c"}
    names["beyond"] = "ac + 1"
    codebook = Codebook({name: Column(name, derived=text) for name, text in names.items()})
    assert computed_columns(codebook, ["a", "b"]) == ("ab", "twice")


def test_kept_columns_stay() -> None:
    frame = drawn(800, 9).with_columns(pl.Series("age", [40, 5] * 400))
    fixed, _ = apply_rules(frame, CODEBOOK, CELLS, np.random.default_rng(3), kept=("age",))
    assert fixed["age"].equals(frame["age"])
    assert [breaks(record) for record in fixed.to_dicts()] == [[]] * 800


def test_rules_that_cannot_be_kept_are_refused() -> None:
    frame = drawn(20, 1)
    never = Codebook(COLUMNS, impossible=("age >= 0",))
    with pytest.raises(Refused, match="No drawn record keeps"):
        apply_rules(frame, never, CELLS, np.random.default_rng(1))
    circle = {
        "a": Column("a", type="integer", derived="b + 1"),
        "b": Column("b", type="integer", derived="a + 1"),
    }
    with pytest.raises(Refused, match="in a circle"):
        apply_rules(frame, Codebook(COLUMNS | circle), CELLS, np.random.default_rng(1))
    unknown = Codebook(COLUMNS, impossible=("agee > 5",))
    with pytest.raises(Refused, match="did you mean `age`"):
        apply_rules(frame, unknown, CELLS, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("a + 2 * b", 10.0),
        ("max(a, b, 3)", 4.0),
        ("min(a, b) / 2", 1.5),
        ("abs(b - a) - -1", 2.0),
        ("round(a / b)", 1),
        ("a if a > b else b", 3.0 + 0.5),
        ("c + a", None),
        ("min(c, a)", None),
    ],
)
def test_formulas(formula: str, value: float | None) -> None:
    frame = pl.DataFrame({"a": [4.0], "b": [3.0], "c": pl.Series([None], dtype=pl.Float64)})
    if formula.startswith("a if"):
        frame = frame.with_columns(pl.lit(3.5).alias("b"), pl.lit(3.0).alias("a"))
    columns = {name: Column(name) for name in "abc"} | {"y": Column("y", derived=formula)}
    assert Rules(Codebook(columns), ("a", "b", "c")).completed(frame)["y"].to_list() == [value]


@pytest.mark.parametrize("formula", ["a +", "a > 3", "sum(a)", "'x' + a", "a ** 2"])
def test_formulas_that_cannot_be_read(formula: str) -> None:
    columns = {"a": Column("a"), "y": Column("y", derived=formula)}
    with pytest.raises(Refused):
        Rules(Codebook(columns), ("a",)).completed(pl.DataFrame({"a": [1.0]}))


RULED = [
    "age < 15 and marital == 'married'",
    "not (age < 15) or marital in ('single', 'married')",
    "wages > 3000 and income < 500",
    "wages is None and age > 20",
    "marital != 'single' and (wages == 0 or income <= -100)",
    "10 <= age < 20",
    "wages > income",
    "marital == 'divorced'",
]


@pytest.mark.parametrize("rule", RULED)
def test_cells_are_ruled_out_where_every_value_is(rule: str) -> None:
    """Against all values of small columns: a combination is ruled out only if no value in it is
    possible, and, where the rule's comparisons do not share a column, exactly then."""
    columns = {
        "age": Column("age", type="integer", bounds=(0, 30), grid=(0.0, 10.0, 15.0, 30.0)),
        "marital": COLUMNS["marital"],
        "wages": Column("wages", type="integer", bounds=(0, 4000), rounding=500, missing=(-9,),
                        special=(0,), grid=(0.0, 1000.0, 3000.0, 4000.0)),
        "income": Column("income", type="integer", bounds=(-500, 4000), rounding=500,
                         grid=(-500.0, 0.0, 1000.0, 4000.0)),
    }  # fmt: skip
    cells = {name: cells_of(column) for name, column in columns.items()}
    codebook = Codebook(columns, impossible=(rule,))
    excluded = ruled_out(codebook, cells)
    every = {
        "age": [*range(31), None],
        "marital": ["single", "married", None],
        "wages": [*range(0, 4001, 500), -9, None],
        "income": [*range(-500, 4001, 500), None],
    }
    named = [name for name in sorted(columns) if name in rule]
    frame = pl.DataFrame(
        list(product(*(every[name] for name in named))), schema=named, orient="row"
    )
    met = Rules(codebook, tuple(named)).broken(frame)[rule]
    shape = tuple(cells[name].size for name in named)
    cell = np.ravel_multi_index(tuple(cells[n].codes(frame[n]) for n in named), shape)
    some_possible = np.bincount(cell, ~met, minlength=int(np.prod(shape))).reshape(shape) > 0
    out = excluded[0].cells if excluded else np.zeros(shape, dtype=bool)
    assert not (out & some_possible).any()
    if rule != "10 <= age < 20":
        assert (out == ~some_possible).all()
    if excluded:
        coarse = {name: np.arange(cells[name].size) // 2 for name in named}
        small = excluded[0].coarsened(coarse)
        codes = {name: cells[name].codes(frame[name]) // 2 for name in named}
        assert not small.holds(codes)[~met].any()


def test_cells_of_order_rules_and_skips() -> None:
    by_rule = {out.rule: out for out in ruled_out(CODEBOOK, CELLS)}
    order = by_rule["wages <= income"]
    assert order.columns == ("income", "wages")
    assert CELLS["income"].labels[0] == "-500 to -10"
    assert CELLS["wages"].labels[:4] == ("10 to 990", "1,000 to 3,990", "4,000 to 9,000", "0")
    assert order.cells[0].tolist() == [True, True, True, True, False, False]  # codes are unknown
    assert order.cells[2].tolist() == [False, False, True, False, False, False]
    wages = by_rule["wages applies when age >= 15"]
    assert wages.columns == ("age", "wages")
    assert wages.cells[14].tolist() == [True] * 5 + [False]
    assert wages.cells[15].tolist() == [False] * 5 + [True]


def test_only_a_number_has_an_opposite() -> None:
    def cells(rule: str) -> int:
        excluded = ruled_out(Codebook(COLUMNS, impossible=(rule,)), CELLS)
        return sum(int(out.cells.sum()) for out in excluded if out.rule == rule)

    assert cells("income < -0") == 1
    assert cells("income < -500") == 0
    assert cells("marital == 'single'") == 1
    assert cells("marital == -'single'") == 0
