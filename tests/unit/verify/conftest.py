"""A generated confidential survey, and the two databases that a ledger can live in."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest
from verification_samples import make_frame, make_survey

from understudy.verify.confidential import ConfidentialData


@pytest.fixture(scope="session")
def frame() -> pl.DataFrame:
    return make_frame()


@pytest.fixture(scope="session")
def data(frame: pl.DataFrame) -> Iterator[ConfidentialData]:
    with ConfidentialData("survey", make_survey(frame)) as opened:
        yield opened
