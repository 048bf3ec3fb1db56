"""Stata and SPSS files say when they were written; ours say a fixed time, so that the same survey
gives the same bytes and a release tells nothing about when it was made."""

from __future__ import annotations

from pathlib import Path

STATA_TIME = b"01 Jan 1980 00:00"
SPSS_DATE, SPSS_TIME = b"01 Jan 80", b"00:00:00"
SPSS_AT = 92  # of the header: 9 characters of date, then 8 of time
_OPENS, _CLOSES = b"<timestamp>", b"</timestamp>"
_HEADER = 4096


def without_time(path: Path) -> None:
    """Overwrite the time in the header of a .dta or .sav file that was just written."""
    with path.open("r+b") as file:
        head = file.read(_HEADER)
        if head.startswith(b"$FL2"):
            file.seek(SPSS_AT)
            file.write(SPSS_DATE + SPSS_TIME)
        elif _OPENS in head:
            at = head.index(_OPENS) + len(_OPENS) + 1  # one byte tells the length
            if head.index(_CLOSES) - at == len(STATA_TIME):
                file.seek(at)
                file.write(STATA_TIME)
