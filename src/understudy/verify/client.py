"""A client of the verification server, for notebooks and scripts.

    client = Client("http://127.0.0.1:8080", key)
    question = {"dataset": "sdr", "estimator": "mean", "variable": "salary",
                "tolerance": {"value": 2}, "epsilon": "0.5"}
    client.price(question)["epsilon"], client.plan(question)["rows"]
    client.verify(question)["sentence"]

Replies are the API's documents as dictionaries. A refusal of the server is raised as Refused
with the server's sentence.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from understudy.errors import Refused
from understudy.verify.query import Query

__public__ = ("Client",)

AskedQuestion = Query | Mapping[str, Any]

LONGEST_WAIT = 600.0  # seconds; a fitted estimator's slot can take minutes


class Client:
    """Calls a server with one user's key."""

    def __init__(self, url: str, key: str, timeout: float = LONGEST_WAIT) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
            raise Refused("The server's address begins with http:// or https://.")
        if not key.isascii() or not key.isprintable():
            raise Refused("This key is not known; check it, or ask the steward for a new one.")
        self._url = url.rstrip("/")
        self._key = key
        self._timeout = timeout
        # No redirects: the key is for this server only.
        self._opener = urllib.request.build_opener(_NoRedirect)

    def me(self) -> dict[str, Any]:
        """Your name, role, and what is left of your budget."""
        return dict(self._call("GET", "me"))

    def datasets(self) -> list[dict[str, Any]]:
        """The data sets with what their codebooks declare."""
        return list(self._call("GET", "datasets"))

    def price(self, question: AskedQuestion) -> dict[str, Any]:
        """The price and what is left; free."""
        return dict(self._call("POST", "price", question))

    def plan(self, question: AskedQuestion) -> dict[str, Any]:
        """What an answer could say; free."""
        return dict(self._call("POST", "plan", question))

    def verify(self, question: AskedQuestion) -> dict[str, Any]:
        """Spend the question's epsilon; its answer. The same question again is free."""
        return dict(self._call("POST", "verify", question))

    def history(self, before: int | None = None) -> list[dict[str, Any]]:
        """Your own answers, newest first, a page at a time; `before` is the number of a receipt."""
        page = "" if before is None else f"?before={int(before)}"
        return list(self._call("GET", f"history{page}"))

    def answer(self, number: int) -> dict[str, Any]:
        """One of your own answers by its receipt's number."""
        return dict(self._call("GET", f"answers/{int(number)}"))

    def draws(self, number: int, count: int = 1000) -> list[float]:
        """Draws of the posterior of one of your answers by agreement; free."""
        return list(self._call("GET", f"answers/{int(number)}/draws?count={int(count)}"))

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    def _call(self, method: str, path: str, question: AskedQuestion | None = None) -> Any:
        body = None
        if question is not None:
            asked = question.model_dump(mode="json") if isinstance(question, Query) else question
            body = _encoded(asked)
        request = urllib.request.Request(
            f"{self._url}/api/v1/{path}",
            data=body,
            method=method,
            headers={
                "Authorization": f"Bearer {self._key}",
                "Content-Type": "application/json",
                "Accept": "application/json",
            },
        )
        try:
            with self._opener.open(request, timeout=self._timeout) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise Refused(_sentence(error)) from None
        except (urllib.error.URLError, OSError, ValueError):
            raise Refused(
                f"No verification server answers at {self._url}; check the address and that it "
                "is running. If a question was on its way, see your history before asking again."
            ) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _encoded(question: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(dict(question), allow_nan=False).encode()
    except (TypeError, ValueError):
        raise Refused("A question holds only text, finite numbers, lists and mappings.") from None


def _sentence(error: urllib.error.HTTPError) -> str:
    try:
        sentence = json.load(error)["error"]
    except (ValueError, KeyError, TypeError, OSError):
        return f"The server replied with status {error.code}; is it a verification server?"
    return str(sentence)
