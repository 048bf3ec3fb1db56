"""Prices, histories and opening, behind the pages and the API."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from verification_samples import BOOK, make_query, make_survey, partition_numbers

from understudy.errors import Refused, UnknownName
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.survey.codebook_text import write_codebook
from understudy.survey.engine import scratch
from understudy.survey.engine_setting import Engine
from understudy.verify import answer as answer_module
from understudy.verify import service as service_module
from understudy.verify.answer import CheckedQuery, answer_query, public_units
from understudy.verify.confidential import ConfidentialData
from understudy.verify.config import ServerConfig, read_config
from understudy.verify.partitions import new_key
from understudy.verify.released import Synthetic
from understudy.verify.service import Served, Service, open_service


@pytest.fixture
def service(tmp_path: Path, data: ConfidentialData) -> Iterator[Service]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "5")
        ledger.add_dataset(data.fingerprint, "survey", "3")
        yield Service(ledger, {"survey": Served(data)})


@pytest.mark.parametrize(("epsilon", "affordable"), [("3.1", True), ("5", True), ("5.1", False)])
def test_a_price_is_affordable_where_the_user_can_pay_whatever_others_spent(
    service: Service, epsilon: str, affordable: bool
) -> None:
    quote = service.quote("ann", service.check(make_query(epsilon=epsilon)))
    assert quote.affordable is affordable
    assert (quote.left, quote.free) == ("5", False)
    assert (quote.seconds, quote.tolerance) == (1.0, 2.0)


@pytest.mark.any_noise
def test_answers_are_listed_newest_first(service: Service, data: ConfidentialData) -> None:
    asked = [make_query(epsilon=epsilon) for epsilon in ("0.5", "0.25")]
    answered = [answer_query(query, data, service.ledger, "ann") for query in asked]
    assert service.history("ann") == answered[::-1]


@pytest.mark.any_noise
@pytest.mark.parametrize(
    ("estimate", "se", "size"), [(-120.0, 1.0, 120.0), (0.5, 2.0, 2.0), (3.0, None, 3.0)]
)
def test_contributions_are_scaled_by_the_larger_of_estimate_and_error(
    data: ConfidentialData,
    estimate: float,
    se: float | None,
    size: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both are public; a difference near 0 would lose its digits if it were the scale."""
    scales = []

    def estimates(*arguments: object) -> np.ndarray:
        scales.append(arguments[-2])
        return np.zeros(10)

    monkeypatch.setattr(answer_module, "partition_estimates", estimates)
    query = make_query(measure="agreement", estimate=estimate, se=se)
    answer_module.noisy_number(CheckedQuery(query, Synthetic(estimate, se)), data)
    assert scales == [size]


def test_a_server_that_cannot_open_a_file_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(
        'ledger = "l.db"\n[datasets.survey]\npath = "no.parquet"\ncap = "3"\n'
    )
    with pytest.raises(Refused, match=r"no\.parquet"):
        open_service(read_config(tmp_path / "server.toml"))


def test_a_server_that_starts_fails_what_the_last_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: ConfidentialData
) -> None:
    (tmp_path / "server.toml").write_text(
        'ledger = "l.db"\n[datasets.survey]\npath = "no.parquet"\ncap = "3"\n'
    )
    config = read_config(tmp_path / "server.toml")
    monkeypatch.setattr(service_module, "_open", lambda *_: Served(data))
    with Ledger(config.ledger) as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "2")
        ledger.add_dataset(data.file, "survey", "3")
        ledger.reserve("ann", data.fingerprint, make_query())
    with open_service(config).ledger as ledger:
        assert [entry.kind for entry in ledger.entries()][-2:] == ["reserve", "fail"]
        assert ledger.budget("user", "ann").left == 1_000_000


CONFIG = """ledger = "l.db"
[datasets.survey]
path = "survey.parquet"
codebook = "codebook.toml"
design = {{ weight = "w" }}
cap = "3"
population = "people"
{more}
"""


