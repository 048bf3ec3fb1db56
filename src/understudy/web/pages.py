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

from understudy.errors import Refused, UnknownName
from understudy.ledger.accounts import WrongKey
from understudy.survey.codebook import Codebook
from understudy.verify.catalogue import Catalogue
from understudy.verify.estimator import Estimator
from understudy.verify.mistakes import InvalidQuery, QuestionMistake, say
from understudy.verify.numbers import chance, short
from understudy.verify.query import MOST_FURTHER, Query
from understudy.web.access import address, analyst_session, check_form, from_here, page_session
from understudy.web.api import (
    HISTORY,
    Before,
    PathNumber,
    free_work,
    service,
    slotted_answer,
)
from understudy.web.charts import plan_charts, posterior_chart, right_chance
from understudy.web.error_table import error_table
from understudy.web.forms import FIRST, ask_form, further_estimate, pairs, question_from_form
from understudy.web.refusals import status_of
from understudy.web.sessions import COOKIE, Session

ASK = "/ask"
FURTHER = "/ask/further"
FREE = ("/ask/details", "/ask/price", FURTHER)
HOME = {"analyst": ASK, "steward": "/steward", "auditor": "/steward", "operator": "/operations"}

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
AnalystSession = Annotated[Session, Depends(analyst_session)]
AnySession = Annotated[Session, Depends(page_session)]


def render(request: Request, name: str, status: int = 200, **context: Any) -> Response:
    provider = request.app.state.provider is not None
    known = {"session": request.state.session, "provider": provider}
    context = {**known, "short": short, "chance": chance, **context}
    page: Response = request.app.state.templates.TemplateResponse(
        request, name, context, status_code=status
    )
    return page


@router.get("/")
def home(session: AnySession) -> Response:
    return RedirectResponse(HOME[session.user.role], 303)


@router.get("/sign-in")
def sign_in_page(request: Request) -> Response:
    return render(request, "sign_in.html")


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    from_here(request)
    sent = await form_of(request)
    sessions = request.app.state.sessions
    try:
        cookie = await run_in_threadpool(sessions.sign_in, (sent.get("key") or [""])[0].strip())
    except WrongKey as refusal:
        await run_in_threadpool(request.state.wrong_keys.take, address(request))
        return render(request, "sign_in.html", 401, mistake=str(refusal))
    return signed_in(request, cookie)


def signed_in(request: Request, cookie: str) -> Response:
    reply = RedirectResponse("/", 303)
    reply.set_cookie(
        COOKIE,
        cookie,
        max_age=request.app.state.sessions.seconds,
        httponly=True,
        samesite="strict",
        secure=request.app.state.https,
    )
    return reply


@router.post("/sign-out")
async def sign_out(request: Request, session: AnySession) -> Response:
    await checked_form(request, session)
    request.app.state.sessions.sign_out(request.cookies.get(COOKIE))
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
        datasets=[
            (name, served.title, serving.left(session.user.name, name))
            for name, served in serving.granted(session.user.name).items()
        ],
        estimators=list(serving.catalogue.estimators.values()),
    )


@router.get("/ask/details")
def details(
    request: Request, session: AnalystSession, dataset: str = "", estimator: str = ""
) -> Response:
    return _details(request, session, {"dataset": [dataset], "estimator": [estimator]})


@router.post("/ask/details")
async def change(request: Request, session: AnalystSession) -> Response:
    sent = await checked_form(request, session)
    return await run_in_threadpool(_details, request, session, sent)


@router.post(FURTHER)
async def further(request: Request, session: AnalystSession) -> Response:
    """The details of one more estimate for a question; the form so far is carried along."""
    sent = await checked_form(request, session)
    estimator = sent.pop("further", [""])
    first = json.dumps(sent)
    asked = {"dataset": sent.get("dataset", [""]), "estimator": estimator}
    return await run_in_threadpool(_details, request, session, asked, None, first)


@router.post("/ask/price")
async def price(request: Request, session: AnalystSession) -> Response:
    sent = await checked_form(request, session)
    if FIRST in sent:
        sent = await run_in_threadpool(_joined, request, session, sent)
    return await free_work(request).run(session.user.name, _price, request, session, sent)


@router.post(ASK)
async def ask(request: Request, session: AnalystSession) -> Response:
    sent = await checked_form(request, session)
    try:
        query = await run_in_threadpool(_query, request, session, sent)
        receipt = await slotted_answer(request, query, session.user.name)
    except InvalidQuery as refusal:
        return await run_in_threadpool(_details, request, session, sent, refusal)
    return RedirectResponse(f"/answers/{receipt.number}", 303)


@router.get("/answers/{number}")
def answer(request: Request, number: PathNumber, session: AnalystSession) -> Response:
    receipt = service(request).receipt(session.user.name, number)
    measure = receipt.query.measured_by
    return render(
        request,
        "answer.html",
        receipt=receipt,
        measure=measure,
        picture=measure.picture(receipt.terms, receipt.belief),
        chart=None if receipt.numbers else posterior_chart(receipt),
        left=service(request).left(session.user.name, receipt.query.dataset),
    )


