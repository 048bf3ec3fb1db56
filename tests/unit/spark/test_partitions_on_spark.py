"""The same Ibis code on Spark: the same partitions, the same estimates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import numpy as np
import polars as pl
import pytest
from verification_samples import BOOK, make_frame, make_query, partition_numbers

from understudy.cluster import on_cluster
from understudy.errors import Refused
from understudy.ledger.fingerprint import fingerprint
from understudy.survey.codebook_text import write_codebook
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.verify.confidential import ConfidentialData
from understudy.verify.config import read_config
from understudy.verify.partitions import PARTITION, UNIT_NUMBER, new_key, with_partition
from understudy.verify.service import open_service

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


@pytest.mark.any_noise
def test_partitions_and_estimates_agree_with_duckdb(on_spark: Any) -> None:
    frame = make_frame(300)
    table = on_spark("people", frame)
    key = new_key()
    with (
        ConfidentialData("survey", Survey(table, Design("w"), BOOK), kept="source") as there,
        ConfidentialData("survey", Survey(frame, Design("w"), BOOK)) as here,
    ):
        placed = [
            pl.from_arrow(
                d.run(with_partition(d.records, key, 10).select(UNIT_NUMBER, PARTITION, "income"))
            ).sort("income")
            for d in (here, there)
        ]
        assert placed[0][PARTITION].to_list() == placed[1][PARTITION].to_list()
        assert placed[0][UNIT_NUMBER].to_list() == placed[1][UNIT_NUMBER].to_list()
        for changes in (
            {"domain": {"region": ["North"]}},
            {"estimator": "difference", "domain": {"sex": [2]}, "versus": {"sex": [1]}},
            {
                "estimator": "linear",
                "predictors": ["hours", "region"],
                "coefficient": "hours",
                "estimate": 2.0,
                "se": 0.1,
            },
        ):
            query = make_query(**changes)
            numbers = [partition_numbers(d, query, key) for d in (here, there)]
            assert np.array_equal(numbers[0], numbers[1])
    assert fingerprint(table) == fingerprint(ibis.memtable(frame))


@pytest.mark.any_noise
@pytest.mark.usefixtures("spark_session")
def test_a_server_with_the_engine_spark_asks_there(tmp_path: Path) -> None:
    frame = make_frame(300)
    (tmp_path / "people" / "half=1").mkdir(parents=True)
    (tmp_path / "people" / "half=2").mkdir()
    frame[:150].write_parquet(tmp_path / "people" / "half=1" / "0.parquet")
    frame[150:].write_parquet(tmp_path / "people" / "half=2" / "0.parquet")
    write_codebook(BOOK, tmp_path / "codebook.toml")
    (tmp_path / "server.toml").write_text(
        'ledger = "ledger.db"\n[engine]\nkind = "spark"\n[datasets.survey]\npath = "people"\n'
        'cap = "10"\ncodebook = "codebook.toml"\ndesign = { weight = "w" }\n'
    )
    service = open_service(read_config(tmp_path / "server.toml"))
    key, query = new_key(), make_query(domain={"region": ["North"]})
    with service.dataset("survey").data as there:
        assert on_cluster(there.records)
        with ConfidentialData("survey", Survey(frame, Design("w"), BOOK)) as here:
            numbers = [partition_numbers(data, query, key) for data in (here, there)]
        assert np.array_equal(numbers[0], numbers[1])
        assert service.check(query).query == query
        fitted = make_query(
            estimator="linear", predictors=["hours"], coefficient="hours", estimate=2.0, se=0.1
        )
        with pytest.raises(Refused, match="linear is fitted to the records of every partition"):
            service.check(fitted)
        with pytest.raises(Refused, match='ask with partitioning = "hash"'):
            service.check(make_query(partitioning="equal-size"))
    service.ledger.close()
