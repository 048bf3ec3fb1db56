"""One shape for everything that goes wrong: {"error": "one sentence"}, or a page that says it.

Sentences come from our own refusals, which hold public facts only. An exception that is not a
refusal says nothing of itself, to the caller or to the log (threats 8, 17).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from understudy.errors import Refused
from understudy.ledger.accounts import WrongKey
from understudy.ledger.amounts import OverBudget
from understudy.ledger.chain import BrokenLedger
from understudy.ledger.database import CannotWrite
from understudy.ledger.ledger import ShutOut, StillAnswering
from understudy.verify.answer import AnswerFailed
from understudy.verify.caller import CallerLeft
from understudy.verify.service import NotFound
from understudy.verify.turns import TooManyWaiting
from understudy.web.limits import TooMany
from understudy.web.slots import HungUp

API = "/api/"

_STATUS: tuple[tuple[type[Refused], int], ...] = (
    (WrongKey, 401),
    (OverBudget, 402),
    (NotFound, 404),
    (ShutOut, 403),
    (HungUp, 408),
    (CallerLeft, 408),
    (StillAnswering, 409),
    (TooMany, 429),
    (TooManyWaiting, 429),
    (AnswerFailed, 503),
    (BrokenLedger, 503),
    (CannotWrite, 503),
)
_SENTENCES = {
    400: "The request cannot be read; send JSON as the documentation says.",
    401: "Send your key as `Authorization: Bearer KEY`.",
    403: "Your role does not allow this.",
    404: "There is nothing here; check the address.",
    405: "This address does not take that method.",
    413: "The request is too large.",
    415: "Send the request as application/json.",
    422: "The request is not of the form that the documentation describes.",
    500: "Something went wrong on the server; tell the steward when it happened.",
}


def status_of(refusal: Refused) -> int:
    return next((status for kind, status in _STATUS if isinstance(refusal, kind)), 422)


def failure(request: Request, status: int, sentence: str, headers: Mapping[str, str]) -> Response:
    """The error as JSON under /api/, as a page elsewhere."""
    if request.url.path.startswith(API):
        return JSONResponse({"error": sentence}, status, headers=dict(headers))
    pages = request.app.state.templates
    context = {"sentence": sentence, "status": status, "session": session_of(request)}
    page: Response = pages.TemplateResponse(
        request, "failure.html", context, status_code=status, headers=dict(headers)
    )
    return page


def session_of(request: Request) -> Any:
    return getattr(request.state, "session", None)


def on_refusal(request: Request, refusal: Exception) -> Response:
    headers = {}
    status = status_of(refusal) if isinstance(refusal, Refused) else 500
    if isinstance(refusal, TooMany):
        headers["Retry-After"] = str(refusal.seconds)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return failure(request, status, str(refusal), headers)


def on_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return failure(request, 500, _SENTENCES[500], {})
    sentence = _SENTENCES.get(error.status_code, "The request was refused.")
    return failure(request, error.status_code, sentence, error.headers or {})


def on_invalid(request: Request, error: Exception) -> Response:
    """A body or a parameter of the wrong form."""
    if not isinstance(error, RequestValidationError):
        return failure(request, 500, _SENTENCES[500], {})
    mistakes = error.errors()
    sentence = _SENTENCES[422]
    if mistakes and mistakes[0]["type"] == "json_invalid":
        sentence = _SENTENCES[400]
    elif mistakes:
        location = ".".join(str(part) for part in mistakes[0]["loc"][1:]) or "the body"
        message = mistakes[0]["msg"].rstrip(".")
        sentence = f"`{location}`: {message[0].lower()}{message[1:]}."
    return failure(request, 422, sentence, {})
