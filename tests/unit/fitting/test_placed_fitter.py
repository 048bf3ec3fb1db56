"""Fits of records that stay on disk, against the same fits of records in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.chance import chance_of
from understudy.errors import Refused
from understudy.fitting import placed_fitter, placed_records
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.placed_fitter import PlacedFitter, highest
from understudy.fitting.placed_records import PlacedRecords
from understudy.mechanisms import outcome_files
from understudy.mechanisms.contract import plain_terms
from understudy.survey import partition_work

N = 1200
COLUMNS = (
    us.Column("group", role="public", type="categorical", levels=("a", "b", "c")),
    us.Column("age", role="public"),
    us.Column("salary", role="sensitive", bounds=(100.0, 1e7)),
    us.Column("w", role="weight", bounds=(0.1, 1e4)),
)
CODEBOOK = us.Codebook({column.name: column for column in COLUMNS}, population_size=1e5)
DESIGN = us.Design(weight="w")


def records(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    group, age = rng.integers(0, 3, N), rng.integers(20, 32, N)
    return pl.DataFrame(
        {
            "group": np.array(list("abc"))[group],
            "age": age,
            "salary": np.exp(9 + 0.4 * group + 0.02 * age + 0.5 * rng.standard_normal(N)),
            "w": np.exp(rng.normal(4, 0.4, N)),
        }
    )


@pytest.fixture
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> us.Survey:
    """Several parts for every pass."""
    monkeypatch.setattr(partition_work, "ROWS_AT_A_TIME", 500)
    records(1).write_parquet(tmp_path / "records.parquet")
    return us.read_survey(tmp_path / "records.parquet", design=DESIGN, codebook=CODEBOOK)


def in_memory(seed: int = 1) -> us.Survey:
    return us.Survey(records(seed), DESIGN, CODEBOOK)


MODELS = {"FBS": us.FBS("salary", "group + age"), "FBP": us.FBP("salary", "group + age")}


@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        pytest.param("FBP", us.Unweighted(), marks=pytest.mark.slow, id="plain"),
        pytest.param("FBS", us.Weighted(epsilon=40.0), id="linear weights"),
        pytest.param(
            "FBS",
            us.Weighted(bound=4.0, map="inverse"),
            marks=pytest.mark.slow,
            id="inverse weights",
        ),
        pytest.param("FBS", us.ReferenceCensored(6.0, in_memory(2), scale=0.2), id="clipped"),
        pytest.param(
            "FBP",
            us.ReferenceCensored(6.0, in_memory(2), scale=0.2),
            marks=pytest.mark.slow,
            id="clipped FBP",
        ),
    ],
)
def test_draws_and_claims_are_those_of_records_in_memory(
    on_disk: us.Survey, model: str, mechanism: Any
) -> None:
    """By the same seed, draw for draw: the moments differ in their last bits alone."""
    asked: dict[str, Any] = {"datasets": 2, "seed": 7, "draws": 800}
    ours = us.fit_in_place(on_disk, MODELS[model], mechanism, **asked)
    theirs = us.synthesize(in_memory(), MODELS[model], mechanism, **asked)
    assert ours.claim.epsilon == theirs.claim.epsilon
    assert ours.claim.kind == theirs.claim.kind
    assert theirs.diagnostics is not None
    assert ours.diagnostics is not None
    assert ours.diagnostics.thinning == theirs.diagnostics.thinning
    for drawn, expected in zip(ours.draws, theirs.output.draws(), strict=True):
        for name, value in drawn.items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["FBS", "FBP"])
def test_files_in_blocks_have_the_law_of_files_made_at_once(
    on_disk: us.Survey, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Balanced deviates: means and spreads of cells differ by a few hundredths of a spread."""
    monkeypatch.setattr(outcome_files, "BLOCK", 512)
    model = replace(MODELS[name], predictors="group")
    result = us.fit_in_place(on_disk, model, us.Unweighted(), 2, seed=3, draws=800)
    blocks, public = result.datasets, result.ground.public
    assert isinstance(public, ir.Table)
    at_once = replace(result.ground, public=public.to_polars().sort("group", "age"))
    made = result.output.datasets(at_once, result.chance)
    for ours, expected in zip(blocks, made, strict=True):
        assert ours.stored is not None
        frames = [each.frame() for each in (ours, expected)]
        assert frames[0].select("group", "age").equals(frames[1].select("group", "age"))
        assert not frames[0]["salary"].equals(frames[1]["salary"])
        logs = [pl.col(column).log() for column in ("salary", "w")]
        laws = [
            frame.group_by("group")
            .agg(*(log.mean() for log in logs), *(log.std().name.suffix(" sd") for log in logs))
            .sort("group")
            .drop("group")
            for frame in frames
        ]
        np.testing.assert_allclose(laws[0], laws[1], atol=0.03)
        assert frames[0]["w"].sum() == pytest.approx(1e5, rel=1e-12)
    again = us.fit_in_place(on_disk, model, us.Unweighted(), 2, seed=3, draws=800).datasets
    assert again[1].frame().equals(blocks[1].frame())


