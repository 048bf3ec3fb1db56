"""The same Ibis code on Spark: the same partitions, the same estimates."""

from __future__ import annotations

from typing import Any

import ibis
import numpy as np
import polars as pl
import pytest
from verification_samples import BOOK, make_frame, make_query, partition_numbers

from understudy.ledger.fingerprint import fingerprint
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.verify.confidential import ConfidentialData
from understudy.verify.partitions import PARTITION, UNIT_NUMBER, new_key, with_partition

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
