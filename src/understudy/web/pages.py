"""The analyst's pages: sign in, ask, see the price, ask for good, answer, history.

Server-rendered forms; nothing runs in the browser. A question is asked in three steps, of
which only the last one costs: what (data set and estimator), details, price and plan.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from understudy.errors import Refused
from understudy.ledger.accounts import WrongKey
from understudy.verify.answer import Answer
from understudy.verify.mistakes import InvalidQuery, Mistake
from understudy.verify.numbers import percent, short
from understudy.verify.posterior import DiscrepancyPosterior
from understudy.verify.query import Query, read_query
from understudy.verify.words import CANNOT, ESTIMATORS, TELLS, TITLES, question_in_words
from understudy.web.access import address, analyst_session, check_form, from_here, page_session
from understudy.web.api import Number, service, slotted_answer
from understudy.web.charts import plan_charts, posterior_chart, right_chance
from understudy.web.forms import ask_form, pairs, question_from_form
from understudy.web.refusals import status_of
from understudy.web.schemas import answer_reply
from understudy.web.sessions import COOKIE, Session

ASK = "/ask"

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
AnalystSession = Annotated[Session, Depends(analyst_session)]
AnySession = Annotated[Session, Depends(page_session)]


def render(request: Request, name: str, status: int = 200, **context: Any) -> Response:
    context = {"session": request.state.session, "short": short, **context}
    page: Response = request.app.state.templates.TemplateResponse(
        request, name, context, status_code=status
    )
    return page


@router.get("/")
def home(session: AnySession) -> Response:
    return RedirectResponse("/steward" if session.user.role == "steward" else ASK, 303)


@router.get("/sign-in")
def sign_in_page(request: Request) -> Response:
    return render(request, "sign_in.html")


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    from_here(request)
    given = await form_of(request)
    sessions = request.app.state.sessions
    try:
        cookie = await run_in_threadpool(sessions.sign_in, (given.get("key") or [""])[0].strip())
    except WrongKey as refusal:
        request.state.wrong_keys.take(address(request))
        return render(request, "sign_in.html", 401, mistake=str(refusal))
    reply = RedirectResponse("/", 303)
    reply.set_cookie(
        COOKIE,
        cookie,
        max_age=sessions.seconds,
        httponly=True,
        samesite="strict",
        secure=request.app.state.https,
    )
    return reply


@router.post("/sign-out")
async def sign_out(request: Request, session: AnySession) -> Response:
    await checked_form(request, session)
    reply = RedirectResponse("/sign-in", 303)
    reply.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.app.state.https)
    return reply


@router.get(ASK)
def choose(request: Request, session: AnalystSession) -> Response:
    return _choose(request, session)


def _choose(request: Request, session: Session, mistake: str = "") -> Response:
    serving = service(request)
    return render(
        request,
        "choose.html",
        422 if mistake else 200,
        mistake=mistake,
        datasets=[(n, s.title, serving.left_for(n)) for n, s in serving.datasets.items()],
        estimators=ESTIMATORS,
        left=serving.left(session.user.name),
    )


@router.get("/ask/details")
def details(
    request: Request, session: AnalystSession, dataset: str = "", estimator: str = ""
) -> Response:
    return _details(request, session, {"dataset": [dataset], "estimator": [estimator]})


@router.post("/ask/details")
async def change(request: Request, session: AnalystSession) -> Response:
    given = await checked_form(request, session)
    return await run_in_threadpool(_details, request, session, given)


@router.post("/ask/price")
async def price(request: Request, session: AnalystSession) -> Response:
    given = await checked_form(request, session)
    return await run_in_threadpool(_price, request, session, given)


@router.post(ASK)
async def ask(request: Request, session: AnalystSession) -> Response:
    given = await checked_form(request, session)
    try:
        query = await run_in_threadpool(_query, request, given)
        reply = await slotted_answer(request, query, session.user.name)
    except InvalidQuery as refusal:
        return await run_in_threadpool(_details, request, session, given, refusal)
    return RedirectResponse(f"/answers/{reply.receipt}", 303)


@router.get("/answers/{number}")
def answer(request: Request, number: Number, session: AnalystSession) -> Response:
    found = service(request).answer(session.user.name, number)
    return render(
        request,
        "answer.html",
        answer=found,
        chart=posterior_chart(found),
        headline=_headline(found),
        question=question_in_words(found.query),
        cannot=CANNOT[found.query.measure],
        tells=TELLS[found.query.measure],
        left=service(request).left(session.user.name),
    )


@router.get("/answers/{number}/receipt.json")
def receipt(request: Request, number: Number, session: AnalystSession) -> Response:
    found = answer_reply(service(request).answer(session.user.name, number))
    name = f"understudy-receipt-{number}.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    text = json.dumps(found.model_dump(mode="json"), indent=2)
    return Response(text, media_type="application/json", headers=headers)


@router.get("/history")
def history(request: Request, session: AnalystSession) -> Response:
    serving = service(request)
    answers = serving.history(session.user.name)
    return render(
        request,
        "history.html",
        rows=[(one, question_in_words(one.query), _headline(one)) for one in answers],
        left=serving.left(session.user.name),
    )


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form by name, in order; files are no part of any form here."""
    given: dict[str, list[str]] = {}
    async with request.form(max_files=0, max_fields=2000) as form:
        for name, value in form.multi_items():
            if isinstance(value, str):
                given.setdefault(name, []).append(value)
    return given


