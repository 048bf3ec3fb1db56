"""A measure and an estimator in a file of one's own: nothing else has to know of them.

Each is written to a folder, named in the server's configuration, and asked through the service,
the API and the pages; the ledger has the entry and gives the answer again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from verification_samples import BOOK, make_frame
from web_samples import CALLER, running

from skeletons import skeleton
from understudy.cli.main import app
from understudy.errors import Refused
from understudy.ledger.accounts import add_user
from understudy.survey.codebook_text import write_codebook
from understudy.verify.client import Client
from understudy.verify.config import read_config
from understudy.verify.partition_pass import assign_partitions, partition_estimates
from understudy.verify.planner import plan
from understudy.verify.service import Service, open_service
from understudy.web.app import create_app

pytestmark = pytest.mark.any_noise


HIGHER = skeleton("Higher")
MEAN_SQUARE = skeleton("MeanSquare")
LARGEST = """

def largest(task):
    return task.columns[0].max()


@dataclass(frozen=True)
class Largest(Estimator):
    name = "largest"
    title = "Largest value"
    rank = 21
    fitted = True
    several = False

    variable: Annotated[Name, NumberColumn("Number")]

    def in_words(self, where):
        return restricted(f"Largest {self.variable}", where)

    def partition_estimates(self, records):
        return records.fit(f"{__file__}:largest", records.number(self.variable))

    def released_estimate(self, release):
        return release.statistic("quantile(y, 0.99)", lambda t, _: {"y": t[self.variable]})
"""

CONFIG = """
ledger = "ledger.db"
slot_seconds = 0.3
{own}
[datasets.survey]
path = "confidential.parquet"
codebook = "codebook.toml"
design = {{ weight = "w" }}
released = ["synthetic.parquet"]
cap = "100"
"""


def write_server(folder: Path, own: str) -> None:
    make_frame(400).write_parquet(folder / "confidential.parquet")
    make_frame(400, seed=21).drop("person").write_parquet(folder / "synthetic.parquet")
    write_codebook(BOOK, folder / "codebook.toml")
    (folder / "server.toml").write_text(CONFIG.format(own=own))


@contextmanager
def served(folder: Path, own: str) -> Iterator[tuple[Service, str, str]]:
    """A running server of a configuration, its address, and an analyst's key."""
    write_server(folder, own)
    service = open_service(read_config(folder / "server.toml"))
    key = add_user(service.ledger, "ann")
    service.ledger.grant("ann", "50")
    with running(create_app(service)) as url:
        yield service, url, key


def signed_in(url: str, key: str) -> httpx.Client:
    reply = httpx.post(f"{url}/sign-in", data={"key": key}, **CALLER)
    client = httpx.Client(base_url=url, **CALLER)
    client.cookies.update(reply.cookies)
    return client


def ask_by_page(url: str, key: str, estimator: str, **fields: str) -> httpx.Response:
    """Details, price, and the question itself, as a person goes; the answer's page."""
    with signed_in(url, key) as page:
        choices = page.get("/ask").text
        assert f'value="{estimator}"' in choices
        details = page.get("/ask/details", params={"dataset": "survey", "estimator": estimator})
        for name in fields:
            assert f'name="{name}"' in details.text, name
        csrf = re.search(r'name="csrf" value="([^"]+)"', details.text)
        assert csrf
        sent = {"csrf": csrf[1], "dataset": "survey", "estimator": estimator, **fields}
        priced = page.post("/ask/price", data=sent)
        assert priced.status_code == 200, priced.text
        assert "Ask and spend epsilon 2" in priced.text
        asked = page.post("/ask", data=sent)
        assert asked.status_code == 303, asked.text
        answer = page.get(asked.headers["location"])
        assert answer.status_code == 200
        assert answer.text.count("<svg") == 1
        assert "<svg" in priced.text
        listed = page.get("/history")
        assert asked.headers["location"] in listed.text
        return answer


