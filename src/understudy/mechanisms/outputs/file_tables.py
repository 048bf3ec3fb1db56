"""The output of mechanisms for whole files: noisy tables over declared cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import polars as pl

from understudy.chance import Chance
from understudy.mechanisms.outputs.output import DrawValues, Ground, MechanismOutput
from understudy.mechanisms.whole_file.files import synthetic_files
from understudy.mechanisms.whole_file.noisy_file import NoisyFile, from_draws
from understudy.survey.survey import Survey


@dataclass(frozen=True, eq=False)
class FileTables(MechanismOutput):
    """The tables of every data set, from which files of any size can be drawn."""

    needs_models = False

    noisy: NoisyFile = field(repr=False)

    def draws(self) -> list[DrawValues]:
        return self.noisy.draws()

    @classmethod
    def from_draws(cls, draws: Sequence[Mapping[str, Any]]) -> Self:
        return cls(from_draws(draws))

    def datasets(self, ground: Ground, chance: Chance) -> list[Survey]:
        if ground.cluster is not None:
            from understudy.mechanisms.whole_file.files_there import files_there

            published = ground.codebook, ground.design
            return files_there(self.noisy, *published, chance, ground.cluster)
        assert isinstance(ground.public, pl.DataFrame)  # columns are kept in memory alone
        kept = ground.public if ground.public.width else None
        made = synthetic_files(
            self.noisy, ground.codebook, ground.design, chance, kept, ground.made
        )
        return [*made]
