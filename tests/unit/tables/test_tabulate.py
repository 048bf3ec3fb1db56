"""The table itself: layout, missing values, combining, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats

import understudy as us

FRAME = pl.DataFrame(
    {
        "w": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "h": [1, 1, 1, 2, 2, 2],
        "p": [1, 1, 2, 3, 3, 4],
        "a": ["x", "y", "x", "y", "x", None],
        "b": [1, 1, 2, 2, 1, 2],
        "y": [1.0, 2.0, None, 4.0, float("nan"), 6.0],
        "flag": [True, False, True, None, True, False],
        "big name": [1, 2, 3, 4, 5, 6],
    }
)
SURVEY = us.Survey(FRAME, us.Design("w", "h"))


def value(table: pl.DataFrame, column: str = "estimate", **keys: object) -> float:
    rows = table.filter(*(pl.col(name) == level for name, level in keys.items()))
    assert rows.height == 1
    return rows[column][0]


def test_columns_and_order() -> None:
    table = us.tabulate(SURVEY, ["mean(y)", "count"], by=["b", "a"])
    assert table.columns == [
        "b", "a", "statistic", "estimate", "se", "df", "lower", "upper", "cv", "note",
    ]  # fmt: skip
    assert table["statistic"].to_list()[:2] == ["mean(y)", "count"]
    assert table.schema["b"] == pl.Int64
    assert table["b"].to_list() == sorted(table["b"].to_list())


def test_missing_and_nan_are_left_out_of_means_but_counted() -> None:
    table = us.tabulate(SURVEY, ["count", "mean(y)", "total(y)", "mean(flag)"])
    assert value(table, statistic="count") == 21
    assert value(table, statistic="mean(y)") == pytest.approx((1 + 4 + 16 + 36) / 13)
    assert value(table, statistic="total(y)") == pytest.approx(57)
    assert value(table, statistic="mean(flag)") == pytest.approx((1 + 3 + 5) / 17)


def test_margins_show_all_and_missing() -> None:
    table = us.tabulate(SURVEY, "count", by=["a", "b"], margins=True)
    assert value(table, a="All", b="All") == 21
    assert value(table, a="Missing", b="All") == 6
    assert value(table, a="x", b="All") == 9
    assert table.height == 5 + 3 + 2 + 1
    plain = us.tabulate(SURVEY, "count", by="a")
    assert plain["a"].to_list() == ["x", "y", None]


def test_empty_domain_is_a_row_without_an_estimate() -> None:
    table = us.tabulate(SURVEY, ["count", "mean(y)", "quantile(y, 0.5)"], where="b > 9")
    assert table["estimate"].to_list() == [0, None, None]
    assert table["se"].to_list() == [0, None, None]
    assert us.tabulate(SURVEY, "mean(y)", by="a", where="b > 9").height == 0


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "arrow", "ibis"])
def test_any_frame_gives_the_same_table(kind: str) -> None:
    data = {
        "polars": lambda: FRAME,
        "lazy": FRAME.lazy,
        "pandas": lambda: pd.DataFrame(FRAME.to_dict(as_series=False)),
        "arrow": FRAME.to_arrow,
        "ibis": lambda: us.Survey(FRAME).raw,
    }[kind]()
    table = us.tabulate(us.Survey(data, us.Design("w", "h")), ["count", "mean(y)"], by="b")
    expected = us.tabulate(SURVEY, ["count", "mean(y)"], by="b")
    assert table["estimate"].to_list() == pytest.approx(expected["estimate"].to_list(), rel=1e-14)
    assert table["se"].to_list() == pytest.approx(expected["se"].to_list())


def test_names_that_differ_only_in_case_are_told_apart() -> None:
    frame = pl.DataFrame({"x": [1.0, 2.0], "X": [10.0, 30.0]})
    survey = us.Survey(frame)
    assert survey.columns == ("x", "X_1")
    assert us.tabulate(survey, ["mean(x)", "mean(X_1)"])["estimate"].to_list() == [1.5, 20]
    with pytest.raises(us.Refused, match="did you mean `X_1`"):
        us.tabulate(survey, "mean(X)")


def test_a_list_is_combined_cell_by_cell() -> None:
    rng = np.random.default_rng(1)
    sets = [
        us.Survey(FRAME.with_columns(y=pl.Series(rng.normal(10, 1, 6))), SURVEY.design)
        for _ in range(3)
    ]
    table = us.tabulate(sets, ["mean(y)", "count"], by="b", combine="partial")
    each = [us.tabulate(dataset, "mean(y)", by="b") for dataset in sets]
    q = np.array([t["estimate"].to_numpy() for t in each])
    u = np.array([t["se"].to_numpy() ** 2 for t in each])
    means = table.filter(pl.col("statistic") == "mean(y)")
    assert means["estimate"].to_list() == pytest.approx(q.mean(0).tolist())
    expected = np.sqrt(u.mean(0) + q.var(0, ddof=1) / 3)
    assert means["se"].to_list() == pytest.approx(expected.tolist())
    stacked = us.tabulate(sets, "mean(y)", by="b", combine="none")
    assert stacked["dataset"].to_list() == [1, 1, 2, 2, 3, 3]
    item = us.tabulate(sets[:1], "mean(y)", combine="partial")
    assert "synthesis variance is missing" in item["note"][0]


def test_limits_of_combined_shares_are_those_of_their_logit() -> None:
    """By the t distribution; on their own scale a share of 1 in 20 reaches below 0."""
    surveys = [us.Survey(pl.DataFrame({"x": np.roll(np.arange(20), k)})) for k in (0, 1)]
    for met in (1, 10, 19):
        (row,) = us.tabulate(surveys, f"proportion(x < {met})", combine="partial").rows(named=True)
        p, half = met / 20, scipy.stats.t.ppf(0.975, row["df"]) * row["se"]
        for end, sign in (("lower", -1), ("upper", 1)):
            odds = p / (1 - p) * np.exp(sign * half / (p * (1 - p)))
            assert row[end] == pytest.approx(odds / (1 + odds), rel=1e-12)


def test_a_cell_that_is_absent_from_one_data_set() -> None:
    other = FRAME.with_columns(a=pl.lit("x"))
    sets = [SURVEY, us.Survey(other, SURVEY.design)]
    table = us.tabulate(sets, ["count", "mean(y)"], by="a", combine="partial")
    assert value(table, a="y", statistic="count") == pytest.approx(6 / 2)
    assert value(table, a="y", statistic="mean(y)") is None


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: us.tabulate(SURVEY, "mean(yy)"), "did you mean `y`"),
        (lambda: us.tabulate(SURVEY, "count", by="aa"), "Unknown by-variable"),
        (lambda: us.tabulate(SURVEY, []), "at least one statistic"),
        (lambda: us.tabulate(SURVEY, "count", by=["a", "a"]), "named twice"),
        (lambda: us.tabulate(SURVEY, "mean(a)"), "needs numbers"),
        (lambda: us.tabulate(SURVEY, "quantile(a, 0.5)"), "needs numbers"),
        (lambda: us.tabulate(SURVEY, "proportion(a == 1)"), "in quotes"),
        (lambda: us.tabulate(SURVEY, 'proportion(b == "1")'), "leave the quotes out"),
        (lambda: us.tabulate(SURVEY, "count", where="z > 1"), "Unknown column"),
        (lambda: us.tabulate(SURVEY, "count", combine="partial"), "one survey"),
        (lambda: us.tabulate([SURVEY], "count"), "combining rule"),
        (lambda: us.tabulate([SURVEY], "count", combine="half"), "combining rule"),
        (lambda: us.tabulate([], "count", combine="full"), "at least one Survey"),
        (lambda: us.tabulate(SURVEY, "count", level=1.5), "between 0 and 1"),
        (
            lambda: us.tabulate(
                [SURVEY, us.Survey(FRAME.drop("y"), SURVEY.design)], "count", combine="full"
            ),
            "different columns",
        ),
        (lambda: us.Survey(FRAME, us.Design("wt")), "Unknown design column"),
        (lambda: us.Survey(FRAME, us.Design("a")), "not numeric"),
        (lambda: us.Survey(FRAME, us.Design("y")), "missing or not finite"),
        (lambda: us.Survey(FRAME.with_columns(w=0.0), us.Design("w")), "is 0 for every record"),
        (lambda: us.Survey(FRAME.with_columns(w=-1.0), us.Design("w")), "is negative"),
        (lambda: us.Survey(FRAME.head(0), us.Design("w")), "no records"),
        (lambda: us.Survey({"w": [1]}), "Arrow table"),
        (
            lambda: us.tabulate(us.Survey(FRAME, us.Design("w", "b", "p")), "count"),
            "nest=True",
        ),
        (
            lambda: us.tabulate(us.Survey(FRAME, us.Design("w", "p")), "count"),
            "only one PSU",
        ),
        (
            lambda: us.tabulate(us.Survey(FRAME, us.Design("w", "a")), "count"),
            "stratum `a` is missing",
        ),
        (
            lambda: us.tabulate(us.Survey(FRAME, us.Design("w", None, "a")), "count"),
            "PSU `a` is missing",
        ),
        (
            lambda: us.tabulate(us.Survey(FRAME, us.Design("w", "h", fpc="w")), "count"),
            "varies inside a stratum",
        ),
        (
            lambda: us.tabulate(
                us.Survey(FRAME.with_columns(f=2.0), us.Design("w", "h", fpc="f")), "count"
            ),
            "fewer PSUs than were sampled",
        ),
        (
            lambda: us.tabulate(
                us.Survey(FRAME.with_columns(f=pl.col("h") - 1), us.Design("w", "h", fpc="f")),
                "count",
            ),
            "must be above 0",
        ),
        (  # the same in each cell of the table, not in a stratum
            lambda: us.tabulate(
                us.Survey(FRAME.with_columns(f=pl.col("b") / 10), us.Design("w", "h", fpc="f")),
                "count",
                by="b",
            ),
            "varies inside a stratum",
        ),
        (
            lambda: us.Survey(
                FRAME.with_columns(r0=pl.col("w"), r1=pl.col("w")),
                us.Design("r0", replicates=us.Replicates(prefix="r", kind="brr")),
            ),
            "include the full weight `r0`",
        ),
        (lambda: us.Design("w", replicates=us.Replicates(kind="brr")), "either `columns` or"),
        (lambda: us.Replicates(prefix="r", kind="brrr"), "did you mean `brr`"),
        (lambda: us.Replicates(prefix="r", kind="fay"), "Fay's factor"),
        (lambda: us.Replicates(prefix="r", kind="jkn"), "coefficients"),
        (lambda: us.Design("w", lonely_psu="ignore"), "rule for a lonely PSU"),
        (lambda: us.Design("w", "w"), "three different columns"),
    ],
)
def test_refusals_are_one_sentence_with_the_way_out(call, says: str) -> None:
    with pytest.raises(us.Refused) as refusal:
        call()
    message = str(refusal.value)
    assert says in message
    assert "Traceback" not in message


def test_values_stay_out_of_messages() -> None:
    frame = FRAME.with_columns(a=pl.lit("canary-7319"))
    book = us.Codebook({"a": us.Column("a", type="categorical", levels=("x", "y"))})
    with pytest.raises(us.Refused, match="not among the codebook's levels") as refusal:
        us.Survey(frame, us.Design("w"), book)
    assert "7319" not in str(refusal.value)


def test_missing_codes_are_missing() -> None:
    book = us.Codebook({"b": us.Column("b", type="integer", missing=(2,))})
    survey = us.Survey(FRAME, us.Design("w"), book)
    assert value(us.tabulate(survey, "mean(b)")) == 1
    assert survey.frame()["b"].null_count() == 3
    assert survey.raw.to_polars()["b"].null_count() == 0


def test_by_variables_with_the_names_of_a_table() -> None:
    frame = pl.DataFrame({"cell": ["a", "b", "a"], "estimate": [1, 2, 2], "y": [1.0, 2.0, 4.0]})
    table = us.tabulate(us.Survey(frame), "mean(y)", by="cell")
    assert table["cell"].to_list() == ["a", "b"]
    assert table["estimate"].to_list() == [2.5, 2.0]
    with pytest.raises(us.Refused, match="rename the by-variable"):
        us.tabulate(us.Survey(frame), "mean(y)", by="estimate")


def test_without_weights_records_count_once() -> None:
    table = us.tabulate(us.Survey(FRAME), ["count", "total(b)"])
    assert table["estimate"].to_list() == [6, 9]


def test_the_cv_is_relative_and_nothing_is_relative_to_zero() -> None:
    frame = FRAME.with_columns(none=0.0, every=1.0)
    asked = ["mean(none)", "mean(every)", "mean(b)"]
    table = us.tabulate(us.Survey(frame, SURVEY.design), asked)
    assert table["cv"].to_list() == [None, 0, table["se"][2] / table["estimate"][2]]


def test_a_quantile_of_a_constant_is_certain() -> None:
    """The share at or below it is 1 without error, so both limits are the value itself."""
    survey = us.Survey(FRAME.with_columns(k=5.0), SURVEY.design)
    row = us.tabulate(survey, "quantile(k, 0.5)").row(0, named=True)
    assert [row[name] for name in ("estimate", "se", "lower", "upper")] == [5, 0, 5, 5]


def test_an_unusable_replicate_weight_is_named() -> None:
    weights = {"r1": [1.0, 2.0, 3.0, float("inf"), 5.0, 6.0], "r2": [2.0] * 6, "r3": [3.0] * 6}
    frame = FRAME.with_columns(**{name: pl.Series(each) for name, each in weights.items()})
    design = us.Design("w", replicates=us.Replicates(prefix="r", kind="jk1"))
    with pytest.raises(us.Refused, match="`r1` is missing or not finite"):
        us.tabulate(us.Survey(frame, design), "count")


def test_a_cell_without_weight_in_a_replicate_is_estimated_from_the_others() -> None:
    # R survey 4.4 (svymean and svyratio of subset(design, g == "a"), BRR) leaves the replicate out.
    frame = pl.DataFrame(
        {
            "w": [1.0, 2.0, 3.0, 1.0, 1.0, 2.0],
            "g": list("abbcca"),
            "y": [1.0, 2.0, 3.0, 4.0, 5.0, 7.0],
            "r1": [0.0, 2.0, 3.0, 1.0, 1.0, 0.0],
            "r2": [2.0, 1.0, 1.0, 2.0, 0.0, 1.0],
            "r3": [1.0, 1.0, 3.0, 0.0, 2.0, 2.0],
            "r4": [1.0, 2.0, 3.0, 1.0, 2.0, 1.0],
        }
    )
    by_r = {"estimate": (1.11803399, 0.4103691), "mean": (0.70710678, 0.2657101)}
    for centre, errors in by_r.items():
        replicates = us.Replicates(prefix="r", kind="brr", centre=centre)
        survey = us.Survey(frame, us.Design("w", replicates=replicates))
        table = us.tabulate(survey, ["mean(y)", "ratio(y / w)"], by="g")
        cell = table.filter(pl.col("g") == "a")
        assert cell["se"].to_list() == pytest.approx(errors, rel=1e-6)
        assert cell["note"][0] == (
            "no weight in 1 of 4 replicates: its variance rests on the others"
        )
        assert table.filter(pl.col("g") != "a")["note"].to_list() == [""] * 4


def test_records_that_are_in_or_out_together_have_no_standard_error() -> None:
    """Half-samples of two pairs of PSUs: cell a is one PSU, b the others, c two that alternate."""
    frame = pl.DataFrame(
        {
            "w": [1.0] * 8,
            "g": list("aacbbbcb"),
            "y": [1.0, 4.0, 2.0, 3.0, 5.0, 6.0, 2.0, 1.0],
            "r1": [2.0, 2.0, 2.0, 0.0, 0.0, 2.0, 0.0, 2.0],
            "r2": [0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 0.0],
            "r3": [2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 2.0],
        }
    )
    survey = us.Survey(frame, us.Design("w", replicates=us.Replicates(prefix="r", kind="brr")))
    table = us.tabulate(survey, ["mean(y)", "count"], by="g")
    se = {(row["g"], row["statistic"]): row for row in table.iter_rows(named=True)}
    together = se["a", "mean(y)"]
    assert together["estimate"] == 2.5
    assert together["se"] is together["lower"] is together["upper"] is None
    assert together["note"] == (
        "no weight in 1 of 3 replicates and the same estimate in the others: its variance cannot "
        "be estimated"
    )
    assert se["a", "count"]["se"] == pytest.approx(2.0)  # 4, 0 and 4 for 2
    assert se["b", "mean(y)"]["se"] > 0
    assert se["c", "mean(y)"]["se"] == 0.0  # every replicate has a record of it, all of them 2
    assert se["c", "mean(y)"]["note"] == ""


def test_one_record_or_one_psu_has_no_standard_error() -> None:
    by_record = us.tabulate(SURVEY, ["mean(y)", "quantile(y, 0.5)", "count"], by=["b", "a"])
    lonely = by_record.filter(pl.col("b") == 2, pl.col("a") == "y")
    assert lonely["estimate"].to_list() == [4.0, 4.0, 4.0]
    assert lonely["se"].to_list()[:2] == lonely["lower"].to_list()[:2] == [None, None]
    assert lonely["se"][2] > 0  # how many there are can still be estimated
    assert lonely["note"].to_list() == ["one record: its variance cannot be estimated"] * 2 + [""]
    clustered = us.Survey(FRAME, us.Design("w", "h", "p"))
    by_psu = us.tabulate(clustered, "mean(`big name`)", by="p")
    assert by_psu["se"].to_list() == [None] * 4
    assert set(by_psu["note"]) == {"one PSU: its variance cannot be estimated"}
    # a stratum that was taken whole has no sampling variance, however small a cell is
    census = us.Survey(FRAME.with_columns(f=1.0), us.Design("w", "h", fpc="f"))
    assert us.tabulate(census, "mean(`big name`)", by=["a", "b"])["se"].to_list() == [0.0] * 5


def test_notes_survive_combining() -> None:
    combined = us.tabulate([SURVEY, SURVEY], "mean(y)", by=["b", "a"], combine="partial")
    assert "one record: its variance cannot be estimated" in combined["note"].to_list()


@pytest.mark.parametrize(
    ("levels", "word", "meaning"),
    [(["All", "x"], "All", "margin"), (["Missing", None], "Missing", "row of records without")],
)
def test_levels_named_like_margins_are_refused_with_margins(
    levels: list, word: str, meaning: str
) -> None:
    survey = us.Survey(pl.DataFrame({"g": levels * 2, "y": [1.0, 2.0, 3.0, 5.0]}))
    says = f"a level called {word}, which is also the name of the {meaning}.*rename the level"
    with pytest.raises(us.Refused, match=says):
        us.tabulate(survey, "count", by="g", margins=True)
    assert us.tabulate(survey, "count", by="g").height == 2


def test_a_level_called_missing_is_a_level_where_none_is_missing() -> None:
    survey = us.Survey(pl.DataFrame({"g": ["Missing", "x", "x"]}))
    table = us.tabulate(survey, "count", by="g", margins=True)
    assert dict(zip(table["g"], table["estimate"], strict=True)) == {
        "Missing": 1, "x": 2, "All": 3,
    }  # fmt: skip


@pytest.mark.parametrize("design", [us.Design("w"), us.Design("w", "h", "p")])
def test_infinite_values_are_refused_in_words(design: us.Design) -> None:
    survey = us.Survey(FRAME.with_columns(y=pl.lit(float("inf"))), design)
    with pytest.raises(us.Refused, match="infinite values"):
        us.tabulate(survey, "mean(y)")


def test_a_by_variable_may_not_be_called_as_the_tables_own_column() -> None:
    survey = us.Survey(FRAME.with_columns(__cell=pl.lit(1)))
    with pytest.raises(us.Refused, match="rename the by-variable"):
        us.tabulate(survey, "count", by="__cell")


def test_a_level_with_both_kinds_of_quotes_can_be_written() -> None:
    survey = us.Survey(pl.DataFrame({"g": ["6' 2\"", "z", "z", "z"], "h": ["a\\b", "a", "a", "a"]}))
    table = us.tabulate(survey, ['proportion(g == "6\' 2\\"")', r'proportion(h == "a\b")'])
    assert table["estimate"].to_list() == [0.25, 0.25]


def test_a_coefficient_of_variation_needs_an_estimate_other_than_zero() -> None:
    frame = pl.DataFrame({"one": [0.0, 2.0, 0.0, 2.0], "zero": [-1.0, 1.0, -1.0, 1.0]})
    table = us.tabulate(us.Survey(frame), ["mean(one)", "mean(zero)"])
    assert table["cv"].to_list() == [table["se"][0], None]
    assert table["se"][0] > 0


def test_one_table_each_begins_with_the_number_of_its_data_set() -> None:
    table = us.tabulate([SURVEY, SURVEY], "count", by="b", combine="none")
    assert table.columns[:2] == ["dataset", "b"]


def test_a_domain_that_is_neither_text_nor_a_function_is_refused() -> None:
    with pytest.raises(us.Refused, match="must be a string such as"):
        us.tabulate(SURVEY, "count", where=3)  # type: ignore[arg-type]


def test_statistics_of_nobody_are_unknown() -> None:
    table = us.tabulate(SURVEY, ["quantile(y, 0.5)", "mean(y)", "count"], where="y > 1000")
    assert table["estimate"].to_list() == [None, None, 0.0]


def test_a_table_needs_no_drafted_codebook() -> None:
    """A draft looks at every column several times: those of the design, and those not asked for."""
    survey = us.Survey(FRAME, us.Design("w", "h", "p"))
    us.tabulate(survey, ["count", "mean(y)", "quantile(y, 0.5)"], by="a", where="b == 1")
    assert "codebook" not in vars(survey)
