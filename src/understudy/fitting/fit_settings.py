"""How a posterior is sampled for a release, as stewards ask for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from understudy.errors import Refused, UnknownName

__public__ = ("Settings as SamplerSettings",)

Missing = Literal["refuse", "drop", "model"]
Failed = Literal["refuse", "report"]

LEAST_DRAWS = 4  # of a chain
MOST_APART = 8  # data sets that have a chain each; more share chains, far apart
MOST = 64  # times the asked length that chains may take which miss narrowly


@dataclass(frozen=True)
class Settings:
    """`draws` are those kept over all chains. Chains that miss their diagnostics run up to
    `most_thinning` times as long (fitting/continuation), and the kept draws are spread over the
    longer run. Chains that diverge start again from where they are with a higher
    `target_acceptance`, that is, smaller steps."""

    draws: int = 2000
    chains: int = 4
    warmup: int = 500
    target_acceptance: float = 0.8
    most_thinning: int = MOST
    tolerant: bool = False  # a fit that fails its diagnostics is kept, where no epsilon is claimed
    fast: bool = False  # a clipped Gaussian model is refused where its proposals do not suit it

    def __post_init__(self) -> None:
        for name in ("draws", "chains", "warmup", "most_thinning"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise Refused(f"`{name}` must be a whole number of at least 1.")
        if self.draws < LEAST_DRAWS * self.chains:
            few = f"Each chain needs at least {LEAST_DRAWS} draws"
            raise Refused(f"{few}; ask for more draws or fewer chains.")
        if not 0 < self.target_acceptance < 1:
            raise Refused("`target_acceptance` must lie between 0 and 1.")

    def chains_for(self, datasets: int) -> int:
        """So many that draws for different data sets come from different chains."""
        return max(self.chains, min(datasets, MOST_APART, self.draws // LEAST_DRAWS))

    @property
    def per_chain(self) -> int:
        return -(-self.draws // self.chains)


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