def asked_by_command(folder: Path, url: str, key: str, question: dict[str, Any]) -> None:
    """`understudy verify` shows the price of what the server knows, and spends nothing yet."""
    path = folder / "question.json"
    path.write_text(json.dumps(question))
    left = Client(url, key).me()["left"]
    app(["verify", str(path), "--server", url, "--key", key, "--price"], standalone_mode=False)
    assert Client(url, key).me()["left"] == left


def test_a_plan_takes_a_measure_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "higher.py").write_text(HIGHER)
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "plan.csv"
    words = ["plan", "--estimate", "100", "--se", "2", "--out", str(table)]
    app([*words, "--measure", "higher.py:Higher"], standalone_mode=False)
    assert "(higher)" in capsys.readouterr().out
    assert set(pl.read_csv(table)["noisy_sd"]) == {0.3}  # as the file says
    made = plan(100.0, 2.0, measure="higher.py:Higher", margin=0.5, estimates=[100.0], ses=[2.0])
    assert made.measured_by.margin == 0.5  # type: ignore[attr-defined]
    none = plan(100.0, 2.0, measure="higher.py:Higher", margin=0.0, estimates=[100.0], ses=[2.0])
    assert none.measured_by.margin == 0.0  # type: ignore[attr-defined]
    with pytest.raises(Refused, match="`margin` must be greater than or equal to 0"):
        plan(100.0, 2.0, measure="higher.py:Higher", margin=-1.0)
    with pytest.raises(
        Refused, match=r"Unknown measure in `higher.py` `Highe`.*did you mean `Higher`"
    ):
        app([*words, "--measure", "higher.py:Highe"], standalone_mode=False)
    with pytest.raises(Refused, match=r"There is no file `mine.py` with the measure"):
        app([*words, "--measure", "mine.py:Mine"], standalone_mode=False)
    (tmp_path / "higher.py").write_text(HIGHER.replace('name = "higher"', 'name = "agreement"'))
    with pytest.raises(Refused, match="Two classes are called `agreement`"):
        app([*words, "--measure", "higher.py:Higher"], standalone_mode=False)


def test_a_measure_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "higher.py").write_text(HIGHER)
    with served(tmp_path, 'measures = ["higher.py:Higher"]') as (service, url, key):
        client = Client(url, key)
        question: dict[str, Any] = {
            "dataset": "survey", "estimator": "mean", "variable": "income", "measure": "higher",
            "margin": 0.5, "tolerance": {"value": 2.0}, "epsilon": "1",
        }  # fmt: skip
        assert client.price(question)["epsilon"] == "1"
        assert len(client.plan(question)["rows"]) == 400
        asked_by_command(tmp_path, url, key, question)
        reply = client.verify(question)
        assert reply["query"]["margin"] == 0.5
        assert 0 <= reply["noisy"] <= 15
        assert reply["posterior"]["share"] == reply["posterior"]["median"]
        assert "of the parts lie above" in reply["sentence"]
        assert reply["cannot"] == "It says nothing about how far above they are."
        assert "verification by higher, 15 partitions" in reply["claim"]
        again = client.verify(question)
        assert again | {"query": reply["query"]} == reply | {"replayed": True}
        answer = ask_by_page(
            url, key, "mean", variable="income", measure="higher", margin="1", tolerance="2",
            epsilon="2",
        )  # fmt: skip
        assert "Share above" in answer.text
        reserved = [e for e in service.ledger.entries() if e.kind == "reserve"]
        assert [e.micro for e in reserved] == [1_000_000, 2_000_000]
        assert reserved[0].content()["query"]["margin"] == 0.5
        released = [e for e in service.ledger.entries() if e.kind == "release"]
        assert released[0].content()["noisy"] == reply["noisy"]
        with pytest.raises(Refused, match="Laplace noise goes with the measure `agreement` only"):
            client.price(question | {"noise": "laplace"})
        with pytest.raises(Refused, match="margin"):
            client.price(question | {"margin": 10.0})
        schema = httpx.get(f"{url}/openapi.json", **CALLER).json()
        assert "margin" in schema["components"]["schemas"]["Query"]["properties"]


