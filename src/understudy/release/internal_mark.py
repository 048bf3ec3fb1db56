"""Refusals that say something about confidential values carry the mark: they stay inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from understudy.drawing import INTERNAL
from understudy.errors import Refused, UnknownName


@contextmanager
def marked() -> Iterator[None]:
    """What is refused within looked at the records; but for a name that is not there."""
    try:
        yield
    except UnknownName:
        raise
    except Refused as refusal:
        if INTERNAL in str(refusal):
            raise
        raise Refused(f"{refusal} ({INTERNAL})") from None
