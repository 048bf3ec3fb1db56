"""How far the records of a release are, while a large one is made."""

from __future__ import annotations

import time

from understudy.mechanisms.outputs.output import Made
from understudy.release.stages import Say

LARGE = 2_000_000  # records of all files together, of which it is worth speaking
STEPS = 10


def records_made(say: Say) -> Made:
    """Says for every tenth of the records how many there are, and how long the others will take."""
    start, said = time.monotonic(), [0]

    def made(records: int, of: int) -> None:
        step = STEPS * records // of
        if of >= LARGE and said[0] < step < STEPS:
            said[0] = step
            say(progress(records, of, time.monotonic() - start))

    return made


def progress(records: int, of: int, seconds: float) -> str:
    """In words, at the pace so far."""
    left = seconds * (of - records) / records
    words = f"{left / 60:.0f} minutes" if left >= 90 else f"{max(left, 1):.0f} seconds"
    return f"  {records:,} of {of:,} records are made; about {words} for the others."
