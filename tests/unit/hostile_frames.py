"""Random survey files as nobody would wish them, and everything that is done with a survey."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

import understudy as us
from understudy.utility.summary import summarise_utility

Deed = Callable[[us.Survey, Path], object]
Use = tuple[Any, Callable[[], us.Design], list[Deed]]
NAN, INF = float("nan"), float("inf")
DAY, TIME = datetime.date(2020, 2, 29), datetime.datetime(1900, 1, 1, 23, 59, 59)
TEXTS = ["a", "b", "", " ", "All", "Missing", "NA", "007", "1", "it's", '"', "é", "\n", "`", "🙂"]
FLOATS = [0.0, 1.0, 2.0, 2.5, -1.0, NAN, INF, -INF, 1e308, 1e-308, -0.0, 99.0]
VALUES: dict[Any, list[Any]] = {
    pl.Float64: FLOATS,
    pl.Float32: [0.0, 1.0, 2.5, NAN, INF, 1e38],
    pl.Int64: [0, 1, 2, 3, -9, 99, 2**53 + 1, -(2**63), 2**63 - 1],
    pl.Int8: [0, 1, 2, -128, 127],
    pl.UInt8: [0, 1, 255],
    pl.UInt64: [0, 1, 2**64 - 1],
    pl.Int128: [0, 1, 2**64, -(2**100)],
    pl.Boolean: [True, False],
    pl.String: TEXTS,
    pl.Categorical: ["a", "b", "All"],
    pl.Enum(["a", "b", ""]): ["a", "b", ""],
    pl.Date: [DAY, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    pl.Datetime("us"): [TIME, datetime.datetime(2262, 5, 1)],
    pl.Datetime("ns", "UTC"): [TIME.replace(tzinfo=datetime.UTC)],
    pl.Time: [datetime.time(1, 2, 3)],
    pl.Duration: [datetime.timedelta(days=1)],
    pl.Decimal(12, 2): [Decimal("1.25"), Decimal("-3.00")],
    pl.Decimal(38, 0): [Decimal(10) ** 37, Decimal(1)],
    pl.List(pl.Int64): [[1, 2], []],
    pl.Array(pl.Float64, 2): [[1.0, NAN]],
    pl.Struct({"a": pl.Int64}): [{"a": 1}],
    pl.Binary: [b"\x00\xff", b""],
    pl.Null: [None],
    pl.Object: [object()],
}
USUAL = (pl.Float64, pl.Int64, pl.String)
NAMES = [
    "x", "y", "z", "w", "X", "", " ", "net income", "`", '"', "'", "é", "🙂", "__cell", "n",
    "estimate", "select", "a.b", "a|b", "a;b", "a,b", "\n", "C", "Intercept", "column1", "1",
    "None", "{0}", "%s", "x_1", "by0", "h", "r1", "and", "count", "1e5", "-", "~", "x" * 300,
]  # fmt: skip


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    """A few columns of any type, with nulls; of no, one or some records."""
    height = draw(st.sampled_from([0, 1, 2, 4, 8, 8, 12]))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    columns = []
    for name in names:
        kind = draw(st.one_of(st.sampled_from(USUAL), st.sampled_from(list(VALUES))))
        pool = VALUES[kind]
        usable = draw(st.sampled_from([pool, pool[:3], pool[:1], [*pool, None], [None]]))
        picked = [draw(st.sampled_from(usable)) for _ in range(height)]
        columns.append(pl.Series(name, picked, dtype=kind, strict=False))
    weight = draw(st.sampled_from([[1.0, 2.5], [1.0], [0.0, 1.0], [0.0], FLOATS, [1.0, None]]))
    usual = {
        "wt": pl.Series([draw(st.sampled_from(weight)) for _ in range(height)], dtype=pl.Float64),
        "g": pl.Series([i % 3 for i in range(height)], dtype=pl.Int64),
        "c": pl.Series([i // 2 for i in range(height)], dtype=pl.Int64),
        "rep1": pl.Series([2.0 * (i % 2) for i in range(height)], dtype=pl.Float64),
        "rep2": pl.Series([draw(st.sampled_from(weight)) for _ in range(height)], dtype=pl.Float64),
    }
    kept = draw(st.sets(st.sampled_from(list(usual)), min_size=2))
    return pl.DataFrame(columns).with_columns(**{n: usual[n] for n in usual if n in kept})


@st.composite
def designs(draw: st.DrawFn, columns: list[str]) -> Callable[[], us.Design]:
    """Any column may be anything; a sensible one more often."""

    def one_of(*usual: str) -> str | None:
        sensible = [None, *(name for name in usual if name in columns)]
        return draw(st.one_of(st.sampled_from(sensible), st.sampled_from(columns)))

    weight = one_of("wt", "wt")
    if weight is not None and draw(st.booleans()):
        named = tuple(name for name in columns if name.startswith("rep")) or ("rep1",)
        kind = draw(st.sampled_from(["brr", "jk1", "bootstrap", "sdr"]))
        return lambda: us.Design(weight, replicates=us.Replicates(columns=named, kind=kind))
    named_columns = weight, one_of("g"), one_of("c")
    fpc = one_of() if draw(st.integers(0, 4)) == 0 else None
    lonely, nest = draw(st.sampled_from(["fail", "certainty", "adjust", "average"])), one_of()
    return lambda: us.Design(*named_columns, fpc, lonely_psu=lonely, nest=nest is None)


def called(name: str) -> str:
    """A column's name inside a statistic or a condition."""
    return name if name.isidentifier() else f"column({name!r})"


