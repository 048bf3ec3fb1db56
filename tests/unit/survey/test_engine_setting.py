"""The engine's settings: limits reach DuckDB, and Spark that is not there is one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import ibis
import polars as pl
import pytest

import understudy as us
from understudy.errors import Refused
from understudy.survey import engine
from understudy.survey.engine_setting import Engine
from understudy.survey.survey import Survey
from understudy.verify.confidential import ConfidentialData


def setting(backend: ibis.backends.duckdb.Backend, name: str) -> str:
    return str(backend.raw_sql(f"SELECT current_setting('{name}')").fetchone()[0])


@pytest.fixture
def own_duckdb(monkeypatch: pytest.MonkeyPatch) -> ibis.backends.duckdb.Backend:
    """A DuckDB in the place of the process's own, whose limits are those of all tests."""
    backend = ibis.duckdb.connect()
    monkeypatch.setattr(engine, "connection", lambda: backend)
    return backend


def test_limits_reach_duckdb(own_duckdb: ibis.backends.duckdb.Backend, tmp_path: Path) -> None:
    pl.DataFrame({"a": [1, 2]}).write_csv(tmp_path / "a.csv")
    us.read_survey(tmp_path / "a.csv", engine=us.Engine(memory="512 MiB", threads=3))
    assert setting(own_duckdb, "memory_limit") == "512.0 MiB"
    assert setting(own_duckdb, "threads") == "3"


def test_limits_reach_the_records_that_a_server_keeps() -> None:
    survey = Survey(pl.DataFrame({"a": [1.0, 2.0]}))
    for kept in ("memory", "disk"):
        with ConfidentialData("a", survey, kept=kept, engine=Engine(threads=1, memory="1GiB")) as d:
            assert setting(d.records.get_backend(), "threads") == "1"
            assert setting(d.records.get_backend(), "memory_limit") == "1.0 GiB"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"kind": "sprak"}, "choice of `kind`"),
        ({"kind": "spark", "threads": 2}, 'belongs to kind = "duckdb"'),
        ({"master": "local[2]"}, 'belongs to kind = "spark"'),
        ({"memory": "4"}, "a number with its unit"),
        ({"threads": True}, "from 1 to 4,096"),
        ({"kind": "spark", "master": " "}, "an address in quotes"),
    ],
)
def test_settings_that_say_nothing_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        Engine(**settings)  # type: ignore[arg-type]


def test_spark_that_is_not_installed_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a.parquet")
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Refused, match=r"install the extra: pip install \"understudy\[spark\]\""):
        us.read_survey(tmp_path / "a.parquet", engine=us.Engine("spark"))
