"""Mixed data (M names it as future work): categories by their table, numbers given categories.

    categories ~ Modips, Marginals or MS            -> m synthetic files of categories
    each number | categories ~ a regression model   -> drawn for the synthetic categories

Every synthetic value is drawn; no record keeps any of its own. The claims compose: the regression
sees the confidential categories, but through the contribution of each record alone, which its
mechanism bounds whatever the record's categories are. For that the columns of the regression must
be the codebook's declared levels, and so they are demanded here; a grid of these levels, not the
records, decides how predictors are coded, scaled and whitened (models/declared_grid.py). Given the
categories, different regressions are independent; use one model of several outcomes where that
will not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import polars as pl

from understudy.chance import Chance, Seed, chance_of
from understudy.claim import Claim
from understudy.errors import Refused
from understudy.fitting.fitter import generated_from, random_key
from understudy.mechanisms.contract import Mechanism
from understudy.models.contract import OutcomeModel, RowsModel
from understudy.models.declared_grid import declared_grid
from understudy.models.density import density_of
from understudy.publication import Publication
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.synthesis import FitSettings, Synthesis, synthesize_for

__public__ = ("Given", "synthesize_mixed")


@dataclass(frozen=True)
class Given:
    """A regression of numbers on the categorical columns, and the mechanism that protects it."""

    model: OutcomeModel
    mechanism: Mechanism


def synthesize_mixed(
    survey: Survey,
    categories: RowsModel,
    mechanism: Mechanism,
    given: Sequence[Given],
    datasets: int = 1,
    seed: Seed = None,
    **fit: Any,
) -> Synthesis:
    """m synthetic files with categorical and numeric columns, under one claim by composition.

    `mechanism` is for the categories, each of `given` brings its own; their epsilons add up.
    `fit` are the arguments of `synthesize` for the regressions (draws, chains, ...). The result's
    `parts` are those of the categories and of each regression; `seed` is as in `synthesize`.
    """
    return mixed_for(
        Publication(), survey, categories, mechanism, given, datasets, chance_of(seed),
        FitSettings(**fit),
    )  # fmt: skip


def mixed_for(
    publication: Publication,
    survey: Survey,
    categories: RowsModel,
    mechanism: Mechanism,
    given: Sequence[Given],
    datasets: int,
    chance: Chance,
    fit: FitSettings,
) -> Synthesis:
    """`synthesize_mixed`, with a claim that speaks of this publication."""
    _refuse(survey, categories, given)
    first = synthesize_for(publication, survey, categories, mechanism, datasets, chance, fit)
    # the regressions' own rows are not published: numbers are drawn anew for synthetic categories
    drawn = Publication(in_order=False, where=publication.where, given_drawn=True)
    frames = [dataset.frame() for dataset in first.datasets]
    results = []
    for number, step in enumerate(given):
        narrowed = _narrowed(survey, categories, step.model)
        coding = _coding(narrowed, step)
        own = chance.of(f"given {number}")
        result = synthesize_for(
            drawn, narrowed, step.model, step.mechanism, datasets, own, fit, coding
        )
        results.append(result)
        columns = _numbers(narrowed, step.model, result, frames, own, coding)
        frames = [frame.with_columns(new) for frame, new in zip(frames, columns, strict=True)]
    codebook = survey.codebook.without_unit().only(frames[0].columns)
    for dataset in [first.datasets[0], *(result.datasets[0] for result in results)]:
        for column in dataset.codebook:  # without facts that were drafted from the records
            codebook = codebook.with_column(replace(column, role=survey.codebook[column.name].role))
    return Synthesis(
        [Survey(frame, Design(), codebook) for frame in frames],
        Claim.compose([first.claim, *(result.claim for result in results)]),
        [],
        first.record_weights,
        posterior=results[0].posterior,
        diagnostics=results[0].diagnostics,
        parts=(first, *results),
        rows_correspond=False,
        synthesized=tuple(frames[0].columns),
        for_studies=chance.for_studies,
    )


def _numbers(
    narrowed: Survey,
    model: OutcomeModel,
    result: Synthesis,
    frames: Sequence[pl.DataFrame],
    chance: Chance,
    coding: Survey | None,
) -> list[list[pl.Series]]:
    """The model's columns for the synthetic categories, each file from its own parameter draw."""
    if result.posterior is None:
        raise Refused("A regression needs a mechanism with a posterior, such as Censored(epsilon).")
    model = model.for_survey(narrowed)
    drawn = []
    for number, (frame, position) in enumerate(
        zip(frames, result.posterior.spaced(len(frames)), strict=True)
    ):
        # the model only needs columns of the right type here; their values are replaced
        stand_in = result.datasets[number].frame(list(model.sensitive))
        rows = np.resize(np.arange(stand_in.height), frame.height)
        unit = narrowed.codebook.unit_column  # given to the fit alone
        names = [name for name in narrowed.columns if name != unit]
        filled = frame.select(name for name in names if name not in model.sensitive).with_columns(
            stand_in[name].gather(rows) for name in model.sensitive
        )
        synthetic = Survey(filled.select(names), Design(), narrowed.codebook.without_unit())
        arrays = model.prepare(synthetic, like=coding or narrowed)
        key, density = random_key(chance, f"numbers {number}"), density_of(model, arrays)
        values, _ = generated_from(density, key, jnp.asarray(position), arrays)
        drawn.append(list(model.restore(values, synthetic).values()))
    return drawn


def _coding(narrowed: Survey, step: Given) -> Survey | None:
    """What decides the encoding of the categories; the records where no epsilon is claimed."""
    if step.mechanism.claims == "risk":
        return None
    codebook = narrowed.codebook.without_unit()
    categories = [name for name in codebook.columns if name not in step.model.sensitive]
    predictors = step.model.given_columns() or categories  # one's own function may use them all
    return declared_grid(codebook, predictors, step.model.sensitive)


def _narrowed(survey: Survey, categories: RowsModel, model: OutcomeModel) -> Survey:
    """The columns that the regression sees; the categories are given to it, hence `public`."""
    names = [*categories.columns, *(n for n in model.sensitive if n not in categories.columns)]
    unit = survey.codebook.unit_column
    names += [unit] if unit is not None and unit not in names else []
    codebook = survey.codebook.only(names)
    for name in categories.columns:
        codebook = codebook.with_column(replace(codebook[name], role="public"))
    return Survey(survey.raw.select(names), Design(), replace(codebook, population_by={}))


def _refuse(survey: Any, categories: Any, given: Any) -> None:
    if not isinstance(survey, Survey):
        raise Refused("`survey` must be a Survey; make one with `Survey(frame)` or `read_survey`.")
    if not isinstance(categories, RowsModel):
        raise Refused('`categories` must be Multinomial(["column", ...]).')
    if not given or not all(isinstance(step, Given) for step in given):
        raise Refused("`given` must be a list of Given(model, mechanism), one for each regression.")
    drafted = survey.codebook.not_declared(dict.fromkeys(categories.columns, "levels"))
    drafted += survey.codebook.not_declared(dict.fromkeys(categories.columns, "type"))
    if drafted:
        raise Refused(
            f"The regressions rest on `{drafted[0]}`, which is not declared; declare it in the "
            "codebook from what is public."
        )
    for step in given:
        both = set(step.model.sensitive) & set(categories.columns)
        if both:
            raise Refused(
                f"`{sorted(both)[0]}` is synthesized twice: as a category and by a regression; "
                "name it once."
            )
