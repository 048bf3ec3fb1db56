"""Opening a confidential file: what is wrong with it is said to the steward, here and now."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from verification_samples import BOOK, make_frame, make_survey

from understudy.errors import Refused
from understudy.survey.codebook import Column
from understudy.verify.confidential import ConfidentialData


def test_the_relation_follows_from_the_unit(frame: pl.DataFrame, data: ConfidentialData) -> None:
    assert data.relation == "add-remove"
    with ConfidentialData("rows", make_survey(frame.drop("person"))) as rows:
        assert rows.relation == "replace"
        assert rows.units == len(frame)
        assert rows.unit is None


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
        ConfidentialData("one", make_survey(frame)) as one,
        ConfidentialData("two", make_survey(shuffled, replace(BOOK, title="other"))) as two,
    ):
        assert one.fingerprint == two.fingerprint
        assert len(one.fingerprint) == 64
