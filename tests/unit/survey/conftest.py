"""Modules beside these tests can be imported by their names; and where files are converted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.survey.labelled import convert, format

sys.path.insert(0, str(Path(__file__).parent))  # pytest runs in importlib mode


@pytest.fixture(scope="module")
def converted_here() -> Iterator[None]:
    """SAS, Stata and SPSS files are converted in this process, where the process that usually does
    it is not the subject; test_read.py has that one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            format,
            "_answered",
            lambda kind, path, target: convert.answered(kind.reference, path, target),
        )
        yield
