"""`serve`, `user`, `plan`, `verify` as a person meets them: one sentence, or the thing itself."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from command_line import understudy

from understudy.cli.main import app
from understudy.errors import Refused
from understudy.ledger.accounts import WrongKey, authenticate
from understudy.ledger.ledger import Ledger
from understudy.survey.codebook import Codebook, Column
from understudy.survey.codebook_text import write_codebook
from understudy.verify.catalogue import packaged
from understudy.verify.client import Client
from understudy.verify.config import read_config
from understudy.verify.service import open_service

pytestmark = pytest.mark.any_noise

RUN = "from understudy.cli.main import run; run()"

CONFIG = """
ledger = "ledger.db"
slot_seconds = 0.3
port = 0
[datasets.pay]
path = "confidential.csv"
codebook = "codebook.toml"
design = { weight = "w" }
released = ["synthetic.csv"]
cap = "3"
"""
QUESTION = {
    "dataset": "pay",
    "estimator": "mean",
    "variable": "pay",
    "tolerance": {"value": 2.0},
    "epsilon": "0.5",
    "partitions": 10,
}


def refusal(*words: str) -> str:
    """What `run` prints for these words, without a new process."""
    with pytest.raises(Refused) as refused:
        app(list(words), standalone_mode=False)
    return str(refused.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("server")
    columns = (
        Column("person", "unit", "integer"),
        Column("pay", "sensitive", "continuous"),
        Column("w", "weight", "continuous"),
    )
    write_codebook(Codebook({c.name: c for c in columns}), made / "codebook.toml")
    numbers = pl.DataFrame({"person": range(400)}).with_columns(
        pay=(pl.col("person") * 37 % 101).cast(pl.Float64), w=1.0 + pl.col("person") % 3
    )
    numbers.write_csv(made / "confidential.csv")
    numbers.drop("person").sample(fraction=0.5, seed=1).write_csv(made / "synthetic.csv")
    (made / "server.toml").write_text(CONFIG)
    (made / "question.json").write_text(json.dumps(QUESTION))
    return made


@pytest.fixture(scope="module")
def key(folder: Path) -> str:
    done = understudy("user", "add", str(folder / "server.toml"), "ann", "--epsilon", "1")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def url(folder: Path, key: str) -> Iterator[str]:
    assert key
    server = subprocess.Popen(
        [sys.executable, "-u", "-c", RUN, "serve", str(folder / "server.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line.startswith("Serving pay at http://127.0.0.1:"), line
    yield line.split()[3]
    server.send_signal(signal.SIGINT)
    out, err = server.communicate(timeout=250)
    assert server.returncode == 0, err
    assert "Traceback" not in out + err


def test_users_are_added_granted_and_listed(folder: Path, key: str) -> None:
    config = str(folder / "server.toml")
    assert key.startswith("us_")
    granted = understudy("user", "grant", config, "ann", "0.25")
    assert granted.stdout == "ann has epsilon 1.25 left.\n"
    listed = understudy("user", "list", config)
    assert "ann" in listed.stdout
    assert "1.25" in listed.stdout
    assert key.split("_", 2)[2] not in listed.stdout
    for words, sentence in (
        (("add", config, "ann"), "There is a user `ann` already"),
        (("add", config, "bob", "--role", "king"), "Unknown role `king`"),
        (("add", config, "bob", "--epsilon", "nan"), "plain decimal"),
        (("grant", config, "anne", "1"), "did you mean `ann`"),
        (("grant", config, "ann", "0"), "above 0"),
        (("list", str(folder / "none.toml")), "There is no configuration"),
    ):
        assert sentence in refusal("user", *words)


def test_an_account_is_closed_and_a_key_replaced_from_the_command_line(
    folder: Path, tmp_path: Path
) -> None:
    """Without a running server, and one that has the ledger open sees it at its next request."""
    config = tmp_path / "server.toml"
    shutil.copy(folder / "server.toml", config)
    key = understudy("user", "add", str(config), "bob").stdout.strip()
    with Ledger(read_config(config).ledger) as serving:
        assert authenticate(serving, key).name == "bob"
        assert understudy("user", "disable", str(config), "bob").stdout == "bob is shut out.\n"
        with pytest.raises(WrongKey):
            authenticate(serving, key)
        assert understudy("user", "enable", str(config), "bob").stdout == "bob is let in again.\n"
        assert authenticate(serving, key).name == "bob"
        other = understudy("user", "key", str(config), "bob").stdout.strip()
        assert authenticate(serving, other).name == "bob"
        with pytest.raises(WrongKey):
            authenticate(serving, key)
        said = [(entry.kind, entry.content().get("by")) for entry in serving.entries()]
    by = "command line"
    assert said[1:] == [("user", by), ("disable", by), ("enable", by), ("key", by)]
    for command in ("disable", "enable", "key"):
        assert "did you mean `bob`" in refusal("user", command, str(config), "bobb")


def test_grants_end_keys_are_revoked_and_large_ones_wait(tmp_path: Path) -> None:
    config = tmp_path / "server.toml"
    config.write_text(f'second_steward_above = "3"\n{CONFIG}')
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.add_dataset("ab" * 32, "pay", "3")
    user = ("user", "add", str(config), "ann")
    old = understudy(*user).stdout.strip()
    grant = ("user", "grant", str(config), "ann", "2", "--dataset", "pay", "--until", "2099-01-01")
    assert understudy(*grant).stdout == "ann has epsilon 2 left.\n"
    assert "waits for the stewards.\nann has epsilon 2 left." in understudy(*grant).stdout
    assert "A day is written like" in refusal(*grant[:-1], "soon")
    assert "waits for the stewards" in understudy("user", "cap", str(config), "pay", "1").stdout
    assert "two stewards raise a cap" in refusal("ledger", "cap", str(config), "pay", "1")
    understudy("user", "revoke", str(config), "ann")
    with Ledger(tmp_path / "ledger.db") as ledger:
        with pytest.raises(WrongKey):
            authenticate(ledger, old)
        assert ledger.account("ann", "ab" * 32).budget.left == 2_000_000
        assert ledger.budget("dataset", "ab" * 32).allowed == 3_000_000


def test_a_question_is_priced_confirmed_and_answered(folder: Path, key: str, url: str) -> None:
    question = str(folder / "question.json")
    options = (question, "--server", url)
    priced = understudy("verify", *options, "--price", UNDERSTUDY_KEY=key)
    assert "Price: epsilon 0.5." in priced.stdout, priced.stderr
    left = Client(url, key).me()["left"]
    declined = understudy("verify", *options, typed="n\n", UNDERSTUDY_KEY=key)
    assert declined.returncode != 0
    assert Client(url, key).me()["left"] == left
    receipt = folder / "receipt.json"
    done = understudy("verify", *options, "--yes", "--receipt", str(receipt), UNDERSTUDY_KEY=key)
    assert done.returncode == 0, done.stderr
    assert "What it cannot say" in done.stdout
    answer = json.loads(receipt.read_text())
    assert answer["sentence"] in done.stdout
    assert float(Client(url, key).me()["left"]) == float(left) - 0.5
    again = understudy("verify", "-", "--server", url, typed=json.dumps(QUESTION),
                       UNDERSTUDY_KEY=key)  # fmt: skip
    assert "epsilon 0 (asked before)" in again.stdout
    assert answer["sentence"] in again.stdout


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"variable": "pya"}, "did you mean `pay`"),
        ({"dataset": "play"}, "did you mean `pay`"),
        ({"epsilon": "2"}, "This needs epsilon 2"),
        ({"epsilon": 1.0}, "epsilon"),
        ({"surprise": 1}, "Unknown field `surprise`"),
        ({"tolerance": {"value": -1}}, "greater than 0"),
    ],
)
def test_a_bad_question_is_one_sentence(
    folder: Path, key: str, url: str, changes: dict[str, object], sentence: str
) -> None:
    left = Client(url, key).me()["left"]
    path = folder / "bad.json"
    path.write_text(json.dumps(QUESTION | changes))
    message = refusal("verify", str(path), "--yes", "--server", url, "--key", key)
    assert sentence in message
    assert Client(url, key).me()["left"] == left


WRONG: dict[str, object] = {
    "dataset": "", "estimator": "median", "variable": 3, "level": ["North"], "denominator": "",
    "probability": 1.0, "predictors": "region", "coefficient": "", "coefficient_level": {},
    "domain": "region", "versus": [{"column": "pay"}], "measure": "distance", "tolerance": 2,
    "partitions": 1, "epsilon": "1e-3", "estimate": "high", "se": 0, "clip": 100, "noise": "normal",
    "partitioning": "random", "other": "", "by": "region", "delta": "2",
    "also": "region",
}  # fmt: skip


def test_every_field_of_a_question_is_refused_by_its_name(folder: Path, key: str, url: str) -> None:
    """The server's own sentence, which it says before it spends anything."""
    left = Client(url, key).me()["left"]
    assert set(WRONG) == set(packaged().query_type.model_fields)
    path = folder / "wrong.json"
    for field, value in WRONG.items():
        path.write_text(json.dumps(QUESTION | {field: value}))
        sentence = refusal("verify", str(path), "--yes", "--server", url, "--key", key)
        assert field in sentence.lower(), sentence
        assert ". " not in sentence  # one sentence
        assert "nput should" not in sentence
        assert "No verification server" not in sentence
    assert Client(url, key).me()["left"] == left


