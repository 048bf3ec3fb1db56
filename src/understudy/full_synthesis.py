"""Full synthesis: a population is completed from the model, and a simple random sample of it is
released (V §3, after Raghunathan, Reiter and Rubin 2003).

Every unit of the population gets values from one draw of the parameters, those of the confidential
sample too (V allows it): so the files are made of the draws and of public columns alone, and the
claim of the draws holds for them. Given the draw, units are independent; choosing the n0 units
first and making their values then has the same law as completing all N, and costs n0 of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from understudy.chance import Chance, Seed, chance_of
from understudy.errors import Refused, UnknownName
from understudy.mechanisms.outputs.outcome_draws import OutcomeOutput, made_ready
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.selection import simple_random
from understudy.survey.survey import Survey
from understudy.synthesis import Synthesis

if TYPE_CHECKING:
    from understudy.models.contract import OutcomeModel

__public__ = ("full_synthesis",)

WEIGHT, SIZE = "weight", "population"


def full_synthesis(
    result: Synthesis, population: pl.DataFrame, size: int, seed: Seed = None
) -> list[Survey]:
    """A fully synthetic survey of `size` units from each draw of `result`: public columns, the
    synthesized ones, `weight` = N/n0 and `population` = N, which is the design's fpc.

    `population` has a row for each of the N units, with the public columns that the model knows; a
    register, or a table of public counts written out. Combine estimates by combine="full". The
    model must describe the population: FBP does under an informative design, models without the
    weight do where the design tells nothing beyond their predictors.
    """
    from understudy.models.survey_normal import SurveyNormal  # JAX, which tables do not need

    output, ground = result.output, result.ground
    if not isinstance(output, OutcomeOutput):
        raise Refused("Full synthesis needs a model of an outcome given public columns.")
    if ground.known.width:  # kind `risk`: the model may look at records, and these are public rows
        ground = replace(ground, known=pl.DataFrame())
    model, fitted_on = made_ready(ground)
    if isinstance(model.plain, SurveyNormal):
        if model.plain.describes == "sample":
            raise Refused(
                f"{type(model.plain).__name__} describes the sample and not the population it came "
                "from; use FBP, or a model without the weight where the design tells nothing about "
                "the outcome."
            )
        model = replace(
            model.plain, tables="paper"
        )  # independent units; other files balance theirs
    if model.generates_from_records:
        raise Refused(
            f"{type(model).__name__} makes each record from its own confidential values; a unit "
            "outside the sample has none."
        )
    known = list(model.given_columns())
    for name in known:
        if name not in population.columns:
            raise UnknownName("column of the population", name, population.columns)
    if not 1 <= size <= population.height:
        raise Refused(f"`size` must lie between 1 and the {population.height:,} units.")
    if {WEIGHT, SIZE} & {*known, *_outcomes(model)}:
        raise Refused(f"Rename the columns `{WEIGHT}` and `{SIZE}`: the files have their own.")
    chance = chance_of(seed)
    units = population.select(known)
    return [
        _one_file(output, number, model, fitted_on, units, size, chance, ground.codebook)
        for number in range(len(output.drawn))
    ]


def _one_file(
    output: OutcomeOutput,
    number: int,
    model: OutcomeModel,
    fitted_on: Survey,
    units: pl.DataFrame,
    size: int,
    chance: Chance,
    codebook: Codebook,
) -> Survey:
    own = chance.generator(f"units {number}")
    chosen = units[simple_random(units.height, size, own).index]
    # values in place of those that are made; nothing depends on them
    first = fitted_on.raw.select(list(model.sensitive)).to_polars()[:1]
    stood_in = chosen.with_columns(first[name].new_from_index(0, size) for name in first.columns)
    rows = Survey(stood_in, fitted_on.design, codebook)
    arrays = model.prepare(rows, like=fitted_on)
    made = model.restore(output.arrays(number, model, arrays, codebook, chance), rows)
    frame = chosen.with_columns(made[name] for name in _outcomes(model)).with_columns(
        pl.lit(units.height / size).alias(WEIGHT), pl.lit(units.height).alias(SIZE)
    )
    return Survey(frame, Design(weight=WEIGHT, fpc=SIZE), _codebook(codebook, frame))


def _codebook(codebook: Codebook, frame: pl.DataFrame) -> Codebook:
    kept = {name: codebook[name] for name in frame.columns if name in codebook}
    kept.pop(WEIGHT, None)
    weight = Column(WEIGHT, "weight", "continuous", "Weight of a simple random sample")
    fpc = Column(SIZE, "public", "integer", "Units of the population")
    own = {**kept, WEIGHT: weight, SIZE: fpc}
    return Codebook(own, title=codebook.title, population_size=float(frame[SIZE][0]))


def _outcomes(model: Any) -> tuple[str, ...]:
    """The columns that are made, but for a weight of the confidential design."""
    return tuple(name for name in model.sensitive if name != getattr(model, "weight", None))
