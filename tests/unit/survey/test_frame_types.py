"""Frames with types and names that databases do not have."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import ibis
import pandas as pd
import polars as pl
import pytest
from ibis.expr.operations import InMemoryTable

import understudy as us


def test_whole_numbers_of_128_bits_are_numbers() -> None:
    survey = us.Survey(pl.DataFrame({"z": pl.Series([1, 2, 6], dtype=pl.Int128)}))
    assert us.tabulate(survey, "mean(z)")["estimate"][0] == 3


@pytest.mark.parametrize(
    ("series", "says"),
    [
        (pl.Series("z", [2**70], dtype=pl.Int128), "beyond 64 bits"),
        (pl.Series("z", [object()], dtype=pl.Object), "Python objects"),
        (pl.Series("z", [datetime.timedelta(1)]), "durations"),
    ],
)
def test_types_that_no_database_has_are_refused(series: pl.Series, says: str) -> None:
    with pytest.raises(us.Refused, match=f"`z`.*{says}"):
        us.Survey(pl.DataFrame([series]))


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["y", "y"])
    with pytest.raises(us.Refused, match="Two columns are called `y`"):
        us.Survey(frame)


@pytest.mark.parametrize("library", ["arrow", "pandas"])
def test_durations_are_refused_from_any_library(library: str) -> None:
    frame = pl.DataFrame({"z": [datetime.timedelta(1)]})
    data = frame.to_arrow() if library == "arrow" else frame.to_pandas()
    with pytest.raises(us.Refused, match="`z` holds durations"):
        us.Survey(data)


def test_an_empty_column_is_text_as_in_a_csv_file(tmp_path: Path) -> None:
    survey = us.Survey(pl.DataFrame({"y": [1, 2], "z": [None, None]}))
    us.write_survey(survey, tmp_path / "survey.parquet")
    assert us.read_survey(tmp_path / "survey.parquet").raw["z"].type().is_string()
    with pytest.raises(us.Refused, match="`z` has no known value"):
        us.tabulate(survey, "proportion(z)")


def test_a_pandas_column_of_several_kinds_is_refused() -> None:
    with pytest.raises(us.Refused, match="mixes kinds of values"):
        us.Survey(pd.DataFrame({"z": [1, "a", b"c"]}))


@pytest.mark.parametrize(
    "run",
    [
        lambda survey: us.tabulate(survey, "count", by="z"),
        lambda survey: us.tabulate(survey, "count", where="z > 1"),
        lambda survey: us.regress(survey, "y ~ z"),
    ],
)
def test_lists_cannot_be_used(run: Callable[[us.Survey], object]) -> None:
    survey = us.Survey(pl.DataFrame({"y": [1.0, 2.0], "z": [[1], [2, 3]]}))
    with pytest.raises(us.Refused, match="`z` is array<int64>, and only numbers, texts"):
        run(survey)


def test_decimals_of_38_digits_are_drafted() -> None:
    values = pl.Series([Decimal(10) ** 37, Decimal(1)], dtype=pl.Decimal(38, 0))
    column = us.Survey(pl.DataFrame({"z": values})).codebook["z"]
    assert column.bounds == pytest.approx((1.0, 1e37))


def test_the_largest_whole_number_is_drafted() -> None:
    values = pl.Series([*range(60), 2**64 - 1], dtype=pl.UInt64)
    assert us.Survey(pl.DataFrame({"z": values})).codebook["z"].type == "integer"


def test_quantiles_beside_design_effects() -> None:
    survey = us.Survey(pl.DataFrame({"y": [1.0, 2.0, 4.0, 8.0]}))
    table = us.tabulate(survey, ["count", "median(y)"], deff=True)
    assert table["estimate"].to_list() == [4.0, 2.0]


SMALL = pl.DataFrame(
    {
        "text": ["a", "b", None, "a"],
        "whole": pl.Series([1, 2, None, -9], dtype=pl.Int16),
        "real": [0.5, 2.0, None, 2.0],
        "coded": pl.Series(["u", "v", None, "u"], dtype=pl.Categorical),
        "w": [1.0, 2.0, 0.5, 3.0],
    }
)
HOLDERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "polars": lambda frame, _: frame,
    "arrow": lambda frame, _: frame.to_arrow(),
    "pandas": lambda frame, _: frame.to_pandas(),
    "file": lambda frame, folder: _written(frame, folder / "survey.parquet"),
}


def _written(frame: pl.DataFrame, path: Path) -> object:
    frame.write_parquet(path)
    return us.read_survey(path).raw


def test_levels_that_are_a_range_are_those_between_its_ends(tmp_path: Path) -> None:
    """Also with a missing code, and with gaps: as the values say one by one."""
    values = [3, 4, None, 5, 4]
    data = _written(pl.DataFrame({"k": values, "only": [None] * 4 + [2]}), tmp_path / "k.parquet")
    for levels in ((3, 4, 5), (5, 3, 4, 4), (2, 3, 4, 5, 6), (3, 4), (4, 5), (3, 5), (3, 5, 9)):
        for missing in ((), (4,), (6,)):
            column = us.Column("k", type="categorical", levels=levels, missing=missing)
            codebook = us.Codebook({"k": column})
            if {3, 4, 5} <= {*levels, *missing}:
                assert us.Survey(data, codebook=codebook).n == 5
                continue
            with pytest.raises(us.Refused, match="not among the codebook's levels"):
                us.Survey(data, codebook=codebook)


@pytest.mark.parametrize("holder", HOLDERS)
def test_levels_and_weights_are_checked_wherever_the_records_are(
    holder: str, tmp_path: Path
) -> None:
    data = HOLDERS[holder](SMALL, tmp_path)

    def survey(name: str, *levels: str | float, weight: str | None = "w") -> us.Survey:
        missing = () if isinstance(levels[0], str) else (-9,)
        column = us.Column(name, type="categorical", levels=levels, missing=missing)
        return us.Survey(data, us.Design(weight), us.Codebook({name: column}))

    for name, levels in {
        "text": ("a", "b"), "whole": (1, 2), "real": (0.5, 2), "coded": ("u", "v"),
    }.items():  # fmt: skip
        assert survey(name, *levels).n == survey(name, *levels, weight=None).n == 4
        assert survey(name, *levels, *levels[:1]).frame().height == 4
        for kept in levels:
            with pytest.raises(us.Refused, match=f"`{name}` are not among the codebook's levels"):
                survey(name, kept)
    frame = us.Survey(data, us.Design("w")).frame(["whole", "text", "real"])
    assert frame.equals(SMALL.select("whole", "text", "real").cast(frame.schema))
    for change, says in ((-1.0, "negative"), (float("inf"), "not finite"), (None, "is missing")):
        wrong = SMALL.with_columns(w=pl.Series([1.0, change, 0.5, 3.0]))
        with pytest.raises(us.Refused, match=says):
            us.Survey(HOLDERS[holder](wrong, tmp_path), us.Design("w"))
    with pytest.raises(us.Refused, match="0 for every record"):
        us.Survey(HOLDERS[holder](SMALL.with_columns(w=pl.lit(0.0)), tmp_path), us.Design("w"))


def test_columns_chosen_from_records_in_memory_stay_there() -> None:
    """And only these: other values under the name of a column, or another type, are asked for."""
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", None], "c": [1.5, None]})
    for data in (frame, frame.to_arrow()):
        chosen = us.Survey(us.Survey(data).raw.select("c", "a"))
        assert isinstance(chosen.raw.op(), InMemoryTable)
        assert chosen.frame().equals(frame.select("c", "a"))
    whole = us.Survey(frame).raw
    decimals = ibis.memtable(frame, schema={"a": "float64", "b": "string", "c": "float64"})
    for table, values in (
        (whole.select(a=whole["c"]), [1.5, None]),
        (whole.select(a=whole["a"] + 1), [2, 3]),
        (whole.filter(whole["a"] > 1).select("a"), [2]),
        (decimals.select("a"), [1.0, 2.0]),
    ):
        taken = us.Survey(table).frame()["a"]
        assert (taken.to_list(), taken.dtype) == (values, table.schema()["a"].to_polars())
