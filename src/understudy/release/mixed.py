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

import polars as pl

from understudy.chance import Chance, Seed, chance_of
from understudy.claim import Claim
from understudy.dp.account import PayingAccount
from understudy.errors import Refused
from understudy.fitting.fit_settings import FitSettings
from understudy.mechanisms.contract import Mechanism
from understudy.mechanisms.outputs.mixed_draws import MixedDraws, predictors_of, step_codebook
from understudy.mechanisms.outputs.output import Ground
from understudy.models.contract import OutcomeModel, RowsModel
from understudy.models.declared_grid import declared_grid
from understudy.publication import Publication
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.synthesis import (
    OUTSIDE,
    Synthesis,
    ready_outcome,
    ready_rows,
    synthesize_for,
)

__public__ = ("Given", "synthesize_mixed")

NO_POSTERIOR = "A regression needs a mechanism with a posterior, such as Censored(epsilon)."


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
    *,
    account: PayingAccount | None = None,
    **fit: Any,
) -> Synthesis:
    """m synthetic files with categorical and numeric columns, under one claim by composition.

    `mechanism` is for the categories, each of `given` brings its own; their epsilons add up.
    `fit` are the arguments of `synthesize` for the regressions (draws, chains, ...). The result's
    `parts` are those of the categories and of each regression; `seed` and `account` are as in
    `synthesize`, and all parts are charged together.
    """
    publication, settings = Publication(account=account), FitSettings(**fit)
    result = mixed_for(
        publication, survey, categories, mechanism, given, datasets, chance_of(seed), settings
    )
    _ = result.datasets
    return result


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
    ready_rows(publication, survey, categories, mechanism)
    steps = ready_steps(survey, categories, given, datasets, fit)
    paid = publication.paid(survey, [mechanism, *(step.mechanism for step in given)])
    publication = replace(publication, account=None, counted=paid)
    first = synthesize_for(publication, survey, categories, mechanism, datasets, chance, fit)
    # the regressions' own rows are not published: numbers are drawn anew for synthetic categories
    drawn = replace(publication, in_order=False, given_drawn=True)
    results, codings = [], []
    for number, (step, (narrowed, coding)) in enumerate(zip(given, steps, strict=True)):
        own = chance.of(f"given {number}")
        result = synthesize_for(
            drawn, narrowed, step.model, step.mechanism, datasets, own, fit, coding
        )
        if result.posterior is None:
            raise Refused(NO_POSTERIOR)
        results.append(result)
        codings.append(coding or narrowed)
    claim = Claim.compose([first.claim, *(result.claim for result in results)])
    parts = (first, *results)
    shown = all(part.hands_out == "draws" for part in parts)
    return Synthesis(
        claim,
        MixedDraws(tuple(part.output for part in parts)),
        _ground(survey, parts, () if shown else tuple(codings)),
        chance.of(OUTSIDE),
        "draws" if shown else "rows",
        first.record_weights,
        posterior=results[0].posterior,
        diagnostics=results[0].diagnostics,
        parts=parts,
        rows_correspond=False,
        for_studies=chance.for_studies,
    )


def ready_steps(
    survey: Survey,
    categories: RowsModel,
    given: Sequence[Given],
    datasets: int,
    fit: FitSettings,
) -> list[tuple[Survey, Survey | None]]:
    """What each regression sees, and what codes it; all that can be refused of them is refused."""
    ready = []
    for step in given:
        if step.mechanism.fits == 0:
            raise Refused(NO_POSTERIOR)
        narrowed = _narrowed(survey, categories, step.model)
        coding = _coding(narrowed, step)
        asked = (narrowed, step.model, step.mechanism, datasets, fit, coding)
        ready_outcome(Publication(given_drawn=True), *asked)
        ready.append((narrowed, coding))
    return ready


def _ground(survey: Survey, parts: Sequence[Synthesis], codings: tuple[Survey, ...]) -> Ground:
    """What mixed data are made of beside the outputs of their parts: nothing but declarations."""
    types: dict[str, pl.DataType] = {}
    for part in parts:
        types |= part.ground.types
    return Ground(
        tuple(part.ground.models[0] for part in parts),
        tuple(types),
        survey.codebook.without_unit().only(list(types)),
        Design(),
        survey.n,
        types=types,
        codings=codings,
    )


def _coding(narrowed: Survey, step: Given) -> Survey | None:
    """What decides the encoding of the categories; the records where no epsilon is claimed."""
    if step.mechanism.claims == "risk":
        return None
    codebook = narrowed.codebook.without_unit()
    return declared_grid(codebook, predictors_of(step.model, codebook), step.model.sensitive)


def _narrowed(survey: Survey, categories: RowsModel, model: OutcomeModel) -> Survey:
    """The columns that the regression sees, and the unit, which is given to the fit alone."""
    codebook = step_codebook(survey.codebook, categories.columns, model)
    names, unit = list(codebook.columns), survey.codebook.unit_column
    if unit is not None and unit not in names:
        names.append(unit)
        limit = survey.codebook.records_per_unit
        codebook = replace(codebook, unit=unit, records_per_unit=limit)
        if unit in survey.codebook:
            codebook = codebook.with_column(survey.codebook[unit])
    return Survey(survey.raw.select(names), Design(), codebook)


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
        if step.model.generates_from_records or getattr(step.model, "zero", "") == "public":
            raise Refused(
                "The rows of mixed data are nobody's, so that nothing of a record can be kept; use "
                'assignments="prior" and zero="hurdle".'
            )
        both = set(step.model.sensitive) & set(categories.columns)
        if both:
            raise Refused(
                f"`{sorted(both)[0]}` is synthesized twice: as a category and by a regression; "
                "name it once."
            )
