"""The variance formula against a direct computation on the records."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.tables.first_look import FirstLook


def direct(z: np.ndarray, h: np.ndarray, c: np.ndarray, f: dict[int, float]) -> float:
    """sum_h (1-f_h) n_h/(n_h-1) sum_c (z_hc - zbar_h)^2, with loops."""
    total = 0.0
    for stratum in np.unique(h):
        psus = [z[(h == stratum) & (c == cluster)].sum() for cluster in np.unique(c[h == stratum])]
        n = len(psus)
        centre = sum(psus) / n
        total += (1 - f[stratum]) * n / (n - 1) * sum((p - centre) ** 2 for p in psus)
    return total


def survey(seed: int, clustered: bool, fpc: bool) -> tuple[us.Survey, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    n = 60
    h = np.repeat([1, 2, 3], 20)
    frame = pl.DataFrame(
        {
            "h": h,
            "c": h * 100 + rng.permutation(np.tile(np.arange(5), 12)),
            "w": rng.gamma(2.0, 10.0, n),
            "y": rng.normal(100.0, 5.0, n),
            "x": rng.gamma(3.0, 2.0, n),
            "g": rng.integers(0, 3, n),
            "f": np.array([0.0, 0.1, 0.5, 0.9])[h],
        }
    )
    design = us.Design("w", "h", "c" if clustered else None, "f" if fpc else None)
    return us.Survey(frame, design), frame


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("fpc", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_equals_the_definition(seed: int, clustered: bool, fpc: bool) -> None:
    data, frame = survey(seed, clustered, fpc)
    w, y, x, g, h = (frame[name].to_numpy() for name in "wyxgh")
    c = frame["c"].to_numpy() if clustered else np.arange(len(w))
    f = {1: 0.1, 2: 0.5, 3: 0.9} if fpc else {1: 0.0, 2: 0.0, 3: 0.0}
    table = us.tabulate(data, ["total(y)", "mean(y)", "ratio(y / x)"], by="g")
    for row in table.iter_rows(named=True):
        d = (g == row["g"]) * w
        if row["statistic"] == "total(y)":
            estimate, z = (d * y).sum(), d * y
        elif row["statistic"] == "mean(y)":
            estimate = (d * y).sum() / d.sum()
            z = d * (y - estimate) / d.sum()
        else:
            estimate = (d * y).sum() / (d * x).sum()
            z = d * (y - estimate * x) / (d * x).sum()
        assert row["estimate"] == pytest.approx(estimate, rel=1e-12)
        assert row["se"] == pytest.approx(np.sqrt(direct(z, h, c, f)), rel=1e-9)
        assert row["df"] == len(np.unique(c)) - 3


def test_large_offsets_do_not_cancel() -> None:
    """A mean of 1e9 with spread 1: sums of squares would lose every digit."""
    rng = np.random.default_rng(3)
    small = rng.normal(0.0, 1.0, 500)
    w = rng.gamma(2.0, 10.0, 500)
    design = us.Design("w")
    near = us.Survey(pl.DataFrame({"w": w, "y": small}), design)
    far = us.Survey(pl.DataFrame({"w": w, "y": small + 1e9}), design)
    expected = us.tabulate(near, "mean(y)")["se"][0]
    assert us.tabulate(far, "mean(y)")["se"][0] == pytest.approx(expected, rel=1e-6)


def test_a_count_that_the_design_fixes_has_no_error() -> None:
    frame = pl.DataFrame({"h": [1] * 7 + [2] * 5, "w": [3.7] * 7 + [1.1] * 5, "g": [0, 1] * 6})
    table = us.tabulate(us.Survey(frame, us.Design("w", "h")), "count", ["h", "g"], margins=True)
    fixed = table.filter(pl.col("g") == "All")
    assert fixed["se"].to_list() == pytest.approx([0, 0, 0], abs=1e-12)


rows = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.floats(0.5, 50),
        st.one_of(st.none(), st.floats(-1e3, 1e3)),
        st.sampled_from(["a", "b", None]),
    ),
    min_size=9,
    max_size=40,
)


def random_survey(records: list[tuple], scale: float = 1.0) -> us.Survey | None:
    frame = pl.DataFrame(
        records,
        schema={"h": pl.Int64, "w": pl.Float64, "y": pl.Float64, "g": pl.String},
        orient="row",
    ).with_columns(pl.col("w") * scale)
    counts = frame["h"].value_counts()["count"]
    return us.Survey(frame, us.Design("w", "h")) if counts.min() > 1 else None


@settings(max_examples=15, deadline=None)
@given(rows, st.randoms(use_true_random=False), st.floats(0.01, 100))
def test_order_and_scale_of_weights_do_not_matter(records, random, scale) -> None:
    first = random_survey(records)
    if first is None:
        return
    shuffled = list(records)
    random.shuffle(shuffled)
    statistics = ["count", "total(y)", "mean(y)"]
    table = us.tabulate(first, statistics, "g")
    two = us.tabulate(random_survey(shuffled), statistics, "g")
    scaled = us.tabulate(random_survey(records, scale), statistics, "g")
    close = {"rel": 1e-7, "abs": 1e-7 * (1 + table["estimate"].abs().max()), "nan_ok": True}
    mean = table["statistic"] == "mean(y)"
    for column in ("estimate", "se"):
        expected = table[column].fill_null(np.nan)
        assert two[column].fill_null(np.nan).to_list() == pytest.approx(expected.to_list(), **close)
        values = scaled.filter(mean)[column].fill_null(np.nan).to_list()
        assert values == pytest.approx(expected.filter(mean).to_list(), **close)


@settings(max_examples=15, deadline=None)
@given(rows)
def test_counts_add_up_and_domains_keep_the_df(records) -> None:
    data = random_survey(records)
    if data is None:
        return
    table = us.tabulate(data, "count", ["h", "g"], margins=True)
    cells = table.filter((pl.col("h") != "All") & (pl.col("g") != "All"))
    whole = table.filter((pl.col("h") == "All") & (pl.col("g") == "All"))
    assert cells["estimate"].sum() == pytest.approx(whole["estimate"][0], rel=1e-12)
    for h in cells["h"].unique():
        margin = table.filter((pl.col("h") == h) & (pl.col("g") == "All"))["estimate"][0]
        inner = cells.filter(pl.col("h") == h)["estimate"].sum()
        assert inner == pytest.approx(margin, rel=1e-12)
    domain = us.tabulate(data, ["count", "mean(y)"], where="y > 0")
    assert set(domain["df"]) == set(table["df"]) == {data.n - len({r[0] for r in records})}


def test_a_ratio_that_every_record_has_is_certain() -> None:
    """y = 3x: rounding may leave less than nothing of the sum of squares, never a missing se."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x, w = rng.gamma(3.0, 2.0, 40), rng.gamma(2.0, 10.0, 40)
        frame = pl.DataFrame({"w": w, "x": x, "y": 3 * x, "g": rng.integers(0, 4, 40)})
        table = us.tabulate(us.Survey(frame, us.Design("w")), "ratio(y / x)", by="g")
        assert table["se"].to_list() == pytest.approx([0.0] * 4, abs=1e-7)


