"""What the client sends and gives back, without a server."""

from __future__ import annotations

import io
import json
import urllib.request
from typing import Any

import pytest
from verification_samples import make_query

from understudy.verify.client import LONGEST_WAIT, Client


@pytest.mark.parametrize(
    ("call", "method", "path", "reply"),
    [
        (lambda client: client.me(), "GET", "me", {"name": "ann"}),
        (lambda client: client.datasets(), "GET", "datasets", [{"name": "survey"}]),
        (lambda client: client.price(make_query()), "POST", "price", {"epsilon": "1"}),
        (lambda client: client.plan(make_query()), "POST", "plan", {"rows": []}),
        (lambda client: client.verify(make_query()), "POST", "verify", {"sentence": "It is."}),
        (lambda client: client.history(), "GET", "history", [{"receipt": 3}]),
        (lambda client: client.answer(3), "GET", "answers/3", {"receipt": 3}),
    ],
)
def test_a_call_is_one_request_and_its_reply(
    call: Any, method: str, path: str, reply: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[urllib.request.Request, float]] = []

    class Opener:
        def open(self, request: urllib.request.Request, timeout: float) -> io.BytesIO:
            sent.append((request, timeout))
            return io.BytesIO(json.dumps(reply).encode())

    monkeypatch.setattr(urllib.request, "build_opener", lambda *_: Opener())
    assert call(Client("http://server:8080/", "key")) == reply
    [(request, timeout)] = sent
    assert (request.method, request.full_url) == (method, f"http://server:8080/api/v1/{path}")
    assert (request.get_header("Authorization"), timeout) == ("Bearer key", LONGEST_WAIT)
    asked = None if method == "GET" else make_query().model_dump(mode="json")
    assert (request.data and json.loads(request.data)) == asked  # type: ignore[arg-type]