@router.get("/answers/{number}/receipt.json")
def receipt_file(request: Request, number: PathNumber, session: AnalystSession) -> Response:
    receipt = service(request).receipt(session.user.name, number)
    name = f"understudy-receipt-{number}.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    text = receipt.model_dump_json(indent=2)
    return Response(text, media_type="application/json", headers=headers)


@router.get("/history")
async def history(request: Request, session: AnalystSession, before: Before = None) -> Response:
    return await free_work(request).run(
        session.user.name, _history, request, session.user.name, before
    )


def _history(request: Request, user: str, before: int | None) -> Response:
    receipts = service(request).history(user, before, HISTORY)
    return render(
        request,
        "history.html",
        receipts=receipts,
        older=receipts[-1].number if len(receipts) == HISTORY else None,
        newest=before is None,
    )


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form by name, in order; no form here takes files."""
    sent: dict[str, list[str]] = {}
    async with request.form(max_files=0, max_fields=2000) as form:
        for name, value in form.multi_items():
            if isinstance(value, str):
                sent.setdefault(name, []).append(value)
    return sent


async def checked_form(request: Request, session: Session) -> dict[str, list[str]]:
    """The fields of a form that this session made."""
    sent = await form_of(request)
    check_form(request, session, (sent.pop("csrf", None) or [""])[0])
    return sent


def _query(request: Request, session: Session, sent: dict[str, list[str]]) -> Query:
    catalogue = service(request).catalogue
    return catalogue.read(question_from_form(sent, catalogue, _codebook(request, session, sent)))


def _joined(request: Request, session: Session, sent: dict[str, list[str]]) -> dict[str, list[str]]:
    """A question's form with the further estimate that was sent."""
    return further_estimate(sent, service(request).catalogue, _codebook(request, session, sent))


def _codebook(request: Request, session: Session, sent: dict[str, list[str]]) -> Codebook:
    own, name = service(request).granted(session.user.name), (sent.get("dataset") or [""])[0]
    if name not in own:
        raise UnknownName("data set", name, own)
    return own[name].data.codebook


def _details(
    request: Request,
    session: Session,
    sent: dict[str, list[str]],
    refusal: Refused | None = None,
    first: str = "",
) -> Response:
    serving = service(request)
    catalogue = serving.catalogue
    dataset, estimator = ((sent.get(name) or [""])[0] for name in ("dataset", "estimator"))
    if dataset not in serving.granted(session.user.name):
        return _choose(request, session, "Choose one of the data sets that were granted to you.")
    if estimator not in catalogue.estimators:
        return _choose(request, session, "Choose one of the estimators.")
    served = serving.dataset(dataset)
    kind = catalogue.estimators[estimator]
    mistakes: tuple[QuestionMistake, ...] = ()
    if refusal is not None:
        plain = (say("question", str(refusal)),)
        mistakes = refusal.mistakes if isinstance(refusal, InvalidQuery) else plain
    wrong = {mistake.field.split(".")[0] for mistake in mistakes}
    released = served.released is not None
    form = ask_form(dataset, kind, catalogue, served.data.codebook, sent, released)
    measures = list(catalogue.measures.values())
    return render(
        request,
        "details.html",
        200 if refusal is None else status_of(refusal),
        form=form,
        title=kind.title,
        first=first,
        mistakes=mistakes,
        wrong=wrong,
        wrong_setting=not wrong.isdisjoint(
            {"partitions", "delta", *(s.name for s in form.settings)}
        ),
        measures=measures,
        usual_partitions=", ".join(f"{m.partitions} for {m.name}" for m in measures if m.divides),
        has_release=released,
        left=serving.left(session.user.name, dataset),
    )


def _price(request: Request, session: Session, sent: dict[str, list[str]]) -> Response:
    serving = service(request)
    try:
        question = serving.check(_query(request, session, sent), session.user.name)
        quote = serving.quote(session.user.name, question)
        single = question.synthetic.se is not None and not question.query.several
        plan = serving.plan(question) if single else None
        errors = serving.errors(question)
    except Refused as refusal:
        return _details(request, session, sent, refusal)
    return render(
        request,
        "price.html",
        query=question.query,
        quote=quote,
        measure=question.query.measured_by,
        usual=next(iter(serving.catalogue.measures)),
        charts=() if plan is None else plan_charts(plan),
        right=None if plan is None else right_chance(plan),
        prices=sorted({row["epsilon"] for row in errors}),
        errors=error_table(errors),
        pairs=pairs(sent),
        further=_further(question.query, serving.catalogue),
    )


def _further(query: Query, catalogue: Catalogue) -> list[type[Estimator]]:
    """What can be asked for at the same price; nothing where the question takes no more."""
    alone = query.measured_by.divides or query.by or query.estimate is not None
    full = len(query.also or ()) >= MOST_FURTHER
    return [] if alone or full else list(catalogue.estimators.values())