def test_weights_that_add_up_to_public_sizes_leave_their_counts_no_variance() -> None:
    """A count of a whole stratum is its public size; without public sizes it varies."""
    frame = pl.DataFrame({"h": ["1", "1", "1", "2", "2"], "w": [2.0, 3.0, 5.0, 4.0, 6.0]})
    design = us.Design("w", "h")
    sizes = us.Codebook(population_by={"h": {"1": 10.0, "2": 10.0}})
    for codebook, zero in ((sizes, True), (us.Codebook(), False)):
        spread = us.tabulate(us.Survey(frame, design, codebook), "count", by="h")["se"]
        assert (spread.max() < 1e-9) is zero


def test_a_constant_has_a_standard_error_of_zero() -> None:
    """Rounding must not turn a variance of nothing into one below nothing."""
    rng = np.random.default_rng(4)
    for _ in range(12):
        frame = pl.DataFrame({"w": rng.gamma(2.0, 10.0, 30), "y": np.full(30, rng.random())})
        table = us.tabulate(us.Survey(frame, us.Design("w")), ["mean(y)", "ratio(y / y)"])
        assert table["se"].null_count() == 0
        assert table["se"].max() < 1e-9


def test_strata_that_are_all_lonely_have_nothing_to_average() -> None:
    frame = pl.DataFrame({"w": [1.0] * 4, "h": [1, 1, 2, 3], "y": [1.0, 2.0, 3.0, 5.0]})
    survey = us.Survey(frame, us.Design("w", "h", lonely_psu="average"))
    with pytest.raises(us.Refused, match="no variance to average"):
        us.tabulate(survey, "mean(y)", where="h > 1")
    assert us.tabulate(survey, "mean(y)")["se"][0] > 0


def test_what_is_the_same_for_all_of_a_domain_has_a_standard_error_of_nothing() -> None:
    """Not a missing one: rounding must not leave a variance below 0."""
    rng = np.random.default_rng(0)
    group, constants = np.repeat(np.arange(20), 5), rng.normal(100, 30, 20)
    frame = pl.DataFrame({"w": rng.gamma(2.0, 10.0, 100), "g": group, "y": constants[group]})
    table = us.tabulate(us.Survey(frame, us.Design("w")), "mean(y)", by="g")
    assert table["se"].null_count() == 0
    assert table["se"].to_numpy() == pytest.approx(0.0, abs=1e-6)


def test_a_pivot_is_read_from_memory_unless_the_sums_below_it_cancel() -> None:
    columns = {"y": [1.0, None, 6.0], "x": [1.0, 5.0, 2.0], "both_ways": [1.0, 1.0, -0.99]}
    survey = us.Survey(pl.DataFrame(columns))
    table, ratio = survey.table, FirstLook(survey, [], None)._ratio
    assert ratio(table.y, table.x) == 7 / 3
    assert ratio(table.y, 1.0) == 7 / 2
    assert ratio(table.y, table.both_ways) is None
    assert ratio(table.y + 1, 1.0) is None  # not a column in memory