@pytest.fixture
def configured(tmp_path: Path, frame: pl.DataFrame) -> Callable[..., ServerConfig]:
    """A configuration with further lines, on the same files."""
    frame.write_parquet(tmp_path / "survey.parquet")
    write_codebook(BOOK, tmp_path / "codebook.toml")

    def write(more: str = "") -> ServerConfig:
        (tmp_path / "server.toml").write_text(CONFIG.format(more=more))
        return read_config(tmp_path / "server.toml")

    return write


SECOND = """[datasets.men]
path = "survey.parquet"
codebook = "codebook.toml"
design = { weight = "w" }
cap = "3"
population = "people"
where = "sex == 1"
"""


@pytest.mark.any_noise
def test_data_sets_are_added_changed_and_retired_without_a_restart(
    configured: Callable[..., ServerConfig], frame: pl.DataFrame, tmp_path: Path
) -> None:
    service = open_service(configured())
    add_user(service.ledger, "ann")
    service.ledger.grant("ann", "2")
    first = service.datasets["survey"]
    service.reload(configured())
    assert service.datasets == {"survey": first}  # nothing changed, nothing is read again
    service.reload(configured(SECOND))
    assert list(service.datasets) == ["survey", "men"]
    assert service.datasets["survey"] is first
    question = service.check(make_query(dataset="men"))
    with pytest.raises(Refused, match="There is no file"):
        service.reload(configured(SECOND.replace("survey.p", "no.p").replace("men", "third")))
    assert list(service.datasets) == ["survey", "men"]
    men, data = weakref.ref(service.datasets["men"].data), service.datasets["men"].data
    frame.with_columns(pl.col("income") + 1).write_parquet(tmp_path / "survey.parquet")
    with pytest.raises(Refused, match="successor"):  # another file, and the ledger knows the first
        service.reload(configured())
    frame.write_parquet(tmp_path / "survey.parquet")  # written again
    service.reload(configured())
    assert list(service.datasets) == ["survey"]
    assert service.datasets["survey"] is not first
    del data
    assert service.verify("ann", question).query.dataset == "men"  # it was under way
    del question
    assert men() is None  # and when it is over, so are its workers and files
    with pytest.raises(UnknownName):
        service.check(make_query(dataset="men"))
    service.close()


@pytest.mark.any_noise
def test_a_where_means_the_records_of_a_release(
    frame: pl.DataFrame, data: ConfidentialData, configured: Callable[..., ServerConfig]
) -> None:
    """As a file that holds only these records; but the population is the whole file's."""
    men = frame.filter(pl.col("sex") == 1)
    config = replace(configured().datasets["survey"], where="sex == 1")
    key = new_key()
    with (
        service_module._open("survey", config, Engine()).data as kept,
        ConfidentialData("survey", make_survey(men)) as own,
    ):
        for changes in ({}, {"estimator": "total"}):
            numbers = [partition_numbers(d, make_query(**changes), key) for d in (kept, own)]
            assert np.array_equal(*numbers)
        assert kept.fingerprint == data.fingerprint != own.fingerprint
        assert kept.units == data.units > own.units
        assert kept.single_records
    with pytest.raises(Refused, match="No record of `survey` meets `where = sex == 9`"):
        service_module._open("survey", replace(config, where="sex == 9"), Engine())


def test_the_number_of_units_of_a_domain_is_not_public(frame: pl.DataFrame) -> None:
    survey = make_survey(frame.drop("person"))
    for where, units in ((None, len(frame)), ("sex == 1", None)):
        with ConfidentialData("survey", survey, where=where) as data:
            assert public_units(data) == ("replace", None, units)


@pytest.mark.any_noise
def test_records_on_disk_give_the_same_numbers_and_are_gone_with_the_data_set(
    frame: pl.DataFrame, data: ConfidentialData
) -> None:
    key, before = new_key(), set(scratch().iterdir())
    with ConfidentialData("survey", make_survey(frame), kept="disk") as other:
        (file,) = {path for path in scratch().iterdir() if path.suffix == ".parquet"} - before
        for changes in ({}, {"estimator": "total", "domain": {"region": ["North"]}}):
            numbers = [partition_numbers(d, make_query(**changes), key) for d in (data, other)]
            assert np.array_equal(*numbers)
        assert scratch().stat().st_mode & 0o777 == 0o700
    assert not file.exists()
