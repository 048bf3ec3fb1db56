"""The whole story on a simulated survey: `understudy demo`.

A confidential survey and last cycle's file are simulated (T §4.1), the codebook is drafted and
declared, two releases are made from recipes and compared, and an analyst who has only a public
release plans one verification and asks it of a server. One ledger holds all that was spent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from understudy.claim import Claim
from understudy.demo.server import DESIGN, confidential
from understudy.drawing import save_figure
from understudy.errors import Refused
from understudy.ledger.accounts import add_user
from understudy.ledger.entry_kinds import SPENDING
from understudy.ledger.ledger import Ledger
from understudy.release.open import open_release
from understudy.release.publish import publish
from understudy.report.comparison import compare_releases, comparison_figure
from understudy.survey.codebook_text import codebook_to_toml, write_codebook
from understudy.survey.draft import draft_codebook
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey
from understudy.tables.tabulate import tabulate
from understudy.verify.client import Client
from understudy.verify.config import read_config
from understudy.verify.planner import plan
from understudy.web.run import run_server

Say = Callable[[str], None]

RECIPE = """\
# A release of a simulated survey; `understudy release {name}.toml --dry-run` explains it.
[data]
path = "internal/confidential.parquet"
codebook = "codebook.toml"

[design]
weight = "weight"
strata = "field"

[synthesis]
model = "FBS"                       # salaries and weights, given field and gender
sensitive = "salary"
predictors = "field + gender"
datasets = {datasets}

[privacy]
{privacy}

[tables]
statistics = ["count", "mean(salary)"]
by = ["field", "gender"]

[risk]
known = ["field", "gender"]

[utility]
regression = "log(salary) ~ gender"

[output]
title = "Doctorate recipients (simulated): {title}"
formats = ["csv"]

[ledger]
place = "internal/ledger.db"
cap = "100"
"""
FORMAL = """\
mechanism = "ReferenceCensored"     # formal, around last cycle's file
epsilon = {epsilon:g}
reference = "internal/last-cycle.parquet"
prior_scale = 0.5"""
ASYMPTOTIC = """\
mechanism = "Weighted"              # the paper's: asymptotic
epsilon = 10.8"""
SERVER = """\
ledger = "internal/ledger.db"
slot_seconds = 0.5
port = 0

[datasets.doctorates]
path = "internal/confidential.parquet"
codebook = "codebook.toml"
design = {{ weight = "weight", strata = "field" }}
released = [{released}]
cap = "100"
"""
QUESTION: dict[str, Any] = {
    "dataset": "doctorates",
    "estimator": "mean",
    "variable": "salary",
    "tolerance": {"value": 2},
    "partitions": 25,  # 40 records in each; estimates from fewer are biased
    "epsilon": "1",
}


@dataclass(frozen=True)
class Demonstrated:
    """What the demonstration made, for telling and for testing."""

    claim: Claim
    compared: pl.DataFrame = field(repr=False)  # confidential and released margins: internal
    comparison: pl.DataFrame = field(repr=False)
    says_right: float  # the planner's chance that the answer is right
    answer: dict[str, Any] = field(repr=False)
    spent: str


def demonstrate(folder: Path, epsilon: float, datasets: int, seed: int, say: Say) -> Demonstrated:
    """Everything into `folder`; a second run in the same folder goes on or finds it done."""
    survey = _surveys(folder, seed, say)
    names = {}
    for name, title, privacy in (
        ("formal", "formal release", FORMAL.format(epsilon=epsilon)),
        ("asymptotic", "asymptotic release", ASYMPTOTIC),
    ):
        recipe = folder / f"{name}.toml"
        text = RECIPE.format(name=name, title=title, privacy=privacy, datasets=datasets)
        recipe.write_text(text, encoding="utf-8")
        say(f"\n$ understudy release {recipe}")
        names[name] = publish(recipe, say=say, progress=False)
    comparison = compare_releases(list(names.values()))
    save_figure(comparison_figure(comparison), folder / "internal" / "comparison")
    release = open_release(names["formal"])
    statistics, by = list(release.statistics), list(release.by)
    compared = _side_by_side(
        tabulate(survey, statistics, by, margins=True),
        tabulate(release, statistics, by, margins=True),
        by,
    )
    say("\nAn analyst plans a verification: is the mean salary right?")
    row = tabulate(release, "mean(salary)").row(0, named=True)
    planned = plan(
        row["estimate"],
        row["se"],
        epsilon=QUESTION["epsilon"],
        tolerance=2.0,
        partitions=QUESTION["partitions"],
    )
    (folder / "plan.svg").write_text(planned.figure(), encoding="utf-8")
    answer = _asked(folder, len(release), say)
    with Ledger(folder / "internal" / "ledger.db") as ledger:
        micro = sum(e.micro for e in ledger.entries() if e.kind in SPENDING)
    return Demonstrated(
        release.claim,
        compared,
        comparison,
        float(planned.table["says_right"].mean()),  # type: ignore[arg-type]
        answer,
        f"{micro / 1e6:g}",
    )


def _surveys(folder: Path, seed: int, say: Say) -> Survey:
    """The confidential file, last cycle's, and a codebook: drafted, then declared."""
    inside = folder / "internal"
    try:
        inside.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"`{folder}` cannot be written: {error.strerror}.") from None
    survey, last = confidential(1000, seed), confidential(1000, seed + 1)
    write_survey(survey, inside / "confidential.parquet")
    write_survey(last, inside / "last-cycle.parquet")
    drafted = draft_codebook(survey.raw, DESIGN)
    (inside / "codebook.draft.toml").write_text(codebook_to_toml(drafted), encoding="utf-8")
    write_codebook(survey.codebook, folder / "codebook.toml")
    facts = sum(len(column.drafted) for column in drafted)
    say(
        f"A survey of {survey.n:,} doctorate recipients (simulated), and last cycle's file as the "
        f"reference.\nIts drafted codebook has {facts} facts to be declared before a formal claim "
        "may rest on them; codebook.toml declares them."
    )
    return survey


def _asked(folder: Path, datasets: int, say: Say) -> dict[str, Any]:
    """One question to a server of our own, on this machine's loopback."""
    files = ", ".join(f'"formal/synthetic/{k}.parquet"' for k in range(1, datasets + 1))
    config = folder / "server.toml"
    config.write_text(SERVER.format(released=files), encoding="utf-8")
    with Ledger(folder / "internal" / "ledger.db") as ledger:
        known = {e.user for e in ledger.entries() if e.kind == "grant"}
        name = f"analyst-{len(known) + 1}"  # a key is shown once: each run has its own analyst
        key = add_user(ledger, name, "analyst", "demonstration")
        ledger.grant(name, "2", "demonstration")
    server = run_server(read_config(config))
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        client = Client(server.url, key)
        price = client.price(QUESTION)["epsilon"]
        say(f"The server's price, before paying: epsilon {price}. The answer:")
        answer = client.verify(QUESTION)
    finally:
        server.stop()
        thread.join(timeout=30)
    say(f"  {answer['sentence']}")
    return answer


def _side_by_side(hidden: pl.DataFrame, shown: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Margins of both tables with their standard errors."""
    keys = [*by, "statistic"]
    columns = [*keys, "estimate", "se"]
    margin = pl.any_horizontal(pl.col(name) == "All" for name in by)
    return (
        hidden.select(columns)
        .join(shown.select(columns), on=keys, how="left", suffix="_released", maintain_order="left")
        .filter(margin)
    )