async def checked_form(request: Request, session: Session) -> dict[str, list[str]]:
    """The fields of a form that this session made."""
    given = await form_of(request)
    check_form(request, session, (given.pop("csrf", None) or [""])[0])
    return given


def _query(request: Request, given: dict[str, list[str]]) -> Query:
    book = service(request).dataset((given.get("dataset") or [""])[0]).data.codebook
    return read_query(question_from_form(given, book))


def _details(
    request: Request,
    session: Session,
    given: dict[str, list[str]],
    refusal: Refused | None = None,
) -> Response:
    serving = service(request)
    dataset, estimator = ((given.get(name) or [""])[0] for name in ("dataset", "estimator"))
    if dataset not in serving.datasets:
        return _choose(request, session, "Choose one of the data sets that are served.")
    if estimator not in ESTIMATORS:
        return _choose(request, session, "Choose one of the estimators.")
    served = serving.dataset(dataset)
    mistakes: tuple[Mistake, ...] = ()
    if refusal is not None:
        plain = (Mistake(field="question", message=str(refusal)),)
        mistakes = refusal.mistakes if isinstance(refusal, InvalidQuery) else plain
    return render(
        request,
        "details.html",
        200 if refusal is None else status_of(refusal),
        form=ask_form(dataset, estimator, served.data.codebook, given),
        title=ESTIMATORS[estimator],
        mistakes=mistakes,
        wrong={mistake.field.split(".")[0] for mistake in mistakes},
        measures=[(m, TITLES[m], TELLS[m], CANNOT[m]) for m in TITLES],
        has_release=served.released is not None,
        left=serving.left(session.user.name),
        left_for=serving.left_for(dataset),
    )


def _price(request: Request, session: Session, given: dict[str, list[str]]) -> Response:
    serving = service(request)
    try:
        query = _query(request, given)
        quote = serving.quote(session.user.name, query)
        planned = serving.plan(query) if quote.synthetic.se is not None else None
    except Refused as refusal:
        return _details(request, session, given, refusal)
    return render(
        request,
        "price.html",
        query=query,
        quote=quote,
        question=question_in_words(query),
        charts=() if planned is None else plan_charts(planned),
        right=None if planned is None else right_chance(planned),
        title=TITLES[query.measure],
        tells=TELLS[query.measure],
        cannot=CANNOT[query.measure],
        pairs=pairs(given),
    )


def _headline(answer: Answer) -> str:
    posterior = answer.posterior
    if isinstance(posterior, DiscrepancyPosterior):
        return f"{percent(posterior.probability_within())} likely within your tolerance"
    return f"A part agrees with chance {posterior.median:.2f}"
