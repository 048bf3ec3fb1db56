"""Opening a confidential file: what is wrong with it is said to the steward, here and now."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from verification_samples import BOOK, make_frame, make_query, make_survey

from understudy.errors import Refused
from understudy.survey.codebook import Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.verify import confidential
from understudy.verify.confidential import ConfidentialData


def test_the_relation_follows_from_the_unit(frame: pl.DataFrame, data: ConfidentialData) -> None:
    assert data.relation == "add-remove"
    with ConfidentialData("rows", make_survey(frame.drop("person"))) as rows:
        assert rows.relation == "replace"
        assert rows.units == len(frame)
        assert rows.unit is None
    with ConfidentialData("roles", Survey(frame, Design(weight="w"), BOOK)) as by_role:
        assert by_role.unit == "person"


def test_ids_and_replicates_are_not_kept(data: ConfidentialData) -> None:
    assert "person" not in data.records.columns
    assert repr(data) == "ConfidentialData('survey')"


def test_files_that_cannot_serve_are_refused(frame: pl.DataFrame) -> None:
    two = BOOK.with_column(Column("hours", "unit", "integer"))
    with pytest.raises(Refused, match="two unit columns"):
        ConfidentialData("s", make_survey(frame, two))
    texts = frame.with_columns(income=pl.col("income").cast(pl.String))
    with pytest.raises(Refused, match="does not hold numbers"):
        ConfidentialData("s", make_survey(texts))
    holes = frame.with_columns(
        person=pl.when(pl.col("person") == 1000).then(None).otherwise(pl.col("person"))
    )
    with pytest.raises(Refused, match="missing for some records"):
        ConfidentialData("s", make_survey(holes))
    floats = frame.with_columns(person=pl.col("person") + 0.5)
    with pytest.raises(Refused, match="whole numbers or text"):
        ConfidentialData("s", make_survey(floats))


def test_the_same_records_have_one_fingerprint_under_any_name() -> None:
    frame = make_frame(100)
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=3)
    with (
        ConfidentialData("one", make_survey(frame)) as first,
        ConfidentialData("two", make_survey(shuffled, replace(BOOK, title="other"))) as two,
    ):
        assert first.fingerprint == two.fingerprint
        assert len(first.fingerprint) == 64


def test_numbers_that_are_not_finite_are_missing() -> None:
    values = [float("nan"), float("inf"), float("-inf"), None, 3.0]
    frame = make_frame(5).with_columns(income=pl.Series(values))
    with ConfidentialData("s", make_survey(frame)) as data:
        kept = data.records.to_polars()["income"]
    assert (kept.null_count(), kept.max()) == (4, 3.0)


def test_texts_with_few_levels_get_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidential, "MOST_CODES", 3)
    levels = {"one": ("a",), "three": ("a", "b", "c"), "four": ("a", "b", "c", "d")}
    book = BOOK
    for name, each in levels.items():
        book = book.with_column(Column(name, "public", "categorical", levels=each))
    frame = make_frame(4).with_columns(
        **{
            name: pl.Series([each[k % len(each)] for k in range(4)])
            for name, each in levels.items()
        }
    )
    with ConfidentialData("s", make_survey(frame, book)) as data:
        records = data.records.to_polars()
    assert records["__code_one"].to_list() == [0, 0, 0, 0]
    assert set(records.select("three", "__code_three").rows()) == {("a", 0), ("b", 1), ("c", 2)}
    assert "__code_four" not in records.columns


def test_questions_that_would_bring_records_of_a_cluster_here_are_refused(
    frame: pl.DataFrame, data: ConfidentialData, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ConfidentialData("rows", make_survey(frame.drop("person")))
    hashed = make_query(partitioning="hash")
    rows.refuse_on_cluster(hashed)  # the file is here
    monkeypatch.setattr(Survey, "on_cluster", True)
    data.refuse_on_cluster(hashed)
    with pytest.raises(Refused, match="no order to number them by"):
        rows.refuse_on_cluster(hashed)
    with pytest.raises(Refused, match='ask with partitioning = "hash"'):
        data.refuse_on_cluster(make_query(partitioning="equal-size"))
    rows.close()


def test_records_are_the_same_on_disk(frame: pl.DataFrame, data: ConfidentialData) -> None:
    with ConfidentialData("s", make_survey(frame), kept="disk") as on_disk:
        assert on_disk.records.to_polars().equals(data.records.to_polars())
