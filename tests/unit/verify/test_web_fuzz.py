"""The OpenAPI document, fuzzed: no input gives a 5xx, and replies keep to their schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from web_samples import Site, make_site

EXAMPLES = 12


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with make_site(tmp_path_factory.mktemp("fuzz"), slot=0.01, budget="900") as made:
        yield made


FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def fuzz(site: Site, operation: Any, mode: GenerationMode) -> bool:
    """Whether there was anything to try; every reply is checked against the document."""
    user = "stella" if "steward" in (operation.tags or []) else "ann"
    headers = {"Authorization": f"Bearer {site.keys[user]}"}

    @FUZZ
    @given(operation.as_strategy(generation_mode=mode))
    def once(case: Any) -> None:
        reply = case.call_and_validate(base_url=site.url, headers=headers)
        assert reply.status_code < 500
        if reply.status_code >= 400:
            assert set(reply.json()) == {"error"}

    try:
        once()
    except Unsatisfiable:
        return False  # without parameters there is no wrong input
    return True


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_input_breaks_the_api(site: Site, mode: GenerationMode) -> None:
    document = schemathesis.openapi.from_dict(site.app.openapi())
    operations = [found.ok() for found in document.get_all_operations()]
    tried = [operation.label for operation in operations if fuzz(site, operation, mode)]
    assert len(tried) >= 8


def test_the_document_describes_queries_and_the_error_shape(site: Site) -> None:
    found = site.app.openapi()
    verify = found["paths"]["/api/v1/verify"]["post"]
    body = verify["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert found["components"]["schemas"][body.rsplit("/", 1)[-1]]["additionalProperties"] is False
    for path in found["paths"].values():
        for operation in path.values():
            for status, reply in operation["responses"].items():
                if int(status) >= 400:
                    assert reply["content"]["application/json"]["schema"]["$ref"].endswith("Failure")
            assert operation["security"] == [{"HTTPBearer": []}]