def test_an_estimator_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "squares.py").write_text(MEAN_SQUARE + LARGEST)
    own = 'estimators = ["squares.py:MeanSquare", "squares.py:Largest"]'
    with served(tmp_path, own) as (service, url, key):
        client = Client(url, key)
        question: dict[str, Any] = {
            "dataset": "survey", "estimator": "mean_square", "variable": "income",
            "origin": 100.0, "tolerance": {"value": 2.0}, "epsilon": "1",
            "domain": {"sex": [1]},
        }  # fmt: skip
        synthetic = client.price(question)["synthetic"]
        asked_by_command(tmp_path, url, key, question)
        frame = make_frame(400, seed=21)
        women = frame.filter(frame["sex"] == 1)
        squares = (women["income"] - 100.0) ** 2
        expected = (squares * women["w"]).sum() / women["w"].sum()
        assert synthetic["estimate"] == pytest.approx(expected)
        reply = client.verify(question)
        assert reply["query"]["origin"] == 100.0
        answer = ask_by_page(
            url, key, "mean_square", variable="income", origin="100", tolerance="2", epsilon="2"
        )
        assert "Mean square of income about 100" in answer.text
        # By workers, in a file that the worker's process has to find as well.
        truth = float(make_frame(400)["income"].max())
        near = {
            "dataset": "survey", "estimator": "largest", "variable": "income", "epsilon": "20",
            "estimate": truth, "se": 20.0, "tolerance": {"value": 2.0}, "partitions": 2,
        }  # fmt: skip
        assert client.verify(near)["query"]["estimator"] == "largest"
        query, data = service.catalogue.read(near), service.dataset("survey").data
        parts = partition_estimates(data, query, *assign_partitions(data, query), 100.0)
        assert parts.max() == truth > parts.min()
        reserved = [e.content()["query"] for e in service.ledger.entries() if e.kind == "reserve"]
        assert [q["estimator"] for q in reserved] == ["mean_square", "mean_square", "largest"]
        with pytest.raises(Refused, match="The estimator `mean` has no `origin`; leave it out"):
            client.price(question | {"estimator": "mean"})
        with pytest.raises(Refused, match="The estimator `mean_square` needs `origin`"):
            client.price({name: v for name, v in question.items() if name != "origin"})


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("    cannot =", "    unsaid =", "cannot"),
        ("    def law(", "    def lore(", "law"),
        ("    bounds = (0, 1) ", "    limits = (0, 1) ", "bounds"),
    ],
)
def test_a_measure_that_leaves_a_fact_out_is_refused_when_the_server_starts(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    assert old in HIGHER
    (tmp_path / "higher.py").write_text(HIGHER.replace(old, new))
    write_server(tmp_path, 'measures = ["higher.py:Higher"]')
    with pytest.raises(Refused, match=sentence):
        open_service(read_config(tmp_path / "server.toml"))


def test_names_and_types_of_fields_are_not_taken_twice(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(HIGHER.replace('name = "higher"', 'name = "agreement"'))
    write_server(tmp_path, 'measures = ["mine.py:Higher"]')
    with pytest.raises(Refused, match="Two classes are called `agreement`"):
        open_service(read_config(tmp_path / "server.toml"))
    (tmp_path / "mine.py").write_text(HIGHER.replace("margin", "epsilon"))
    with pytest.raises(Refused, match="`epsilon`, which every question has"):
        open_service(read_config(tmp_path / "server.toml"))
    (tmp_path / "mine.py").write_text(HIGHER.replace("margin", "clip"))
    with pytest.raises(Refused, match="declares `clip` with a different type"):
        open_service(read_config(tmp_path / "server.toml"))
