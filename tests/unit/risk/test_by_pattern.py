"""Risk of records that stay on disk, against the functions for files in memory: the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.errors import Refused
from understudy.risk import pieces
from understudy.survey import partition_work

N = 1500


def records(seed: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": np.arange(N),
            "sex": rng.choice(["f", "m", None], N, p=[0.5, 0.4, 0.1]),
            "age": rng.integers(20, 29, N),
            "rate": rng.choice([0.0, -0.0, 0.5], N),
            "income": np.round(np.exp(rng.normal(10, 0.7, N))),
            "rent": np.round(np.exp(rng.normal(6, 0.7, N))),
        }
    )


def synthetic(seed: int) -> pl.DataFrame:
    rng, frame = np.random.default_rng(seed), records()
    noisy = frame["income"] * np.exp(rng.normal(0, 0.2, N))
    return frame.with_columns(income=noisy).sample(fraction=1.0, shuffle=True, seed=seed)


@pytest.fixture(params=["file", "memory"])
def survey(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> us.Survey:
    """Divided into several parts, whose patterns must be whole."""
    monkeypatch.setattr(partition_work, "ROWS_IN_MEMORY", 200)
    if request.param == "memory":
        return us.Survey(records())
    records().write_parquet(tmp_path / "records.parquet")
    return us.read_survey(tmp_path / "records.parquet")


def by_id(table: Any, column: str) -> Any:
    return table.to_polars().sort("id")[column].to_numpy()


@pytest.mark.parametrize("known", [["sex", "age"], ["rate", "sex"], []])
@pytest.mark.parametrize("target", ["income", ["income", "rent"]])
def test_risks_are_those_of_the_file_in_memory(
    survey: us.Survey, known: list[str], target: Any
) -> None:
    asked = {"known": known, "target": target, "radius": 0.3}
    ours = by_id(us.risk_table(survey, **asked, keep=["id"]), "risk")
    np.testing.assert_array_equal(ours, us.identification_risk(records(), **asked))
    assert len(np.unique(ours)) > 100


def test_risks_after_synthesis_are_those_of_the_files_in_memory(survey: us.Survey) -> None:
    files = [synthetic(1), synthetic(2)]
    asked = {"known": ["sex", "age"], "target": "income", "by_id": "id"}
    theirs = us.identification_risk(records(), files, **asked)
    table = us.risk_table(survey, [us.Survey(file) for file in files], **asked)
    ours = by_id(table, "risk")
    assert set(table.columns) == {"sex", "age", "income", "id", "risk"}
    np.testing.assert_array_equal(ours, theirs)
    assert 0.2 < (ours > 0).mean() < 0.95


@pytest.mark.parametrize("q", [1, 2, 3, 9])
def test_weights_are_those_of_the_file_in_memory(survey: us.Survey, q: int) -> None:
    """Nine at a time are counted in fixed point, whose unit depends on the whole file."""
    asked = {"q": q, "c": 0.9, "g": 0.02, "small_patterns": "zero"}
    ours = by_id(
        us.risk_weight_table(survey, ["age", "rate"], "income", 0.2, **asked, keep=["id"]),
        "weight",
    )
    theirs = us.q_way_weights(records(), ["age", "rate"], "income", 0.2, **asked)
    np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(ours)) > 20


def test_a_small_pattern_has_weight_zero_or_is_refused() -> None:
    frame = records().with_columns(age=pl.when(pl.col("id") < 2).then(99).otherwise("age"))
    survey = us.Survey(frame)
    with pytest.raises(Refused, match="1 of 10 patterns have fewer than 3 records"):
        us.risk_weight_table(survey, ["age"], "income")
    weights = us.risk_weight_table(survey, ["age"], "income", small_patterns="zero", keep=["id"])
    ours = by_id(weights, "weight")
    assert (ours[:2] == 0).all()
    theirs = us.pairwise_weights(frame, ["age"], "income", small_patterns="zero")
    np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(Refused, match="merge"):
        us.risk_weight_table(survey, ["age"], "income", small_patterns="merge")


def test_a_part_may_be_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or none: as many parts as records."""
    monkeypatch.setattr(partition_work, "ROWS_IN_MEMORY", 1)
    frame = records().head(20).with_columns(age=pl.Series([30] * 5 + list(range(31, 46))))
    table = us.risk_weight_table(
        us.Survey(frame), ["age"], "income", small_patterns="zero", keep=["id"]
    )
    theirs = us.pairwise_weights(frame, ["age"], "income", small_patterns="zero")
    np.testing.assert_array_equal(by_id(table, "weight"), theirs)
    assert (theirs[5:] == 0).all()


def test_a_synthetic_value_that_is_the_same_for_all_is_measured() -> None:
    """It points at nobody; a confidential one is refused."""
    middle = records()["income"].median()
    same = records().with_columns(income=pl.lit(middle))
    asked: dict[str, Any] = {"known": ["age"], "target": "income", "by_id": "id"}
    ours = by_id(us.risk_table(us.Survey(records()), [us.Survey(same)], **asked), "risk")
    np.testing.assert_array_equal(ours, us.identification_risk(records(), [same], **asked))
    np.testing.assert_array_equal(ours, np.zeros(N))


