"""The OpenAPI document, fuzzed: no input gives a 5xx, and replies keep to their schemas.

On SQLite and on a real PostgreSQL, with other inputs on each.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
)
from web_samples import Site, make_site

# Whatever is asked and answered is checked for its form alone.
pytestmark = [pytest.mark.any_noise, pytest.mark.hypothesis]

EXAMPLES = 5


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, module_place: tuple[str, str]) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("fuzz")
    with make_site(folder, ledger_place=module_place, slot=0.01, budget="900") as made:
        yield made


@pytest.fixture
def draw(module_place: tuple[str, str]) -> int:
    """A seed for each kind of database; a new one where examples are drawn at random."""
    known = 1 + module_place[0].startswith("postgresql")
    return known if settings().derandomize else secrets.randbits(32)


# A question of the right form can still name an unknown column. Who may call is in the matrix
# of routes and roles; here many wrong keys in a row would meet the limit on guessing. A
# body that is too large is refused by 413, which the tool does not count as a refusal.
NOT_OURS = [positive_data_acceptance, ignored_auth, negative_data_rejection]

FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

DEEP = settings(FUZZ, max_examples=14)


def fuzz(site: Site, operation: Any, mode: GenerationMode, draw: int, how: settings = FUZZ) -> bool:
    """Whether there was anything to try; every reply is checked against the document."""
    user = "stella" if "steward" in (operation.tags or []) else "ann"
    headers = {"Authorization": f"Bearer {site.keys[user]}"}

    @seed(draw)
    @how
    @given(operation.as_strategy(generation_mode=mode))
    def once(case: Any) -> None:
        reply = case.call_and_validate(base_url=site.url, headers=headers, excluded_checks=NOT_OURS)
        assert reply.status_code < 500
        if reply.status_code >= 400:
            assert set(reply.json()) == {"error"}

    try:
        once()
    except Unsatisfiable:
        return False  # without parameters there is no wrong input
    return True


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_input_breaks_the_api(site: Site, draw: int, mode: GenerationMode) -> None:
    document = schemathesis.openapi.from_dict(site.app.openapi())
    operations = [result.ok() for result in document.get_all_operations()]
    tried = [operation.label for operation in operations if fuzz(site, operation, mode, draw)]
    assert len(tried) >= 8


def test_questions_about_known_columns_are_answered_or_refused_in_one_sentence(
    site: Site, draw: int
) -> None:
    """Narrowed to names that exist, the fuzzer gets as far as the data."""
    narrow = site.app.openapi()
    narrow = {**narrow, "components": {**narrow["components"]}}
    schemas = narrow["components"]["schemas"] = dict(narrow["components"]["schemas"])
    nothing: dict[str, Any] = {"type": "null"}
    levels = {"type": "array", "items": {"enum": ["North", "South"]}, "minItems": 1}
    condition = {"type": "object", "properties": {"column": {"const": "region"}, "levels": levels}}
    condition |= {"required": ["column", "levels"], "additionalProperties": False}
    properties = schemas["Query"]["properties"] | {
        "dataset": {"const": "survey"},
        "estimator": {"enum": ["mean", "total"]},
        "variable": {"enum": ["income", "hours"]},
        "epsilon": {"enum": ["0.01", "0.5"]},
        "domain": {"type": "array", "items": condition, "maxItems": 1},
        "partitions": {"anyOf": [{"type": "integer", "minimum": 2, "maximum": 60}, nothing]},
        "estimate": {"type": "number", "minimum": -1e6, "maximum": 1e6},
        "se": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
    }
    unused = ("level", "denominator", "probability", "coefficient", "coefficient_level")
    for name in (*unused, "by", "delta"):
        properties[name] = nothing
    for name in ("predictors", "versus"):
        properties[name] = {"type": "array", "maxItems": 0}
    required = ["dataset", "estimator", "variable", "epsilon", "tolerance", "estimate", "se"]
    schemas["Query"] = schemas["Query"] | {"properties": properties, "required": required}
    before = site.ledger.budget("user", "ann").spent
    document = schemathesis.openapi.from_dict(narrow)
    for result in document.get_all_operations():
        operation = result.ok()
        if operation.path in ("/api/v1/verify", "/api/v1/plan", "/api/v1/price"):
            assert fuzz(site, operation, GenerationMode.POSITIVE, draw, DEEP)
    assert site.ledger.budget("user", "ann").spent > before


def test_the_document_describes_queries_and_the_error_shape(site: Site) -> None:
    document = site.app.openapi()
    verify = document["paths"]["/api/v1/verify"]["post"]
    body = verify["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert (
        document["components"]["schemas"][body.rsplit("/", 1)[-1]]["additionalProperties"] is False
    )
    for path in document["paths"].values():
        for operation in path.values():
            for status, reply in operation["responses"].items():
                if int(status) >= 400:
                    assert reply["content"]["application/json"]["schema"]["$ref"].endswith(
                        "Failure"
                    )
            assert operation["security"] == [{"HTTPBearer": []}]
