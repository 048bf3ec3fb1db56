"""Weights adjusted inside each partition: by hand, and no unit in two partitions (V 3.2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from verification_samples import BOOK, make_frame, make_query, make_survey

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column
from understudy.verify.answer import check_question
from understudy.verify.confidential import ConfidentialData
from understudy.verify.config import read_config
from understudy.verify.mistakes import InvalidQuery
from understudy.verify.nonresponse import Nonresponse
from understudy.verify.partition_pass import partition_estimates
from understudy.verify.partitions import PARTITION, PartitionKey, new_key, with_partition

PARTS = 4
ADJUSTED = Nonresponse("status == 1", ("region", "sex"))
STATUS = Column("status", "public", "categorical", levels=(0, 1))
ASKED_BOOK = Codebook({**BOOK.columns, "status": STATUS})


def asked(records: int = 300) -> pl.DataFrame:
    """Who was asked; one in three did not answer, and has no income."""
    frame = make_frame(records, seed=5)
    status = np.where(np.arange(records) % 3 == 0, 0, 1)
    income = pl.when(pl.Series(status) == 1).then(pl.col("income"))
    return frame.with_columns(income.alias("income"), pl.Series("status", status))


def estimates(
    frame: pl.DataFrame, key: PartitionKey, how: Nonresponse | None, name: str
) -> np.ndarray:
    query = make_query(estimator=name, partitions=PARTS)
    with ConfidentialData("survey", make_survey(frame, ASKED_BOOK), nonresponse=how) as data:
        table = with_partition(data.records, key, PARTS)
        return partition_estimates(data, query, table, np.full(PARTS, 4.0), 100.0)


def parts_of(frame: pl.DataFrame, key: PartitionKey) -> pl.DataFrame:
    with ConfidentialData("survey", make_survey(frame, ASKED_BOOK)) as data:
        table = with_partition(data.records, key, PARTS)
        names = ("income", "w", "region", "sex", "status")
        return pl.DataFrame(table.select(PARTITION, *names).to_polars())


@pytest.mark.any_noise
@pytest.mark.parametrize("name", ["mean", "total"])
def test_the_adjustment_is_that_of_the_text_book(name: str) -> None:
    key, frame = new_key(), asked()
    rows = parts_of(frame, key)
    cell = [PARTITION, "region", "sex"]
    answered = pl.col("status") == 1
    share = pl.col("w").sum().over(cell) / pl.col("w").filter(answered).sum().over(cell)
    rows = rows.with_columns(adjusted=pl.col("w") * share).filter(answered)
    ours = estimates(frame, key, ADJUSTED, name)
    for part in range(PARTS):
        own = rows.filter(pl.col(PARTITION) == part)
        total = (own["adjusted"] * own["income"]).sum()
        expected = total / own["adjusted"].sum() if name == "mean" else 4.0 * total
        assert ours[part] == pytest.approx(expected, rel=1e-9)
    assert not np.allclose(ours, estimates(frame, key, None, name), rtol=1e-4)


@pytest.mark.any_noise
def test_a_unit_that_does_not_answer_moves_its_own_partition_alone() -> None:
    key, frame = new_key(), asked()
    before = estimates(frame, key, ADJUSTED, "mean")
    silent = frame.with_row_index().with_columns(
        status=pl.when(pl.col("index") == 7).then(0).otherwise(pl.col("status")),
        income=pl.when(pl.col("index") == 7).then(None).otherwise(pl.col("income")),
        w=pl.when(pl.col("index") == 7).then(50.0).otherwise(pl.col("w")),
    )
    after = estimates(silent.drop("index"), key, ADJUSTED, "mean")
    assert np.sum(before != after) == 1

    # as an agency would do it, over the whole file, every partition moves
    def over_the_file(rows: pl.DataFrame) -> np.ndarray:
        answered = pl.col("status") == 1
        share = pl.col("w").sum() / pl.col("w").filter(answered).sum()
        whole = rows.with_columns(w=pl.col("w") * share.over("region", "sex")).filter(answered)
        return estimates(whole, key, None, "total")

    assert np.sum(over_the_file(frame) != over_the_file(silent.drop("index"))) == PARTS


def test_classes_need_declared_levels_and_answers_by_influence_are_refused() -> None:
    survey = make_survey(asked(), ASKED_BOOK)
    with pytest.raises(Refused, match="`hours` cannot be a class of nonresponse"):
        ConfidentialData("survey", survey, nonresponse=Nonresponse("status == 1", ("hours",)))
    by_influence = make_query(measure="influence", estimate=None, se=None)
    with (
        ConfidentialData("survey", survey, nonresponse=ADJUSTED) as data,
        pytest.raises(InvalidQuery, match="ask by `discrepancy`"),
    ):
        check_question(by_influence, data)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{ responded = 1 }", "must be a table, such as"),
        ("{ class = 1 }", "must be a table, such as"),
        ("3", "must be a table, such as"),
    ],
)
def test_mistakes_of_the_configuration_are_told(tmp_path: Path, text: str, sentence: str) -> None:
    dataset = f'[datasets.s]\npath = "x.csv"\ncap = "1"\nnonresponse = {text}\n'
    (tmp_path / "server.toml").write_text(f'ledger = "l.db"\n{dataset}')
    with pytest.raises(Refused, match=sentence):
        read_config(tmp_path / "server.toml")


def test_the_configuration_says_how(tmp_path: Path) -> None:
    setting = 'nonresponse = { responded = "status == 1", classes = ["region", "sex"] }'
    dataset = f'[datasets.s]\npath = "x.csv"\ncap = "1"\n{setting}\n'
    (tmp_path / "server.toml").write_text(f'ledger = "l.db"\n{dataset}')
    assert read_config(tmp_path / "server.toml").datasets["s"].nonresponse == ADJUSTED
