"""Whether the caller of a question that takes long is still there (threat 21).

A question that is fitted in every partition is stopped when its caller hangs up, so that the next
one has the place at once; it stays paid. Whether it has an answer must not tell how long it took
(threat 7): it has one if the caller stayed until the reply was nearly due, whenever the computation
ended.
"""

from __future__ import annotations

import threading

from understudy.errors import Refused


class CallerLeft(Refused):
    """Nobody waits for the answer."""

    def __init__(self) -> None:
        super().__init__("The caller left before the answer was due, and its epsilon is spent.")


class Caller:
    """Waits for the word of whoever listens to the connection: gone, or stayed long enough."""

    def __init__(self) -> None:
        self._decided = threading.Event()
        self.gone = False

    def hang_up(self) -> None:
        self.gone = not self.decided
        self._decided.set()

    def has_stayed(self) -> None:
        self._decided.set()

    @property
    def decided(self) -> bool:
        return self._decided.is_set()

    def wait(self) -> None:
        """Until it is decided; CallerLeft where nobody waits any more."""
        self._decided.wait()
        if self.gone:
            raise CallerLeft
