"""Releases for the report's tests: made up quickly, without a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.chance import chance_of
from understudy.claim import Claim
from understudy.dp.record_bounds import RecordBounds
from understudy.envelope import Envelope
from understudy.fitting.diagnostics import Diagnostics
from understudy.mechanisms.outputs.output import Ground, MadeRows
from understudy.report.evidence import gather
from understudy.report.inside_facts import RiskSettings
from understudy.report.public import public_page
from understudy.report.public_facts import PublicFacts
from understudy.report.verdict import Fitness
from understudy.risk.attacks import Attack, Rehearsal
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.synthesis import Synthesis
from understudy.tables.statistic import Statistic, parse_statistics
from understudy.tables.tabulate import tabulate

STATISTICS = ("count", "mean(salary)")
BY = ("field", "gender")
DESIGN = Design(weight="weight", strata="field")
CLAIM = Claim(
    "formal", 3.0, conditions=("The seed is kept secret", "Not claimed: x."), mechanism="Censored"
)
CODEBOOK = Codebook(
    {
        column.name: column
        for column in (
            Column("field", "stratum", "categorical", "Field of degree", (1, 2, 3)),
            Column("gender", "public", "categorical", "", ("f", "m"), {"f": "Female", "m": "Male"}),
            Column("salary", "sensitive", "continuous", "Salary", transform="log"),
            Column("weight", "weight", "continuous", "Design weight"),
        )
    }
)


def records(n: int, seed: int, like: pl.DataFrame | None = None) -> pl.DataFrame:
    """Public columns as in `like`, and fresh salaries."""
    rng = np.random.default_rng(seed)
    if like is None:
        field = np.sort(rng.integers(1, 4, n))
        like = pl.DataFrame(
            {
                "field": field,
                "gender": rng.choice(["f", "m"], n),
                "weight": rng.uniform(1.0, 9.0, n),
            }
        )
    shift = like["field"].to_numpy() * 0.2 + (like["gender"] == "m").to_numpy() * 0.1
    salary = np.exp(10.5 + shift + 0.4 * rng.standard_normal(like.height))
    return like.with_columns(pl.Series("salary", salary))


INTRUDER = RiskSettings((BY, ("field",)), ("salary",))


ATTACKS = Rehearsal(
    250,
    [Attack("singling out", "", 200, 30, 200, 28), Attack("inference", "salary", 100, 60, 100, 20)],
)


@dataclass(frozen=True, eq=False)
class Sample:
    """A made-up release: what its inside knows, what was synthesized, and its table."""

    confidential: Survey
    confidential_table: pl.DataFrame
    datasets: list[Survey]
    released_table: pl.DataFrame
    bounds: RecordBounds | None
    chains: Diagnostics | None
    record_weights: NDArray[np.float64]
    claim: Claim = CLAIM
    title: str = "Doctorates <test>"
    model_name: str = "FBS(salary ~ field + gender)"
    mechanism_name: str = "Censored(epsilon=3)"
    synthesized: tuple[str, ...] = ("salary",)
    statistics: tuple[Statistic, ...] = tuple(parse_statistics(STATISTICS, list(CODEBOOK.columns)))
    by: tuple[str, ...] = BY
    risk: RiskSettings | None = INTRUDER
    regression: str | None = "log(salary) ~ C(field) + gender"
    fitness: Fitness | None = None
    attacks: Rehearsal | None = ATTACKS
    rows_correspond: bool = True
    looked_at: int | None = None  # each so many-th record, for a sample

    @property
    def analysed(self) -> Survey:
        return self.confidential

    def sample(self, records: int) -> NDArray[np.int64] | None:
        return None if self.looked_at is None else np.arange(0, records, self.looked_at)

    def rehearse(self) -> Rehearsal | None:
        return self.attacks

    @property
    def result(self) -> Synthesis:
        first, made = self.datasets[0], MadeRows(tuple(self.datasets))
        kept = [name for name in first.columns if name not in self.synthesized]
        ground = Ground(
            (), first.columns, first.codebook, first.design, first.n, first.frame().select(kept)
        )
        return Synthesis(
            self.claim, made, ground, chance_of(1), "rows", self.record_weights, self.bounds,
            diagnostics=self.chains, rows_correspond=self.rows_correspond,
        )  # fmt: skip

    def evidence(self) -> dict[str, Any]:
        return gather(self, self.result, self.released_table, rules="")

    def facts(self, **changes: Any) -> PublicFacts:
        """What of the release is public before anything is drawn."""
        first = self.datasets[0]
        whole = PublicFacts(
            title=self.title,
            columns=first.columns,
            synthesized=self.synthesized,
            design=first.design,
            asked_statistics=tuple(statistic.text for statistic in self.statistics),
            by=self.by,
            margins=True,
            asked_formats=("csv",),
            folder=".",
            codebook=first.codebook,
            public=pl.DataFrame(),
        )
        return replace(whole, **changes)

    def public(self, **changes: Any) -> str:
        """The public page."""
        envelope = Envelope(self.claim, ("ParameterDraws",), ({"a": 1.0},))
        facts = self.facts(**changes)
        return public_page(facts, envelope, self.datasets, self.released_table, rules="")


def sample(n: int = 400, m: int = 3, **changes: Any) -> Sample:
    """A release with everything: records, chains, an intruder, a regression."""
    rng = np.random.default_rng(8)
    ours = records(n, 1)
    confidential = Survey(ours, DESIGN, CODEBOOK)
    datasets = [Survey(records(n, 2 + k, ours), DESIGN, CODEBOOK) for k in range(m)]
    loglik = rng.gamma(2.0, 1.0, n)
    whole = Sample(
        confidential,
        tabulate(confidential, STATISTICS, BY, margins=True),
        datasets,
        tabulate(datasets, STATISTICS, BY, margins=True, combine="partial"),
        RecordBounds(loglik, loglik, np.minimum(loglik, 0.5), 0.5, 2000),
        Diagnostics(
            ("a", "b", "c"),
            np.array([1.001, 1.004, 1.002]),
            np.array([900.0, 700.0, 1200.0]),
            np.array([800.0, 650.0, 1000.0]),
            0,
            4,
            2000,
            1,
        ),
        rng.uniform(0.2, 1.0, n),
    )
    return replace(whole, **changes)


def whole_rows(n: int = 400, m: int = 2, **changes: Any) -> Sample:
    """A release in which every value is drawn, and no row is that of a record."""
    drawn: dict[str, Any] = {"synthesized": tuple(CODEBOOK.columns), "rows_correspond": False}
    return sample(n, m, **drawn, bounds=None, chains=None, **changes)