def test_bounds_of_a_fit_are_the_extremes_of_those_in_memory(on_disk: us.Survey) -> None:
    bound = MODELS["FBS"].for_survey(on_disk)
    placed = PlacedRecords(bound, on_disk)
    survey = in_memory()
    nobody = np.zeros(N, dtype=bool)
    fitter = ModelFitter(bound, survey, bound.prepare(survey), nobody, Settings(), 1)
    centre = np.random.default_rng(1).normal(0, 0.1, fitter.density.dimension)
    at = centre + np.random.default_rng(2).normal(0, 0.05, (70, len(centre)))
    gains = np.stack([fitter.record_loglik(q) - fitter.record_loglik(centre) for q in at])
    weighted = 0.3 * np.abs(gains).max(axis=0)
    limit = float(np.median(weighted))
    bounds = placed.bounds(at, np.array(0.3), centre, limit)
    expected = fitter.bounds_over(at)
    assert bounds.loglik.low == pytest.approx(expected.min(), rel=1e-10)
    assert bounds.loglik.high == pytest.approx(expected.max(), rel=1e-10)
    assert bounds.overall == limit
    assert bounds.censored == (weighted > limit).sum()
    free = placed.bounds(at, np.array(0.3), centre, np.inf)
    assert free.overall == pytest.approx(weighted.max(), rel=1e-10)


