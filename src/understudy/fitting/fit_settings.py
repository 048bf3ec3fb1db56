"""How a posterior is sampled for a release, as stewards ask for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from understudy.errors import UnknownName
from understudy.fitting.continuation import MOST
from understudy.fitting.missing import Missing
from understudy.fitting.nuts import Settings

Failed = Literal["refuse", "report"]


@dataclass(frozen=True)
class FitSettings:
    """How the posterior is sampled, and what becomes of missing values and failed chains."""

    draws: int = 2000
    chains: int = 4
    warmup: int = 500
    target_acceptance: float = 0.8
    missing: Missing = "refuse"
    diagnostics: Failed = "refuse"
    progress: bool | None = None

    def __post_init__(self) -> None:
        for value, name, choices in (
            (self.missing, "missing values", get_args(Missing)),
            (self.diagnostics, "failed diagnostics", get_args(Failed)),
        ):
            if value not in choices:
                raise UnknownName(f"way to treat {name}", str(value), choices)

    @property
    def sampler(self) -> Settings:
        tolerant = self.diagnostics == "report"
        return Settings(
            self.draws, self.chains, self.warmup, self.target_acceptance,
            most_thinning=2 if tolerant else MOST, tolerant=tolerant,
        )  # fmt: skip
