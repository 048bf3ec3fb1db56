"""Several estimates in one question: one price, one clip, one form for all spellings."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from verification_samples import make_query
from web_samples import Site, make_site, question, released_files, ticking

from understudy.influence import influence_pass
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.tables.influence.unit_sums import steps_of
from understudy.verify.answer import check_question
from understudy.verify.catalogue import packaged
from understudy.verify.confidential import WEIGHT, ConfidentialData
from understudy.verify.influence_figures import figures_of
from understudy.verify.mistakes import InvalidQuery
from understudy.verify.released import ReleasedFiles
from understudy.verify.service import Remembered, Served, Service

ALSO: list[dict[str, Any]] = [
    {"estimator": "proportion", "variable": "region", "level": "North"},
    {"estimator": "mean", "variable": "hours", "domain": {"sex": [1]}},
]
ASKED = {"estimate": None, "se": None, "partitions": None, "epsilon": "4", "also": ALSO}


@pytest.fixture(scope="module")
def released(frame: pl.DataFrame) -> ReleasedFiles:
    return released_files(frame)


@pytest.fixture
def service(tmp_path: Path, data: ConfidentialData, released: ReleasedFiles) -> Iterator[Service]:
    with Ledger(tmp_path / "ledger.db", clock=ticking()) as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "5")
        ledger.add_dataset(data.fingerprint, "survey", "9")
        service = Service(ledger, {"survey": Served(data, Remembered(released))})
        yield service
        service.shared.close()


@pytest.mark.any_noise
def test_one_price_buys_a_number_for_each(service: Service, released: ReleasedFiles) -> None:
    checked = service.check(make_query(**ASKED))
    receipt = service.verify("ann", checked)
    assert service.ledger.budget("user", "ann").spent == 4_000_000
    names = [number.name for number in receipt.numbers]
    assert names == [
        "Mean of income", "Proportion with region = North", "Mean of hours where sex is 1"
    ]  # fmt: skip
    for number, part in zip(receipt.numbers, checked.query.parts, strict=True):
        assert number.released == pytest.approx(released(part).estimate, rel=1e-9)
    stored = service.history("ann")[0]
    assert stored.numbers == receipt.numbers
    assert service.settled("ann", checked) == stored.model_copy(update={"replayed": True})


def test_without_noise_they_are_the_answers_of_single_questions(
    data: ConfidentialData, released: ReleasedFiles
) -> None:
    """The sums before the noise: each is that of its own question, clipped in its own way."""

    def sums(query: Any) -> np.ndarray:
        plan = check_question(query, data, released).plan
        assert plan is not None
        run = data.run(influence_pass(plan.prepared, data.records, data.records[WEIGHT], None))
        counts = steps_of(run.to_pylist()[0], len(plan.prepared.estimates))
        figures = [figures_of(plan, number) for number in range(len(counts))]
        return np.array([k * f.step + f.added for k, f in zip(counts, figures, strict=True)])

    query = make_query(**{**ASKED, "epsilon": "1000"})
    together = sums(query)
    singly = [sums(part)[0] for part in query.parts]
    np.testing.assert_allclose(together, singly, rtol=0.02)


def test_all_spellings_are_one_question() -> None:
    first = make_query(**ASKED)
    spelt = [
        {"variable": "region", "level": "North", "estimator": "proportion", "domain": []},
        {
            "estimator": "mean",
            "variable": "hours",
            "domain": [{"column": "sex", "levels": [1]}],
            "predictors": [],
        },
    ]
    again = make_query(**{**ASKED, "also": spelt})
    assert again.digest() == first.digest()
    assert make_query(**{**ASKED, "also": None}).digest() != first.digest()
    assert make_query(**{**ASKED, "also": ALSO[::-1]}).digest() != first.digest()  # other order
    known = packaged().read(json.loads(first.canonical()))
    assert known.digest() == first.digest()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"also": [{"estimator": "mean", "variable": "incme"}]}, "Estimate 2: Unknown column"),
        ({"also": [{"estimator": "men", "variable": "income"}]}, "Estimate 2: "),
        ({"also": [{"estimator": "proportion", "variable": "sex"}]}, "Estimate 2: The estimator"),
        ({"also": [{"estimator": "mean", "variable": "hours", "by": ["sex"]}]}, "Estimate 2"),
        ({"also": [{**ALSO[0], "also": ALSO}]}, "Estimate 2"),
        ({"by": ["sex"]}, "`also` goes without `by`"),
        ({"estimate": 3.0, "se": 1.0}, "`also` goes with the measure `influence` only"),
        ({"measure": "discrepancy"}, "`also` goes with the measure `influence` only"),
    ],
)
def test_mistakes_name_the_estimate(
    data: ConfidentialData, released: ReleasedFiles, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidQuery, match=sentence):
        check_question(make_query(**{**ASKED, **changes}), data, released)


def hidden(page: str) -> dict[str, list[str]]:
    """What the first form of a page carries."""
    fields = re.findall(
        r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.split("</form>")[1]
    )
    carried: dict[str, list[str]] = {}
    for name, value in fields:
        carried.setdefault(name, []).append(html.unescape(value))
    return carried


def asked_by_pages(site: Site) -> str:
    """As a person goes who adds two estimates to one, and takes back the second."""
    with site.page_client("ann") as page:
        csrf = re.findall(r'name="csrf" value="([^"]+)"', page.get("/ask").text)[0]
        first = {"dataset": "survey", "estimator": "mean", "variable": "income"}
        first |= {"csrf": csrf, "tolerance": "2", "epsilon": "4"}
        priced = page.post("/ask/price", data=first)
        further = {"proportion": {"variable": "region:0"}, "mean": {"variable": "hours"}}
        for estimator, chosen in further.items():
            form = page.post("/ask/further", data=hidden(priced.text) | {"further": estimator}).text
            assert ("Another estimate" in form, 'name="epsilon"' in form) == (True, False)
            sent = hidden("</form>" + form.split("<main", 1)[1]) | chosen
            sent |= {"domain": ["sex:0"]} if estimator == "mean" else {}
            priced = page.post("/ask/price", data=sent)
            assert priced.status_code == 200, priced.text
        assert "<dd>3</dd>" in priced.text  # numbers at this one price
        changed = page.post("/ask/details", data=hidden(priced.text)).text
        assert "Proportion with region = North" in changed
        asked = page.post("/ask", data=hidden(priced.text))
        assert asked.status_code == 303, asked.text
        for wrong in ("{", "[" * 9999, "7", '{"estimator": "men"}'):
            reply = page.post("/ask/price", data=first | {"also": wrong})
            assert (reply.status_code, 'href="#also"' in reply.text) == (422, True)
            reply = page.post("/ask/price", data=first | {"first": wrong})
            assert reply.status_code == 422
        return str(page.get(asked.headers["location"]).text)


@pytest.mark.any_noise
def test_the_server_takes_them_and_gives_draws(tmp_path: Path) -> None:
    with make_site(tmp_path) as site, site.client("ann") as ann:
        shown = asked_by_pages(site)
        assert site.ledger.budget("user", "ann").spent == 4_000_000
        several = ann.post("/api/v1/verify", json=question(**ASKED))
        assert several.status_code == 200, several.text
        assert several.json()["replayed"] is True  # the pages asked the same
        assert len(several.json()["numbers"]) == 3
        assert all(number["name"] in shown for number in several.json()["numbers"])
        agreed = ann.post("/api/v1/verify", json=question(measure="agreement")).json()
        draws = ann.get(f"/api/v1/answers/{agreed['receipt']}/draws?count=50").json()
        assert len(draws) == 50
        assert all(0 <= r <= 1 for r in draws)
        refused = ann.get(f"/api/v1/answers/{several.json()['receipt']}/draws")
        assert (refused.status_code, "agreement" in refused.json()["error"]) == (422, True)
        with site.client("bob") as bob:
            assert bob.get(f"/api/v1/answers/{agreed['receipt']}/draws").status_code == 404
