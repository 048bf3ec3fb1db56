"""What an operator sees: whether the server is well, and no data."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response

from understudy.web.access import operator_session
from understudy.web.pages import render
from understudy.web.sessions import Session

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/operations")
def operations(
    request: Request, _session: Annotated[Session, Depends(operator_session)]
) -> Response:
    return render(request, "operations.html", ok=request.app.state.health.ok())
