"""The question in a request's body, and its place in the API's description.

What a question can ask for depends on the server's estimators and measures, so its form comes
from their catalogue and not from a fixed type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request

from understudy.errors import Refused
from understudy.verify.catalogue import Catalogue
from understudy.verify.query import Query

REFERENCE = "#/components/schemas/{model}"
QUESTION = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": REFERENCE.format(model="Query")}}},
    }
}


async def asked_question(request: Request) -> Query:
    """The question that the caller sends as JSON."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        document = await request.json()
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or kind != "application/json":
        raise Refused("The request cannot be read; send JSON as the documentation says.")
    catalogue: Catalogue = request.app.state.service.catalogue
    return catalogue.read(document)


def describe_questions(app: FastAPI, catalogue: Catalogue) -> None:
    """Put the catalogue's form of a question into the API's description."""
    describe: Callable[[], dict[str, Any]] = app.openapi

    def with_questions() -> dict[str, Any]:
        whole = describe()
        schema = catalogue.query_type.model_json_schema(ref_template=REFERENCE)
        schemas = whole["components"]["schemas"]
        schemas |= {**schema.pop("$defs", {}), "Query": schema}
        return whole

    app.openapi = with_questions  # type: ignore[method-assign]
