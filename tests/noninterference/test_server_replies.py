"""What a server replies about neighbouring files: with the same noisy number, the same bytes."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from served import BASE, NEIGHBOURS, ONE_BY_ONE, UNSERVED, served
from web_samples import Site, question

from understudy.errors import Refused
from understudy.verify.answer import CheckedQuery
from understudy.verify.query import Query
from understudy.verify.service import Service

pytestmark = (
    pytest.mark.any_noise
)  # the noisy number is fixed, and keys of partitions decide nothing else

V = "/api/v1"
REGRESSION = {
    "estimator": "linear",
    "predictors": ["hours"],
    "coefficient": "hours",
    "partitions": 2,
}
INFLUENCE: dict[str, Any] = {
    "measure": "influence",
    "estimate": None,
    "se": None,
    "partitions": None,
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "a mean": question(),
    "agreement": question(measure="agreement"),
    "a domain": question(domain={"region": ["East"]}),
    "a coefficient": question(**REGRESSION, estimate=2.0, se=0.1),
    "influence": question(**INFLUENCE),
    "influence in a domain": question(**INFLUENCE, domain={"region": ["East"], "sex": [2]}),
    "influence on a share": question(
        **INFLUENCE, estimator="proportion", variable="region", level="North"
    ),
    "a level that only a neighbour has": question(domain={"region": ["nobody's"]}),
    "a column that is not there": question(variable="wealth"),
    "a mean of texts": question(variable="region"),
    "too dear": question(epsilon="50"),
    "no number": question(epsilon="nan"),
    "another data set": question(dataset="census"),
}
REFUSED = set(list(QUESTIONS)[7:])
TWICE = ("influence", "agreement", "a mean of texts")
Reply = tuple[str, int, list[tuple[str, str]], bytes]


def conversation(site: Site) -> list[Reply]:
    """All that an analyst can get from the server, in one order."""
    replies: list[Reply] = []

    def took(what: str, reply: httpx.Response) -> httpx.Response:
        headers = [(k, v) for k, v in reply.headers.multi_items() if k != "date"]
        content = re.sub(rb'name="csrf" value="[^"]+"', b"", reply.content)  # of the session
        replies.append((what, reply.status_code, headers, content))
        return reply

    with site.client("ann") as ann, site.client("bob") as bob:
        for path in ("datasets", "me", "history"):
            took(path, ann.get(f"{V}/{path}"))
        for name, asked in QUESTIONS.items():
            more = ("plan", "verify") if name in TWICE else ()  # the second answer is a replay
            for door in ("price", "verify", *more):
                took(f"{door}: {name}", ann.post(f"{V}/{door}", json=asked))
        numbers = [entry["receipt"] for entry in took("history", ann.get(f"{V}/history")).json()]
        for number in numbers:
            took("receipt", ann.get(f"{V}/answers/{number}"))
        took("another's receipt", bob.get(f"{V}/answers/{max(numbers, default=1)}"))
        took("what is left", ann.get(f"{V}/me"))
        took("the catalogue afterwards", bob.get(f"{V}/datasets"))
    with site.page_client("ann") as page:
        for path in ("/ask", "/history", "/ask/details?dataset=survey&estimator=linear"):
            took(path, page.get(path))
        for number in numbers[:2]:
            took("page", page.get(f"/answers/{number}"))
            took("file", page.get(f"/answers/{number}/receipt.json"))
    return replies


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> list[Reply]:
    with served(tmp_path_factory.mktemp("base"), BASE) as site:
        return conversation(site)


def test_the_conversation_holds_answers_and_refusals(base: list[Reply]) -> None:
    """What is compared below is not one error after the other."""
    status = {what: code for what, code, _, _ in base}
    for name in QUESTIONS:
        assert (status[f"verify: {name}"] == 200) == (name not in REFUSED), name
    assert {status["verify: too dear"], status["another's receipt"]} == {402, 404}
    assert len(base) == 53


def differing(base: list[Reply], folder: Path, frame: pl.DataFrame) -> list[str]:
    """The replies that are not the same for the base file and for this one."""
    with served(folder, frame) as site:
        theirs = conversation(site)
    pairs = zip_longest(base, theirs, fillvalue=None)
    return [(reply or other or ("",))[0] for reply, other in pairs if reply != other]


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_get_the_same_replies(name: str, base: list[Reply], tmp_path: Path) -> None:
    """Status, headers and every byte of the body; the noisy number is held fixed."""
    assert differing(base, tmp_path, NEIGHBOURS[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_changes_one_by_one_get_the_same_replies(
    name: str, base: list[Reply], tmp_path: Path
) -> None:
    assert differing(base, tmp_path, ONE_BY_ONE[name]) == []


@pytest.mark.parametrize("name", UNSERVED)
def test_a_file_that_breaks_its_codebook_is_not_served_at_all(name: str, tmp_path: Path) -> None:
    """Refused to the steward before there is a server, and without the value."""
    with pytest.raises(Refused) as refusal, served(tmp_path, UNSERVED[name]):
        pass
    assert "nobody's" not in str(refusal.value)


def test_a_planted_reply_that_looks_at_the_records_is_found(
    base: list[Reply], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question about a column with missing values is refused, unpaid: a free look."""
    sound = Service.check

    def looking(serving: Service, query: Query) -> CheckedQuery:
        records = serving.dataset("survey").data.records
        if serving.dataset("survey").data.run(records.filter(records.income.isnull())).num_rows:
            raise Refused("Some values are missing.")
        return sound(serving, query)

    monkeypatch.setattr(Service, "check", looking)
    different = differing(base, tmp_path, NEIGHBOURS["missing values"])
    assert {"price: a mean", "verify: a mean", "history"} <= set(different)
