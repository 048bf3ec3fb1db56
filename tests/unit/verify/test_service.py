"""Prices, histories and opening, behind the pages and the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from verification_samples import make_query

from understudy.errors import Refused
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.verify import answer as answer_module
from understudy.verify import service as service_module
from understudy.verify.answer import CheckedQuery, answer_query
from understudy.verify.confidential import ConfidentialData
from understudy.verify.config import read_config
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
        scales.append(arguments[-1])
        return np.zeros(10)

    monkeypatch.setattr(answer_module, "partition_estimates", estimates)
    query = make_query(measure="agreement", estimate=estimate, se=se)
    answer_module._noisy_number(CheckedQuery(query, Synthetic(estimate, se)), data)
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
