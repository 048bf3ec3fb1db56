"""Every refusal: one sentence that names the problem and the way out.

The command line prints `str(refusal)` and exits 2. Messages are built from public facts
(column names, declared levels, what the caller typed), never from a record's values.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__public__ = ("Refused",)

COMPARED = 200  # known names, and letters of the unknown one: a hint takes bounded time (threat 22)


class Refused(ValueError):
    """The request cannot be carried out; the message says why and what to do instead."""


class UnknownName(Refused):
    """A name that is not among the known ones; the nearest known name is offered."""

    def __init__(self, kind: str, name: str, known: Iterable[str], way_out: str = "") -> None:
        choices = [str(choice) for choice in known]
        near = _nearest(str(name), choices)
        if near:
            hint = f"did you mean `{near[0]}`?"
        elif way_out:
            hint = way_out
        elif choices:
            shown = ", ".join(f"`{choice}`" for choice in choices[:12])
            hint = f"the known ones are {shown}{' and more' if len(choices) > 12 else ''}."
        else:
            hint = "there are none to choose from."
        super().__init__(f"Unknown {kind} `{name}`; {hint}")


def _nearest(name: str, choices: list[str]) -> list[str]:
    """What was probably meant; of many names, one that begins alike."""
    if len(choices) > COMPARED:
        choices = [choice for choice in choices if choice[:1] == name[:1]][:COMPARED]
    return get_close_matches(name[:COMPARED], choices, n=1, cutoff=0.5)


class SyntaxRefused(Refused):
    """A mistake inside a text that the user typed, with a caret under the place."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        super().__init__(f"{problem}\n  {text}\n  {' ' * position}^")
        self.position = position