def test_more_numbers_than_workers_are_sent_are_refused(
    on_disk: us.Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six of each draw in each of the 36 cells: a constant, two slopes and three products."""
    placed = PlacedRecords(MODELS["FBS"].for_survey(on_disk), on_disk)
    monkeypatch.setattr(placed_records, "MOST_NUMBERS", 2 * 36 * 6)
    positions = np.zeros((3, 2 * 4 + 3))
    assert placed.quadratics(positions[:2]).shape == (2, 36, 6)
    with pytest.raises(Refused, match="36 combinations, too many to be sent"):
        placed.quadratics(positions)


@pytest.mark.parametrize("clip", [None, ((3_000.0, 60_000.0), (20.0, 150.0))])
def test_sums_for_noise_are_the_same_whole_numbers(on_disk: us.Survey, clip: Any) -> None:
    model, survey = MODELS["FBS"].for_survey(on_disk), in_memory()
    placed = PlacedFitter(PlacedRecords(model, on_disk), Settings(), us_chance())
    nobody = np.zeros(N, dtype=bool)
    fitter = ModelFitter(model, survey, model.prepare(survey), nobody, Settings(), 1)
    ours, theirs = placed.cell_sums_within(clip), fitter.cell_sums_within(clip)
    order = [int(np.abs(ours.X - row).sum(axis=1).argmin()) for row in theirs.X]
    np.testing.assert_allclose(ours.X[order], theirs.X, rtol=1e-12)  # public, in another order
    np.testing.assert_array_equal(ours.first[order], theirs.first)
    np.testing.assert_array_equal(ours.second, theirs.second)
    np.testing.assert_array_equal(ours.sizes[order], theirs.sizes)


def us_chance() -> Any:
    from understudy.chance import chance_of

    return chance_of(3)


@pytest.mark.slow
@pytest.mark.any_noise
def test_noisy_moments_are_released_in_place(on_disk: us.Survey) -> None:
    result = us.fit_in_place(
        on_disk, us.FBS("salary", "group"), us.NoisyMoments(5.0), datasets=3, draws=200
    )
    assert result.claim.kind == "formal"
    assert result.claim.epsilon == 5.0
    assert len(result.envelope.draws) == 3
    assert result.diagnostics is None


def test_the_highest_value_of_a_quadratic() -> None:
    """-(u - 1)^2 - (v + 2)^2 - (u - 1)(v + 2)/2 + 3."""
    coefficients = [3 - 1 - 4 + 1, 2 - 1.0, -4 + 0.5, -1.0, -0.5, -1.0]
    assert highest(np.array([coefficients])) == pytest.approx(3.0)


def test_what_records_in_place_cannot_have_is_refused(on_disk: us.Survey) -> None:
    model, highest_salary = MODELS["FBS"], records(1)["salary"].max()
    for wrong, mechanism, sentence in (
        (us.Beta("salary"), us.Unweighted(), "Beta needs every record in memory"),
        (us.Multinomial(["group"]), us.Unweighted(), "a fit in place is for FBS and FBP"),
        (model, us.Censored(3.0), "Censored needs every record"),
        (model, us.ReferenceCensored(3.0, "none"), "ReferenceCensored with these settings needs"),
        (us.FBS("salary", "lag(age)"), us.Unweighted(), "computed from all records"),
        (us.FBS("salary", "bs(age, df=4)"), us.Unweighted(), "computed from all records"),
        (us.FBS("salary", "group + C(group)"), us.Unweighted(), "collinear"),
    ):
        with pytest.raises(Refused, match=sentence):
            us.fit_in_place(on_disk, wrong, mechanism)
    with pytest.raises(Refused, match="of records in memory"):
        _ = us.fit_in_place(on_disk, model, us.Unweighted(), draws=800, seed=1).record_bounds
    for changed, sentence in (
        (records(1).with_columns(salary=pl.lit(0.0)), "zero or negative"),
        (records(1).with_columns(salary=pl.lit(None, pl.Float64)), "missing or infinite"),
        (records(1).with_columns(pl.col("salary").replace(highest_salary, np.inf)), "infinite"),
        (records(1).with_columns(salary=pl.lit(7.0)), "follows from the predictors"),
    ):
        with pytest.raises(Refused, match=sentence):
            us.fit_in_place(us.Survey(changed, DESIGN, CODEBOOK), model, us.Unweighted())


class Paying:
    """An account that says when it was asked."""

    def __init__(self) -> None:
        self.paid = False

    def pay(self, *_: Any, **__: Any) -> str:
        self.paid = True
        return "paid"


def changed(tmp_path: Path, frame: pl.DataFrame) -> us.Survey:
    frame.write_parquet(tmp_path / "changed.parquet")
    return us.read_survey(tmp_path / "changed.parquet", design=DESIGN, codebook=CODEBOOK)


@pytest.mark.parametrize(
    ("change", "datasets", "reference", "words"),
    [
        (lambda f: f.with_columns(pl.lit("4711-refused").alias("salary")), 1, 2, "is not numeric"),
        (lambda f: f.with_columns(pl.lit(0.0).alias("salary")), 1, 2, "zero or negative"),
        (lambda f: f, 1, 1, "shares half of its records"),
        (lambda f: f.head(1100), 1, 1, "shares half of its records"),
        (lambda f: f, 0, 2, "at least 1"),
        (lambda f: f, 5000, 2, "as many distinct draws"),
    ],
)
def test_what_does_not_suit_is_refused_unpaid_and_without_a_value(
    tmp_path: Path,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    datasets: int,
    reference: int,
    words: str,
) -> None:
    survey, account = changed(tmp_path, change(records(1))), Paying()
    mechanism = us.ReferenceCensored(6.0, in_memory(reference), scale=0.2)
    with pytest.raises(Refused, match=words) as refused:
        us.fit_in_place(survey, MODELS["FBS"], mechanism, datasets, 1, account=account)
    assert not account.paid
    assert "4711" not in str(refused.value)
    marked = "(internal: computed from confidential data)" in str(refused.value)
    assert marked == (words != "at least 1")


def test_claims_for_units_are_refused_unpaid(on_disk: us.Survey) -> None:
    """What stays in place is looked at record by record: a household's sum is not there."""
    codebook = CODEBOOK.with_column(us.Column("group", "unit"))
    survey, account = us.Survey(on_disk.table, DESIGN, codebook), Paying()
    mechanism = us.ReferenceCensored(6.0, in_memory(2), scale=0.2)
    with pytest.raises(Refused, match="Claims for units need the records in memory"):
        us.fit_in_place(survey, us.FBS("salary", "age"), mechanism, 1, 1, account=account)
    assert not account.paid


def test_a_large_past_file_is_looked_at_in_part(
    on_disk: us.Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its posterior lies where that of the whole lies: weights of the part stand for the others
    too, else they would be taken for weights of three times as large a file."""
    model, past = MODELS["FBS"].for_survey(on_disk), in_memory(2)
    fitted = []
    for most in (N, N // 3):
        monkeypatch.setattr(placed_fitter, "MOST_OF_ANOTHER", most)
        fitter = PlacedFitter(PlacedRecords(model, on_disk), Settings(), chance_of(1))
        reference = fitter.on(past, "the reference")
        assert reference.n == most
        fitted.append(reference.fit(plain_terms(reference), "reference").positions)
    whole, part = (positions.mean(axis=0) for positions in fitted)
    assert np.abs(whole - part).max() > 0
    assert (np.abs(whole - part) < 4 * fitted[1].std(axis=0)).all()
