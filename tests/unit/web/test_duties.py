"""Threats 27 and 28 over HTTP: who sees what, and what one steward cannot do alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from web_samples import Site, make_site, question

from understudy.ledger.accounts import add_user
from understudy.ledger.auditors_copy import check_copy

pytestmark = pytest.mark.any_noise

V = "/api/v1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, module_place: tuple[str, str]) -> Iterator[Site]:
    """On SQLite, then on PostgreSQL: one steward grants up to 20."""
    folder = tmp_path_factory.mktemp("duties")
    settings = {"ledger_place": module_place, "slot": 0.01, "limit": 20_000_000}
    with make_site(folder, **settings) as made:  # type: ignore[arg-type]
        made.keys["new"] = add_user(made.ledger, "new")
        yield made


def token(client: httpx.Client) -> dict[str, str]:
    match = re.search(r'name="csrf" value="([\w-]+)"', client.get("/nowhere").text)
    assert match
    return {"csrf": match[1]}


def test_an_analyst_sees_the_data_sets_that_were_granted(site: Site) -> None:
    name = "dora"
    site.keys[name] = add_user(site.ledger, name)
    with site.client(name) as dora, site.client("stella") as stella, site.page_client(name) as page:
        assert dora.get(f"{V}/datasets").json() == []
        assert "survey" not in page.get("/ask").text
        for path in ("price", "plan", "verify"):
            refused = dora.post(f"{V}/{path}", json=question())
            unknown = dora.post(f"{V}/{path}", json=question(dataset="survex"))
            assert refused.status_code == 422
            said = [
                reply.json()["error"].replace("survex", "survey") for reply in (refused, unknown)
            ]
            assert said[0] == said[1]  # as if there were none
        form = {"dataset": "survey", "estimator": "mean", **token(page)}
        assert "were granted to you" in page.post("/ask/price", data=form).text
        terms = {"epsilon": "1.5", "dataset": "survey", "until": "2099-01-01"}
        assert stella.post(f"{V}/users/{name}/grants", json=terms).status_code == 201
        facts = dora.get(f"{V}/datasets").json()
        assert [(each["name"], each["left"]) for each in facts] == [("survey", "1.5")]
        assert dora.post(f"{V}/verify", json=question(epsilon="1")).json()["receipt"] == 1
        assert "you have epsilon 0.5 left" in page.get("/ask").text


def test_nothing_shown_to_an_analyst_moves_when_another_asks(site: Site) -> None:
    paths = ("/datasets", "/me", "/history", "/projects")
    with site.client("bob") as bob, site.client("carol") as carol, site.page_client("bob") as page:
        pages = ("/ask", "/history", "/ask/details?dataset=survey&estimator=mean")

        def seen() -> list[str]:
            shown = [bob.get(f"{V}{path}").text for path in paths]
            shown.append(bob.post(f"{V}/price", json=question()).text)
            return shown + [page.get(path).text for path in pages]

        before = seen()
        assert carol.post(f"{V}/verify", json=question(estimate=77.0)).status_code == 200
        assert seen() == before
        first = bob.post(f"{V}/verify", json=question(estimate=78.0)).json()["receipt"]
        assert carol.post(f"{V}/verify", json=question(estimate=79.0)).status_code == 200
        assert bob.post(f"{V}/verify", json=question(estimate=80.0)).json()["receipt"] == first + 1


def test_a_steward_hands_out_a_code_and_never_sees_the_key(site: Site) -> None:
    with site.client("stella") as stella, site.client() as nobody:
        made = stella.post(f"{V}/users", json={"name": "erin", "epsilon": "1"}).json()
        assert set(made) == {"name", "code"}
        assert nobody.post("/sign-in", data={"key": made["code"]}).status_code == 401
        page = nobody.post("/pick-up", data={"code": made["code"]})
        key = re.search(r"us_[0-9a-f]{16}_[\w-]{43}", page.text)
        assert key
        erin = {"Authorization": f"Bearer {key[0]}"}
        assert nobody.get(f"{V}/me", headers=erin).json()["name"] == "erin"
        again = nobody.post("/pick-up", data={"code": made["code"]})
        assert (again.status_code, "somebody else has your key" in again.text) == (401, True)
        assert nobody.post(f"{V}/verify", json=question(), headers=erin).status_code == 200
        code = stella.post(f"{V}/users/erin/key").json()["code"]
        taken = nobody.post("/pick-up", data={"code": code}).text  # by the steward herself
        stolen = re.search(r"us_[0-9a-f]{16}_[\w-]{43}", taken)
        assert stolen
        reader = {"Authorization": f"Bearer {stolen[0]}"}
        assert nobody.get(f"{V}/history", headers=reader).json() == []
        assert nobody.get(f"{V}/answers/1", headers=reader).status_code == 404


def test_an_owner_replaces_her_key_and_keeps_her_answers(site: Site) -> None:
    with site.client("ann") as ann, site.page_client("ann") as page:
        assert ann.post(f"{V}/verify", json=question(estimate=33.0)).status_code == 200
        answers = [each["receipt"] for each in ann.get(f"{V}/history").json()]
        reply = page.post("/key", data=token(page))
        assert ann.get(f"{V}/me").status_code == 401
        assert page.get("/ask").status_code == 303  # the session ended with the key
    match = re.search(r"us_[0-9a-f]{16}_[\w-]{43}", reply.text)
    assert match
    site.keys["ann"] = match[0]
    with site.client("ann") as ann:
        assert [each["receipt"] for each in ann.get(f"{V}/history").json()] == answers


def test_one_steward_alone_makes_no_large_account_and_no_second_self(site: Site) -> None:
    with site.client("stella") as stella, site.client("stan") as stan, site.client() as nobody:
        stella.post(f"{V}/users", json={"name": "twin", "epsilon": "1000"})
        twin = next(each for each in stella.get(f"{V}/users").json() if each["name"] == "twin")
        assert twin["allowed"] == "0"
        waiting = stella.get(f"{V}/requests").json()["requests"][0]
        assert (waiting["state"], waiting["approved"]) == ("open", ["stella"])
        decide = f"{V}/requests/{waiting['number']}"
        assert stella.post(decide, json={"approve": True}).status_code == 422
        assert stan.post(decide, json={"approve": False}).status_code == 422  # without a reason
        declined = stan.post(decide, json={"approve": False, "reason": "no"}).json()
        assert declined["state"] == "declined"
        code = stella.post(f"{V}/users", json={"name": "self", "role": "steward"}).json()["code"]
        page = nobody.post("/pick-up", data={"code": code}).text
        key = re.search(r"us_[0-9a-f]{16}_[\w-]{43}", page)
        assert key
        second = {"Authorization": f"Bearer {key[0]}"}
        assert nobody.get(f"{V}/me", headers=second).status_code == 401
        enable = f"{V}/users/self/active"
        assert stella.post(enable, json={"active": True}).status_code == 422
        assert stella.post(f"{V}/users/stan/key").status_code == 422  # nor takes another's over
        assert stan.post(enable, json={"active": True}).status_code == 200
        assert nobody.get(f"{V}/me", headers=second).json()["role"] == "steward"


def test_an_auditor_reads_entries_and_no_answers_and_checks_them(
    site: Site, tmp_path: Path
) -> None:
    with site.client("carol") as carol, site.client("audrey") as audrey:
        assert carol.post(f"{V}/verify", json=question(estimate=4711.0)).status_code == 200
        text = audrey.get(f"{V}/ledger.jsonl").text
        assert audrey.get(f"{V}/requests.csv").text.startswith("number,at,what,by,user,dataset,")
    lines = [json.loads(line) for line in text.splitlines()]
    bodies = [json.loads(line["body"]) for line in lines if line.get("kind") == "release"]
    assert bodies
    assert {tuple(body) for body in bodies} == {("sealed",)}
    for hidden in ('"estimate"', '"noisy"', '"key_hash"'):
        assert hidden.replace('"', '\\"') not in text
    copy = tmp_path / "ledger.jsonl"
    copy.write_text(text)
    assert check_copy(copy).head.number == len(lines) - 1


def test_a_project_is_asked_for_and_granted_on_the_pages(site: Site) -> None:
    with site.page_client("new") as page, site.page_client("stella") as steward:
        form = token(page)
        page.post("/projects", data={"do": "project", "title": "Pay", "purpose": "Why", **form})
        number = re.search(r'<option value="(\d+)">Pay', page.get("/projects").text)
        assert number
        asked = {"do": "ask", "project": number[1], "epsilon": "2", "why": "<b>tables</b>"}
        wrong = page.post("/projects", data={**asked, "dataset": "none", **form})
        assert (wrong.status_code, "no data set of this name" in wrong.text) == (422, True)
        sent = page.post("/projects", data={**asked, "dataset": "survey", **form})
        assert sent.status_code == 303
        inbox = steward.get("/steward/inbox").text
        assert "&lt;b&gt;tables" in inbox
        request = re.search(r'name="number" value="(\d+)"', inbox)
        assert request
        verdict = {"do": "approve", "number": request[1], **token(steward)}
        assert steward.post("/steward/inbox", data=verdict).status_code == 303
        assert "granted" in page.get("/projects").text
        assert "you have epsilon 2 left" in page.get("/ask").text
        cap = {"do": "cap", "dataset": "survey", "epsilon": "5", **token(steward)}
        steward.post("/steward/inbox", data=cap)
        assert "Raise the cap of survey: 5" in steward.get("/steward/inbox").text
