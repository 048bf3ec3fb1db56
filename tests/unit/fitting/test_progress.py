"""A bar when someone watches, nothing at all otherwise."""

from __future__ import annotations

import pytest

from understudy.fitting.progress import fit_progress


def test_quiet_fits_have_no_callback(capsys: pytest.CaptureFixture[str]) -> None:
    with fit_progress("weights", 100, show=False) as tick:
        assert tick is None
    with fit_progress("weights", 100, show=None) as tick:
        assert tick is None  # standard error is not a terminal here
    assert capsys.readouterr() == ("", "")


def test_a_shown_bar_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with fit_progress("weights", 100, show=True) as tick:
        assert tick is not None
        tick(50)
        tick(50)
    out, err = capsys.readouterr()
    assert out == ""
    assert "fitting (weights)" in err
