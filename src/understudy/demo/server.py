"""A demonstration for the verification server: generated data, a real release, two users.

The "confidential" survey is simulated from published tables (T §4.1), so nothing here is
anyone's. The release is made by the engine with FBS; it carries no formal privacy claim, and
the pages say that all of it is a demonstration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from understudy.demo.doctorates import codebook, population, sample, to_totals
from understudy.errors import Refused
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.survey.codebook import Codebook, Column
from understudy.survey.codebook_text import write_codebook
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey

NOTICE = "Demonstration: simulated data, and a release made from them for trying this out."
NAME = "doctorates"
DESIGN = Design(weight="weight", strata="field")

CONFIG = """\
# A demonstration; see the comments in understudy's documentation for every setting.
ledger = "ledger.db"
slot_seconds = 1.0

[datasets.doctorates]
path = "confidential.parquet"
codebook = "codebook.toml"
design = {{ weight = "weight", strata = "field" }}
released = [{released}]
cap = "20"
"""


@dataclass(frozen=True)
class Demonstration:
    config: Path
    analyst_key: str
    steward_key: str


def demonstration(
    folder: Path,
    n: int = 4000,
    datasets: int = 3,
    seed: int = 1,
    draws: int = 1000,
    say: Callable[[str], None] = lambda _: None,
) -> Demonstration:
    """Write everything that `understudy serve` needs into an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise Refused(f"`{folder}` is not empty; name a new folder for the demonstration.")
    say("Simulating a survey of doctorate recipients")
    survey = confidential(n, seed)
    write_survey(survey, folder / "confidential.parquet")
    write_codebook(survey.codebook, folder / "codebook.toml")
    say("Making the release (FBS, three synthetic files)")
    names = []
    for number, synthetic in enumerate(release(survey, datasets, seed, draws), start=1):
        names.append(f"synthetic-{number}.parquet")
        write_survey(synthetic, folder / names[-1])
    config = folder / "server.toml"
    listed = ", ".join(f'"{name}"' for name in names)
    config.write_text(CONFIG.format(released=listed), encoding="utf-8")
    with Ledger(folder / "ledger.db") as ledger:
        analyst = add_user(ledger, "analyst", "analyst", "demonstration")
        ledger.grant("analyst", "5", "demonstration")
        steward = add_user(ledger, "steward", "steward", "demonstration")
    return Demonstration(config, analyst, steward)


def confidential(n: int, seed: int) -> Survey:
    """The simulated survey, every person with an id of their own."""
    rng = np.random.default_rng(seed)
    frame = to_totals(sample(population(rng), n, rng))
    frame = frame.with_columns(pl.Series("person", rng.permutation(len(frame)) + 1))
    book: Codebook = codebook()
    person = Column("person", "unit", "integer", "Person")
    columns = {**book.columns, "person": person}
    return Survey(frame, DESIGN, replace(book, columns=columns, records_per_unit=1))


def release(survey: Survey, datasets: int, seed: int, draws: int) -> list[Survey]:
    """Synthetic files without the person's id."""
    from understudy.mechanisms.unweighted import Unweighted
    from understudy.models.normal_sample import FBS
    from understudy.synthesis import synthesize

    public = [name for name in survey.columns if name != "person"]
    known = Survey(survey.frame(public), DESIGN, survey.codebook.without_unit().only(public))
    model = FBS("salary", "field + gender")
    made = synthesize(known, model, Unweighted(), datasets, seed, draws=draws, progress=False)
    return list(made.datasets)
