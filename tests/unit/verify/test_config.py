"""A server's configuration: what is not said, where files lie, and what mistakes are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomlkit

from understudy.errors import Refused
from understudy.survey.design import Design
from understudy.survey.engine_setting import Engine
from understudy.verify import config as config_module
from understudy.verify.config import ServerConfig, read_config

SURVEY = {"path": "survey.parquet", "cap": "10"}


def document(dataset: dict[str, Any] | None = None, **server: Any) -> dict[str, Any]:
    return {"ledger": "ledger.db", **server, "datasets": {"sdr": {**SURVEY, **(dataset or {})}}}


def read(content: dict[str, Any], folder: Path) -> ServerConfig:
    (folder / "server.toml").write_text(tomlkit.dumps(content))
    return read_config(folder / "server.toml")


def test_what_is_not_said(tmp_path: Path) -> None:
    """The settings that docs/ and the configuration's own description promise."""
    config = read(document(), tmp_path)
    assert (config.host, config.port, config.https) == ("127.0.0.1", 8080, False)
    assert (config.slot_seconds, config.places) == (1.0, 8)
    assert (config.requests_per_minute, config.session_minutes) == (240, 60.0)
    assert (config.estimators, config.measures, config.head) == ((), (), None)
    assert config.engine == Engine("duckdb")
    dataset = config.datasets["sdr"]
    assert (dataset.combine, dataset.workers, dataset.deadline) == ("partial", 2, 0.2)
    assert (dataset.codebook, dataset.released, dataset.design) == (None, (), Design())


def test_files_lie_beside_the_configuration_and_servers_do_not(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(
        'ledger = "ledger.db"\nhead = "heads"\nmeasures = ["mine.py:Mine"]\n[datasets.sdr]\n'
        'path = "a.parquet"\ncap = "10"\ncodebook = "c.toml"\nreleased = ["1.parquet"]\n'
        'design = { weight = "w", replicates = { prefix = "r" } }\n'
    )
    config = read_config(tmp_path / "server.toml")
    assert config.ledger == str(tmp_path / "ledger.db")
    assert config.head == tmp_path / "heads"
    assert config.measures == (str(tmp_path / "mine.py:Mine"),)
    dataset = config.datasets["sdr"]
    assert dataset.path == tmp_path / "a.parquet"
    assert dataset.codebook == tmp_path / "c.toml"
    assert dataset.released == (tmp_path / "1.parquet",)
    assert dataset.design.weight == "w"
    url = "postgresql://steward@host/ledger"
    assert read(document(ledger=url), tmp_path).ledger == url


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"ledger": "ledger.db"}, "names no data set; add a table [datasets.NAME]"),
        ({"datasets": {"sdr": SURVEY}}, "names no ledger"),
        (document(port=65536), "`port` in the configuration must be from 0 to 65535."),
        (document(slot_seconds=0.001), "`slot_seconds` in the configuration must be from 0.01"),
        (document(port="80"), "`port` in the configuration must be a number."),
        (document(https=1), "`https` in the configuration must be true or false."),
        (document(host=1), "`host` in the configuration must be text in quotes."),
        (document({"workers": 0}), "`datasets.sdr.workers` in the configuration must be from 1"),
        (document({"deadline": 61.0}), "must be from 0.01 to 60."),
        (document({"released": "1.parquet"}), "must be a list of files"),
        (document({"design": "w"}), "`datasets.sdr.design` must be a table"),
        (document({"design": {"replicates": 3}}), "`design.replicates` must be"),
        ({"ledger": "x", "datasets": {"sdr": {"path": "a"}}}, "[datasets.sdr] lacks `cap`."),
        ({"ledger": "x", "datasets": {"sdr": 3}}, "[datasets.sdr] in the configuration must be a"),
        ({"ledger": "x", "datasets": {"": SURVEY}}, "has 1 to 200 characters"),
        (document(engine="spark"), "`engine` must be a table, such as"),
        (document(engine={"kind": "spark", "memory": "1GB"}), 'belongs to kind = "duckdb"'),
        (document(engine={"memory": 4, "threads": 0}), "from 1 to 4,096"),
    ],
)
def test_mistakes_name_their_place(wrong: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"^server.toml:\d+: ") as refusal:
        read(wrong, tmp_path)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (document(prot=80), "setting in the configuration"),
        (document({"weight": "w"}), "setting of [datasets.sdr] in the configuration"),
        (document({"design": {"wieght": "w"}}), "key of `design`"),
        (
            document({"design": {"replicates": {"perfix": "r"}}}),
            "key of `design.replicates`",
        ),
        (document({"combine": "both"}), "`datasets.sdr.combine`"),
        (document(engine={"mastre": "local"}), "key in [engine]"),
        (document(engine={"kind": "sprak"}), "choice of `kind`"),
        # a misspelt name is named beside the setting that it leaves out
        ({"ledgr": "x", "datasets": {"sdr": SURVEY}}, "setting in the configuration"),
        ({"ledger": "x", "datasets": {"sdr": {"path": "a", "cpa": "1"}}}, "setting of ["),
    ],
)
def test_names_that_are_not_known(wrong: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"server.toml:\d+: Unknown ") as refusal:
        read(wrong, tmp_path)
    assert f"Unknown {sentence}" in str(refusal.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    with pytest.raises(Refused, match="There is no configuration"):
        read_config(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match="is not UTF-8 text"):
        read_config(path)
    path.write_text("ledger = ")
    with pytest.raises(Refused, match="is not valid TOML"):
        read_config(path)


@pytest.mark.parametrize("path", [3, True, ["survey.parquet"]])
def test_a_path_is_a_text(path: Any, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"path` in the configuration must be text"):
        read(document({"path": path}), tmp_path)


def test_an_engine_that_is_one_already_stays() -> None:
    engine = Engine("duckdb", threads=2)
    assert config_module._engine(engine) is engine
