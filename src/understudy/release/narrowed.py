"""What of a survey is published: columns that the recipe names, or all that a whole file has."""

from __future__ import annotations

from dataclasses import replace

from understudy.errors import Refused, UnknownName
from understudy.internal_mark import marked
from understudy.models.contract import FileModel, Model, OutcomeModel
from understudy.release.recipe import Recipe
from understudy.survey.survey import Survey
from understudy.tables.derived import computed_columns
from understudy.tables.rules import rules_within


def narrowed_to(recipe: Recipe, whole: Survey, model: Model) -> Survey:
    """The survey with the columns and the design that are published, and the unit."""
    for what, columns in (
        ("sensitive column", recipe.model.sensitive),
        ("classifying column", recipe.tables.by),
        ("column in `publish`", recipe.synthesis.publish),
        ("known column", tuple(name for names in recipe.known for name in names)),
    ):
        for name in columns:
            if name not in whole.columns:
                raise UnknownName(what, name, whole.columns)
    predictors = model.given_columns()
    design = model.published_design(whole.design)
    for step in recipe.given:
        design = design.published(step.model.sensitive)
    names = [*recipe.model.sensitive, *(n for step in recipe.given for n in step.model.sensitive)]
    if isinstance(model, FileModel):
        drawn = model.columns or ()
        names = [*drawn, *computed_columns(whole.codebook, drawn)]
    if model.synthesizes == "outcome":
        names += [*predictors, *recipe.tables.by, *recipe.synthesis.publish]
        names += design.columns(whole.columns)
    for name in names:
        if name not in whole.columns:
            raise UnknownName("column", name, whole.columns)
        if recipe.codebook is not None and name not in whole.codebook:
            raise Refused(
                f"`{name}` would be published, and the codebook does not know it; declare it there."
            )
        kind = whole.raw[name].type()
        if not (kind.is_numeric() or kind.is_string() or kind.is_boolean() or kind.is_date()):
            raise Refused(f"`{name}` is not a number, text, date or true/false; convert it first.")
        if name in whole.codebook and whole.codebook[name].role == "unit":
            raise Refused(f"`{name}` identifies units and cannot be published; leave it out.")
    unit = whole.codebook.unit_column  # for the claim; the synthetic files go without it
    kept = [name for name in whole.columns if name in [*names, unit]]
    codebook = whole.codebook
    if isinstance(model, FileModel):
        codebook = rules_within(codebook, kept)
    codebook = codebook.only(kept)
    by = {name: totals for name, totals in codebook.population_by.items() if name in kept}
    codebook = replace(codebook, population_by=by)
    return Survey(whole.raw.select(kept), design, codebook)


def computed_in(narrowed: Survey, model: Model) -> tuple[str, ...]:
    """The columns that whole files get by a formula."""
    if not isinstance(model, FileModel):
        return ()
    return computed_columns(narrowed.codebook, model.columns or ())


def stays_in_place(recipe: Recipe, narrowed: Survey, model: Model) -> bool:
    """Whether the model of an outcome is fitted where the records are: those that stay on Spark
    always, those on disk where nothing stands against it."""
    if not isinstance(model, OutcomeModel) or narrowed.in_memory or narrowed.on_cluster:
        return narrowed.on_cluster
    if recipe.risk is not None:  # it is measured record by record, beside the files' rows
        return False
    from understudy.in_place import why_not_in_place  # JAX, which whole files do not need

    fit = recipe.fit_settings(None)
    with marked():
        return not why_not_in_place(narrowed, model, recipe.mechanism.facts(), fit)
