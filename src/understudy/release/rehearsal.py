"""A rehearsal for the internal report: the release's own method on half of the records, attacked.

Whether synthetic files give their own records away shows only against records that were not used
(risk/attacks.py). All records are used for the release, so the same model and mechanism are run
once more, on a random half, with noise of their own; the other half is the control. Nothing of it
is published, and the records that a unit has stay on one side.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from understudy.chance import Chance
from understudy.errors import Refused
from understudy.mechanisms.contract import Mechanism
from understudy.models.contract import FileModel, Model
from understudy.release.confidential_file import sampled
from understudy.risk.attacks import Rehearsal, attack
from understudy.survey.survey import Survey
from understudy.synthesis import synthesize

if TYPE_CHECKING:
    from understudy.release.inside import Inside

FEWEST = 100  # records in a half
MOST = 100_000
ATTACKED = ("public", "sensitive", "stratum")  # roles; a weight is nobody's knowledge


def rehearsal(inside: Inside) -> Rehearsal | None:
    """None where the model is not one of whole files, or there are too few records."""
    if not isinstance(inside.model, FileModel):
        return None
    chance = Chance(hashlib.sha256(inside.identity.encode()).digest(), "system")
    survey, datasets = sampled(inside.counted, inside.identity), inside.recipe.synthesis.datasets
    return rehearsed(survey, inside.model, inside.mechanism, datasets, chance)


def rehearsed(
    survey: Survey, model: Model, mechanism: Mechanism, datasets: int, chance: Chance
) -> Rehearsal | None:
    """The attacks on synthetic files of one half, with the other half as control."""
    rng = chance.generator("rehearsal")
    used, control = _halves(survey, rng)
    if used.height < FEWEST:
        return None
    half = Survey(used, survey.design, survey.codebook)
    try:
        result = synthesize(half, model, mechanism, datasets, chance.secret)
    except Refused:  # a half may be too small for what the whole file allows
        return None
    codebook, made = survey.codebook, result.datasets[0].columns
    names = [c.name for c in codebook if c.role in ATTACKED and c.name in made]
    if len(names) < 2:
        return None
    categories = [name for name in names if codebook[name].type == "categorical"]
    frames = [
        frame.select(names).with_columns(pl.col(categories).cast(pl.String))
        for frame in (used, control, pl.concat([d.raw.to_polars() for d in result.datasets]))
    ]
    return Rehearsal(used.height, attack(frames[0], frames[1], frames[2], rng))


def _halves(survey: Survey, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two random parts of equal size; units stay whole."""
    unit = survey.codebook.unit_column
    if unit is None or unit not in survey.columns:
        number = np.arange(survey.n)
    else:
        of_unit = survey.raw.select(unit).to_polars()[unit]
        number = of_unit.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    side = rng.permutation(int(number.max(initial=0)) + 1)[number] % 2 == 0
    rows = [np.flatnonzero(side), np.flatnonzero(~side)]
    size = min(len(rows[0]), len(rows[1]), MOST)
    first, second = (np.sort(rng.choice(each, size, replace=False)) for each in rows)
    return survey.taken(first).raw.to_polars(), survey.taken(second).raw.to_polars()