@st.composite
def _tables(draw: st.DrawFn, columns: list[str]) -> Deed:
    x = called(draw(st.sampled_from(columns)))
    z = called(draw(st.sampled_from(columns)))
    forms = [
        "count", f"mean({x})", f"total({x})", f"proportion({x})", f"quantile({x}, 0.5)",
        f"ratio({x} / {z})", f"proportion({x} == 1)", f"median({x})", f"gini({x})",
        f"mean(log({x}))", f"proportion({x} > 1)", f'proportion({x} == "a")',
    ]  # fmt: skip
    statistics = draw(st.lists(st.sampled_from(forms), min_size=1, max_size=3, unique=True))
    by = draw(st.lists(st.sampled_from(columns), max_size=2, unique=True))
    where = draw(st.sampled_from([None, None, f"{x} > 1", f'{x} == "a"', f"{x} is None"]))
    options = {
        name: draw(st.booleans()) and draw(st.booleans())
        for name in ("margins", "n", "labels", "deff")
    }
    return lambda survey, _: us.tabulate(survey, statistics, by, where=where, **options)


@st.composite
def _regressions(draw: st.DrawFn, columns: list[str]) -> Deed:
    y, x, z = (draw(st.sampled_from(columns)) for _ in range(3))
    family = draw(
        st.sampled_from(
            ["gaussian", "gaussian", "binomial", "poisson", "probit", "multinomial", "ordered"]
        )
    )
    named = [name if name.isidentifier() else f"`{name}`" for name in (y, x, z)]
    form = draw(st.sampled_from(["{0} ~ {1}", "{0} ~ {1} + C({2})", "{0} ~ 1", "{0} ~ {1} * {2}"]))
    formula = form.format(*named)
    return lambda survey, _: us.regress(survey, formula, family)


@st.composite
def _others(draw: st.DrawFn, columns: list[str]) -> Deed:
    x, y = draw(st.sampled_from(columns)), draw(st.sampled_from(columns))
    ending = draw(st.sampled_from(["csv", "parquet", "dta", "sav"]))

    def read_back(survey: us.Survey, folder: Path) -> object:
        path = folder / f"survey.{ending}"
        us.write_survey(survey, path)
        again = us.read_survey(path, survey.design)
        return us.tabulate(again, "count", by=x)

    return draw(
        st.sampled_from(
            [
                read_back,
                read_back,
                read_back,
                lambda survey, folder: us.write_codebook(survey.codebook, folder / "c.toml"),
                lambda survey, _: us.identification_risk(survey, known=[x], target=y),
                lambda survey, _: us.risk_profile(survey, survey, known=[x], target=y),
                lambda survey, _: us.topcoding_risk(survey, known=[x], target=y, share=0.1),
                lambda survey, _: us.propensity_score(survey, survey, [x, y]),
                lambda survey, _: us.compare(survey, [survey], f"mean({called(y)})", by=x),
                lambda survey, _: summarise_utility(
                    survey, [survey], [x, y], rng=np.random.default_rng(1), replicates=20
                ),
                lambda survey, _: us.association(survey, x, y),
                lambda survey, _: us.contrast(survey, f"mean({called(y)})", by=[x]),
                lambda survey, _: us.calibrate(survey, {x: {1: 2.0}}),
            ]
        )
    )


@st.composite
def uses(draw: st.DrawFn) -> Use:
    """A file, its design, and what is done with it."""
    frame = draw(frames())
    columns = list(frame.columns)
    design = draw(designs(columns))
    deeds = st.one_of(_tables(columns), _tables(columns), _regressions(columns), _others(columns))
    done = draw(st.lists(deeds, min_size=1, max_size=2))
    data: Any = frame
    library = draw(st.sampled_from(["polars", "polars", "arrow", "pandas"]))
    if library != "polars" and pl.Object not in frame.dtypes:
        try:
            data = frame.to_arrow() if library == "arrow" else frame.to_pandas()
        except Exception:  # that library has no such type
            data = frame
    return data, design, done
