"""The demonstration of the verification server: what it serves, and that it really serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.demo.server import confidential, demonstration
from understudy.errors import Refused
from understudy.ledger.accounts import authenticate
from understudy.verify.catalogue import read_query
from understudy.verify.config import read_config
from understudy.verify.service import open_service


def test_every_person_has_one_id_and_the_codebook_is_declared() -> None:
    survey = confidential(500, 1)
    frame = survey.frame()
    assert frame["person"].n_unique() == frame.height
    assert survey.codebook["person"].role == "unit"
    assert survey.codebook["gender"].declared("levels")
    # The id says nothing about the order in which the persons were drawn.
    assert frame["person"].to_list() != sorted(frame["person"].to_list())


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(Refused, match="not empty"):
        demonstration(tmp_path)


@pytest.mark.slow
def test_the_whole_demonstration_answers_a_question(tmp_path: Path) -> None:
    made = demonstration(tmp_path / "demo", n=800, datasets=2)
    service = open_service(read_config(made.config))
    try:
        assert authenticate(service.ledger, made.analyst_key).role == "analyst"
        assert authenticate(service.ledger, made.steward_key).role == "steward"
        query = read_query(
            {
                "dataset": "doctorates",
                "estimator": "mean",
                "variable": "salary",
                "tolerance": {"value": 3.0},
                "epsilon": "1",
            }
        )
        asked = service.check(query)
        quote = service.quote("analyst", asked)
        assert 90_000 < quote.synthetic.estimate < 140_000
        answer = service.verify("analyst", asked)
        assert answer.relation == "add-remove"
        assert service.left("analyst") == "4"
    finally:
        service.close()