def test_a_file_too_small_without_known_columns_is_one_pattern() -> None:
    with pytest.raises(Refused, match="1 of 1 patterns have fewer than 3 records"):
        us.risk_weight_table(us.Survey(records().head(2)), [], "income")


def test_what_cannot_be_measured_is_refused() -> None:
    survey, frame = us.Survey(records()), records()
    asked: dict[str, Any] = {"known": ["age"], "target": "income"}
    with pytest.raises(Refused, match="must be 1, 2, 3"):
        us.risk_weight_table(survey, **asked, q=0)
    for wrong, sentence in (
        ({"target": "sex", "known": ["age"]}, "not numeric"),
        ({"target": "incom"}, "incom"),
        ({"target": "age"}, "both known and a target"),
        ({"synthetic": [survey]}, "no order of rows"),
        ({"synthetic": [survey], "by_id": "age"}, "both known|missing or repeated"),
    ):
        with pytest.raises(Refused, match=sentence):
            us.risk_table(survey, **(asked | wrong))
    for changed, sentence in (
        (frame.with_columns(age=pl.col("age") + 1), "Known columns differ"),
        (frame.with_columns(id=pl.col("id") + 1), "have no row"),
        (frame.head(9), "has 9"),
        (frame.with_columns(income=pl.lit(None, pl.Float64)), "missing or infinite"),
    ):
        with pytest.raises(Refused, match=sentence):
            us.risk_table(survey, [us.Survey(changed)], **asked, by_id="id")
    for values, sentence in ((pl.lit(1.0), "same for every record"), (pl.lit(np.inf), "infinite")):
        with pytest.raises(Refused, match=sentence):
            us.risk_table(us.Survey(frame.with_columns(income=values)), **asked)


@pytest.mark.parametrize("known", [["rate", "sex"], []])
@pytest.mark.parametrize("target", ["income", "change", ["income", "rent"]])
@pytest.mark.parametrize("ball", [("relative", 0.05), ("relative", 1.4), ("absolute", 300.0)])
def test_large_patterns_are_cut_into_pieces_with_the_same_numbers(
    known: list[str], target: Any, ball: tuple[str, float], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Narrow balls, balls that reach beyond 0, negative amounts, ties; before and after."""
    monkeypatch.setattr(pieces, "LARGEST", 220)
    monkeypatch.setattr(partition_work, "ROWS_AT_A_TIME", 400)
    rng, frame = np.random.default_rng(2), records()
    change = np.round(rng.normal(0, 500, N), -2)
    income, sex = (frame["income"] / 1000).round() * 1000, frame["sex"].replace("f", None)
    frame = frame.with_columns(change=change, income=income, sex=sex)  # most are without a sex
    noisy = frame.with_columns(
        income=frame["income"] + 1e3 * rng.integers(-2, 3, N),
        rent=frame["rent"] * np.exp(rng.normal(0, 0.05, N)),
        change=frame["change"] + 100.0 * rng.integers(-2, 3, N),
    )
    there = [us.Survey(frame), us.Survey(noisy), us.Survey(frame)]
    asked: dict[str, Any] = {"known": known, "target": target}
    asked["kind"], asked["radius"] = ball
    before = by_id(us.risk_table(there[0], **asked, keep=["id"]), "risk")
    np.testing.assert_array_equal(before, us.identification_risk(frame, **asked))
    after = by_id(us.risk_table(there[0], there[1:], **asked, by_id="id"), "risk")
    expected = us.identification_risk(frame, [noisy, frame], **asked)
    np.testing.assert_array_equal(after, expected)


def test_what_lies_on_the_end_of_a_rim_is_compared_and_not_counted() -> None:
    first = np.zeros(1, dtype=np.int64)
    outer, inner = ([np.array([end]) for end in pair] for pair in ((1.0, 5.0), (2.0, 4.0)))
    ends = pieces.Ends(first, first, np.zeros(1), (outer[0], outer[1]), (inner[0], inner[1]))
    points = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert ends.in_rims(0, points).tolist() == [False, True, True, False, True, True, False]
    assert ends.between(0, points) == 1


def test_a_piece_has_its_records_and_a_halo_but_not_what_is_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Balls hold half of the records, and no piece has a quarter of them."""
    monkeypatch.setattr(pieces, "LARGEST", 100)
    seen: list[int] = []

    def piece(work: Any, frame: pl.DataFrame) -> pl.DataFrame:
        seen.append(frame.height)
        return done(work, frame)

    done = pieces.Large.__call__
    monkeypatch.setattr(pieces.Large, "__call__", piece)
    frame = records().with_columns(income=pl.int_range(N) + 1.0)
    us.risk_table(
        us.Survey(frame), known=[], target="income", radius=N / 4, kind="absolute"
    ).count().execute()
    assert len(seen) == 15
    assert max(seen) < N / 4
