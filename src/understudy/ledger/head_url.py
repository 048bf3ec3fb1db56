"""Heads at an HTTP address that somebody else keeps.

POST hands it a line, `number hash signature`, as text; any 2xx says that it is kept, and 409 that
another hash has this number. GET gives the line with the largest number, and 404 none.
"""

from __future__ import annotations

from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from understudy.errors import Refused
from understudy.ledger.chain import Head
from understudy.ledger.head_place import is_ahead, parse_head, unwritable

SECONDS = 10
LONGEST = 1000  # of a reply that is read
_OPENER = build_opener(ProxyHandler({}))


class HeadUrl:
    def __init__(self, url: str) -> None:
        self._url = url
        self.name = urlsplit(url).hostname or "http"

    def read(self) -> Head | None:
        try:
            head = parse_head(self._call("GET").strip())
        except HTTPError as error:
            if error.code == 404:
                return None
            raise self._unreadable() from None
        except (OSError, HTTPException):
            raise self._unreadable() from None
        if head is None:
            raise self._unreadable()
        return head

    def close(self) -> None:
        """Nothing is held open."""

    def advance(self, head: Head) -> None:
        try:
            self._call("POST", head.line)
        except HTTPError as error:
            if error.code == 409:
                is_ahead(self.name, self.read(), head)
                return
            raise unwritable(self.name, f"HTTP {error.code}") from None
        except (OSError, HTTPException) as error:
            raise unwritable(self.name, type(error).__name__) from None

    def _call(self, method: str, line: str | None = None) -> str:
        body = None if line is None else f"{line}\n".encode()
        request = Request(self._url, body, {"Content-Type": "text/plain"}, method=method)
        try:
            with _OPENER.open(request, timeout=SECONDS) as reply:
                return str(reply.read(LONGEST).decode("ascii", "replace"))
        except HTTPError as error:
            error.close()
            raise

    def _unreadable(self) -> Refused:
        return Refused(f"The heads at `{self.name}` cannot be read; see that it answers.")
