"""Whatever the file, the answer is a result or a refusal, and never another exception."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hostile_frames import Use, uses
from hypothesis import HealthCheck, given, seed, settings

import understudy as us
from understudy.errors import Refused, SyntaxRefused

QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def result_or_refusal(use: Use, folder: Path) -> None:
    data, design, done = use
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for deed in done:
            try:
                deed(us.Survey(data, design()), folder)
            except Refused as refused:
                said = str(refused)
                assert said
                assert said.endswith((".", "?")) or isinstance(refused, SyntaxRefused), said


@settings(max_examples=20, suppress_health_check=QUIET)
@given(use=uses())
def test_few_files(use: Use, tmp_path: Path) -> None:
    result_or_refusal(use, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_files(part: int, tmp_path: Path) -> None:
    @seed(part)
    @settings(max_examples=1000, suppress_health_check=QUIET)
    @given(use=uses())
    def of_this_part(use: Use) -> None:
        result_or_refusal(use, tmp_path)

    of_this_part()
