"""Refusals and warnings that say something about confidential values carry the mark: they stay
inside."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from understudy.drawing import INTERNAL
from understudy.errors import Refused, UnknownName


@contextmanager
def marked() -> Iterator[None]:
    """What is refused or warned of within looked at the records; but for a name that is not
    there."""
    show = warnings.showwarning

    def show_marked(
        message: Warning | str, category: type[Warning], *where: Any, **more: Any
    ) -> None:
        ours = issubclass(category, UserWarning)  # others are of libraries, about their own affairs
        show(category(with_mark(str(message))) if ours else message, category, *where, **more)

    warnings.showwarning = show_marked
    try:
        yield
    except UnknownName:
        raise
    except Refused as refusal:
        refusal.args = (with_mark(str(refusal)),)  # still of its kind: one of them is paid for anew
        raise
    finally:
        warnings.showwarning = show


def with_mark(sentence: str) -> str:
    """The sentence with the mark, once."""
    return sentence if INTERNAL in sentence else f"{sentence} ({INTERNAL})"