@pytest.mark.parametrize("field", ["dataset", "estimator", "variable", "tolerance", "epsilon"])
def test_a_question_without_a_field_is_told_which(
    folder: Path, key: str, url: str, field: str
) -> None:
    path = folder / "lacking.json"
    path.write_text(json.dumps({k: v for k, v in QUESTION.items() if k != field}))
    sentence = refusal("verify", str(path), "--yes", "--server", url, "--key", key)
    assert sentence == f"`{field}` is missing."


@pytest.mark.parametrize(
    "text",
    ["", "salary", "[1, 2]", '"mean"', '{"dataset": ', pytest.param("[" * 100_000, id="deep")],
)
def test_a_question_that_is_not_a_json_object_is_not_sent(folder: Path, text: str) -> None:
    """Port 9 answers nobody."""
    path = folder / "text.json"
    path.write_text(text)
    sentence = refusal("verify", str(path), "--server", "http://127.0.0.1:9", "--key", "us_x")
    assert "is not a JSON object" in sentence


def test_the_help_of_a_plan_says_what_the_measures_declare(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app(["plan", "--help"], standalone_mode=False)
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    first, *others = (name for name, kind in packaged().measures.items() if kind.divides)
    assert f"{first} (the default), {', '.join(others)}, or one of your own" in shown
    for name, measure in packaged().measures.items():
        assert (f"{measure.partitions} ({name})" in shown) == measure.divides
    assert "{" not in shown


def test_verify_without_key_or_server_says_so(folder: Path) -> None:
    question = str(folder / "question.json")
    for words, key, sentence in (
        ((question,), "", "UNDERSTUDY_KEY"),
        ((question, "--server", "http://127.0.0.1:9"), "us_x", "No verification server answers"),
        ((str(folder / "none.json"),), "us_x", "There is no question"),
    ):
        assert sentence in refusal("verify", *words, "--key", key)


def test_a_plan_needs_no_server(tmp_path: Path) -> None:
    figure, table = tmp_path / "plan.svg", tmp_path / "plan.csv"
    words = ("plan", "--estimate", "100", "--se", "2", "--figure", str(figure), "--out", str(table))
    done = understudy(*words)
    assert done.returncode == 0, done.stderr
    assert "says_right" in done.stdout
    assert figure.read_text().rstrip().endswith("</svg>")
    assert pl.read_csv(table).height == 400
    for extra, sentence in (
        (("--epsilon", "nan"), "plain decimal"),
        (("--measure", "magic"), "discrepancy"),
        (("--unit", "miles"), "Unknown unit"),
        (("--partitions", "1"), "Partitions must be"),
    ):
        assert sentence in refusal("plan", "--estimate", "100", "--se", "2", *extra)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "names no data set"),
        ("x = 1", "Unknown setting"),
        ("not toml", "not valid TOML"),
        ('[datasets.a]\npath = "a"\ncap = "1"', "names no ledger"),
        ('ledger = "l"\n[datasets.a]\npath = "a"', "lacks `cap`"),
        ('ledger = "l"\n[datasets.a]\npath = "a"\ncap = "lots"', "plain decimal"),
        ('ledger = "l"\nport = "80"\n[datasets.a]\npath = "a"\ncap = "1"', "must be a number"),
        ('ledger = "l"\nslot_seconds = 0\n[datasets.a]\npath = "a"\ncap = "1"', "from 0.01"),
        ('ledger = "l"\nplaces = true\n[datasets.a]\npath = "a"\ncap = "1"', "must be a number"),
        ('ledger = "l"\n[datasets.a]\npath = "a"\ncap = "1"\nreleased = "x"', "list of files"),
        ('ledger = "l"\n[datasets.a]\npath = "a"\ncap = "1"\ncombine = "max"', "Unknown"),
        ('ledger = "l"\n[datasets.a]\npath = "a"\ncap = "1"\ndesign = 1', "must be a table"),
        ('ledger = "l"\n[datasets.a]\npath = "a"\ncap = "1"\ndesign = {weigth = "w"}', "weight"),
        ('ledger = "l"\n[datasets.a]\npath = "a.csv"\ncap = "1"', "a.csv"),
        ('ledger = "mysql://x"\n[datasets.a]\npath = "a.csv"\ncap = "1"', "mysql"),
    ],
)
def test_a_bad_configuration_is_one_sentence(
    tmp_path: Path, text: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.toml").write_text(text)
    with pytest.raises(Refused, match=sentence):
        open_service(read_config(tmp_path / "server.toml"))


def test_all_mistakes_of_a_configuration_are_named_by_their_lines(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(
        'ledger = "l"\nport = "80"\n\n[datasets.a]\npth = "a"\ncap = "lots"\n'
    )
    with pytest.raises(Refused) as refused:
        read_config(tmp_path / "server.toml")
    assert [line.split(";")[0] for line in str(refused.value).splitlines()] == [
        "server.toml:2: `port` in the configuration must be a number.",
        "server.toml:4: [datasets.a] lacks `path`.",
        "server.toml:5: Unknown setting of [datasets.a] in the configuration `pth`",
        'server.toml:6: Epsilon must be a plain decimal such as "0.25", with at most six digits '
        "after the point.",
    ]


def test_serve_refuses_in_one_sentence(tmp_path: Path) -> None:
    assert "one of the two" in refusal("serve", "x.toml", "--demo")
    assert "There is no configuration" in refusal("serve", str(tmp_path / "none.toml"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "not empty" in refusal("serve", "--demo", "--folder", str(tmp_path / "full"))
    done = understudy("serve", str(tmp_path / "none.toml"))
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr


def test_a_restored_ledger_stops_the_server(folder: Path, tmp_path: Path, key: str) -> None:
    """Threat 3 as the steward meets it."""
    assert key
    mine = tmp_path / "copy"
    shutil.copytree(folder, mine, ignore=shutil.ignore_patterns("*.db*"))
    config = str(mine / "server.toml")
    app(["user", "add", config, "ann"], standalone_mode=False)
    old = {p.name: p.read_bytes() for p in mine.glob("ledger.db*") if not p.name.endswith("head")}
    app(["user", "grant", config, "ann", "1"], standalone_mode=False)
    for path in mine.glob("ledger.db*"):
        if not path.name.endswith("head"):
            path.unlink()
    for name, content in old.items():
        (mine / name).write_bytes(content)
    assert "old copy" in refusal("serve", config)


def test_a_cap_is_raised_by_name_and_stays_on_record(folder: Path, tmp_path: Path) -> None:
    for name in ("confidential.csv", "codebook.toml", "synthetic.csv", "server.toml"):
        shutil.copy(folder / name, tmp_path / name)
    config = str(tmp_path / "server.toml")
    assert "population" in refusal("user", "cap", config, "pay", "2")  # never served
    with closing(open_service(read_config(tmp_path / "server.toml"))) as service:
        fingerprint = service.dataset("pay").data.fingerprint
    done = understudy("user", "cap", config, "pay", "2.5")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "pay has a cap of epsilon 5.5, 5.5 of it left.\n"
    assert understudy("user", "cap", config, fingerprint, "0.5").stdout.count("epsilon 6,") == 1
    for wrong in ("nan", "-1", "1e9", "0"):
        assert refusal("user", "cap", config, "pay", "--", wrong)
    assert "did you mean `pay`" in refusal("user", "cap", config, "pai", "1")
    with closing(open_service(read_config(tmp_path / "server.toml"))) as service:
        assert service.left_for("pay") == "6"
        caps = [e for e in service.ledger.entries() if e.kind == "cap"]
        assert [(e.micro, e.content()) for e in caps] == [
            (2_500_000, {"by": "command line"}),
            (500_000, {"by": "command line"}),
        ]
        with pytest.raises(Refused, match="another file"):
            service.ledger.add_dataset("ab" * 32, "pay", "1")


def test_a_changed_file_is_served_when_the_steward_has_said_what_it_is(
    folder: Path, tmp_path: Path
) -> None:
    for name in ("confidential.csv", "codebook.toml", "synthetic.csv", "server.toml"):
        shutil.copy(folder / name, tmp_path / name)
    config, path = str(tmp_path / "server.toml"), tmp_path / "server.toml"
    with closing(open_service(read_config(path))) as service:
        service.ledger.record_spending(service.dataset("pay").data.fingerprint, "1", "a table")
    lines = (tmp_path / "confidential.csv").read_text().splitlines()
    lines[1] = lines[2]  # a correction
    (tmp_path / "confidential.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(Refused, match=r"`pay` is the name of another file.*ledger successor"):
        open_service(read_config(path))
    assert "reason" in refusal("ledger", "successor", config, "pay")
    done = understudy("ledger", "successor", config, "--reason", "a typing error")
    assert done.stdout == "The file is now one of `pay` and shares its cap.\n", done.stderr
    with closing(open_service(read_config(path))) as service:
        assert service.left_for("pay") == "2"
    assert "knows this file already" in refusal("ledger", "successor", config, "--reason", "again")
    (tmp_path / "confidential.csv").write_text("\n".join(lines[:-40]) + "\n")
    path.write_text(path.read_text().replace('cap = "3"', 'cap = "4"\npopulation = "others"'))
    assert "akin" in refusal("serve", config)
    done = understudy("ledger", "population", config, "--reason", "a new sample")
    assert done.stdout == "`others` is a population of its own, with a cap of 4.\n", done.stderr
    with closing(open_service(read_config(path))) as service:
        assert service.left_for("pay") == "4"
    assert "one record" in understudy("ledger", "list", config).stdout
    assert understudy("ledger", "cap", config, "others", "1").stdout.count("cap of epsilon 5") == 1
    done = understudy("ledger", "merge", config, "others", "pay", "--reason", "they are the same")
    assert done.stdout == "`pay, others` is one population now.\n", done.stderr
    with closing(open_service(read_config(path))) as service:
        assert service.left_for("pay") == "4"  # a cap of 5, 1 spent
